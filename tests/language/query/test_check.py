"""The checked tree carries what an executor needs; the fixtures show the rest."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from language.query.showing import FIXTURES, world
from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType, Property, PropertyType
from omnigraph.errors import QueryError
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.syntax.column_names import column_names
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.ir import expressions as made
from omnigraph.language.ir.query import HOP_CAP, CheckedMutation, CheckedQuery


@pytest.fixture(scope="module")
def catalog():
    return world()


def checked(text: str, catalog: Catalog) -> CheckedQuery | CheckedMutation:
    return check_query(parse_queries(text).queries[0], catalog)


def codes(text: str, catalog: Catalog) -> list[str]:
    with pytest.raises(QueryError) as caught:
        checked(text, catalog)
    return [each.code for each in caught.value.diagnostics]


def test_variables_are_those_that_the_result_can_use(catalog) -> None:
    query = checked(
        "query q() { match { $p: Person $p $e: knows $f optional { $f wrote $d } not { $p worksAt $c } }"
        " return { $p } }",
        catalog,
    )
    assert {name: (each.kind, each.types) for name, each in query.variables.items()} == {
        "p": ("node", ("Person",)),
        "f": ("node", ("Person",)),
        "e": ("edge", ("Knows",)),
        "d": ("node", ("Doc",)),
    }


@pytest.mark.parametrize(
    "text",
    [
        'query q() { match { $p: Person $p.status = "knwn" } return { $p.name } }',
        'query q() { match { $p: Person $p.status != "knwn" } return { $p.name } }',
        'query q() { match { $p: Person "knwn" = $p.status } return { $p.name } }',
        'query q() { match { $p: Person $p.status in ["new", "knwn"] } return { $p.name } }',
        'query q() { match { $p: Person not ($p.status not in ["knwn"]) } return { $p.name } }',
        'query q($s: String) { match { $p: Person $p.status in [$s, "knwn"] } return { $p.name } }',
        'query q() { match { $p: Person { status: "knwn" } } return { $p.name } }',
        'query q() { match { $p: Person } return { $p.status as s, count($p) as n } having { s = "knwn" } }',
        'query q() { update Person set { age: 1 } where status = "knwn" }',
        'query q() { update Person set { status: "knwn" } where name = "a" }',
        'query q() { delete Person where status in ["knwn"] }',
        'query q() { insert Person { name: "a", status: "knwn" } }',
    ],
)
def test_every_literal_that_an_enum_is_compared_with_is_one_of_its_values(catalog, text: str) -> None:
    with pytest.raises(QueryError, match="expected one of gone, known, new: did you mean 'known'") as caught:
        checked(text, catalog)
    assert [each.code for each in caught.value.diagnostics if "enum" in each.message] == ["T3"]


@pytest.mark.parametrize(
    "condition", ['$p.status = "known"', '$p.status in ["new", "gone"]', '$p.status starts_with "kn"', "$p.status = $s"]
)
def test_enum_values_and_texts_of_other_tests_pass(catalog, condition: str) -> None:
    checked(f"query q($s: String) {{ match {{ $p: Person {condition} }} return {{ $p.name }} }}", catalog)


def test_every_anonymous_variable_is_another_one(catalog) -> None:
    query = checked("query q() { match { $p: Person $p knows $_ $p worksAt $_ $_: Doc } return { $p.name } }", catalog)
    assert len(query.variables) == 4


def test_sibling_negations_may_reuse_a_name_for_other_types(catalog) -> None:
    query = checked(
        "query q() { match { $p: Person not { $p worksAt $x } not { $p wrote $x } } return { $p.name } }", catalog
    )
    assert [each.variables[0].types for each in query.pattern.negations] == [("Company",), ("Doc",)]


def test_an_outer_interface_is_not_narrowed_by_a_negation(catalog) -> None:
    query = checked("query q() { match { $n: Named not { $n worksAt $_ } } return { $n.name } }", catalog)
    assert query.variables["n"].types == ("Company", "Person")


def test_filters_are_taken_apart_and_know_their_variables(catalog) -> None:
    query = checked(
        "query q() { match { $p: Person $f: Person ($p.age > 1 and ($p.name = $f.name and $f.active)) }"
        " return { $p } }",
        catalog,
    )
    assert [sorted(made.variables_of(each)) for each in query.pattern.filters] == [["p"], ["f", "p"], ["f"]]


def test_open_hops_are_capped_and_say_so(catalog) -> None:
    query = checked("query q() { match { $p: Person $p knows{3,} $f } return { $f.name } }", catalog)
    hops = query.pattern.traversals[0].hops
    assert (hops.minimum, hops.maximum, hops.capped) == (3, HOP_CAP, True)
    closed = checked("query q() { match { $p: Person $p knows{1,2000} $f } return { $f.name } }", catalog)
    assert (closed.pattern.traversals[0].hops.maximum, closed.pattern.traversals[0].hops.capped) == (2000, False)


def test_a_checked_tree_survives_pickling(catalog) -> None:
    for fixture in ("extended_reads", "mutations"):
        for query in parse_queries((FIXTURES / f"{fixture}.gq").read_text()).queries:
            tree = check_query(query, catalog)
            assert pickle.loads(pickle.dumps(tree)) == tree
            assert hash(tree) == hash(pickle.loads(pickle.dumps(tree)))


def test_every_finding_of_a_query_is_reported_in_the_order_of_the_text(catalog) -> None:
    found = codes(
        'query q($p: Money) { match { $x: Nobody $y: Person { nope: 1, age: "x" } $y hates $z }'
        " return { $y.q } limit $n }",
        catalog,
    )
    assert found == ["T0", "T1", "T2", "T3", "T4", "T6"]


def test_a_refused_clause_does_not_make_its_variables_unknown(catalog) -> None:
    text = "query q() { match { $x: Nobody $x.a = 1 } return { $x.b, $x } order { $x.c } }"
    assert codes(text, catalog) == ["T1"]


def test_mixing_writes_and_deletes_says_how_to_split(catalog) -> None:
    with pytest.raises(QueryError, match="mutation 'q' mixes inserts/updates and deletes: split it into two queries"):
        checked('query q() { delete Note where true upsert Person { name: "x" } }', catalog)


def test_deletes_may_follow_deletes(catalog) -> None:
    assert len(checked("query q() { delete Note where true delete Knows where true }", catalog).statements) == 2


def test_a_default_may_be_omitted_on_insert() -> None:
    text = PropertyType("String")
    node = NodeType("N", {"a": Property("a", text), "b": Property("b", text, default="x")})
    catalog = Catalog(nodes={"N": node})
    assert isinstance(checked('query q() { insert N { a: "1" } }', catalog), CheckedMutation)
    assert codes('query q() { insert N { b: "1" } }', catalog) == ["T12"]


def test_a_node_and_an_edge_of_one_name_are_told_apart_by_their_fields() -> None:
    node = NodeType("Likes", {"what": Property("what", PropertyType("String"))})
    edge = EdgeType("Likes", "Likes", "Likes", {})
    catalog = Catalog(nodes={"Likes": node}, edges={"Likes": edge})
    mutation = checked('query q() { insert Likes { what: "x" } insert Likes { from: "a" to: "b" } }', catalog)
    assert [each.table.kind for each in mutation.statements] == ["node", "edge"]


def test_edge_names_are_found_in_any_case(catalog) -> None:
    for spelling in ("worksAt", "worksat", "WorksAt"):
        query = checked(f"query q() {{ match {{ $p: Person $p {spelling} $c }} return {{ $c.name }} }}", catalog)
        assert query.pattern.traversals[0].edge == "WorksAt"


def test_column_names_are_never_equal() -> None:
    returned = '$p, count($p), count($p), max($p), $p.a as x, $p.x, 1, 1, $n, "x"'
    body = parse_queries(f"query q() {{ match {{ $p: P }} return {{ {returned} }} }}").queries[0].body
    names = column_names(body.projections)
    assert names == ["p", "count(p)", "count(p)_2", "max(p)", "x", "p.x", "literal", "literal_2", "n", "literal_3"]


def test_a_derived_name_gives_way_to_an_alias() -> None:
    body = parse_queries("query q() { match { $p: P } return { $f, count($x) as f, sum($f) } }").queries[0].body
    assert column_names(body.projections) == ["f_2", "f", "sum(f)"]


def test_thousands_of_traversals_are_resolved_without_quadratic_work(catalog) -> None:
    """Each touches only the next: the worst order for resolving one after the other."""
    hops = " ".join(f"$v{number} knows $v{number + 1}" for number in reversed(range(1_500)))
    query = checked(f"query q() {{ match {{ {hops} $v0: Person }} return {{ $v0.name }} }}", catalog)
    assert [each.source for each in query.pattern.traversals[:3]] == ["v0", "v1", "v2"]


def test_importing_the_language_loads_neither_the_parser_nor_arrow() -> None:
    heavy = "print([each for each in ('lark', 'pyarrow', 'lance') if each in sys.modules])"
    modules = "syntax.parse", "check", "lint", "compile"
    imported = (
        f"import sys, {', '.join(f'omnigraph.language.gq.{each}' for each in modules)}, omnigraph.language.ir.params"
    )
    output = subprocess.run([sys.executable, "-c", f"{imported}; {heavy}"], capture_output=True, text=True, check=True)
    assert output.stdout.split() == ["[]"]


def test_the_guide_explains_every_code() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "queries.md").read_text()
    wanted = [
        *(f"T{number}" for number in range(26)),
        "D2",
        "Q000",
        "Q001",
        "L201",
        *(f"P{number}" for number in range(1, 6)),
    ]
    assert [code for code in wanted if f"`{code}`" not in guide] == []


def test_the_deepest_text_that_is_read_is_also_checked_with_stack_to_spare(catalog) -> None:
    chains = [
        "not " * 90 + "$p.active",
        "1 + " * 80 + "$p.age > 1",
        "(".join(["$p.active and ", "$p.active or "] * 29) + "$p.active" + ")" * 57,
        "not { $p knows $p " * 60 + "}" * 60,
    ]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 600)
    try:
        for chain in chains:
            checked(f"query q() {{ match {{ $p: Person {chain} }} return {{ $p.name }} }}", catalog)
    finally:
        sys.setrecursionlimit(limit)


def test_the_examples_of_the_guide_can_be_read() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "queries.md").read_text()
    examples = [each for each in re.findall(r"^```gq\n(.*?)^```$", guide, re.S | re.M) if each.startswith("query ")]
    assert len(examples) == 2
    assert all(parse_queries(each).queries for each in examples)
