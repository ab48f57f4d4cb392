"""What the rows that are there must satisfy before a rule may become a part of the schema."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import SchemaChangeRefused
from omnigraph.language.schema.catalog import EdgeType
from omnigraph.store.arrow_columns import one_array
from omnigraph.store.tables import ID
from omnigraph.write.constraints.rules import Matches, Unique, Within, count_rule, unique_rules, value_rules
from omnigraph.write.constraints.values import value_violations
from omnigraph.write.same_value import NO_VALUE, first_rows, tuple_codes, value_at
from omnigraph.write.schema.repeats import suspicious_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.errors import ConstraintViolation
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.language.schema.evolution import DataCheck
    from omnigraph.store.tables import Table
    from omnigraph.write.schema.columns import NewShape

# So many rows that break a rule are told; the others are alike.
TOLD = 5
_CODES = {"unique": "OG-MF-101", "range": "OG-MF-102", "check": "OG-MF-102", "cardinality": "OG-MF-105"}


def require_rules_to_hold(catalog: Catalog, shape: NewShape, table: Table, *, branch: str) -> None:
    """Raise `SchemaChangeRefused` with the first rows that break a new rule. `catalog` is the one to come."""
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
        each for each in value_rules(catalog, table_key) if isinstance(each, Within | Matches) and each.property == name
    ]
    for rows in shape.rows(table, [ID, name]):
        yield from value_violations(rules, rows)


def _repeated(rule: Unique, shape: NewShape, table: Table) -> Iterator[ConstraintViolation]:
    """Every row whose tuple an earlier one has."""
    columns = list(dict.fromkeys([ID, *rule.columns]))
    for rows in suspicious_rows(lambda: shape.rows(table, columns), rule.columns):
        codes, size = tuple_codes([rows.column(each) for each in rule.columns])
        first = np.append(first_rows(codes, size), NO_VALUE)[codes]
        for row in np.flatnonzero(first != np.arange(len(codes))):
            values = tuple(value_at(rows.column(each), int(row)) for each in rule.columns)
            yield rule.violation(rows.column(ID)[int(row)].as_py(), values, rows.column(ID)[int(first[row])].as_py())


def _miscounted(shape: NewShape, table: Table) -> Iterator[ConstraintViolation]:
    """Every source whose number of edges is wrong; one without edges is not looked at, as in any write."""
    assert isinstance(shape.kind, EdgeType)
    rule = count_rule(shape.kind)
    pieces = list(shape.rows(table, [ID, "src"]))
    if rule is None or not pieces:
        return
    counted: Any = pc.value_counts(one_array(pa.concat_tables(pieces).column("src")))
    for source, count in zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True):
        if count < rule.minimum or (rule.maximum is not None and count > rule.maximum):
            yield rule.violation(source, count)
