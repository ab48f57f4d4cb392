"""Plans a load: turns what the caller passed into a list of inputs, and holds the policy for bad rows.

A source is a path, glob, directory or list of them, a stream, text, records, or a mapping from type names to any of
these. Planning looks at names and sizes only and reads no data. Unless the caller chooses an engine, the total size of
the plan decides. `LoadOptions` is how a load runs; its error policy either fails the load at the first bad row or sets
up to `limit` bad rows aside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from omnigraph.arguments import checked_arguments
from omnigraph.errors import InvalidInput
from omnigraph.errors.inputs import require_choice
from omnigraph.errors.root import display_text
from omnigraph.load.files import InputFile, find_files, is_lance
from omnigraph.load.read import JSON_SUFFIXES, is_table_suffix
from omnigraph.manifest.layout import MAIN
from omnigraph.tasks.runner import require_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from omnigraph.catalog.catalog import Catalog, Property
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.tasks.runner import Engine
    from omnigraph.values.batches import GraphType, Mode
    from omnigraph.world import World


@dataclass(frozen=True)
class ErrorPolicy:
    """`limit` rows at most are set aside, in a Parquet table at `path`; a limit of 0 fails at the first bad row."""

    limit: int = 0
    path: str | None = None

    @property
    def fails(self) -> bool:
        """Whether the first bad row ends the load."""
        return not self.limit


FAIL = ErrorPolicy()


@checked_arguments
def quarantine(limit: int, path: str | os.PathLike[str] | None = None) -> ErrorPolicy:
    """Load the good rows. Bad ones, `limit` at most, go to a Parquet table at `path`; one more fails the load."""
    return ErrorPolicy(limit, None if path is None else os.fspath(path))


MODES = ("append", "merge", "overwrite")
# `engine="auto"` runs loads larger than this on Spark, where it is installed.
LOCAL_BYTES = 64 << 20
# Larger loads in this process are written task by task, so that memory does not follow their size.
IN_MEMORY_BYTES = 256 << 20


@dataclass(frozen=True)
class LoadOptions:
    """How a load runs; the same for every engine. Raises `InvalidInput` for values that there are not.

    `from_`: the branch is created from this one if it does not exist. `embeddings` computes missing vectors; None
    leaves them missing. `spark` and `master` are for the Spark engine.
    """

    mode: Mode = "merge"
    branch: str = MAIN
    from_: str | None = None
    strict: bool = True
    actor: str | None = None
    idempotency_key: str | None = None
    engine: Engine = "auto"
    spark: SparkSession | None = None
    master: str | None = None
    on_error: ErrorPolicy | Literal["fail"] = FAIL
    embeddings: Callable[[], Embeddings] | None = None

    def __post_init__(self) -> None:
        require_choice("mode", self.mode, MODES)
        require_engine(self.engine)
        if not isinstance(self.on_error, ErrorPolicy) and self.on_error != "fail":
            raise InvalidInput(f"on_error is 'fail' or og.quarantine(limit, path), not {self.on_error!r}.")
        if not self.strict and not self.errors.fails:
            raise InvalidInput("rows are set aside by the strict grammar only: load without a quarantine, or strictly.")

    @property
    def errors(self) -> ErrorPolicy:
        """The policy for bad rows."""
        return self.on_error if isinstance(self.on_error, ErrorPolicy) else FAIL

    def readable(self, catalog: Catalog) -> Catalog:
        """The catalog for reading: vectors that this load computes may be missing."""
        return catalog if self.embeddings is None else vectors_may_be_missing(catalog)


Form = Literal["graph file", "graph stream", "graph text", "graph records", "file", "lance", "table", "rows", "spark"]


@dataclass(frozen=True)
class Input:
    """One input of a load. `type` is set if all rows are of that type; `size` in bytes is None if unknown."""

    form: Form
    data: Any
    name: str = ""
    type: GraphType | None = None
    size: int | None = None


@dataclass(frozen=True)
class LoadPlan:
    """The inputs of a load, in reading order."""

    inputs: tuple[Input, ...]

    @property
    def size(self) -> int | None:
        """Total bytes to read, or None if the size of any input is unknown."""
        sizes = [each.size for each in self.inputs]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def types(self) -> tuple[GraphType, ...]:
        """The types that the caller named. An overwrite affects each of them even if it has no rows."""
        return tuple({each.type.table_key: each.type for each in self.inputs if each.type is not None}.values())

    @property
    def engine(self) -> Literal["local", "spark"]:
        """The engine for `engine="auto"`: Spark for Spark DataFrames and for plans larger than `LOCAL_BYTES`."""
        big = (self.size or 0) > LOCAL_BYTES
        return "spark" if big or any(each.form == "spark" for each in self.inputs) else "local"


def vectors_may_be_missing(catalog: Catalog) -> Catalog:
    """The catalog for reading rows before embedding: vector properties that `@embed` fills become nullable."""
    nodes = {
        name: replace(node, properties={key: _relaxed(each) for key, each in node.properties.items()})
        for name, node in catalog.nodes.items()
    }
    return replace(catalog, nodes=nodes)


def _relaxed(each: Property) -> Property:
    return each if each.embed_source is None else replace(each, type=replace(each.type, nullable=True))


def can_be_read_again(source: object) -> bool:
    """Whether a failed load can read its source again from the start; False for streams and iterators."""
    if isinstance(source, Mapping):
        return all(can_be_read_again(each) for each in source.values())
    return isinstance(source, str | bytes | os.PathLike | list | tuple | dict) or hasattr(type(source), "columns")


def plan_load(source: object, catalog: Catalog, world: World) -> LoadPlan:
    """Plan the inputs of a load. Raises `InvalidInput` if the source is of a kind that cannot be loaded."""
    if isinstance(source, Mapping):
        items = list(source.items())
        return LoadPlan(tuple(each for key, value in items for each in _typed(key, value, catalog, world)))
    return LoadPlan(tuple(_untyped(source, catalog, world)))


def _untyped(source: object, catalog: Catalog, world: World) -> Iterator[Input]:
    if isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
        yield Input("graph text", data, size=len(data))
    elif isinstance(source, str) and _is_text(source):
        data = source.encode("utf-8", "surrogatepass")
        yield Input("graph text", data, size=len(data))
    elif isinstance(source, str | os.PathLike):
        yield from _untyped_files(os.fspath(source), catalog, world)
    elif _is_list_of_paths(source):
        for each in source:
            yield from _untyped_files(os.fspath(each), catalog, world)
    elif hasattr(source, "read"):
        yield Input("graph stream", source, name=str(getattr(source, "name", "")))
    elif _is_tabular(source):
        raise InvalidInput(
            f"a table does not say what it holds: pass {{'TypeName': table}}, not {type(source).__name__}."
        )
    elif isinstance(source, Iterable):
        yield Input("graph records", source)
    else:
        raise InvalidInput(
            f"{display_text(source)} cannot be loaded: pass a path, text, records, or a mapping of types to tables."
        )


def _is_text(source: str) -> bool:
    return source.lstrip("\ufeff \t\r\n").startswith("{") or "\n" in source


def _is_list_of_paths(source: object) -> TypeGuard[Sequence[str | os.PathLike[str]]]:
    """Whether a list holds paths; one of texts or dictionaries holds records."""
    if not isinstance(source, list | tuple) or not source:
        return False
    return all(isinstance(each, os.PathLike) or (isinstance(each, str) and not _is_text(each)) for each in source)


def _untyped_files(where: object, catalog: Catalog, world: World) -> Iterator[Input]:
    where = _checked_path(where)
    if is_lance(where):
        yield Input("lance", where, where, _type_of_file(where, catalog))
        return
    for found in find_files(where, world):
        if found.suffix in JSON_SUFFIXES:
            yield Input("graph file", found, found.name, size=found.size)
        else:
            yield Input("file", _checked_format(found), found.name, _type_of_file(found.where, catalog), found.size)


def _typed(key: object, value: object, catalog: Catalog, world: World) -> Iterator[Input]:
    kind = catalog.resolve_type(str(key))
    if isinstance(value, str | os.PathLike):
        where = _checked_path(os.fspath(value))
        if is_lance(where):
            yield Input("lance", where, where, kind)
            return
        for found in find_files(where, world):
            readable = found if found.suffix in JSON_SUFFIXES else _checked_format(found)
            yield Input("file", readable, found.name, kind, found.size)
    elif hasattr(value, "sparkSession"):
        yield Input("spark", value, kind.name, kind)
    elif _is_tabular(value):
        yield Input("table", value, kind.name, kind, _size_of(value))
    elif isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        yield Input("rows", value, kind.name, kind)
    else:
        raise InvalidInput(
            f"{display_text(value)} cannot be loaded as {kind.name}: pass a path, a table, or a list of records."
        )


def _checked_path(where: object) -> str:
    if not isinstance(where, str) or not where.strip():
        raise InvalidInput(f"{where!r} is not a path.")
    return where


def _checked_format(found: InputFile) -> InputFile:
    if not is_table_suffix(found.suffix):
        raise InvalidInput(
            f"{found.name}: the suffix determines the format, and {found.suffix or 'no suffix'!r} is none of these: "
            ".jsonl, .ndjson, .json, .parquet, .csv, .tsv, .orc, .arrow, .feather, .lance."
        )
    return found


def _type_of_file(where: str, catalog: Catalog) -> GraphType:
    """Derive the type of an unmapped file from its name, qualified by a parent folder named `nodes` or `edges`."""
    path = PurePosixPath(where)
    name = path.name.partition(".")[0]
    prefix = {"nodes": "node:", "edges": "edge:"}.get(path.parent.name, "")
    try:
        return catalog.resolve_type(prefix + name)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error} Say what it holds: {{'TypeName': {where!r}}}.") from None


def _is_tabular(value: object) -> bool:
    return any(
        hasattr(value, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "to_reader", "collect", "scanner")
    )


def _size_of(table: object) -> int | None:
    size = getattr(table, "nbytes", None)
    return size if isinstance(size, int) else None
