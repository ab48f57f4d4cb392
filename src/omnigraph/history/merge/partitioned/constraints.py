"""Checks the rules over several rows with SQL over key columns, for merges whose rows do not fit in memory.

The queries say what `transaction/constraints/evaluate.py` says on Arrow tables, with the same errors. They are one text
for DuckDB and Spark, which join exactly and spill; no hash decides anything here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.catalog.rules import count_rule, endpoint_rules, unique_rules
from omnigraph.history.merge.conflicts import MOST_LISTED, ConflictList, of_violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.catalog.rules import EdgeCount, Endpoint, Unique
    from omnigraph.errors import ConstraintViolation

    # The first violations of a rule, and how many more there are.
    Found = tuple[Sequence[ConstraintViolation], int]


class Relations(Protocol):
    """Key columns as relations that SQL can name: `id`, then `c0`, `c1`, … for the columns, none of them null."""

    def puts(self, table_key: str, columns: tuple[str, ...]) -> str:
        """The rows to write. `is_foreign` is true when the id of a row is not the one that its key determines."""
        ...

    def committed(self, table_key: str, columns: tuple[str, ...]) -> str:
        """The rows before the merge."""
        ...

    def deletes(self, table_key: str) -> str:
        """The ids of removed rows."""
        ...

    def query(self, sql: str, most: int) -> tuple[list[tuple[Any, ...]], int]:
        """The first `most` rows of a query, and how many more it has."""
        ...

    def values(self, table_key: str, ids: Sequence[str], columns: tuple[str, ...]) -> dict[str, tuple[object, ...]]:
        """The values of some of the rows to write, by id."""
        ...


@dataclass(frozen=True)
class Changed:
    """The number of changes to a table, and whether a written row has an id that its key does not determine."""

    puts: int
    deletes: int
    has_foreign_ids: bool


@dataclass(frozen=True)
class RuleCheck:
    """Checks the rules of a schema over a graph and the changes of a merge."""

    catalog: Catalog
    changed: Mapping[str, Changed]
    relations: Relations

    def conflicts(self, types: Mapping[str, str]) -> ConflictList:
        """All violations as conflicts."""
        listed = ConflictList()
        for found, more in self.violations():
            listed.add((of_violation(each, types) for each in found), more)
        return listed

    def violations(self) -> Iterator[Found]:
        """Yield the violations of unique rules by table, then of endpoints, then of cardinalities, by edge type."""
        for key in sorted(key for key, each in self.changed.items() if each.puts):
            yield self._shared_tuples(key)
        for name in sorted(self.catalog.edges):
            rules = endpoint_rules(self.catalog.edges[name])
            change = self.changed.get(rules[0].edge_key)
            if change is not None and change.puts:
                yield self._endpoints({rule: self._at_absent_nodes(rule) for rule in rules})
            losing = [rule for rule in rules if rule.node_key in self.changed and self.changed[rule.node_key].deletes]
            yield self._endpoints({rule: self._at_deleted_nodes(rule) for rule in losing})
        for name in sorted(self.catalog.edges):
            rule = count_rule(self.catalog.edges[name])
            if rule is not None and rule.edge_key in self.changed:
                rows, more = self.relations.query(self._forbidden_counts(rule), MOST_LISTED)
                yield [rule.violation(source, int(count)) for source, count in rows], more

    def _shared_tuples(self, key: str) -> Found:
        found: list[tuple[str, int, ConstraintViolation]] = []
        further = 0
        for ordinal, rule in enumerate(unique_rules(self.catalog, key)):
            if not rule.is_key or self.changed[key].has_foreign_ids:
                holders, more = self._holders(rule)
                found += [(row_id, ordinal, error) for row_id, error in self._held(rule, holders)]
                further += more
        return [error for *_, error in sorted(found, key=lambda each: each[:2])], further

    def _holders(self, rule: Unique) -> tuple[dict[str, str], int]:
        """The rows that hold the tuples of written rows, by the id of the written row; committed ones before others."""
        names = [f"c{column_number}" for column_number in range(len(rule.columns))]
        earlier, more_earlier = self.relations.query(self._held_by_puts(rule, names), MOST_LISTED)
        committed, more_committed = self.relations.query(self._held_by_committed(rule, names), MOST_LISTED)
        return {**dict(earlier), **dict(committed)}, more_earlier + more_committed

    def _held(self, rule: Unique, holders: Mapping[str, str]) -> Iterator[tuple[str, ConstraintViolation]]:
        values = self.relations.values(rule.table_key, sorted(holders), rule.columns) if holders else {}
        for row_id, holder in holders.items():
            yield row_id, rule.violation(row_id, values[row_id], holder)

    def _held_by_committed(self, rule: Unique, names: Sequence[str]) -> str:
        """Written rows that have the unique tuple of an unchanged row."""
        put, committed = (
            each(rule.table_key, rule.columns) for each in (self.relations.puts, self.relations.committed)
        )
        compared = "p.is_foreign" if rule.is_key else "TRUE"
        return _sql(
            *("SELECT p.id, min(t.id) AS holder FROM", put, "p JOIN", committed, "t ON", _same("p", "t", names)),
            *("WHERE", compared, "AND", self._is_unchanged("t", rule.table_key), "GROUP BY p.id ORDER BY p.id"),
        )

    def _held_by_puts(self, rule: Unique, names: Sequence[str]) -> str:
        """Written rows that have the unique tuple of another written row; the one with the lowest id may keep it."""
        put, group = self.relations.puts(rule.table_key, rule.columns), ", ".join(names)
        return _sql(
            *("SELECT p.id, t.holder FROM", put, "p JOIN (SELECT", group, ", min(id) AS holder FROM", put),
            *("GROUP BY", group, "HAVING count(*) > 1) t ON", _same("p", "t", names)),
            "WHERE p.id <> t.holder ORDER BY p.id",
        )

    def _endpoints(self, queries: Mapping[Endpoint, str]) -> Found:
        """The edges that the queries of an edge type find, by id, sources before targets."""
        found: list[tuple[str, bool, ConstraintViolation]] = []
        further = 0
        for rule, sql in queries.items():
            rows, more = self.relations.query(sql, MOST_LISTED)
            found += [(row_id, rule.end == "dst", rule.violation(row_id, node_id)) for row_id, node_id in rows]
            further += more
        return [error for *_, error in sorted(found, key=lambda each: each[:2])], further

    def _at_absent_nodes(self, rule: Endpoint) -> str:
        """Written edges whose node does not exist after the merge."""
        edges = self.relations.puts(rule.edge_key, (rule.end,))
        present = _exists(_sql("(", self._ids_after(rule.node_key), ")"), "n.id = e.c0")
        return _sql("SELECT e.id, e.c0 FROM", edges, "e WHERE NOT", present, "ORDER BY e.id")

    def _at_deleted_nodes(self, rule: Endpoint) -> str:
        """Unchanged edges whose node is removed."""
        edges, unchanged = self.relations.committed(rule.edge_key, (rule.end,)), self._is_unchanged("e", rule.edge_key)
        deleted = _exists(self._deletes(rule.node_key), "n.id = e.c0")
        return _sql("SELECT e.id, e.c0 FROM", edges, "e WHERE", deleted, "AND", unchanged, "ORDER BY e.id")

    def _forbidden_counts(self, rule: EdgeCount) -> str:
        """Sources that gain or lose an edge, and are not removed themselves, with a forbidden number of edges."""
        key, committed = rule.edge_key, self.relations.committed(rule.edge_key, ("src",))
        put = _sql("(", self._put_keys(key, "src"), ")")
        before = _sql("(SELECT b.id, b.c0 FROM", committed, "b WHERE NOT (", self._is_unchanged("b", key), "))")
        gained = _sql("SELECT g.c0 FROM", put, "g WHERE NOT", _exists(before, "n.id = g.id AND n.c0 = g.c0"))
        dropped_edges = _sql("SELECT l.c0 FROM", before, "l WHERE NOT", _exists(put, "n.id = l.id AND n.c0 = l.c0"))
        unchanged = _sql("SELECT s.c0 FROM", committed, "s WHERE", self._is_unchanged("s", key))
        deleted = _exists(self._deletes(rule.node_key), "n.id = a.c0")
        most = "" if rule.maximum is None else f"OR count(x.c0) > {rule.maximum}"
        return _sql(
            *("SELECT a.c0, count(x.c0) AS n FROM (", gained, "UNION", dropped_edges, ") a LEFT JOIN"),
            *("(SELECT p.c0 FROM", put, "p UNION ALL", unchanged, ") x ON x.c0 = a.c0 WHERE NOT", deleted),
            *("GROUP BY a.c0 HAVING count(x.c0) <", str(rule.minimum), most, "ORDER BY a.c0"),
        )

    def _ids_after(self, key: str) -> str:
        """The ids of a table after the merge."""
        committed = _sql("SELECT t.id FROM", self.relations.committed(key, ()), "t")
        if key not in self.changed:
            return committed
        deleted = _exists(self._deletes(key), "n.id = t.id")
        return _sql(self._put_keys(key), "UNION ALL", committed, "WHERE NOT", deleted)

    def _is_unchanged(self, name: str, key: str) -> str:
        """A condition: the row is neither written nor removed."""
        change = self.changed.get(key)
        if change is None:
            return "TRUE"
        touching = [self.relations.puts(key, ())] if change.puts else []
        touching += [self.relations.deletes(key)] if change.deletes else []
        return " AND ".join(f"NOT {_exists(each, f'n.id = {name}.id')}" for each in touching) or "TRUE"

    def _deletes(self, key: str) -> str:
        change = self.changed.get(key)
        return self.relations.deletes(key) if change is not None and change.deletes else _sql("(", _no_rows(0), ")")

    def _put_keys(self, key: str, *columns: str) -> str:
        if not self.changed[key].puts:
            return _no_rows(len(columns))
        names = ", ".join(["id", *(f"c{column_number}" for column_number in range(len(columns)))])
        return _sql("SELECT", names, "FROM", self.relations.puts(key, columns))


def _same(one: str, other: str, names: Sequence[str]) -> str:
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in names)


def _exists(relation: str, condition: str) -> str:
    """A condition: a relation has a row, called `n`, for which `condition` holds."""
    return _sql("EXISTS (SELECT 1 FROM", relation, "n WHERE", condition, ")")


def _no_rows(columns: int) -> str:
    """An empty relation of ids with this many text columns."""
    names = ["id", *(f"c{column_number}" for column_number in range(columns))]
    return _sql("SELECT", ", ".join(f"CAST(NULL AS STRING) AS {name}" for name in names), "WHERE FALSE")


def _sql(*terms: str) -> str:
    """Join the parts of a query. They are names that this package generates; no value of a row is ever among them."""
    return " ".join(terms)
