"""A finding shows the line, the column and the text underlined."""

from __future__ import annotations

import pickle

import pytest

from omnigraph.errors import OmniGraphError, SchemaError
from omnigraph.language.core.diagnostics import diagnostic
from omnigraph.language.schema.compile import compile_schema
from omnigraph.language.schema.parse import parse_schema


def rendered(text: str, start: int, end: int) -> list[str]:
    found = diagnostic(text, start=start, end=end, message="wrong", code="S001", source_name="a.pg")
    return str(found).split("\n")


def test_the_place_is_underlined() -> None:
    assert rendered("one\ntwo three\nfour", 8, 13) == [
        "a.pg:2:5: error[S001]: wrong",
        " 2 | two three",
        "   |     ^^^^^",
    ]


def test_an_empty_place_is_shown_as_one_caret() -> None:
    assert rendered("one\n", 4, 4)[1:] == [" 2 | ", "   | ^"]
    assert rendered("", 0, 0)[1:] == [" 1 | ", "   | ^"]


def test_a_place_over_several_lines_is_underlined_on_the_first() -> None:
    assert rendered("ab\ncd\nef", 1, 7)[1:] == [" 1 | ab", "   |  ^"]


def test_tabs_keep_their_width_and_wide_characters_get_two_carets() -> None:
    assert rendered("\tx y", 3, 4)[1:] == [" 1 | \tx y", "   | \t  ^"]
    assert rendered("日本 x", 0, 2)[1:] == [" 1 | 日本 x", "   | ^^^^"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert rendered("a\x1b[2Jb\r\n", 1, 2)[1:] == [" 1 | a\ufffd[2Jb", "   |  ^"]


def test_a_long_line_is_cut_around_the_place() -> None:
    _, shown, carets = rendered("x" * 500 + "here" + "y" * 500, 500, 504)
    assert len(shown) < 140
    assert shown[carets.index("^") :].startswith("here")
    assert shown.startswith(" 1 | …")
    assert shown.endswith("…")


def test_places_outside_the_text_are_brought_inside() -> None:
    found = diagnostic("ab", start=-3, end=99, message="m", code="S001")
    assert (found.start, found.end, found.line, found.column) == (0, 2, 1, 1)


def test_several_errors_are_shown_in_one_go_in_the_order_of_the_text() -> None:
    text = "node A {\n    a: Strng\n    b: I32 =\n}\nedge e: A -> A\nnode B { b: int }\n"
    with pytest.raises(SchemaError) as caught:
        parse_schema(text, "schema.pg")
    assert [(each.line, each.column, each.code) for each in caught.value.diagnostics] == [
        (2, 8, "S005"),
        (3, 12, "S001"),
        (5, 6, "S001"),
        (6, 13, "S005"),
    ]
    assert str(caught.value).startswith("schema.pg:2:8: error[S005]: there is no type `Strng`: did you mean String?\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node A { a: int }", "there is no type `int`: did you mean I64?"),
        ("node A { a: bool }", "there is no type `bool`: did you mean Bool?"),
        ("node A { a: Qqqqqq }", "there is no type `Qqqqqq`: the types are String, Bool"),
        ("node A implements B @d {}", "annotations stand before `implements`"),
        ("node A { a I32 }", "expected `:`, found `I32`"),
        ("node A {", "expected `,`, `@`, `}` or a name, found the end of the text"),
        ("edge E A -> B", "expected `:`, found `A`"),
        ("edge E: A B", "expected `->`, found `B`"),
        ("node A { a: enum() }", "expected an enum value, found `)`"),
        ("node A @d(", "expected `)`, `..`, a name, a number, a string or true or false, found the end of the text"),
    ],
)
def test_the_message_says_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert message in caught.value.diagnostics[0].message


def test_a_schema_error_is_one_of_ours_and_survives_pickling() -> None:
    with pytest.raises(OmniGraphError) as caught:
        compile_schema("node A {", "x.pg")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, SchemaError)
    assert again.diagnostics == caught.value.diagnostics
    assert again.code == "schema"


def test_a_text_with_very_many_mistakes_is_answered_with_the_first_hundred() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema("\n".join(f"edge E{number}: A -> B" for number in range(500)))
    assert len(caught.value.diagnostics) == 100


def test_a_document_keeps_declarations_in_the_order_they_were_written() -> None:
    text = 'node B { b: I32 a: [String]? @x("y") }\nnode A {}\nedge E: B -> A @card(0..1)'
    document = parse_schema(text, "x.pg")
    assert [each.name.text for each in document.nodes] == ["B", "A"]
    assert [each.name.text for each in document.nodes[0].properties] == ["b", "a"]
    span = document.nodes[0].properties[1].type.span
    assert text[span.start : span.end] == "[String]?"
    assert (document.text, document.source_name) == (text, "x.pg")


def test_edges_are_found_in_any_case() -> None:
    catalog = compile_schema("node A {} edge WorksAt: A -> A")
    assert catalog.edge("worksAt") is catalog.edge("WORKSAT") is catalog.edges["WorksAt"]
    assert catalog.edge("works") is None
