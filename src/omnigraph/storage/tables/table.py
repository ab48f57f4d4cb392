"""`Table` and `TableStore`: open a Lance table at a pin and read it. Nothing here makes a change visible.

A staged change is files plus an uncommitted transaction; `commit_staged` commits it. Only the publisher of `manifest/`
and the commit protocol of `transaction/` call that (tests/storage/test_staged_only.py walks the source).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import lance
import pyarrow as pa
from lance import LanceDataset

from omnigraph.counters import count
from omnigraph.errors import NotFound, VersionReclaimed
from omnigraph.storage.filters.model import Filter, render
from omnigraph.storage.lance.deletion_vectors import DeletionVectors
from omnigraph.storage.lance.errors import Trouble, classify, lance_errors, translate
from omnigraph.storage.lance.paths import table_dir
from omnigraph.storage.objects.store import ObjectStore, open_control_store
from omnigraph.storage.tables.fragment_cache import FragmentCache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance import FragmentMetadata, LanceFragment

    from omnigraph.storage.objects.location import Location
    from omnigraph.world import World


# With ten times as many, a first write to a branch takes 1.5 times as long, and a diff of scattered rows 1.4 times:
# files are read by several threads, and their row id sequences as a whole (benchmarks/versions.py).
ROWS_PER_FILE = 100_000

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Pin:
    """One immutable state of one table: its path, branch and version."""

    path: str
    version: int
    branch: str | None = None


class Table:
    """One version of a table. Later reads give the same rows, whatever others commit.

    `handle` is Lance's own object, for the modules of `storage` alone (tests/test_layers.py).
    """

    def __init__(self, handle: LanceDataset, *, path: str, branch: str | None) -> None:
        self.handle = handle
        self.path = path
        self.branch = branch

    @property
    def pin(self) -> Pin:
        """The pin of this handle."""
        return Pin(self.path, self.handle.version, self.branch)

    @property
    def version(self) -> int:
        """The Lance version of this handle."""
        return int(self.handle.version)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema as stored."""
        schema: pa.Schema = self.handle.schema
        return schema

    @property
    def schema_metadata(self) -> Mapping[str, str]:
        """The metadata of the schema; came with the open."""
        return dict(self.handle.schema_metadata or {})

    @property
    def uri(self) -> str:
        """The URI that another process opens the table by."""
        return str(self.handle.uri)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The storage options that the table was opened with."""
        options: dict[str, str] | None = self.handle.initial_storage_options
        return options

    @property
    def num_rows(self) -> int:
        """The number of rows, from the metadata of the version: nothing is scanned."""
        return int(self.handle.count_rows())

    def latest_version(self) -> int:
        """The newest version on this table's branch, which others may have advanced; one listing."""
        count("table_probes", self.path)
        with lance_errors(f"looking for the newest version of {self.path}"):
            return int(self.handle.latest_version)

    def count_rows(self, where: Filter | None = None) -> int:
        """The number of rows that match."""
        count("table_scans", self.path)
        with lance_errors(f"counting rows of {self.path}"):
            return int(self.handle.count_rows(self._rendered(where)))

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
        *,
        fragments: Sequence[int] | None = None,
    ) -> pa.Table:
        """Read all matching rows into memory."""
        batches = list(self.scan(columns, where, fragments=fragments))
        return pa.Table.from_batches(batches, schema=self.schema_of(columns))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
        *,
        fragments: Sequence[int] | None = None,
        batch_size: int | None = None,
        order_by: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream matching rows in batches; `fragments` limits the scan to some of the table's fragments."""
        count("table_scans", self.path)
        handles = None if fragments is None else [self._fragment(each) for each in fragments]
        with lance_errors(f"reading {self.path} at version {self.version}"):
            yield from self.handle.scanner(
                columns=list(columns) if columns is not None else None,
                filter=self._rendered(where),
                fragments=handles,
                batch_size=batch_size,
                order_by=None if order_by is None else [order_by],
            ).to_batches()

    def search(self, columns: Sequence[str], where: Filter | None, **search: object) -> pa.Table:
        """The rows of a filtered scan, or of a text or vector query in `search`; indexes are used."""
        count("table_scans", self.path)
        with lance_errors(f"searching {self.path} at version {self.version}"):
            found: pa.Table = self.handle.scanner(
                columns=list(columns), filter=self._rendered(where), prefilter=True, **search
            ).to_table()
        return found

    def take(self, positions: Sequence[int] | pa.Array[Any], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at some positions of a scan, in the order given."""
        count("table_scans", self.path)
        with lance_errors(f"reading rows of {self.path}"):
            rows: pa.Table = self.handle.take(positions, columns=None if columns is None else list(columns))
        return rows

    def reader(self, fragments: Sequence[int] | None = None) -> pa.RecordBatchReader:
        """Stream all columns, with blobs as their bytes."""
        handles = None if fragments is None else [self._fragment(each) for each in fragments]
        reader: pa.RecordBatchReader = self.handle.scanner(fragments=handles, blob_handling="all_binary").to_reader()
        return reader

    def fragment_ids(self) -> tuple[int, ...]:
        """The ids of the table's fragments, in order."""
        return tuple(each.fragment_id for each in self.handle.get_fragments())

    def fragments(self) -> list[FragmentMetadata]:
        """The metadata of the table's fragments, in order."""
        return [each.metadata for each in self.handle.get_fragments()]

    def fragment(self, fragment_id: int) -> FragmentMetadata:
        """The metadata of one fragment."""
        return self._fragment(fragment_id).metadata

    def rows_by_fragment(self) -> dict[int, int]:
        """The number of rows of each fragment, by fragment id, in order."""
        return {each.fragment_id: int(each.count_rows()) for each in self.handle.get_fragments()}

    def _fragment(self, fragment_id: int) -> LanceFragment:
        fragment = self.handle.get_fragment(fragment_id)
        if fragment is None:
            raise NotFound(f"{self.path} has no fragment {fragment_id} at version {self.version}")
        return fragment

    def _rendered(self, where: Filter | None) -> str | None:
        return None if where is None else render(where, self.schema)

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """The Arrow schema of a projection."""
        scanner = self.handle.scanner(columns=list(columns) if columns is not None else None)
        schema: pa.Schema = scanner.projected_schema
        return schema


class TableStore:
    """Opens the tables below one location and caches the handles by pin."""

    def __init__(self, location: Location, world: World, *, cached_handles: int = 64) -> None:
        self.location = location
        self.world = world
        self._handles: OrderedDict[Pin, Table] = OrderedDict()
        # Lance keys its cache of row ids by URI and version. A branch that is deleted and created again shares both
        # with the old one, and an index search in a session that knew the old one would not find rows of the new one.
        self._sessions: OrderedDict[str | None, lance.Session] = OrderedDict()
        # How often `forget` was called for a branch.
        self._forgotten: dict[str | None, int] = {}
        self._limit = cached_handles
        self._lock = threading.Lock()

    @cached_property
    def objects(self) -> ObjectStore:
        """The control objects below the same location."""
        return open_control_store(self.location, self.world)

    @cached_property
    def deletion_vectors(self) -> DeletionVectors:
        """The deletion vectors of the tables."""
        return DeletionVectors(self.objects, self.world)

    @cached_property
    def fragment_cache(self) -> FragmentCache:
        """The cache of the tables' recently used rows."""
        return FragmentCache()

    def uri(self, path: str, branch: str | None = None) -> str:
        """The URI of a table, or of its branch. Branches are opened by their own directory: such handles pickle."""
        return self.location.child(table_dir(path, branch))

    def open(self, pin: Pin) -> Table:
        """Open the table at exactly this pin; the handle is cached."""
        with self._lock:
            if pin in self._handles:
                self._handles.move_to_end(pin)
                return self._handles[pin]
        session = self._session(pin.branch)
        table = self._open(pin.path, pin.branch, pin.version, session)
        with self._lock:
            if self._sessions.get(pin.branch) is session:
                _cache(self._handles, pin, table, self._limit)
        return table

    def open_once(self, pin: Pin) -> Table:
        """Open the table at a pin from the store: the cache would not show that the version was deleted."""
        return self._open(pin.path, pin.branch, pin.version, self._session(pin.branch))

    def cache_handle(self, table: Table) -> Table:
        """Cache a handle under its pin."""
        with self._lock:
            _cache(self._handles, table.pin, table, self._limit)
        return table

    def open_newest(self, path: str, branch: str | None = None) -> Table:
        """Open the newest version, as it is on the store now."""
        return self._open(path, branch, None, self._session(branch))

    def exists(self, path: str, branch: str | None = None) -> bool:
        """Whether a table exists. Anything but a definite absence raises."""
        try:
            self.open_newest(path, branch)
        except NotFound:
            return False
        return True

    def forget(self, path: str, branch: str | None = None) -> None:
        """Evict the handles of a table's branch, and Lance's session: the branch was deleted or created again."""
        with self._lock:
            for pin in [each for each in self._handles if (each.path, each.branch) == (path, branch)]:
                del self._handles[pin]
            self._sessions.pop(branch, None)
            self._forgotten[branch] = self._forgotten.get(branch, 0) + 1

    def identity(self, pin: Pin) -> tuple[Pin, int]:
        """The cache key for content read at a pin: a branch that was created again has the pins of the old one."""
        with self._lock:
            return pin, self._forgotten.get(pin.branch, 0)

    def _session(self, branch: str | None) -> lance.Session:
        with self._lock:
            session = self._sessions.get(branch)
            if session is None:
                session = lance.Session()
            _cache(self._sessions, branch, session, self._limit)
            return session

    def _open(self, path: str, branch: str | None, version: int | None, session: lance.Session) -> Table:
        count("table_opens", path)
        try:
            dataset = lance.dataset(
                self.uri(path, branch), version=version, storage_options=self._options(), session=session
            )
        except (OSError, ValueError) as error:
            root = self.location.root
            if classify(error, path=root) is Trouble.NOT_FOUND:
                raise _absent(path, branch, version) from error
            raise translate(error, f"opening {path}{_at(branch, version)}", path=root) from error
        return Table(dataset, path=path, branch=branch)

    def _options(self) -> dict[str, str] | None:
        options = self.location.storage_options
        return None if options is None else dict(options)


def _cache(cached: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    """Insert into an LRU cache of at most `limit` entries."""
    cached[key] = value
    cached.move_to_end(key)
    while len(cached) > limit:
        cached.popitem(last=False)


def _absent(path: str, branch: str | None, version: int | None) -> NotFound:
    if version is not None:
        return VersionReclaimed(path, version=version, branch=branch)
    return NotFound(f"there is no table at {path}{_at(branch, version)}")


def _at(branch: str | None, version: int | None) -> str:
    return (f" on branch {branch!r}" if branch else "") + (f" at version {version}" if version is not None else "")


def open_dataset(uri: str, *, version: int | None = None, storage_options: Mapping[str, str] | None = None) -> Table:
    """Open a Lance table by its URI: an input of a load, or a table that another process has opened."""
    options = None if storage_options is None else dict(storage_options)
    with lance_errors(f"reading {uri}"):
        return Table(lance.dataset(uri, version=version, storage_options=options), path=uri, branch=None)
