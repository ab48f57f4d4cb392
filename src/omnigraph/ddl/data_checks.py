"""Checks that existing rows satisfy a rule before the rule becomes part of the schema.

Uniqueness of a whole table is checked without holding the table in memory: each tuple of values becomes a 64-bit hash,
eight bytes per row. Rows whose hash occurs more than once are read again, some at a time, for the caller to compare
their values: two different tuples may share a hash.
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
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.equality import NO_VALUE, first_rows, tuple_codes, value_at
from omnigraph.kernels.hashing import hash_rows
from omnigraph.kernels.rebatch import rebatch
from omnigraph.transaction.constraints.values import value_violations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.ddl.new_shape import NewShape
    from omnigraph.errors import ConstraintViolation
    from omnigraph.language.evolution import DataCheck
    from omnigraph.storage.tables.table import Table

    Numbers = NDArray[np.uint64]
    Places = NDArray[np.int64]
    Read = Callable[[], Iterator[pa.Table]]

_ROWS = 100_000


def suspicious_rows(read: Read, columns: Sequence[str], *, at_once: int = 1_000) -> Iterator[pa.Table]:
    """Yield rows that may repeat an earlier one in these columns, together with the earlier ones, in table order.

    `at_once` of them are yielded together: the caller usually needs only the first few.
    """
    numbers, places = _numbered(read, columns)
    order = np.sort(numbers)
    if (order[1:] != order[:-1]).all():
        return
    _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
    later = np.flatnonzero(first[group] != np.arange(len(numbers)))
    for start in range(0, len(later), at_once):
        some = later[start : start + at_once]
        yield _rows_at(read, np.union1d(places[some], places[first[group[some]]]))


def _numbered(read: Read, columns: Sequence[str]) -> tuple[Numbers, Places]:
    """The hashes of all tuples without a null, and the positions of their rows."""
    numbers, places = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    seen = 0
    for rows in rebatch(read(), rows=_ROWS):
        found, valid = hash_rows([rows.column(name) for name in columns])
        numbers.append(found)
        places.append(np.flatnonzero(valid) + seen)
        seen += rows.num_rows
    return np.concatenate(numbers), np.concatenate(places)


def _rows_at(read: Read, places: Places) -> pa.Table:
    """The rows at these positions, which are sorted; nothing is read beyond the last of them."""
    found: list[pa.Table] = []
    seen = 0
    for rows in read():
        here = places[(places >= seen) & (places < seen + rows.num_rows)] - seen
        chosen: Any = pa.array(here)
        found.append(rows.take(chosen))
        seen += rows.num_rows
        if seen > places[-1]:
            break
    return pa.concat_tables(found)


# How many violations are reported; further ones are alike.
TOLD = 5
_CODES = {"unique": "OG-MF-101", "range": "OG-MF-102", "check": "OG-MF-102", "cardinality": "OG-MF-105"}


def require_rules_to_hold(catalog: Catalog, shape: NewShape, table: Table, *, branch: str) -> None:
    """Raise `SchemaChangeRefused` with the first rows that violate a new rule. `catalog` is that of the new schema."""
    for check in shape.change.checks:
        found = list(islice(_violations(check, catalog, shape, table), TOLD + 1))
        if not found:
            continue
        told = "\n".join(f"  {each}" for each in found[:TOLD])
        more = "\n  and more" if len(found) > TOLD else ""
        code = _CODES[check.kind]
        raise SchemaChangeRefused(
            f"[{code}] rows of {check.table_key} on branch {branch!r} break a rule of the new schema; nothing was "
            f"changed. Correct them first, or leave the rule out:\n{told}{more}",
            change_code=code,
            entity=check.table_key,
        )


def _violations(check: DataCheck, catalog: Catalog, shape: NewShape, table: Table) -> Iterator[ConstraintViolation]:
    stored: Any = check.constraint
    match check.kind:
        case "unique":
            wanted = tuple(stored["Unique"])
            rules = [each for each in unique_rules(catalog, check.table_key) if each.columns == wanted]
            return chain.from_iterable(_repeated(each, shape, table) for each in rules)
        case "cardinality":
            return _miscounted(shape, table)
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


def _repeated(rule: Unique, shape: NewShape, table: Table) -> Iterator[ConstraintViolation]:
    """Yield a violation for every row whose tuple an earlier row has."""
    columns = list(dict.fromkeys([ID, *rule.columns]))
    for rows in suspicious_rows(lambda: shape.rows(table, columns), rule.columns):
        codes, size = tuple_codes([rows.column(each) for each in rule.columns])
        first = np.append(first_rows(codes, size), NO_VALUE)[codes]
        for row in np.flatnonzero(first != np.arange(len(codes))):
            values = tuple(value_at(rows.column(each), int(row)) for each in rule.columns)
            yield rule.violation(rows.column(ID)[int(row)].as_py(), values, rows.column(ID)[int(first[row])].as_py())


def _miscounted(shape: NewShape, table: Table) -> Iterator[ConstraintViolation]:
    """Yield every source with a wrong number of edges; one without edges is not checked, as in any write."""
    assert isinstance(shape.kind, EdgeType)
    rule = count_rule(shape.kind)
    batches = list(shape.rows(table, [ID, "src"]))
    if rule is None or not batches:
        return
    counted: Any = pc.value_counts(one_array(pa.concat_tables(batches).column("src")))
    for source, count in zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True):
        if count < rule.minimum or (rule.maximum is not None and count > rule.maximum):
            yield rule.violation(source, count)
