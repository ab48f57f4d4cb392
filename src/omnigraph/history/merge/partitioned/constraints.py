"""Checks constraints over many rows with SQL over narrow columns: unique tuples, endpoints of edges, cardinalities.

The rules are those that `transaction/constraints` evaluates in memory, and violations have the same messages. DuckDB
and Spark run the same SQL text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.catalog.rules import count_rule, endpoint_rules, unique_rules
from omnigraph.history.merge.conflicts import MOST_LISTED, ConflictList, of_violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog, EdgeType
    from omnigraph.catalog.rules import EdgeCount, Endpoint, Unique
    from omnigraph.errors import ConstraintViolation


class Relations(Protocol):
    """Narrow columns as relations that SQL can name: `id`, then `c0`, `c1`, … for the columns, none of them null."""

    def puts(self, table_key: str, columns: tuple[str, ...]) -> str:
        """The rows to write. `asked` is true when the id of a row is not the one that its key determines."""
        ...

    def there(self, table_key: str, columns: tuple[str, ...]) -> str:
        """The rows before the merge."""
        ...

    def deletes(self, table_key: str) -> str:
        """The ids of removed rows."""
        ...

    def ask(self, sql: str, most: int) -> tuple[list[tuple[Any, ...]], int]:
        """The first `most` rows of a query, and how many more it has."""
        ...

    def values(self, table_key: str, ids: Sequence[str], columns: tuple[str, ...]) -> dict[str, tuple[object, ...]]:
        """The values of some of the rows to write, by id."""
        ...


@dataclass(frozen=True)
class Changed:
    """What is known of the changes to a table without reading its rows."""

    puts: int
    deletes: int
    has_foreign_ids: bool


@dataclass(frozen=True)
class RuleCheck:
    """Checks the rules of a schema over a graph and the changes of a merge."""

    catalog: Catalog
    changed: Mapping[str, Changed]
    relations: Relations

    def broken(self, types: Mapping[str, str]) -> ConflictList:
        """All violations as conflicts: unique tuples by table, then endpoints, then cardinalities, by edge type."""
        listed = ConflictList()
        for key in sorted(key for key, each in self.changed.items() if each.puts):
            listed.add(of_violation(each, types) for each in self._tuples(key, listed))
        for name in sorted(self.catalog.edges):
            listed.add(of_violation(each, types) for each in self._ends(self.catalog.edges[name], listed))
        for name in sorted(self.catalog.edges):
            rule = count_rule(self.catalog.edges[name])
            if rule is not None and rule.edge_key in self.changed:
                listed.add(of_violation(each, types) for each in self._counts(rule, listed))
        return listed

    def _tuples(self, key: str, listed: ConflictList) -> list[ConstraintViolation]:
        found: list[tuple[str, int, ConstraintViolation]] = []
        for place, rule in enumerate(unique_rules(self.catalog, key)):
            if not rule.is_key or self.changed[key].has_foreign_ids:
                found += [(row_id, place, error) for row_id, error in self._held(rule, listed)]
        return [error for *_, error in sorted(found, key=lambda each: each[:2])]

    def _held(self, rule: Unique, listed: ConflictList) -> Iterator[tuple[str, ConstraintViolation]]:
        names = [f"c{number}" for number in range(len(rule.columns))]
        holders = {
            **dict(self._asked(self._earlier(rule, names), listed)),
            **dict(self._asked(self._committed(rule, names), listed)),
        }
        values = self.relations.values(rule.table_key, sorted(holders), rule.columns) if holders else {}
        for row_id, holder in holders.items():
            yield row_id, rule.violation(row_id, values[row_id], holder)

    def _committed(self, rule: Unique, names: Sequence[str]) -> str:
        """Written rows that have the unique tuple of an untouched row."""
        put, there = (each(rule.table_key, rule.columns) for each in (self.relations.puts, self.relations.there))
        asked = "p.asked" if rule.is_key else "TRUE"
        return _sql(
            *("SELECT p.id, min(t.id) AS holder FROM", put, "p JOIN", there, "t ON", _same("p", "t", names)),
            *("WHERE", asked, "AND", self._untouched("t", rule.table_key), "GROUP BY p.id ORDER BY p.id"),
        )

    def _earlier(self, rule: Unique, names: Sequence[str]) -> str:
        """Written rows that have the unique tuple of another written row; the one with the lowest id may keep it."""
        put, group = self.relations.puts(rule.table_key, rule.columns), ", ".join(names)
        return _sql(
            *("SELECT p.id, t.holder FROM", put, "p JOIN (SELECT", group, ", min(id) AS holder FROM", put),
            *("GROUP BY", group, "HAVING count(*) > 1) t ON", _same("p", "t", names)),
            "WHERE p.id <> t.holder ORDER BY p.id",
        )

    def _ends(self, edge: EdgeType, listed: ConflictList) -> Iterator[ConstraintViolation]:
        rules = endpoint_rules(edge)
        change = self.changed.get(edge.table_key)
        if change is not None and change.puts:
            dangling = [(*row, rule) for rule in rules for row in self._asked(self._dangling(rule), listed)]
            yield from _in_order(dangling)
        losing = [rule for rule in rules if rule.node_key in self.changed and self.changed[rule.node_key].deletes]
        yield from _in_order([(*row, rule) for rule in losing for row in self._asked(self._stranded(rule), listed)])

    def _dangling(self, rule: Endpoint) -> str:
        """Written edges whose node does not exist after the merge."""
        edges = self.relations.puts(rule.edge_key, (rule.end,))
        present = _exists(_sql("(", self._after(rule.node_key), ")"), "n.id = e.c0")
        return _sql("SELECT e.id, e.c0 FROM", edges, "e WHERE NOT", present, "ORDER BY e.id")

    def _stranded(self, rule: Endpoint) -> str:
        """Untouched edges whose node is removed."""
        edges = self.relations.there(rule.edge_key, (rule.end,))
        removed, stays = _exists(self._deletes(rule.node_key), "n.id = e.c0"), self._untouched("e", rule.edge_key)
        return _sql("SELECT e.id, e.c0 FROM", edges, "e WHERE", removed, "AND", stays, "ORDER BY e.id")

    def _counts(self, rule: EdgeCount, listed: ConflictList) -> Iterator[ConstraintViolation]:
        for source, count in self._asked(self._miscounted(rule), listed):
            yield rule.violation(source, int(count))

    def _miscounted(self, rule: EdgeCount) -> str:
        """Sources that gain or lose an edge, and are not removed themselves, with a forbidden number of edges."""
        key, there = rule.edge_key, self.relations.there(rule.edge_key, ("src",))
        put = _sql("(", self._narrow_puts(key, "src"), ")")
        before = _sql("(SELECT b.id, b.c0 FROM", there, "b WHERE NOT (", self._untouched("b", key), "))")
        gained = _sql("SELECT g.c0 FROM", put, "g WHERE NOT", _exists(before, "n.id = g.id AND n.c0 = g.c0"))
        lost = _sql("SELECT l.c0 FROM", before, "l WHERE NOT", _exists(put, "n.id = l.id AND n.c0 = l.c0"))
        kept = _sql("SELECT s.c0 FROM", there, "s WHERE", self._untouched("s", key))
        removed = _exists(self._deletes(rule.node_key), "n.id = a.c0")
        most = "" if rule.maximum is None else f"OR count(x.c0) > {rule.maximum}"
        return _sql(
            *("SELECT a.c0, count(x.c0) AS n FROM (", gained, "UNION", lost, ") a LEFT JOIN"),
            *("(SELECT p.c0 FROM", put, "p UNION ALL", kept, ") x ON x.c0 = a.c0 WHERE NOT", removed),
            *("GROUP BY a.c0 HAVING count(x.c0) <", str(rule.minimum), most, "ORDER BY a.c0"),
        )

    def _after(self, key: str) -> str:
        """The ids of a table after the merge."""
        there = _sql("SELECT t.id FROM", self.relations.there(key, ()), "t")
        if key not in self.changed:
            return there
        gone = _exists(self._deletes(key), "n.id = t.id")
        return _sql(self._narrow_puts(key), "UNION ALL", there, "WHERE NOT", gone)

    def _untouched(self, name: str, key: str) -> str:
        """A condition: the row is neither written nor removed."""
        change = self.changed.get(key)
        if change is None:
            return "TRUE"
        touching = [self.relations.puts(key, ())] if change.puts else []
        touching += [self.relations.deletes(key)] if change.deletes else []
        return " AND ".join(f"NOT {_exists(each, f'n.id = {name}.id')}" for each in touching) or "TRUE"

    def _deletes(self, key: str) -> str:
        change = self.changed.get(key)
        return self.relations.deletes(key) if change is not None and change.deletes else _sql("(", _nothing(0), ")")

    def _narrow_puts(self, key: str, *columns: str) -> str:
        if not self.changed[key].puts:
            return _nothing(len(columns))
        names = ", ".join(["id", *(f"c{number}" for number in range(len(columns)))])
        return _sql("SELECT", names, "FROM", self.relations.puts(key, columns))

    def _asked(self, sql: str, listed: ConflictList) -> list[tuple[Any, ...]]:
        rows, more = self.relations.ask(sql, MOST_LISTED)
        listed.add((), more)
        return rows


def _in_order(found: Sequence[tuple[str, str, Endpoint]]) -> Iterator[ConstraintViolation]:
    for row_id, node_id, rule in sorted(found, key=lambda each: (each[0], each[2].end == "dst")):
        yield rule.violation(row_id, node_id)


def _same(one: str, other: str, names: Sequence[str]) -> str:
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in names)


def _exists(relation: str, condition: str) -> str:
    """A condition: a relation has a row, called `n`, for which `condition` holds."""
    return _sql("EXISTS (SELECT 1 FROM", relation, "n WHERE", condition, ")")


def _nothing(columns: int) -> str:
    """An empty relation of ids with this many text columns."""
    names = ["id", *(f"c{number}" for number in range(columns))]
    return _sql("SELECT", ", ".join(f"CAST(NULL AS STRING) AS {name}" for name in names), "WHERE FALSE")


def _sql(*words: str) -> str:
    """Join the parts of a query. They are names that this package generates; no value of a row is ever among them."""
    return " ".join(words)
