"""Reading text: precedence, places, names, limits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import QueryError
from omnigraph.language.core.diagnostics import SourceText
from omnigraph.language.gq.syntax.column_names import render
from omnigraph.language.gq.syntax.expressions import (
    AllOf,
    AnyOf,
    Arithmetic,
    Comparison,
    LiteralValue,
    Membership,
    Negative,
    NotOf,
    PropertyUse,
)
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.gq.syntax.tree import Traversal

if TYPE_CHECKING:
    from collections.abc import Callable


def read(clauses: str, returned: str = "1"):
    return parse_queries(f"query q() {{ match {{ {clauses} }} return {{ {returned} }} }}").queries[0].body


def refusal(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse_queries(text, "file.gq")
    assert len(caught.value.diagnostics) == 1
    return caught.value.diagnostics[0].message


def test_and_binds_tighter_than_or_and_not_tighter_than_both() -> None:
    (clause,) = read("not $a.x = 1 and $b.x = 2 or $c.x = 3").clauses
    assert isinstance(clause, AnyOf)
    assert isinstance(clause.operands[0], AllOf)
    assert isinstance(clause.operands[0].operands[0], NotOf)


def test_products_bind_tighter_than_sums_and_both_group_from_the_left() -> None:
    value = read("$a: A", "$a.x - 1 - 2 * 3 / 4").projections[0].value
    assert render(value) == "a.x - 1 - 2 * 3 / 4"
    assert isinstance(value, Arithmetic)
    assert isinstance(value.left, Arithmetic)
    assert isinstance(value.right, Arithmetic)
    assert value.right.operator == "/"


def test_parentheses_override() -> None:
    value = read("$a: A", "($a.x - 1) * (2 - (3 - 4))").projections[0].value
    assert render(value) == "(a.x - 1) * (2 - (3 - 4))"


def test_a_sign_before_digits_is_part_of_the_number() -> None:
    body = read("$a: A", "-5, - 2.5, -$a.x, -(3)")
    values = [each.value for each in body.projections]
    assert values[:2] == [LiteralValue("integer", -5), LiteralValue("float", -2.5)]
    assert isinstance(values[2], Negative)
    assert values[3] == LiteralValue("integer", -3)


@pytest.mark.parametrize(
    ("text", "value"), [("1e3", 1000.0), ("1.5E-3", 0.0015), ("2e+2", 200.0), ("0.5", 0.5), ("00.250", 0.25)]
)
def test_floats_may_have_exponents(text: str, value: float) -> None:
    assert read("$a: A", text).projections[0].value == LiteralValue("float", value)


def test_clauses_need_no_separators() -> None:
    clauses = read('$a: A $a.x > $b $c knows $d "x" = $a.y ($a.z = 1) [1] contains $a.z true').clauses
    assert len(clauses) == 7


def test_a_minus_after_a_value_subtracts() -> None:
    (clause,) = read("$a.x > 3 -1").clauses
    assert clause == Comparison(
        ">", PropertyUse("a", "x"), Arithmetic("-", LiteralValue("integer", 3), LiteralValue("integer", 1))
    )


def test_places_are_those_of_the_text() -> None:
    text = "query q() {\n  match { $p: Person  $p.age > 30 }\n  return { $p.name as n }\n}"
    query = parse_queries(text).queries[0]
    filter_clause = query.body.clauses[1]
    assert text[filter_clause.span.start : filter_clause.span.end] == "$p.age > 30"
    projection = query.body.projections[0]
    assert text[projection.span.start : projection.span.end] == "$p.name as n"
    assert text[query.span.start : query.span.end] == text


def test_nodes_compare_by_what_they_say_and_not_by_where_they_stand() -> None:
    assert read("$p: Person").clauses == read("   $p  :   Person").clauses


def test_diagnostics_name_file_line_and_column() -> None:
    with pytest.raises(QueryError) as caught:
        parse_queries("query q() {\n  match { oops }\n}", "people.gq")
    (found,) = caught.value.diagnostics
    assert (found.source_name, found.line, found.code) == ("people.gq", 3, "Q000")
    assert "people.gq:3:1" in str(caught.value)


def test_several_queries_are_kept_in_order_and_picked_by_name() -> None:
    file = parse_queries("query b() { delete A where true } query a() { delete B where true }")
    assert [each.name for each in file.queries] == ["b", "a"]
    assert file.select("a").name == "a"
    with pytest.raises(QueryError, match="query 'c' not found"):
        file.select("c")
    with pytest.raises(QueryError, match="multiple queries"):
        file.select()


def test_an_empty_file_has_no_queries() -> None:
    assert parse_queries(" // nothing\n /* at all */ ").queries == ()
    with pytest.raises(QueryError, match="no query"):
        parse_queries("").select()


def test_a_name_declared_twice_cannot_be_picked() -> None:
    file = parse_queries("query a() { delete A where true } query a() { delete B where true }")
    with pytest.raises(QueryError, match="declared 2 times"):
        file.select("a")


def test_an_operator_word_between_variables_is_an_edge_and_elsewhere_an_operator() -> None:
    clauses = read('$a contains $b $a.x contains $b $a in ["x"] $a in{1,2} $b $a.x in $b').clauses
    assert [type(each) for each in clauses] == [Traversal, Comparison, Membership, Traversal, Membership]


def test_comments_and_line_ends_may_stand_anywhere() -> None:
    text = "query/**/q(//\r\n)\r\n{match/*{*/{$p:/*a*/Person//}\n}return{$p.\nname}}"
    value = parse_queries(text).queries[0].body.projections[0].value
    assert value == PropertyUse("p", "name")


def test_two_comments_do_not_swallow_what_is_between_them() -> None:
    assert len(parse_queries("/* a */ query q() { delete A where true } /* b */").queries) == 1


def test_brackets_nest_to_a_limit_and_then_are_refused() -> None:
    def nested(depth: int) -> str:
        return f"query q() {{ match {{ {'(' * depth}$a.x = 1{')' * depth} }} return {{ 1 }} }}"

    assert parse_queries(nested(60)).queries
    assert "nested deeper" in refusal(nested(70))
    assert "nested deeper" in refusal(nested(100_000))


@pytest.mark.parametrize(
    "expression",
    ["not " * 5_000 + "$a.x = 1", "1 + " * 5_000 + "$a.x = 1", "-" * 5_000 + "$a.x = 1", "not { " * 5_000],
    ids=["not", "sum", "sign", "blocks"],
)
def test_chains_nest_to_a_limit_as_well(expression: str) -> None:
    assert "nested deeper" in refusal(f"query q() {{ match {{ {expression} }} return {{ 1 }} }}")


def test_long_conjunctions_are_flat_and_have_no_limit() -> None:
    (clause,) = read(" and ".join(["$a.x = 1"] * 3_000)).clauses
    assert len(clause.operands) == 3_000


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        "/*" * 100_000,
        '"' * 100_001,
        '"' + "\\" * 100_001,
        "$" * 100_000,
        "<" * 100_000,
        "9" * 1_000_000,
        "query q() { match { $p: P } return { " + "9" * 1_000_000 + " } }",
        "query q() { match { $p: P } return { 1." + "9" * 1_000_000 + " } }",
        "query q() { match { $p: P } return { 1 } limit " + "9" * 1_000_000 + " }",
        "query q() { match { " + "$a " * 10_000,
        "query q() { match { $p: P } return { " + "$p.x, " * 10_000,
        "\x00\ud800\U0001f600",
    ],
    ids=range(12),
)
def test_hostile_texts_end_quickly_in_a_diagnostic_or_a_tree(text: str) -> None:
    found = 0
    try:
        found = len(parse_queries(text).queries)
    except QueryError as error:
        found = len(error.diagnostics)
    assert found == 1


def test_work_grows_with_the_length_of_the_text() -> None:
    clauses = '$p: A { n: "x" } $p knows{1,2} $q $p.a + 1 > $x and not ($p.b in [1,2])'
    one = f"query q($x: I32) {{ match {{ {clauses} }} return {{ $p.n }} }}\n"
    parse_queries(one)
    small, large = _calls(lambda: parse_queries(one * 20)), _calls(lambda: parse_queries(one * 80))
    assert large < small * 4.4


def _calls(work: Callable[[], object]) -> int:
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def test_a_source_makes_findings_about_itself() -> None:
    query = parse_queries("query q() { delete A where true }", "x.gq").queries[0]
    assert query.source == SourceText("query q() { delete A where true }", "x.gq")
    assert query.is_mutation
