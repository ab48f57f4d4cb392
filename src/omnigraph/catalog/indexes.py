"""Derives the indexes of a table from its type.

Lance indexes one column at a time, so a tuple is indexed column by column and a lookup intersects the results. `id`,
and on edges `src` and `dst`, are always indexed. A String (neither enum nor list) gets an inverted index if it is
declared alone; keys, tuples and unique columns are looked up by equality, so their Strings get a B-tree index as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.catalog.catalog import EdgeType, PropertyType
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.catalog.catalog import NodeType, Property

IndexKind = Literal["btree", "inverted", "vector", "label_list"]
Reason = Literal["identity", "index", "key", "unique"]
Metric = Literal["L2", "cosine", "dot"]
_METRICS: dict[str, Metric] = {"l2": "L2", "cosine": "cosine", "dot": "dot"}


@record
class DeclaredIndex:
    """One index of a table. `declared` is the tuple in the schema, which several indexes may share. `metric` applies
    to vectors only.
    """

    name: str
    column: str
    kind: IndexKind
    reason: Reason
    declared: tuple[str, ...]
    metric: Metric = "L2"


def metric_of(declared: Property) -> Metric:
    """The distance metric of a vector property, from `@metric(cosine)`; L2 by default."""
    for annotation in declared.annotations:
        if annotation.name == "metric":
            return _METRICS.get((annotation.value or "").lower(), "L2")
    return "L2"


def table_indexes(each: NodeType | EdgeType) -> tuple[DeclaredIndex, ...]:
    """All indexes of a table without duplicates: identity first, then in the order of the stored constraints."""
    found: dict[tuple[str, IndexKind], DeclaredIndex] = {}
    for spec in _all_specs(each):
        found.setdefault((spec.column, spec.kind), spec)
    return tuple(found.values())


def _all_specs(each: NodeType | EdgeType) -> Iterator[DeclaredIndex]:
    identifiers = ("id", "src", "dst") if isinstance(each, EdgeType) else ("id",)
    for column in identifiers:
        yield DeclaredIndex(f"{column}_idx", column, "btree", "identity", (column,))
    for columns in each.rules.indexes:
        yield from _declared(each, columns, "index")
    if each.rules.key:
        yield from _declared(each, each.rules.key, "key")
    for columns in each.rules.unique:
        yield from _declared(each, columns, "unique")


def _declared(each: NodeType | EdgeType, columns: tuple[str, ...], reason: Reason) -> Iterator[DeclaredIndex]:
    for column in columns:
        if column not in each.properties:
            continue
        for kind in _kinds(each.properties[column].type, reason, alone=len(columns) == 1):
            name = _name(column, kind, each.properties[column].type)
            yield DeclaredIndex(name, column, kind, reason, columns, metric_of(each.properties[column]))


def _kinds(declared: PropertyType, reason: Reason, *, alone: bool) -> tuple[IndexKind, ...]:
    if declared.scalar == "Blob" or (reason == "unique" and (declared.is_list or declared.scalar == "Vector")):
        return ()
    if declared.scalar == "Vector":
        return ("vector",)
    if declared.is_list:
        return ("label_list",)
    if not _is_free_text(declared) or not alone:
        return ("btree",)
    return {"index": ("inverted",), "key": ("inverted", "btree")}.get(reason, ("btree",))  # type: ignore[return-value]


def _name(column: str, kind: IndexKind, declared: PropertyType) -> str:
    """`<column>_idx` as in old releases; the B-tree of a String adds a suffix that no other index name can end in."""
    return f"{column}_idx_equality" if kind == "btree" and _is_free_text(declared) else f"{column}_idx"


def _is_free_text(declared: PropertyType) -> bool:
    return declared.scalar == "String" and declared.enum_values is None and not declared.is_list
