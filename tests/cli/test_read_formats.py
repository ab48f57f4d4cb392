"""How rows are printed (surface §1.5)."""

from __future__ import annotations

import json

from omnigraph.cli.render.rows import ReadOutput, TableStyle, render

PEOPLE = ReadOutput(
    "everybody",
    {"branch": "main"},
    ["p.name", "p.age", "p.tags"],
    [
        {"p.name": "Ada", "p.age": 36, "p.tags": ["a", "b"]},
        {"p.name": 'Grace, "Amazing"\nHopper', "p.age": None, "p.tags": []},
    ],
    "01COMMIT",
)
NOBODY = ReadOutput("nobody", {"snapshot": "01SNAP"}, [], [])


def _lines(output: ReadOutput, wanted: str, style: TableStyle | None = None) -> list[str]:
    return list(render(output, wanted, style))  # type: ignore[arg-type]


def test_a_table_has_a_heading_columns_and_a_rule() -> None:
    assert _lines(PEOPLE, "table") == [
        "2 rows from branch main via everybody",
        "p.name                   | p.age | p.tags   ",
        "-------------------------+-------+----------",
        'Ada                      | 36    | ["a","b"]',
        'Grace, "Amazing"\\nHopper | null  | []       ',
    ]


def test_wide_cells_are_cut_or_wrapped() -> None:
    long = ReadOutput("q", {"branch": "main"}, ["text"], [{"text": "abcdefghijklmnop"}])

    assert _lines(long, "table", TableStyle(10))[1:] == ["text      ", "----------", "abcdefghi…"]
    assert _lines(long, "table", TableStyle(10, "wrap"))[1:] == ["text      ", "----------", "abcdefghij", "klmnop    "]


def test_columns_are_never_narrower_than_eight_when_the_name_is_long() -> None:
    narrow = ReadOutput("q", {"branch": "main"}, ["a long name"], [{"a long name": "x"}])

    assert _lines(narrow, "table", TableStyle(3))[2] == "--------"


def test_nothing_to_show_is_said() -> None:
    assert _lines(NOBODY, "table") == ["0 rows from snapshot 01SNAP via nobody", "(no rows)"]
    assert _lines(NOBODY, "kv") == ["0 rows from snapshot 01SNAP via nobody", "(no rows)"]


def test_kv_is_a_block_for_each_row() -> None:
    assert _lines(PEOPLE, "kv") == [
        "2 rows from branch main via everybody",
        "row 1",
        "p.name: Ada",
        "p.age: 36",
        'p.tags: ["a","b"]',
        "",
        "row 2",
        'p.name: Grace, "Amazing"\nHopper',
        "p.age: null",
        "p.tags: []",
    ]


def test_csv_quotes_what_needs_it() -> None:
    assert _lines(PEOPLE, "csv") == [
        "p.name,p.age,p.tags",
        'Ada,36,"[""a"",""b""]"',
        '"Grace, ""Amazing""\nHopper",null,[]',
    ]
    carriage = ReadOutput("q", {"branch": "main"}, ["a"], [{"a": "x\ry"}])
    assert _lines(carriage, "csv")[1] == '"x\ry"'


def test_jsonl_begins_with_what_it_is() -> None:
    first, *rows = _lines(PEOPLE, "jsonl")

    assert first == '{"kind":"metadata","query_name":"everybody","target":{"branch":"main"},"row_count":2}'
    assert [json.loads(row) for row in rows] == list(PEOPLE.rows)


def test_json_is_the_whole_envelope() -> None:
    (text,) = _lines(PEOPLE, "json")

    assert json.loads(text) == {
        "query_name": "everybody",
        "target": {"branch": "main"},
        "row_count": 2,
        "columns": ["p.name", "p.age", "p.tags"],
        "rows": list(PEOPLE.rows),
        "graph_commit_id": "01COMMIT",
    }
    assert "graph_commit_id" not in json.loads(_lines(NOBODY, "json")[0])


def test_columns_are_found_in_the_rows_when_they_are_not_given() -> None:
    loose = ReadOutput("q", {"branch": "main"}, [], [{"b": 1}, {"a": 2}])

    assert _lines(loose, "csv") == ["a,b", "null,1", "2,null"]
