"""Splits the input of a load into units, each of which one task reads.

A unit is a range of lines, a group of Parquet row groups or Lance fragments, or a whole file. Reading a unit is
repeatable, so a failed task can run again. Spark DataFrames are partitioned by Spark instead. Under the permissive
grammar, a JSON file in which a value spans lines or shares one cannot be split at line ends and becomes one unit.
"""

from __future__ import annotations

import io
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from omnigraph.load.bulk.splits import Split, number_lines, plan_splits, read_blocks
from omnigraph.load.files import InputFile, is_remote, open_input, resolved_options
from omnigraph.load.ndjson import has_one_value_a_line, read_permissive, read_strict
from omnigraph.load.read import JSON_SUFFIXES, open_table, read_input, read_json_lines, readable, table_reader
from omnigraph.load.tabular import read_arrow
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.table import open_dataset
from omnigraph.tasks.runner import LONG
from omnigraph.values.arrow_casts import cast_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.load.ndjson import Readable
    from omnigraph.load.plan import Input
    from omnigraph.load.tabular import Convert
    from omnigraph.storage.tables.table import Table
    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.values.batches import Batch
    from omnigraph.world import World

_DIVIDED = pa.schema([("split", LONG)])


def undivided_files(runner: TaskRunner, splits: Sequence[Split], storage_options: Mapping[str, str]) -> set[InputFile]:
    """The files that must be read as one unit: small or compressed ones, and those with a line that is no JSON value.

    A value that spans lines begins with a line that is not a complete value, so each split can be checked alone.
    """
    cut = Counter(each.file for each in splits)
    candidates = [each for each in splits if cut[each.file] > 1 and each.codec is None]

    def work(item: tuple[int, Split]) -> Iterator[pa.RecordBatch]:
        number, split = item
        if not all(has_one_value_a_line(block.data) for block in read_blocks(split, storage_options)):
            yield pa.record_batch([[number]], schema=_DIVIDED)

    whole = {each.file for each in splits} - {each.file for each in candidates}
    if candidates:
        results: Any = runner.map(list(enumerate(candidates)), work, _DIVIDED).collect()
        whole |= {candidates[number].file for number in results.column("split").to_pylist()}
    return whole


_ROWS_PER_UNIT = 500_000
_WHOLE_TASK = 1 << 40
_BATCH = 65_536
_PARQUET = (".parquet", ".pq")
# Prefixes of the environment variables that executors inherit from the driver: access to object stores.
_STORE_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_", "OBJECT_STORE_")


@dataclass(frozen=True)
class Unit:
    """The input of one task. `fragments` are row groups of a Parquet file or fragments of a Lance dataset."""

    input: Input
    split: Split | None = None
    fragments: tuple[int, ...] | None = None
    first_row: int = 1
    strict: bool = True

    @property
    def size(self) -> int:
        """Bytes, for grouping units into tasks. A unit of fragments or of unknown size fills a task by itself."""
        if self.split is not None:
            return self.split.end - self.split.start
        return _WHOLE_TASK if self.fragments is not None else self.input.size or _WHOLE_TASK


def plan_units(
    runner: TaskRunner, inputs: Sequence[Input], world: World, *, split_bytes: int, strict: bool = True
) -> list[Unit]:
    """Split all inputs except Spark DataFrames into units, in order, with the first line or row of each."""
    units = [unit for each in inputs for unit in _units_of(each, world, split_bytes)]
    if not strict:
        units = permissive_units(runner, units, world)
    splits = [each.split for each in units if each.split is not None]
    options = resolved_options([each.file for each in splits], world=world)
    numbered = iter(number_lines(runner, splits, options))
    return [each if each.split is None else replace(each, split=next(numbered)) for each in units]


def store_settings(world: World) -> dict[str, str]:
    """The environment variables that tasks need."""
    return {name: value for name, value in world.environ.items() if name.startswith(_STORE_SETTINGS)}


def read_unit(unit: Unit, catalog: Catalog, world: World) -> Iterator[Batch]:
    """Read a unit as typed batches."""
    if unit.split is not None:
        yield from _read_split(unit, unit.split, catalog, world)
    elif unit.fragments is not None:
        kind = unit.input.type
        assert kind is not None
        with row_source(unit, world) as (reader, _):
            yield from read_arrow(reader, kind, catalog, source=unit.input.name, first_row=unit.first_row)
    else:
        yield from read_input(unit.input, catalog, world, strict=unit.strict)


@contextmanager
def row_source(unit: Unit, world: World) -> Iterator[tuple[pa.RecordBatchReader, Convert]]:
    """Open a tabular unit as an Arrow stream, with the conversion for its columns."""
    each = unit.input
    if each.form == "lance":
        yield _fragment_reader(unit, world), cast_column
    elif each.form == "table":
        yield table_reader(each.data, each.name), cast_column
    elif unit.fragments is not None:
        with readable(each.data), _parquet(each, world) as file:
            yield _row_group_reader(unit, file), cast_column
    else:
        assert each.type is not None
        with readable(each.data), open_input(each.data, resolved_options([each.data], world=world)) as stream:
            yield open_table(each.data, each.type, stream)


def read_block(unit: Unit, catalog: Catalog, stream: Readable, first_line: int) -> Iterator[Batch]:
    """Read a block of lines as typed batches."""
    if unit.input.type is None:
        read = read_strict if unit.strict else read_permissive
        return read(stream, catalog, source=unit.input.name, first_line=first_line)
    return read_json_lines(stream, unit.input.type, source=unit.input.name, first_line=first_line)


def _units_of(given: Input, world: World, split_bytes: int) -> list[Unit]:
    each = _absolute(given)
    if each.form in ("graph file", "file") and each.data.suffix in JSON_SUFFIXES:
        file = InputFile(each.data.where, each.data.size)
        return [Unit(each, split=split) for split in plan_splits([file], split_bytes=split_bytes)]
    if each.form == "file" and each.data.where.endswith(_PARQUET):
        return _cut(each, _row_groups(each, world))
    if each.form == "lance":
        return _cut(each, list(_lance(each, world).rows_by_fragment().items()))
    return [Unit(_sendable(each))]


def permissive_units(runner: TaskRunner, units: Sequence[Unit], world: World) -> list[Unit]:
    """The units for the permissive grammar. A file in which a value spans lines becomes one unit."""
    graph_splits = [each.split for each in units if each.split is not None and each.input.type is None]
    options = resolved_options([each.file for each in graph_splits], world=world)
    whole = undivided_files(runner, graph_splits, options)
    planned: dict[object, Unit] = {}
    for number, each in enumerate(units):
        is_whole = each.split is not None and each.input.type is None and each.split.file in whole
        relaxed = replace(each, strict=False, split=None if is_whole else each.split)
        planned.setdefault(each.input.name if is_whole else number, relaxed)
    return list(planned.values())


def _absolute(each: Input) -> Input:
    """The input with an absolute path, valid in other processes. Messages keep the name that the user gave."""
    if each.form in ("graph file", "file") and not is_remote(each.data.where):
        return replace(each, data=replace(each.data, where=str(Path(each.data.where).absolute())))
    if each.form == "lance" and not is_remote(each.data):
        return replace(each, data=str(Path(each.data).absolute()))
    return each


def _cut(each: Input, sizes: Sequence[tuple[int, int]]) -> list[Unit]:
    """Group neighbouring fragments up to `_ROWS_PER_UNIT`. An empty input gets one unit, which checks its columns."""
    units: list[Unit] = []
    group: list[int] = []
    row = first = 1
    for fragment, rows in sizes:
        group.append(fragment)
        row += rows
        if row - first >= _ROWS_PER_UNIT:
            units.append(Unit(each, fragments=tuple(group), first_row=first))
            group, first = [], row
    if group or not units:
        units.append(Unit(each, fragments=tuple(group), first_row=first))
    return units


def _row_groups(each: Input, world: World) -> list[tuple[int, int]]:
    with readable(each.data), _parquet(each, world) as file:
        metadata = file.metadata
        return [(index, metadata.row_group(index).num_rows) for index in range(metadata.num_row_groups)]


def _sendable(each: Input) -> Input:
    """An input that can be pickled. Streams, iterators and tables exist only in this process and are read now."""
    if each.form == "graph stream":
        data = each.data.read()
        return replace(each, form="graph text", data=data.encode() if isinstance(data, str) else bytes(data))
    if each.form in ("graph records", "rows"):
        return replace(each, data=list(each.data))
    if each.form == "table":
        return replace(each, data=table_reader(each.data, each.name).read_all())
    return each


def _read_split(unit: Unit, split: Split, catalog: Catalog, world: World) -> Iterator[Batch]:
    for block in read_blocks(split, resolved_options([split.file], world=world)):
        yield from read_block(unit, catalog, io.BytesIO(block.data), block.first_line)


def _fragment_reader(unit: Unit, world: World) -> pa.RecordBatchReader:
    return _lance(unit.input, world).reader(unit.fragments or ())


def _parquet(each: Input, world: World) -> parquet.ParquetFile:
    """Open a Parquet file. Arrow reads local files directly, which is faster than through a Python file object."""
    where = each.data.where
    if not is_remote(where):
        return parquet.ParquetFile(where, memory_map=True)
    return parquet.ParquetFile(open_input(each.data, resolved_options([each.data], world=world)))


def _row_group_reader(unit: Unit, file: parquet.ParquetFile) -> pa.RecordBatchReader:
    batches = file.iter_batches(batch_size=_BATCH, row_groups=list(unit.fragments or ()))
    return pa.RecordBatchReader.from_batches(file.schema_arrow, batches)


def _lance(each: Input, world: World) -> Table:
    options = parse_location(each.data, world).storage_options if is_remote(each.data) else None
    return open_dataset(each.data, storage_options=options)
