"""Plans between two schemas, as text files: accepted, desired, the steps, and what they come to for each table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from omnigraph.errors import SchemaChangeRefused
from omnigraph.language.evolution import LINTS, ColumnChange, TableChange, plan_evolution
from omnigraph.language.schema.compile import compile_schema

CASES = sorted((Path(__file__).parent / "fixtures" / "evolution").glob("*.txt"))
SPECIFIED = {
    "add_type",
    "rename_type",
    "add_property",
    "rename_property",
    "add_constraint",
    "extend_enum",
    "update_type_metadata",
    "update_property_metadata",
    "drop_type",
    "drop_property",
    "unsupported_change",
}
BEYOND = {"widen_property", "make_nullable", "set_default", "remove_constraint", "change_cardinality"}


def sections(path: Path) -> dict[str, str]:
    head, *rest = re.split(r"^=== (\w+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {"about": head, **dict(zip(rest[::2], (each.strip() for each in rest[1::2]), strict=True))}


def shown(column: ColumnChange) -> str:
    origin = f" <- {column.from_column}" if column.from_column else f" = {column.fill!r}"
    changes = column.from_type is not None and column.from_type != column.type
    return f"{column.name}{origin}" + (f" ({column.from_type} to {column.type})" if changes else "")


def told(table: TableChange) -> str:
    words = [table.action, table.table_key]
    if table.from_table_key not in (None, table.table_key):
        words.append(f"from {table.from_table_key}")
    if table.action == "drop" or table.dropped_columns:
        words.append(table.mode)
    if table.action in ("create", "rewrite", "move"):
        words.append("| " + ", ".join(map(shown, table.columns)))
    if table.dropped_columns:
        words.append("without " + ", ".join(table.dropped_columns))
    return " ".join(words).strip()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_plan_of(path: Path) -> None:
    case = sections(path)
    accepted, desired = compile_schema(case["accepted"]), compile_schema(case["desired"])
    plan = plan_evolution(accepted, desired, allow_data_loss="(allow data loss)" in case["about"])
    steps = [json.loads(line) for line in case["plan"].splitlines()]
    assert plan.to_dict() == {
        "supported": all(step["kind"] != "unsupported_change" for step in steps),
        "steps": steps,
    }
    assert [told(table) for table in plan.tables] == case["tables"].splitlines()


def test_every_kind_of_step_and_every_lint_code_has_a_case() -> None:
    steps = [json.loads(line) for path in CASES for line in sections(path)["plan"].splitlines()]
    assert {step["kind"] for step in steps} == SPECIFIED | BEYOND
    # OG-BC-105 guards against a gap in the planner; the property test over generated schemas looks for one.
    assert {step["code"] for step in steps if "code" in step} == set(LINTS) - {"OG-BC-105"}


def test_every_refusal_names_a_way_out() -> None:
    refused = [lint for lint in LINTS.values() if lint.way_out]
    steps = [json.loads(line) for path in CASES for line in sections(path)["plan"].splitlines()]
    codes = {step["code"] for step in steps if step["kind"] == "unsupported_change"}
    assert codes <= {lint.code for lint in refused}


def test_a_refused_plan_raises_with_all_its_reasons() -> None:
    accepted = compile_schema("node P { a: I64 b: I32? }")
    plan = plan_evolution(accepted, compile_schema("node P { a: I32 b: I32 }"))
    with pytest.raises(SchemaChangeRefused) as caught:
        plan.raise_if_unsupported()
    assert caught.value.change_code == "OG-MF-106"
    assert caught.value.entity == "node:P.a"
    assert str(caught.value).count("way out:") == 2


def test_a_supported_plan_says_what_to_check_first() -> None:
    accepted = compile_schema("node P { a: I32 }\nedge E: P -> P")
    desired = compile_schema("node P { b: I32 @rename_from(a) @unique }\nedge E: P -> P @card(0..1)")
    plan = plan_evolution(accepted, desired)
    plan.raise_if_unsupported()
    assert [(check.kind, check.table_key, check.constraint) for check in plan.checks] == [
        ("unique", "node:P", {"Unique": ["b"]}),
        ("cardinality", "edge:E", {"min": 0, "max": 1}),
    ]
    assert [check for table in plan.tables for check in table.checks] == list(plan.checks)
