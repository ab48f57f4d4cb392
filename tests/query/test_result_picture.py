"""Pictures of results: what is drawn, what is not, and that nothing in a value becomes markup."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from query.conftest import SOCIAL, edge, person
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph

SVG = "{http://www.w3.org/2000/svg}"


def drawn(graph: Graph, text: str) -> ET.Element:
    svg = graph.query(text).to_svg()
    assert svg is not None
    return ET.fromstring(svg)


def titles(picture: ET.Element, tag: str) -> list[str]:
    return sorted((each.findtext(f"{SVG}title") or "").partition("\n")[0] for each in picture.iter(f"{SVG}{tag}"))


def test_nodes_and_the_edges_between_them(social: Graph) -> None:
    picture = drawn(social, "match { $p $e: knows $f } return { $p, $e, $f }")
    assert titles(picture, "g") == ["Person"] * 4
    assert titles(picture, "line") == ["Knows"] * 3
    names = {each.text for each in picture.iter(f"{SVG}text")}
    assert names == {"Alice", "Bob", "Charlie", "Diana", "Person"}


def test_an_edge_brings_its_ends(social: Graph) -> None:
    picture = drawn(social, "match { $p $e: worksAt $c } return { $e }")
    assert titles(picture, "g") == ["Company", "Company", "Person", "Person"]


def test_a_path_is_drawn_along_its_nodes(social: Graph) -> None:
    text = 'match { $a: Person { name: "Alice" } $b: Person { name: "Diana" } $r: shortest($a knows $b) } return { $r }'
    assert titles(drawn(social, text), "line") == ["Knows", "Knows"]


def test_nodes_of_one_row_are_linked_where_no_edge_is_returned(social: Graph) -> None:
    picture = drawn(social, "match { $p worksAt $c } return { $p, $c }")
    assert [each.get("stroke-dasharray") for each in picture.iter(f"{SVG}line")] == ["3 3", "3 3"]
    assert titles(picture, "g") == ["Company", "Company", "Person", "Person"]


def test_a_result_without_anything_connected_has_no_picture(social: Graph) -> None:
    for text in ("match { $p: Person } return { $p.name }", "match { $p: Person } return { $p }"):
        result = social.query(text)
        assert result.to_svg() is None
        assert "<svg" not in result._repr_html_()


def test_the_notebook_gets_the_table_and_the_picture(social: Graph) -> None:
    shown = social.query("match { $p knows $f } return { $p, $f }")._repr_html_()
    assert "<table>" in shown
    assert shown.endswith("</svg>")


def test_many_nodes_are_drawn_in_part(tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(100)]
    people = [person(name, 1) for name in names]
    graph = make_graph(tmp_path, SOCIAL, {"Person": people, "Knows": [edge("p0", name) for name in names]})
    picture = drawn(graph, "match { $p $e: knows $f } return { $e }")
    assert len(titles(picture, "g")) == 60
    assert "only a part is drawn" in {each.text for each in picture.iter(f"{SVG}text")}


def test_markup_in_values_is_text_and_a_picture_is_always_the_same(tmp_path: Path) -> None:
    people = [person("<script>alert(1)</script>", 1), person("b", None)]
    graph = make_graph(tmp_path, SOCIAL, {"Person": people, "Knows": [edge("b", people[0]["name"])]})  # type: ignore[arg-type]
    text = "match { $p $e: knows $f } return { $p, $e, $f }"
    assert "<script>" not in (graph.query(text).to_svg() or "")
    assert graph.query(text).to_svg() == graph.query(text).to_svg()
