"""Pipeline files without Spark: what is wrong with them is told at once, each thing with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, PipelineError
from omnigraph.pipeline.file import End, YamlText
from omnigraph.pipeline.pipeline import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person { name: String @key  email: String?  age: I32?  @unique(email) }
node City { name: String @key  people: I64 }
edge LivesIn: Person -> City { since: Date? }
"""
WHOLE = """\
graph: people.omni
mode: merge
branch: {name: nightly, from: main}
run_id: 2026-06-28
errors: {quarantine: 10, path: rejects}
publish: {merge: main, delete_branch: yes, resolve: theirs}
sources:
  raw: {format: csv, path: [in/a.csv, in/b*.csv], options: {sep: ";", header: true}}
  old: {format: jdbc, options: {url: "jdbc:x", dbtable: people}}
  extra: {format: graph, path: extra.jsonl}
transforms:
  adults: |
    select * from raw
    where age >= 18
nodes:
  Person: {source: adults, columns: {name: trim(name), age: cast(age as int)}, where: name is not null}
  City:
    - {source: raw, columns: {name: city, people: "1L"}}
    - {source: old, columns: [name, people]}
edges:
  LivesIn: {source: raw, from: name, to: {lookup: {name: city}}}
"""


def test_a_whole_file_is_understood() -> None:
    file = Pipeline.from_text(WHOLE)._file
    assert (file.mode, file.branch.value, str(file.from_), str(file.run_id)) == (
        "merge",
        "nightly",
        "main",
        "2026-06-28",
    )
    assert (file.errors.limit, file.errors.path) == (10, "rejects")
    assert file.publish is not None
    assert (file.publish.into.value, file.publish.delete_branch, file.publish.resolve) == ("main", True, "theirs")
    assert [(each.name.value, each.format, len(each.paths)) for each in file.sources] == [
        ("raw", "csv", 2),
        ("old", "jdbc", 0),
        ("extra", "graph", 1),
    ]
    assert file.sources[0].options == {"sep": ";", "header": "true"}
    assert file.transforms[0].sql.value == "select * from raw\nwhere age >= 18\n"
    assert [each.table_key for each in file.mappings] == ["node:Person", "node:City", "node:City", "edge:LivesIn"]
    edge = file.mappings[-1]
    assert (
        edge.from_ == End(YamlText("name", edge.from_.expression.span))
        if edge.from_ and edge.from_.expression
        else False
    )
    assert edge.to is not None
    assert [(name.value, value.value) for name, value in edge.to.lookup] == [("name", "city")]


def test_everything_wrong_is_told_at_once_with_line_and_column() -> None:
    text = """\
mode: mrege
branch: main
publish: merge
sources:
  raw: {format: csv, pth: x.csv}
  bad-name: {format: table, table: t}
nodes:
  Person: {source: row, columns: 7}
  Person: {source: raw}
errors: {path: rejects}
"""
    with pytest.raises(PipelineError) as told:
        Pipeline.from_text(text)
    found = [(each.line, each.column, each.code, each.message) for each in told.value.diagnostics]
    assert found == [
        (1, 7, "P002", "mode is append, merge or overwrite, not 'mrege'"),
        (3, 10, "P008", "branch 'main' cannot be merged into itself: load another"),
        (5, 8, "P004", "source raw reads csv: it needs path"),
        (5, 22, "P003", "source raw has no 'pth': did you mean 'path'?"),
        (6, 3, "P002", "'bad-name' cannot be a name in SQL: use letters, digits and _"),
        (8, 20, "P006", "there is no source 'row'; there are raw, bad-name"),
        (8, 34, "P002", "columns is a mapping of names to values"),
        (9, 3, "P005", "'Person' stands twice in nodes"),
        (10, 9, "P004", "errors needs quarantine, the number of bad rows to set aside"),
    ]
    assert str(told.value).splitlines()[:3] == [
        "<pipeline>:1:7: error[P002]: mode is append, merge or overwrite, not 'mrege'",
        " 1 | mode: mrege",
        "   |       ^^^^^",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mode: merge\nsources: {a: {format: omnigraph, path: x.omni}}\nnodes: {P: {source: a}}",
            "<pipeline>:2:14: error[P004]: source a reads a graph: it needs a type or a query",
        ),
        ("", "<pipeline>:1:1: error[P001]: the file is empty"),
        (
            "mode: [",
            "<pipeline>:1:8: error[P001]: this is not YAML: expected the node content, but found '<stream end>'",
        ),
        ("- a\n- b\n", "<pipeline>:1:1: error[P002]: a pipeline is a mapping of names to values"),
        ("mode: merge\n", "<pipeline>:1:1: error[P004]: a pipeline needs sources"),
        (
            "mode: merge\nsources: {a: {format: table, table: t}}",
            "<pipeline>:2:11: error[P004]: nothing is loaded: map a source to nodes or edges",
        ),
        (
            "mode: merge\nsources: {a: {format: graph, path: x}}\nnodes: {P: {source: a}}",
            "<pipeline>:3:21: error[P006]: 'a' holds graph records, which are loaded as they are",
        ),
        (
            "mode: merge\nsources: {a: {format: table, table: t}}\nedges: {E: {source: a, to: {look: x}}}",
            "<pipeline>:3:29: error[P003]: to of edge E has no 'look': did you mean 'lookup'?",
        ),
    ],
)
def test_what_is_wrong_with_the_shape_is_said(text: str, expected: str) -> None:
    with pytest.raises(PipelineError) as told:
        Pipeline.from_text(text)
    assert expected in str(told.value)


def test_a_file_is_checked_against_the_schema(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "people.omni", schema=SCHEMA)
    (tmp_path / "good.yaml").write_text(WHOLE)
    good = Pipeline.from_file(tmp_path / "good.yaml")
    good.validate(graph)
    assert good.graph_uri == graph.uri
    (tmp_path / "bad.yaml").write_text(
        """\
mode: append
sources: {raw: {format: table, table: t}}
nodes:
  Persn: {source: raw}
  City: {source: raw, columns: {name: a, mayor: b}}
edges:
  livesin: {source: raw, columns: {sinse: b}, from: {lookup: {age: c}}, to: {lookup: {nmae: d}}}
"""
    )
    with pytest.raises(PipelineError) as told:
        Pipeline.from_file(tmp_path / "bad.yaml").validate(graph)
    assert [(each.line, each.column, each.message) for each in told.value.diagnostics] == [
        (4, 3, "the schema has no node type 'Persn': did you mean 'Person'?"),
        (5, 3, "City needs people: map a column to it"),
        (5, 42, "City has no property 'mayor'; it has name, people"),
        (7, 36, "LivesIn has no property 'sinse': did you mean 'since'?"),
        (7, 63, "Person can be looked up by what is unique, (name) or (email), not by age"),
        (7, 87, "City has no property 'nmae': did you mean 'name'?"),
    ]
    assert str(told.value).startswith(f"{tmp_path / 'bad.yaml'}:4:3: error[P007]:")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        Pipeline.from_file(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"mode: \xe9")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        Pipeline.from_file(tmp_path / "latin.yaml")
