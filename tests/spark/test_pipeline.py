"""Pipelines on Spark: sources, SQL, mappings, lookups, branches and publishing, as one commit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from typer.testing import CliRunner

import omnigraph as og
from omnigraph.cli.main import app
from omnigraph.errors import InvalidInput, OrphanEdge, PipelineError
from omnigraph.pipeline.pipeline import Pipeline
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = """
node Person { name: String @key  email: String?  age: I32?  born: Date?  @unique(email) }
node Badge { number: I64  site: String  owner: String?  @key(number, site)  @unique(owner) }
edge Knows: Person -> Person { since: Date? }
edge Wears: Person -> Badge
"""
PEOPLE = "name,email,age,born\nAda,ada@x,36,1815-12-10\nGrace,grace@x,,\nKid,,7,\n"
NIGHTLY = """\
mode: merge
branch: {name: nightly, from: main}
run_id: first
publish: {merge: main, delete_branch: true}
sources:
  people: {format: csv, path: "in/peo*.csv"}
  meetings: {format: json, path: in/meetings.jsonl}
  badges: {format: parquet, path: in/badges.parquet}
  extra: {format: graph, path: in/extra.jsonl}
transforms:
  adults: select name, email, age, born from people where age is null or age >= 18
  met: select a, b, min(day) as first_day from meetings group by a, b
nodes:
  Person: {source: adults}
  Badge: {source: badges, columns: {number: no, site: upper(site), owner: who}}
edges:
  Knows:
    source: met
    columns: {since: cast(first_day as date)}
    from: {lookup: {email: "concat(a, '@x')"}}
    to: {lookup: {email: "concat(b, '@x')"}}
  Wears:
    source: badges
    where: who is not null
    columns: []
    from: initcap(who)
    to: {lookup: {owner: who}}
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with one person, and files to load beside it."""
    graph = og.init(tmp_path / "people.omni", schema=SCHEMA)
    graph.load({"Person": [{"name": "Edsger", "email": "edsger@x"}]}, mode="append")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "people.csv").write_text(PEOPLE)
    meetings = [("ada", "grace", "2024-05-02"), ("ada", "grace", "2024-05-01"), ("grace", "edsger", "2024-06-01")]
    (folder / "meetings.jsonl").write_text(
        "".join(json.dumps(dict(zip("abc", each, strict=True))) + "\n" for each in meetings).replace('"c"', '"day"')
    )
    badges = pa.table({"no": [1, 2], "site": ["lab", "lab"], "who": ["ada", None]})
    parquet.write_table(badges, folder / "badges.parquet")
    (folder / "extra.jsonl").write_text('{"type":"Person","data":{"name":"Alan"}}\n')
    (tmp_path / "nightly.yaml").write_text(NIGHTLY)
    return graph


def rows(graph: og.Graph, body: str, branch: str = "main") -> list[tuple[Any, ...]]:
    return [tuple(each.values()) for each in graph.query(f"query q() {{ {body} }}", branch=branch).to_pylist()]


@pytest.mark.spark
def test_a_pipeline_loads_maps_looks_up_and_publishes_once(
    graph: og.Graph, spark: SparkSession, tmp_path: Path
) -> None:
    nightly = Pipeline.from_file(tmp_path / "nightly.yaml")
    commits = len(graph.commits())
    sizes = {each.stem: each.stat().st_size for each in (tmp_path / "in").iterdir()}
    plan = nightly.plan(graph, session=spark)
    assert str(plan).splitlines() == [
        "reads",
        f"  people (csv) 1 files, {sizes['people']} bytes: name string, email string, age int, born date",
        f"  meetings (json) 1 files, {sizes['meetings']} bytes: a string, b string, day string",
        f"  badges (parquet) 1 files, {sizes['badges']} bytes: no bigint, site string, who string",
        f"  extra (graph) 1 files, {sizes['extra']} bytes",
        "  adults (sql): name string, email string, age int, born date",
        "  met (sql): a string, b string, first_day string",
        "writes",
        "  node Person from adults: age, born, email, name",
        "  node Badge from badges: number, site, owner",
        "  edge Knows from met: since, from, to, from by email, to by email",
        "  edge Wears from badges: from, to, to by owner",
        f"to {graph.uri} on branch nightly (created from main) with merge",
        "then merges nightly into main",
        "run id first",
    ]
    assert (len(graph.commits()), [each.name for each in graph.branches.list()]) == (commits, ["main"])

    done = nightly.run(graph, session=spark)
    assert done.summary is not None
    assert (done.summary.nodes, done.summary.edges) == ({"Badge": 2, "Person": 3}, {"Knows": 2, "Wears": 1})
    assert done.merged is not None
    assert (done.merged.kind, [each.name for each in graph.branches.list()]) == ("fast_forward", ["main"])
    people = rows(graph, "match { $p: Person } return { $p.name, $p.age } order { $p.name asc }")
    assert people == [("Ada", 36), ("Alan", None), ("Edsger", None), ("Grace", None)]
    knows = rows(graph, "match { $a: Person  $a knows $b } return { $a.name, $b.name } order { $a.name asc }")
    assert knows == [("Ada", "Grace"), ("Grace", "Edsger")]
    assert rows(graph, "match { $a: Person  $a wears $b } return { $a.name, $b.number, $b.site }") == [
        ("Ada", 1, "LAB")
    ]

    again = nightly.run(graph, session=spark)
    assert (again.repeated, again.summary, len(graph.commits())) == (True, None, len(graph.commits()))
    assert spark.catalog.listTables() == []


@pytest.mark.spark
def test_what_spark_refuses_is_told_at_its_place_and_nothing_is_written(
    graph: og.Graph, spark: SparkSession, tmp_path: Path
) -> None:
    commits = len(graph.commits())
    text = """\
mode: merge
sources:
  people: {format: csv, path: in/people.csv}
  none: {format: parquet, path: in/none.parquet}
transforms:
  wrong: select nmae from people
nodes:
  Person: {source: people, columns: {name: name, age: yeers(age), email: mail}}
"""
    with pytest.raises(PipelineError) as told:
        Pipeline.from_text(text, folder=tmp_path).run(graph, session=spark)
    spark.range(1).createOrReplaceTempView("people")
    with pytest.raises(PipelineError, match="the session has a view 'people' of its own"):
        Pipeline.from_text(text, folder=tmp_path).plan(graph, session=spark)
    assert spark.table("people").count() == 1
    spark.catalog.dropTempView("people")
    found = [(each.line, each.column, each.code) for each in told.value.diagnostics]
    assert found == [(4, 3, "P009"), (6, 10, "P009")]
    assert "there is no file at" in told.value.diagnostics[0].message
    assert "nmae" in told.value.diagnostics[1].message
    fixed = text.replace("nmae", "name").replace("in/none.parquet", "in/badges.parquet")
    with pytest.raises(PipelineError) as told:
        Pipeline.from_text(fixed, folder=tmp_path).plan(graph, session=spark)
    assert [(each.line, each.column) for each in told.value.diagnostics] == [(8, 55), (8, 74)]
    assert len(graph.commits()) == commits
    assert spark.catalog.listTables() == []


@pytest.mark.spark
def test_an_error_of_the_users_sql_while_it_runs_is_told_at_its_place(
    graph: og.Graph, spark: SparkSession, tmp_path: Path
) -> None:
    commits = len(graph.commits())
    (tmp_path / "in" / "odd.csv").write_text("name,age\nAda,36\nOdd,old\n")
    text = """\
mode: merge
sources: {people: {format: csv, path: in/odd.csv}}
transforms:
  typed: select name, cast(age as int) as age from people
  block: |
    select name,
      age from typed
nodes: {Person: {source: block}}
"""
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(PipelineError) as told:
        Pipeline.from_file(tmp_path / "odd.yaml").run(graph, session=spark)
    (found,) = told.value.diagnostics
    assert (found.code, found.line, found.column, found.source_name) == ("P009", 4, 23, str(tmp_path / "odd.yaml"))
    assert found.message.startswith("transform typed: [CAST_INVALID_INPUT] The value 'old' of the type \"STRING\"")
    mapped = text.replace("cast(age as int) as ", "").replace(
        "{source: block}", "{source: block, columns: {name: name, age: 1 + cast(age as int)}}"
    )
    with pytest.raises(PipelineError, match="node Person, column age"):
        Pipeline.from_text(mapped, folder=tmp_path).run(graph, session=spark)
    raised = text.replace("cast(age as int)", "raise_error('too old')")
    with pytest.raises(PipelineError, match="too old") as told:
        Pipeline.from_text(raised, folder=tmp_path).run(graph, session=spark)
    assert told.value.diagnostics[0].message.startswith("transform typed: [USER_RAISED_EXCEPTION] too old")
    assert told.value.diagnostics[0].line == 4
    assert len(graph.commits()) == commits
    assert spark.catalog.listTables() == []


@pytest.mark.spark
def test_an_end_that_is_not_found_stops_the_run(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    commits = len(graph.commits())
    text = """\
mode: append
sources: {pairs: {format: json, path: in/meetings.jsonl}}
edges: {Knows: {source: pairs, columns: [], from: {lookup: {email: a}}, to: initcap(b)}}
"""
    with pytest.raises(OrphanEdge, match="3 Knows edges have no Person at 'from': no email is 'ada'; 'grace'"):
        Pipeline.from_text(text, folder=tmp_path).run(graph, session=spark)
    assert len(graph.commits()) == commits


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_runs_plans_and_tells_as_json(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    file = str(tmp_path / "nightly.yaml")

    def ran(*words: str) -> Any:
        result = CliRunner().invoke(app, ["pipeline", *words, "--store", graph.uri], prog_name="omnigraph")
        assert result.exit_code == 0, result.output
        return result.stdout

    assert ran("validate", file) == f"{file} is valid\n"
    plan = json.loads(ran("plan", file, "--run-id", "other", "--json"))
    assert (plan["run_id"], plan["done"], plan["branch"], len(plan["types"])) == ("other", False, "nightly", 4)
    done = json.loads(ran("run", file, "--json", "--quiet"))
    assert (done["repeated"], done["branch"], done["merge"]) == (
        False,
        "nightly",
        {"into": "main", "outcome": "fast_forward"},
    )
    assert done["summary"]["nodes"] == {"Badge": 2, "Person": 3}
    assert json.loads(ran("plan", file, "--json"))["done"]
    assert ran("run", file, "--quiet").startswith("run first was done before: commit ")
    assert "loaded 8 entities across 2 node types and 2 edge types on branch nightly with merge\n" in ran(
        "run", file, "--run-id", "second", "--quiet"
    )


@pytest.mark.spark
@pytest.mark.slow
def test_bad_rows_are_set_aside_up_to_a_limit(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in" / "more.jsonl").write_text('{"name": "Good", "age": 1}\n{"age": 2}\n')
    text = """\
mode: append
errors: {quarantine: 2, path: rejects}
sources: {more: {format: json, path: in/more.jsonl}}
nodes: {Person: {source: more, columns: {name: name, age: cast(age as int)}}}
edges: {Knows: {source: more, where: age = 1, columns: [], from: name, to: {lookup: {email: "'nobody@x'"}}}}
"""
    done = Pipeline.from_text(text, folder=tmp_path).run(graph, session=spark)
    assert done.summary is not None
    assert (done.summary.nodes, sum(done.summary.rejected.values())) == ({"Person": 1}, 2)
    assert parquet.read_table(tmp_path / "rejects").num_rows == 2
    with pytest.raises(InvalidInput):
        Pipeline.from_text(text.replace("quarantine: 2", "quarantine: 1"), folder=tmp_path).run(graph, session=spark)


@pytest.mark.spark
@pytest.mark.slow
def test_every_kind_of_source_can_be_read(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    orc.write_table(pa.table({"name": ["orc"]}), folder / "x.orc")
    other = og.init(tmp_path / "other.omni", schema="node Person { name: String @key }")
    other.load({"Person": [{"name": "from graph"}]})
    import lance

    lance.write_dataset(pa.table({"name": ["lance"]}), str(folder / "x.lance"))
    spark.sql("select 'table' as name").createOrReplaceTempView("held")
    text = """\
mode: merge
sources:
  a: {format: orc, path: in/x.orc}
  b: {format: omnigraph, path: other.omni, type: Person}
  f: {format: omnigraph, path: other.omni, query: "query q() { match { $p: Person } return { $p.name as asked } }"}
  c: {format: lance, path: in/x.lance}
  d: {format: table, table: held}
  e: {format: csv, path: in/people.csv, schema: "name string, email string, age int, born date"}
nodes:
  Person:
    - {source: a}
    - {source: b, columns: [name]}
    - {source: f, columns: {name: upper(asked)}}
    - {source: c}
    - {source: d}
    - {source: e, columns: {name: upper(name)}}
"""
    try:
        Pipeline.from_text(text, folder=tmp_path).run(graph, session=spark)
    finally:
        spark.catalog.dropTempView("held")
    names = rows(graph, "match { $p: Person } return { $p.name } order { $p.name asc }")
    assert [each for (each,) in names] == [
        "ADA",
        "Edsger",
        "FROM GRAPH",
        "GRACE",
        "KID",
        "from graph",
        "lance",
        "orc",
        "table",
    ]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.s3
def test_files_in_a_bucket_are_read_without_a_client_in_spark(
    s3_uri: str, spark: SparkSession, tmp_path: Path, s3_environment: dict[str, str]
) -> None:
    import obstore

    from omnigraph.storage.objects.location import parse_location
    from omnigraph.storage.objects.remote import open_remote_objects

    place = s3_uri.removesuffix("graph.omni") + "in"
    store = open_remote_objects(parse_location(place, REAL), REAL).store
    obstore.put(store, "a.csv", b"who,years\nAda,36\n")
    obstore.put(store, "b.csv", b"who,years\nKid,7\n")
    graph = og.init(s3_uri, schema=SCHEMA)
    text = f"""\
mode: append
sources: {{raw: {{format: csv, path: "{place}/*.csv"}}}}
transforms: {{old: select * from raw where years > 18}}
nodes: {{Person: {{source: old, columns: {{name: who, age: cast(years as int)}}}}}}
"""
    Pipeline.from_text(text, folder=tmp_path).run(graph, session=spark)
    assert rows(graph, "match { $p: Person } return { $p.name, $p.age }") == [("Ada", 36)]
