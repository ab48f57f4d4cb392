"""Single values: required, enum, range, check and vector rules over the rows that are put."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from omnigraph.catalog.catalog import Catalog, Check, NodeType, Property, PropertyType, TypeRules
from omnigraph.catalog.rules import Dimensions, Within, value_rules
from omnigraph.errors import InvalidInput, ValueViolation
from omnigraph.transaction.constraints.evaluate import value_violations
from omnigraph.transaction.constraints.validate import violations
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node User {
    name: String
    role: enum(admin, guest)?
    age: I32?
    score: F32?
    ratio: F64?
    big: U64?
    code: String?
    at: Vector(3)?
    @range(age, 0..120)
    @range(score, 0.1..0.3)
    @range(ratio, -1.5..)
    @range(big, ..9000000000000000000)
    @check(code, "^[A-Z]+$")
}
node Team { name: String }
edge Joins: User -> Team { kind: enum(full, part)  note: String }
"""
USER, JOINS = "node:User", "edge:Joins"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> SmallGraph:
    return SmallGraph(tmp_path_factory.mktemp("values") / "g.omni", SCHEMA)


def _user(row_id: str = "u1", **values: Any) -> dict[str, Any]:
    return {"id": row_id, "name": "Ada", **values}


def _messages(graph: SmallGraph, *rows: dict[str, Any], table_key: str = USER) -> list[str]:
    found = violations(graph.catalog, graph.view(), {table_key: graph.change(table_key, list(rows))})
    return [str(each) for each in found if isinstance(each, ValueViolation)]


def test_a_null_where_a_value_is_required_is_told_with_its_row(graph: SmallGraph) -> None:
    assert _messages(graph, _user(), _user("u2", name=None)) == ["required property User.name has no value (row 'u2')"]


def test_the_ends_and_the_enum_of_an_edge_are_checked_too(graph: SmallGraph) -> None:
    assert _messages(graph, {"id": "e", "src": "a", "dst": None, "kind": "half", "note": None}, table_key=JOINS) == [
        "required property Joins.dst has no value (row 'e')",
        "invalid enum value 'half' for Joins.kind (expected: full, part) (row 'e')",
        "required property Joins.note has no value (row 'e')",
    ]


def test_an_enum_takes_its_values_and_null_only(graph: SmallGraph) -> None:
    assert _messages(graph, _user(role="admin"), _user(role=None), _user("u3", role="root"), _user(role="")) == [
        "invalid enum value 'root' for User.role (expected: admin, guest) (row 'u3')",
        "invalid enum value '' for User.role (expected: admin, guest) (row 'u1')",
    ]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"age": -1}, "User.age: value -1 < min 0"),
        ({"age": 121}, "User.age: value 121 > max 120"),
        ({"score": 0.09}, "User.score: value 0.09"),
        ({"score": math.nan}, "User.score: value NaN is not a number"),
        ({"ratio": -1.6}, "User.ratio: value -1.6 < min -1.5"),
        ({"ratio": math.nan}, "User.ratio: value NaN is not a number"),
        ({"big": 9_000_000_000_000_000_001}, "User.big: value 9000000000000000001 > max 9000000000000000000"),
    ],
)
def test_a_value_outside_its_range_is_told_with_the_bound(
    graph: SmallGraph, values: dict[str, Any], reason: str
) -> None:
    [message] = _messages(graph, _user(**values))
    assert message.startswith(f"@range violation on {reason}")


@pytest.mark.parametrize(
    "values",
    [{"age": 0}, {"age": 120}, {"age": None}, {"score": 0.1}, {"score": 0.3}, {"ratio": math.inf}, {"ratio": -1.5},
     {"big": 9_000_000_000_000_000_000}, {"big": 0}],
)  # fmt: skip
def test_bounds_are_inclusive_null_is_exempt_and_an_end_may_be_open(graph: SmallGraph, values: dict[str, Any]) -> None:
    assert _messages(graph, _user(**values)) == []


@pytest.mark.parametrize(
    ("kind", "minimum", "maximum", "inside"),
    [
        (pa.int32(), 0.5, 1.5, [1]),
        (pa.int32(), -(10**30), 10**30, [0, 1, 2, 3]),
        (pa.uint32(), -5, 1.99, [0, 1]),
        (pa.uint64(), 2**64, None, []),
        (pa.int64(), None, -1e300, []),
        (pa.float64(), 1, 2, [1, 2]),
    ],
)
def test_a_bound_of_another_number_type_means_its_exact_value(
    kind: pa.DataType, minimum: float | None, maximum: float | None, inside: list[int]
) -> None:
    rows = pa.table({"id": pa.array(["0", "1", "2", "3"]), "n": pa.array([0, 1, 2, 3], kind)})
    broken = {each.row_id for each in value_violations([Within("T", "n", minimum, maximum)], rows)}
    assert {"0", "1", "2", "3"} - broken == {str(each) for each in inside}


def test_a_check_searches_the_text_and_spares_null(graph: SmallGraph) -> None:
    assert _messages(graph, _user(code="ABC"), _user(code=None), _user("u3", code="abc")) == [
        "@check violation on User.code: value 'abc' does not match '^[A-Z]+$' (row 'u3')"
    ]


def test_a_pattern_that_would_take_exponential_time_elsewhere_answers_at_once() -> None:
    catalog = _catalog(TypeRules(checks=(Check("code", "(a+)+$"),)))
    rows = pa.table({"id": ["x"], "code": ["a" * 50_000 + "b"]})
    assert len(list(value_violations(value_rules(catalog, "node:T"), rows))) == 1


def test_a_stored_pattern_that_is_no_regular_expression_is_told_not_ignored() -> None:
    rules = value_rules(_catalog(TypeRules(checks=(Check("code", "("),))), "node:T")
    with pytest.raises(InvalidInput, match=r"@check on T\.code cannot be evaluated"):
        list(value_violations(rules, pa.table({"id": ["x"], "code": ["a"]})))


def _catalog(rules: TypeRules) -> Catalog:
    code = Property("code", PropertyType("String", nullable=True))
    return Catalog(nodes={"T": NodeType("T", {"code": code}, rules)})


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 3)], ids=["list", "vector"])
def test_a_vector_has_its_length_and_no_holes(kind: pa.DataType) -> None:
    vectors = [[1.0, 2.0, 3.0], None, [1.0, None, 3.0]]
    if pa.types.is_list(kind):
        vectors.append([1.0, 2.0])
    rows = pa.table({"id": pa.array(["a", "b", "c", "d"][: len(vectors)]), "at": pa.array(vectors, kind)})
    expected = ["T.at elements must be numeric (row 'c')", "T.at expects 3 dimensions, got 2 (row 'd')"]
    found = [str(each) for each in value_violations([Dimensions("T", "at", 3)], rows)]
    assert found == expected[: len(vectors) - 2]


def test_violations_come_row_by_row_and_in_schema_order_within_a_row(graph: SmallGraph) -> None:
    rows = [_user("u1", code="x", age=-1), _user("u2", name=None, role="root")]
    found = violations(graph.catalog, graph.view(), {USER: graph.change(USER, rows)})
    assert [(each.row_id, each.property_name) for each in found] == [
        ("u1", "age"), ("u1", "code"), ("u2", "name"), ("u2", "role"),
    ]  # fmt: skip


def test_committed_rows_are_not_checked_again(tmp_path: Path) -> None:
    graph = SmallGraph(tmp_path / "g.omni", SCHEMA)
    graph.load(node_User=[_user("old", age=500)])
    assert _messages(graph, _user("new", age=50)) == []


def test_the_rule_and_the_value_are_fields_of_the_error(graph: SmallGraph) -> None:
    rows = [_user("u9", age=130)]
    [error] = violations(graph.catalog, graph.view(), {USER: graph.change(USER, rows)})
    assert isinstance(error, ValueViolation)
    assert (error.code, error.rule, error.type_name, error.property_name, error.row_id, error.value) == (
        "value_violation", "range", "User", "age", "u9", 130,
    )  # fmt: skip
