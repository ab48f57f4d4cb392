"""Checks that existing rows satisfy a rule before the rule becomes part of the schema.

This is the driver for whole tables: it says which rows to compare, and `transaction/constraints/evaluate.py` says which
of them violate the rule. Uniqueness is checked without holding the table in memory: each tuple becomes a 64-bit hash,
eight bytes per row, and rows whose hash occurs more than once are read again, some at a time, to compare their values.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType
from omnigraph.catalog.rules import RegexRule, Unique, Within, count_rule, unique_rules, value_rules
from omnigraph.errors import SchemaChangeRefused
from omnigraph.kernels.arrays import ID, one_array, rebatch
from omnigraph.kernels.hashing import hash_rows
from omnigraph.transaction.constraints.evaluate import SOURCE, count_violations, unique_violations, value_violations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.ddl.new_shape import NewShape
    from omnigraph.errors import ConstraintViolation
    from omnigraph.language.evolution import DataCheck
    from omnigraph.storage.tables.table import Table

    Hashes = NDArray[np.uint64]
    Positions = NDArray[np.int64]
    Read = Callable[[], Iterator[pa.Table]]

_ROWS = 100_000


def candidate_rows(read: Read, columns: Sequence[str], *, at_once: int = 1_000) -> Iterator[pa.Table]:
    """Yield rows that may repeat an earlier one in these columns, together with the earlier ones, in table order.

    `at_once` of them are yielded together: the caller usually needs only the first few.
    """
    hashes, positions = _hashes(read, columns)
    ordered = np.sort(hashes)
    if (ordered[1:] != ordered[:-1]).all():
        return
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    later = np.flatnonzero(first[group] != np.arange(len(hashes)))
    for start in range(0, len(later), at_once):
        some = later[start : start + at_once]
        yield _rows_at(read, np.union1d(positions[some], positions[first[group[some]]]))


def _hashes(read: Read, columns: Sequence[str]) -> tuple[Hashes, Positions]:
    """The hashes of all tuples without a null, and the positions of their rows."""
    hashes, positions = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    start = 0
    for rows in rebatch(read(), rows=_ROWS):
        found, valid = hash_rows([rows.column(name) for name in columns])
        hashes.append(found)
        positions.append(np.flatnonzero(valid) + start)
        start += rows.num_rows
    return np.concatenate(hashes), np.concatenate(positions)


def _rows_at(read: Read, positions: Positions) -> pa.Table:
    """The rows at these positions, which are sorted; nothing is read beyond the last of them."""
    found: list[pa.Table] = []
    start = 0
    for rows in read():
        here = positions[(positions >= start) & (positions < start + rows.num_rows)] - start
        chosen: Any = pa.array(here)
        found.append(rows.take(chosen))
        start += rows.num_rows
        if start > positions[-1]:
            break
    return pa.concat_tables(found)


# How many violations are reported; further ones are alike.
MOST_REPORTED = 5
_CODES = {"unique": "OG-MF-101", "range": "OG-MF-102", "check": "OG-MF-102", "cardinality": "OG-MF-105"}


def require_rules_to_hold(catalog: Catalog, shape: NewShape, table: Table, *, branch: str) -> None:
    """Raise `SchemaChangeRefused` with the first rows that violate a new rule. `catalog` is that of the new schema."""
    for check in shape.change.checks:
        found = list(islice(rule_violations(check, catalog, shape, table), MOST_REPORTED + 1))
        if not found:
            continue
        listed = "\n".join(f"  {each}" for each in found[:MOST_REPORTED])
        more = "\n  and more" if len(found) > MOST_REPORTED else ""
        code = _CODES[check.kind]
        raise SchemaChangeRefused(
            f"[{code}] rows of {check.table_key} on branch {branch!r} break a rule of the new schema; nothing was "
            f"changed. Correct them first, or leave the rule out:\n{listed}{more}",
            change_code=code,
            entity=check.table_key,
        )


def rule_violations(check: DataCheck, catalog: Catalog, shape: NewShape, table: Table) -> Iterator[ConstraintViolation]:
    """The existing rows that violate a rule of the new schema."""
    stored: Any = check.constraint
    match check.kind:
        case "unique":
            wanted = tuple(stored["Unique"])
            rules = [each for each in unique_rules(catalog, check.table_key) if each.columns == wanted]
            return chain.from_iterable(_shared_tuples(each, shape, table) for each in rules)
        case "cardinality":
            return _edge_counts(shape, table)
        case _:
            name = stored["Range" if check.kind == "range" else "Check"]["property"]
            return _wrong_values(name, catalog, check.table_key, shape, table)


def _wrong_values(
    name: str, catalog: Catalog, table_key: str, shape: NewShape, table: Table
) -> Iterator[ConstraintViolation]:
    rules = [
        each
        for each in value_rules(catalog, table_key)
        if isinstance(each, Within | RegexRule) and each.property == name
    ]
    for rows in shape.rows(table, [ID, name]):
        yield from value_violations(rules, rows)


def _shared_tuples(rule: Unique, shape: NewShape, table: Table) -> Iterator[ConstraintViolation]:
    """Yield a violation for every row whose tuple an earlier row has."""
    columns = list(dict.fromkeys([ID, *rule.columns]))
    for rows in candidate_rows(lambda: shape.rows(table, columns), rule.columns):
        yield from (error for _, error in unique_violations(rule, rows, rows.slice(0, 0)))


def _edge_counts(shape: NewShape, table: Table) -> Iterator[ConstraintViolation]:
    """Yield every source with a forbidden number of edges; one without edges is not checked, as in any write."""
    assert isinstance(shape.kind, EdgeType)
    rule = count_rule(shape.kind)
    batches = list(shape.rows(table, [ID, SOURCE]))
    if rule is None or not batches:
        return
    edges = pa.concat_tables(batches)
    sources = pc.unique(one_array(edges.column(SOURCE)))
    yield from count_violations(rule, sources, edges, edges.slice(0, 0))
