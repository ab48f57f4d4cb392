"""Maps rows of sources to rows of types: columns by expression, edge endpoints by lookup of unique properties."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.catalog.arrow import node_arrow_schema
from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.catalog.key_ids import composite_text
from omnigraph.errors import OrphanEdge
from omnigraph.pipeline.file import YamlText
from omnigraph.pipeline.parse import type_of
from omnigraph.spark.runner import one_task_each
from omnigraph.spark.types import from_spark, spark_schema
from omnigraph.tasks.table_scan import TableScan, read_scan, tasks_of
from omnigraph.values.row_ids import key_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.pipeline.file import End, PipelineFile, TypeMapping
    from omnigraph.pipeline.sources import Workspace
    from omnigraph.storage.objects.location import Location

    Named = tuple[str, YamlText | None]

_LISTED = 5
_OTHER_NAMES = {"from": "src", "to": "dst"}


@dataclass(frozen=True)
class Mapped:
    """The mapped rows of one type. `lookups` names the endpoints that were looked up; an endpoint is null if no node
    was found, and the looked-up values are in columns such as `to email`.
    """

    mapping: TypeMapping
    type: NodeType | EdgeType
    frame: DataFrame
    lookups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mapper:
    """Maps the sources of a pipeline. Lookups read from `snapshot`."""

    pipeline: PipelineFile
    catalog: Catalog
    workspace: Workspace
    location: Location
    snapshot: Snapshot

    def map(self) -> list[Mapped]:
        """Every mapping as a frame. Invalid expressions become findings at their positions."""
        nodes = [self._nodes(each) for each in self.pipeline.mappings if each.kind == "node"]
        mapped_nodes = [each for each in nodes if each is not None]
        edges = [self._edges(each, mapped_nodes) for each in self.pipeline.mappings if each.kind == "edge"]
        return mapped_nodes + [each for each in edges if each is not None]

    def _nodes(self, mapping: TypeMapping) -> Mapped | None:
        kind = type_of(mapping, self.catalog)
        rows = self._rows(mapping)
        if rows is None or kind is None:
            return None
        columns = self._columns(mapping, kind, rows)
        return Mapped(mapping, kind, rows.select(*columns))

    def _edges(self, mapping: TypeMapping, nodes: list[Mapped]) -> Mapped | None:
        kind = type_of(mapping, self.catalog)
        rows = self._rows(mapping)
        if rows is None or not isinstance(kind, EdgeType):
            return None
        columns, looked_up = self._columns(mapping, kind, rows), []
        for end, given in (("from", mapping.from_), ("to", mapping.to)):
            if given is None or given.expression is not None:
                columns += self._end(rows, end, given, mapping)
                continue
            looked_up.append((end, given, kind.source if end == "from" else kind.target))
            keys: list[Named] = [(f"{end} {name.value}", expression) for name, expression in given.lookup]
            columns += self._selected(rows, keys, mapping)
        mapped_rows = rows.select(*columns)
        for end, given, node_type in looked_up:
            mapped_rows = self._found(mapped_rows, end, given, self.catalog.nodes[node_type], nodes)
        return Mapped(mapping, kind, mapped_rows, tuple(end for end, _, _ in looked_up))

    def _end(self, rows: DataFrame, end: str, given: End | None, mapping: TypeMapping) -> list[Column]:
        """An endpoint given by id: an expression, or the column `from`/`src` or `to`/`dst`."""
        if given is not None and given.expression is not None:
            return self._selected(rows, [(end, given.expression)], mapping)
        other = _OTHER_NAMES[end]
        named = YamlText(f"`{other if other in rows.columns and end not in rows.columns else end}`", mapping.type.span)
        return self._selected(rows, [(end, named)], mapping)

    def _rows(self, mapping: TypeMapping) -> DataFrame | None:
        rows = self.workspace.frames.get(mapping.source.value)
        if rows is None or mapping.where is None:
            return rows
        found: list[DataFrame] = []
        with self.workspace.findings_at(mapping.where):
            found.append(rows.where(f.expr(mapping.where.value)))
            _ = found[0].schema
        return found[0] if found else None

    def _columns(self, mapping: TypeMapping, kind: NodeType | EdgeType, rows: DataFrame) -> list[Column]:
        if mapping.columns is None:
            named: list[Named] = [(name, None) for name in kind.properties if name in rows.columns]
            named += [("id", None)] if mapping.id is None and "id" in rows.columns else []
        else:
            named = [(name.value, expression) for name, expression in mapping.columns]
        return self._selected(rows, [*named, *([("id", mapping.id)] if mapping.id else [])], mapping)

    def _selected(self, rows: DataFrame, named: list[Named], mapping: TypeMapping) -> list[Column]:
        """Columns by name and expression. A column that Spark refuses becomes a finding and is left out."""
        columns = []
        for name, expression in named:
            made = f.col(f"`{name}`") if expression is None else f.expr(expression.value)
            with self.workspace.findings_at(expression or mapping.type):
                _ = rows.select(made).schema
                columns.append(made.alias(name))
        return columns

    def _found(self, rows: DataFrame, end: str, given: End, kind: NodeType, nodes: list[Mapped]) -> DataFrame:
        """Left join the rows with the ids of the looked-up nodes; null if there is none."""
        names = [name.value for name, _ in given.lookup]
        index = self._index(kind, names, nodes).toDF(end, *(f"known {name}" for name in names))
        same = [rows[f"`{end} {name}`"].cast(_spark_type(kind, name)) == index[f"`known {name}`"] for name in names]
        joined = rows.join(index, reduce(lambda one, other: one & other, same), "left")
        return joined.drop(*(f"known {name}" for name in names))

    def _index(self, kind: NodeType, names: list[str], nodes: list[Mapped]) -> DataFrame:
        """id and unique values of the nodes after the load: input rows, and committed rows that they do not replace."""
        mine = [each.frame for each in nodes if each.type == kind]
        there = self._in_graph(kind, names)
        if not mine:
            return there
        ids = [_with_ids(each, kind, names) for each in mine]
        new = reduce(DataFrame.union, ids)
        if self.pipeline.mode == "overwrite":
            return new
        return new.union(there.join(new.select("id"), "id", "left_anti").select("id", *names))

    def _in_graph(self, kind: NodeType, names: list[str]) -> DataFrame:
        scan = TableScan(self.location, self.snapshot[kind.table_key].pin, ("id", *names))
        return one_task_each(self.workspace.session, tasks_of(scan), read_scan, scan.schema())


def refuse_unresolved(mapped: Mapped) -> None:
    """Raise `OrphanEdge` if a lookup found no node, with the count and the first values."""
    for end in mapped.lookups:
        unresolved = mapped.frame.where(f.col(f"`{end}`").isNull())
        keys = [name for name in mapped.frame.columns if name.startswith(f"{end} ")]
        first = unresolved.select(*(f"`{name}`" for name in keys)).distinct().limit(_LISTED).collect()
        if not first:
            continue
        kind = mapped.type
        assert isinstance(kind, EdgeType)
        node_type = kind.source if end == "from" else kind.target
        names = ", ".join(name.removeprefix(f"{end} ") for name in keys)
        values = "; ".join(", ".join(repr(each) for each in row) for row in sorted(first, key=str))
        message = f"{unresolved.count()} {kind.name} edges have no {node_type} at {end!r}: no {names} is {values}"
        raise OrphanEdge(
            message, type_name=kind.name, row_id="", end=end, node_type=node_type, node_id=str(first[0][0])
        )


def without_keys(mapped: Mapped) -> DataFrame:
    """The rows to load, without the looked-up values."""
    return mapped.frame.drop(*(name for name in mapped.frame.columns if name.startswith(("from ", "to "))))


def _spark_type(kind: NodeType, name: str) -> Any:
    return spark_schema(node_arrow_schema(kind))[name].dataType


def _with_ids(rows: DataFrame, kind: NodeType, names: list[str]) -> DataFrame:
    """The future id and some properties of input rows."""
    given = {name: f.col(f"`{name}`") for name in rows.columns}
    # A property without a mapping is null, and a lookup never matches null.
    typed = {name: given.get(name, f.lit(None)).cast(_spark_type(kind, name)) for name in {*kind.rules.key, *names}}
    chosen = [typed[name].alias(name) for name in names]
    if not kind.rules.key:
        return rows.select("id", *chosen)
    if len(kind.rules.key) == 1 and kind.properties[kind.rules.key[0]].type.scalar == "String":
        return rows.select(typed[kind.rules.key[0]].alias("id"), *chosen)
    keys = [typed[name].alias(f"key {name}") for name in kind.rules.key]
    keyed = reduce(lambda one, other: one & other, (typed[name].isNotNull() for name in kind.rules.key))
    schema = node_arrow_schema(kind)
    output = pa.schema([schema.field("id"), *(schema.field(name) for name in names)])
    return rows.where(keyed).select(*keys, *chosen).mapInArrow(_identifier(kind, output), spark_schema(output))


def _identifier(kind: NodeType, output: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The body of a task that derives ids from key values like a load does."""
    keys = pa.schema([pa.field(f"key {name}", node_arrow_schema(kind).field(name).type) for name in kind.rules.key])
    declared = [kind.properties[name].type for name in kind.rules.key]

    def identify(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = from_spark(batch, keys)
            texts = [key_texts(each, values.column(at)) for at, each in enumerate(declared)]
            rows = zip(*(each.to_pylist() for each in texts), strict=True)
            ids = texts[0] if len(texts) == 1 else pa.array([composite_text(list(row)) for row in rows], pa.string())
            columns = [ids, *(batch.column(name) for name in output.names[1:])]
            fields = [pa.field("id", pa.string()), *(batch.schema.field(name) for name in output.names[1:])]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    return identify
