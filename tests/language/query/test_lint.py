"""Lint: the shape of its report, its findings, and the description of what a query does."""

from __future__ import annotations

import json

import pytest

from language.query.showing import FIXTURES, world
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.lint import lint
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.ir.describe import describe


@pytest.fixture(scope="module")
def catalog():
    return world()


def operation(text: str, catalog: object) -> dict[str, object]:
    report = lint(text, catalog).to_json()
    assert report["status"] == "ok", report
    return report["results"][0]["operation"]


def test_a_good_file_is_ok(catalog) -> None:
    report = lint(
        "query a($n: String) { match { $p: Person { name: $n } } return { $p.name, $p as who } }",
        catalog,
        query_path="q.gq",
        schema_source={"kind": "graph", "uri": "./g.omni"},
    )
    assert report.ok
    assert report.to_json() == {
        "status": "ok",
        "schema_source": {"kind": "graph", "uri": "./g.omni"},
        "query_path": "q.gq",
        "queries_processed": 1,
        "errors": 0,
        "warnings": 0,
        "infos": 0,
        "results": [
            {
                "name": "a",
                "kind": "read",
                "status": "ok",
                "operation": {
                    "result": [
                        {"name": "p.name", "kind": "string", "nullable": False},
                        {"name": "who", "kind": "object", "nullable": False},
                    ],
                    "reads": [{"kind": "node", "type_name": "Person"}],
                    "writes": [],
                },
            }
        ],
        "findings": [],
    }


def test_a_text_that_cannot_be_read_is_one_finding_and_no_result(catalog) -> None:
    report = lint("query a( {", catalog).to_json()
    assert (report["status"], report["errors"], report["queries_processed"], report["results"]) == ("error", 1, 0, [])
    (finding,) = report["findings"]
    assert finding["code"] == "Q000"
    assert "line 1" in finding["message"]
    assert set(finding) == {"severity", "code", "message"}


def test_one_bad_query_does_not_hide_the_others(catalog) -> None:
    report = lint(
        "query bad() { match { $p: Nobody } return { $p.x } } query good() { match { $p: Person } return { $p.name } }",
        catalog,
    ).to_json()
    bad, good = report["results"]
    assert bad["error"].startswith("T1: ")
    assert bad["status"] == "error"
    assert "operation" not in bad
    assert good["status"] == "ok"
    assert (report["status"], report["errors"], report["queries_processed"]) == ("error", 1, 2)


def test_a_mutation_without_parameters_is_a_warning(catalog) -> None:
    report = lint("query m() { delete Note where true }", catalog).to_json()
    assert len(report["results"][0]["warnings"]) == 1
    assert (report["status"], report["warnings"], report["errors"]) == ("ok", 1, 0)
    assert (
        "warnings" not in lint("query m($x: String) { delete Note where text = $x }", catalog).to_json()["results"][0]
    )


def test_l201_names_what_no_update_sets(catalog) -> None:
    text = """
    query a($x: String) { update Doc set { stars: 1 } where slug = $x }
    query b($x: String) { update Doc set { body: $x } where slug = $x }
    """
    findings = lint(text, catalog).to_json()["findings"]
    assert [(each["code"], each["severity"], each["property"]) for each in findings] == [("L201", "warning", "other")]
    assert findings[0]["type_name"] == "Doc"
    assert findings[0]["query_names"] == ["a", "b"]


def test_l201_leaves_out_keys_required_and_embedded_properties(catalog) -> None:
    findings = lint("query a($x: String) { update Person set { age: 1 } where name = $x }", catalog).findings
    assert [each.property for each in findings] == sorted(
        ["born", "email", "lucky", "photo", "score", "seen", "status", "tags", "visits", "weight"]
    )


def test_l201_is_quiet_without_updates_and_about_edges(catalog) -> None:
    text = """
    query a($x: String) { insert Note { text: $x } upsert Person { name: $x } }
    query b($x: F64) { update Knows set { strength: $x } where true }
    """
    assert lint(text, catalog).findings == ()


def test_a_name_declared_twice_is_an_error(catalog) -> None:
    one = "query a($x: String) { delete Note where text = $x }"
    report = lint(one + one, catalog).to_json()
    assert report["status"] == "error"
    assert report["findings"][0]["code"] == "Q001"


def test_findings_are_sorted_and_equal_every_time(catalog) -> None:
    text = "".join(each.read_text() for each in sorted(FIXTURES.glob("*.gq")))
    first, second = lint(text, catalog).to_json(), lint(text, catalog).to_json()
    assert json.dumps(first) == json.dumps(second)
    ranks = [("error", "warning", "info").index(each["severity"]) for each in first["findings"]]
    assert ranks == sorted(ranks)


def test_result_kinds_cover_every_type(catalog) -> None:
    text = """query q($u: U32, $w: Vector(2)) {
      match { $p: Person $d: Doc $a: Person $r: shortest($p knows $a) optional { $p worksAt $c } }
      return { $p.name, $p.active, $p.age, $u, $p.visits, $d.stars, $p.score, $p.weight, $p.born, $p.seen, $p.tags,
        $d.embedding, $w, $p, $r, $c, $c.name, $p.status } }"""
    found = {each["name"]: each for each in operation(text, catalog)["result"]}
    kinds = {name: each["kind"] for name, each in found.items()}
    assert kinds == {
        "p.name": "string",
        "p.active": "bool",
        "p.age": "int",
        "u": "int",
        "p.visits": "bigint",
        "d.stars": "bigint",
        "p.score": "float",
        "p.weight": "float",
        "p.born": "date",
        "p.seen": "datetime",
        "p.tags": "list",
        "d.embedding": "vector",
        "w": "vector",
        "p": "object",
        "r": "object",
        "c": "object",
        "c.name": "string",
        "p.status": "string",
    }
    assert found["p.tags"] == {"name": "p.tags", "kind": "list", "item_kind": "string", "nullable": True}
    assert found["d.embedding"] == {"name": "d.embedding", "kind": "vector", "vector_dim": 4, "nullable": True}
    assert (found["p"]["nullable"], found["c"]["nullable"], found["c.name"]["nullable"]) == (False, True, True)


def _uses(found: list[dict[str, str]]) -> list[str]:
    return [f"{each['kind']}:{each['type_name']}" for each in found]


def test_reads_are_bindings_edges_and_both_ends_even_inside_blocks(catalog) -> None:
    text = """query q() { match { $p: Person not { $p worksAt $_ } optional { $p wrote $d not { $d cites $e } } }
      return { $p.name } }"""
    found = operation(text, catalog)
    assert _uses(found["reads"]) == [
        "node:Company",
        "node:Doc",
        "node:Person",
        "edge:Cites",
        "edge:WorksAt",
        "edge:Wrote",
    ]
    assert found["writes"] == []


def test_an_interface_reads_every_type_that_implements_it(catalog) -> None:
    assert _uses(operation("query q() { match { $n: Named } return { $n.name } }", catalog)["reads"]) == [
        "node:Company",
        "node:Person",
    ]


@pytest.mark.parametrize(
    ("statement", "reads", "writes"),
    [
        ("insert Note { text: $x }", ["node:Note"], ["node:Note"]),
        ("update Doc set { body: $x } where slug = $x", ["node:Doc"], ["node:Doc"]),
        ("insert Wrote { from: $x to: $x }", ["node:Doc", "node:Person", "edge:Wrote"], ["edge:Wrote"]),
        ("delete Wrote where from = $x", ["edge:Wrote"], ["edge:Wrote"]),
        (
            "delete Company where name = $x",
            ["node:Company", "edge:Contains", "edge:WorksAt"],
            ["node:Company", "edge:Contains", "edge:WorksAt"],
        ),
    ],
)
def test_mutations_read_and_write(statement: str, reads: list[str], writes: list[str], catalog) -> None:
    found = operation(f"query q($x: String) {{ {statement} }}", catalog)
    assert (_uses(found["reads"]), _uses(found["writes"]), found["result"]) == (reads, writes, [])


def test_parameters_are_described_like_columns(catalog) -> None:
    text = "query q($a: String?, $b: [I64], $c: Vector(3)) { match { $p: Person } return { $p.name } }"
    checked = check_query(parse_queries(text).queries[0], catalog)
    described = tuple(describe(each.name, each.type) for each in checked.parameters)
    assert [each.to_json() for each in described] == [
        {"name": "a", "kind": "string", "nullable": True},
        {"name": "b", "kind": "list", "item_kind": "bigint", "nullable": False},
        {"name": "c", "kind": "vector", "vector_dim": 3, "nullable": False},
    ]
