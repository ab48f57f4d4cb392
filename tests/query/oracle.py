"""What a checked query means, as plainly as possible: try everything, keep what holds. Slow, and nothing shared."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.language.ir import expressions as ex
from omnigraph.language.ir.types import EntityType

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.ir.query import CheckedQuery, Pattern, ShortestPath, Traversal

Row = dict[str, Any]


@dataclass(frozen=True)
class Entity:
    """A node, an edge or a path: its type and its values."""

    type: str
    values: Any

    @property
    def id(self) -> str:
        return str(self.values["id"])


class Oracle:
    """Answers queries over records in memory."""

    def __init__(self, catalog: Catalog, records: dict[str, list[Row]], params: Row, now: dt.datetime) -> None:
        self.catalog = catalog
        self.params = params
        self.now = now
        self.nodes = {t: [Entity(t, r) for r in records.get(t, [])] for t in catalog.nodes}
        self.edges = {t: [Entity(t, r) for r in records.get(t, [])] for t in catalog.edges}

    # -- patterns ------------------------------------------------------------------------------------------------------

    def matches(self, pattern: Pattern, given: dict[str, Entity | None]) -> Iterator[dict[str, Entity | None]]:
        nodes = [v for v in pattern.variables if v.kind == "node" and v.name not in given]
        choices = [[n for t in v.types for n in self.nodes[t]] for v in nodes]
        for chosen in itertools.product(*choices):
            row: dict[str, Entity | None] = {**given, **{v.name: n for v, n in zip(nodes, chosen, strict=True)}}
            for joined in self._traversed(list(pattern.traversals), row):
                yield from self._rest(pattern, joined)

    def _traversed(self, traversals: list[Traversal], row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not traversals:
            yield row
            return
        first, rest = traversals[0], traversals[1:]
        source, target = row[first.source], row[first.target]
        if source is None or target is None:
            return
        if first.edge_variable is not None:
            for edge in self._edges_between(first, source, target):
                yield from self._traversed(rest, {**row, first.edge_variable: edge})
        elif self._connected(first, source, target):
            yield from self._traversed(rest, row)

    def _edges_between(self, traversal: Traversal, source: Entity, target: Entity) -> list[Entity]:
        declared = self.catalog.edges[traversal.edge]
        found = []
        for edge in self.edges[traversal.edge]:
            out = (declared.source, edge.values["src"]) == (source.type, source.id) and (
                declared.target, edge.values["dst"]) == (target.type, target.id)  # fmt: skip
            back = (declared.source, edge.values["src"]) == (target.type, target.id) and (
                declared.target, edge.values["dst"]) == (source.type, source.id)  # fmt: skip
            if (out and traversal.direction in ("out", "both")) or (back and traversal.direction in ("in", "both")):
                found.append(edge)
        return found

    def _steps(self, edge: str, direction: str, node_id: str) -> set[str]:
        found = set()
        for each in self.edges[edge]:
            if direction in ("out", "both") and each.values["src"] == node_id:
                found.add(each.values["dst"])
            if direction in ("in", "both") and each.values["dst"] == node_id:
                found.add(each.values["src"])
        return found

    def _connected(self, traversal: Traversal, source: Entity, target: Entity) -> bool:
        declared = self.catalog.edges[traversal.edge]
        start, end = (
            (declared.target, declared.source) if traversal.direction == "in" else (declared.source, declared.target)
        )
        if source.type != start or target.type != end:
            return False
        if declared.source != declared.target:
            hits = target.id in self._steps(traversal.edge, traversal.direction, source.id)
            return hits and traversal.hops.minimum <= 1
        depth = self._depth(traversal, source.id, target.id)
        return depth is not None and traversal.hops.minimum <= depth <= traversal.hops.maximum

    def _depth(self, traversal: Traversal, start: str, end: str) -> int | None:
        if start == end:
            return 1 if start in self._steps(traversal.edge, traversal.direction, start) else None
        return self._distance(traversal.edge, traversal.direction, start, end)

    def _distance(self, edge: str, direction: str, start: str, end: str) -> int | None:
        seen, frontier, depth = {start}, {start}, 0
        while frontier:
            if end in frontier:
                return depth
            frontier = {n for f in frontier for n in self._steps(edge, direction, f)} - seen
            seen |= frontier
            depth += 1
        return None

    def _rest(self, pattern: Pattern, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for path in pattern.paths:
            found = self._path(path, row[path.source], row[path.target])
            if found is None:
                return
            row = {**row, path.variable: found}
        rows = [row]
        for optional in pattern.optionals:
            rows = [each for one in rows for each in self._optional(optional, one)]
        for each in rows:
            if all(self.value(f, each) is True for f in pattern.filters) and not any(
                True for negation in pattern.negations for _ in self.matches(negation, each)
            ):
                yield each

    def _optional(self, pattern: Pattern, row: dict[str, Any]) -> list[dict[str, Any]]:
        found = list(self.matches(pattern, row))
        return found or [{**row, **dict.fromkeys(_visible(pattern))}]

    def _path(self, path: ShortestPath, source: Entity | None, target: Entity | None) -> Entity | None:
        declared = self.catalog.edges[path.edge].source
        if source is None or target is None or source.type != declared or target.type != declared:
            return None
        best = self._distance(path.edge, path.direction, source.id, target.id)
        if best is None or not path.hops.minimum <= best <= path.hops.maximum:
            return None
        walks = sorted(self._walks(path, source.id, target.id, best))
        nodes, edges = walks[0]
        return Entity("path", {"id": str(walks[0]), "length": best, "nodes": list(nodes), "edges": list(edges)})

    def _walks(self, path: ShortestPath, start: str, end: str, length: int) -> Iterator[tuple[Any, Any]]:
        if length == 0:
            if start == end:
                yield (start,), ()
            return
        for each in self.edges[path.edge]:
            ends = [(each.values["src"], each.values["dst"])]
            if path.direction == "both":
                ends.append((each.values["dst"], each.values["src"]))
            for near, far in ends:
                if near == start:
                    for nodes, edges in self._walks(path, far, end, length - 1):
                        yield (start, *nodes), (each.id, *edges)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def value(self, e: ex.Expression, row: dict[str, Any], group: list[Any] | None = None) -> Any:  # noqa: C901
        match e:
            case ex.Constant(value):
                return list(value) if isinstance(value, tuple) else value
            case ex.ParameterValue(name):
                return self.params[name]
            case ex.Now():
                return self.now
            case ex.PropertyValue(variable, name):
                return None if row[variable] is None else row[variable].values.get(name)
            case ex.EntityValue(variable):
                return row[variable]
            case ex.Negative(operand):
                v = self.value(operand, row, group)
                return None if v is None else -v
            case ex.Arithmetic(op, left, right):
                return _arithmetic(op, self.value(left, row, group), self.value(right, row, group), e.type.scalar)
            case ex.Comparison(op, left, right):
                return _compare(op, self.value(left, row, group), self.value(right, row, group))
            case ex.Membership(item, items):
                i, several = self.value(item, row, group), self.value(items, row, group)
                return None if i is None or several is None else i in several
            case ex.NullTest(operand):
                return self.value(operand, row, group) is None
            case ex.AllOf(operands):
                return _kleene([self.value(o, row, group) for o in operands], decisive=False)
            case ex.AnyOf(operands):
                return _kleene([self.value(o, row, group) for o in operands], decisive=True)
            case ex.NotOf(operand):
                v = self.value(operand, row, group)
                return None if v is None else not v
            case ex.Aggregate(function, argument, distinct):
                assert group is not None
                return _aggregate(function, [self.value(argument, each) for each in group], distinct=distinct)
            case _:
                raise AssertionError(type(e))

    # -- results -------------------------------------------------------------------------------------------------------

    def answer(self, checked: CheckedQuery) -> list[tuple[Any, ...]]:
        rows = list(self.matches(checked.pattern, {}))
        made = self._grouped(checked, rows) if checked.aggregated else [self._made(checked, r, None) for r in rows]
        if checked.distinct:
            made = list({_key(values): (values, *rest) for values, *rest in made}.values())
            made.sort(key=lambda each: [_sortable(value) for value in each[0]])
        for place in reversed(range(len(checked.order))):
            key = checked.order[place]
            made.sort(key=lambda each, place=place: _sortable(each[1][place]), reverse=key.descending)
        return [values for values, *_ in self._bounded(checked, made)]

    def _bounded(self, checked: CheckedQuery, made: list[Any]) -> list[Any]:
        limit = self.params[checked.limit.name] if isinstance(checked.limit, ex.ParameterValue) else checked.limit
        offset = self.params[checked.offset.name] if isinstance(checked.offset, ex.ParameterValue) else checked.offset
        return made[offset or 0 :][: len(made) if limit is None else limit]

    def _grouped(self, checked: CheckedQuery, rows: list[Any]) -> list[Any]:
        keys = [c.value for c in checked.columns if not ex.contains(c.value, ex.Aggregate)]
        groups: dict[Any, list[Any]] = {}
        for row in rows:
            groups.setdefault(_key([self.value(k, row) for k in keys]), []).append(row)
        if not keys and not rows:
            groups[()] = []
        made = []
        for several in groups.values():
            first = several[0] if several else {}
            one = self._made(checked, first, several)
            if all(self._with_columns(h, checked, first, several) is True for h in checked.having):
                made.append(one)
        # Ties of the order are broken by the group columns.
        own = [n for n, c in enumerate(checked.columns) if not ex.contains(c.value, ex.Aggregate)]
        return sorted(made, key=lambda each: [_sortable(each[0][n]) for n in own])

    def _made(self, checked: CheckedQuery, row: Any, group: Any) -> Any:
        values = tuple(self.value(c.value, row, group) for c in checked.columns)
        order = [self._with_columns(k.value, checked, row, group) for k in checked.order]
        return (values, order)

    def _with_columns(self, e: ex.Expression, checked: CheckedQuery, row: Any, group: Any) -> Any:
        return self.value(_inlined(e, checked), row, group)

    def ordered_rows(self, checked: CheckedQuery) -> list[tuple[Any, ...]]:
        """Without aggregates: in total order, ties broken by every named variable's id."""
        rows = list(self.matches(checked.pattern, {}))
        names = sorted(v.name for v in checked.variables.values() if v.kind != "path" and not v.name.startswith("_#"))
        rows.sort(key=lambda r: [_sortable(r[n]) for n in names])
        made = [self._made(checked, r, None) for r in rows]
        for place in reversed(range(len(checked.order))):
            key = checked.order[place]
            made.sort(key=lambda each, place=place: _sortable(each[1][place]), reverse=key.descending)
        return [values for values, *_ in self._bounded(checked, made)]


def _inlined(e: Any, checked: CheckedQuery) -> Any:
    from dataclasses import fields, replace

    if isinstance(e, ex.ColumnValue):
        return checked.columns[e.index].value
    changed = {}
    for field in fields(e):
        value = getattr(e, field.name)
        if isinstance(value, tuple) and value and isinstance(value[0], ex._EXPRESSIONS):
            changed[field.name] = tuple(_inlined(each, checked) for each in value)
        elif isinstance(value, ex._EXPRESSIONS):
            changed[field.name] = _inlined(value, checked)
    return replace(e, **changed) if changed else e


def _visible(pattern: Pattern) -> list[str]:
    return [v.name for v in pattern.variables] + [n for o in pattern.optionals for n in _visible(o)]


def _arithmetic(op: str, a: Any, b: Any, scalar: str) -> Any:
    if a is None or b is None or (op in "/%" and b == 0):
        return None
    if op == "%":
        return math.fmod(a, b) if scalar == "F64" else int(math.fmod(a, b))
    made = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[op]()
    return float(made) if scalar == "F64" else made


def _compare(op: str, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if op == "contains":
        return b in a
    if op == "starts_with":
        return a.startswith(b)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def _kleene(values: list[Any], *, decisive: bool) -> Any:
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def _aggregate(function: str, values: list[Any], *, distinct: bool) -> Any:
    known = [v for v in values if v is not None]
    if distinct:
        known = list({_key([v]): v for v in known}.values())
    if function == "count":
        return len(known)
    if not known:
        return None
    if function == "sum":
        return float(math.fsum(known))
    if function == "avg":
        return math.fsum(known) / len(known)
    return min(known) if function == "min" else max(known)


def _key(values: Any) -> Any:
    return tuple((v.type, v.id) if isinstance(v, Entity) else tuple(v) if isinstance(v, list) else v for v in values)


def _sortable(value: Any) -> Any:
    """Nulls first ascending, and so last descending."""
    if value is None:
        return (0,)
    if isinstance(value, Entity):
        return (1, value.id, value.type)
    return (1, value)


def shown(value: Any, declared: Any) -> Any:
    """A value as a result shows it; entities by their id."""
    if isinstance(value, Entity):
        return tuple(value.values["nodes"]) if declared.kind == "path" else value.id
    if isinstance(value, dict) and isinstance(declared, EntityType):
        return tuple(value["nodes"]) if declared.kind == "path" else value["id"]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.9g}")
    return tuple(value) if isinstance(value, list) else value
