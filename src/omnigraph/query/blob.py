"""Opens one blob of one entity, to be read in ranges without loading it whole."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.kernels.arrays import ID
from omnigraph.kernels.row_address import ROW_ID
from omnigraph.storage.filters.model import one_of
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.tables.take_rows import descriptions, external, is_inline, open_blobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.tables.table import Table, TableStore

# Bytes that are held in memory at a time.
CHUNK = 4 * 1024 * 1024


@dataclass(frozen=True)
class Blob:
    """A blob of the graph's own (`managed`), or the address of somebody else's (`external`), which is never followed.

    `etag` changes whenever the content may have.
    """

    kind: Literal["managed", "external"]
    size: int | None
    etag: str | None
    uri: str | None
    _file: Any = field(default=None, repr=False, compare=False)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Its bytes from `offset` on; fewer than `length` at its end."""
        return b"".join(self.chunks(offset, length))

    def chunks(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The same in chunks of at most 4 MiB. The range is checked before the first."""
        if self.size is None:
            raise InvalidInput(f"the blob is kept at {self.uri}: read it there.")
        if offset < 0 or (length is not None and length <= 0):
            raise InvalidInput("a part of a blob begins at 0 or later and is at least 1 byte long.")
        if offset >= self.size and (offset or self.size):
            raise InvalidInput(f"the blob has {self.size} bytes: none at {offset}.")
        end = self.size if length is None else min(self.size, offset + length)
        return self._chunks(offset, end)

    def _chunks(self, offset: int, end: int) -> Iterator[bytes]:
        with lance_errors("reading a blob"):
            self._file.seek(offset)
            while offset < end:
                chunk = self._file.read(min(CHUNK, end - offset))
                offset += len(chunk)
                yield chunk


def open_blob(
    snapshot: Snapshot, tables: TableStore, catalog: Catalog, type_name: str, entity_id: str, name: str
) -> Blob:
    """Open a blob of an entity. `NotFound` when there is no such entity, or it has no such blob."""
    kind = catalog.resolve_type(type_name)
    declared = kind.properties.get(name)
    if declared is None:
        raise InvalidInput(f"{type_name} has no property {name!r}.")
    if declared.type.scalar != "Blob":
        raise InvalidInput(f"{type_name}.{name} is not a Blob.")
    table = tables.open(snapshot[kind.table_key].pin)
    rows = table.read([ID, ROW_ID, name], one_of(ID, [entity_id]))
    if not rows.num_rows:
        raise NotFound(f"there is no {type_name} {entity_id!r}.")
    described = descriptions(rows.column(name))[0]
    elsewhere = external(described)
    if elsewhere is not None:
        return Blob("external", None, None, elsewhere["uri"])
    if not is_inline(described):
        raise NotFound(f"{type_name} {entity_id!r} has no {name}.")
    return _managed(table, name, int(rows.column(ROW_ID)[0].as_py()))


def _managed(table: Table, name: str, row: int) -> Blob:
    with lance_errors(f"reading blobs of {table.path}.{name}"):
        (file,) = open_blobs(table, name, row_ids=[row])
        size = int(file.size())
    return Blob("managed", size, _etag(table, name, row), None, file)


def _etag(table: Table, name: str, row: int) -> str:
    """Row, table version and column identify the content: a row of one version never changes."""
    identity = "\0".join(["blob", table.path, table.branch or "", str(table.version), str(row), name])
    return f'"{hashlib.sha256(identity.encode()).hexdigest()[:32]}"'
