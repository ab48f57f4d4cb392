"""Every declared index is listed, composite and edge ones too."""

from __future__ import annotations

import pytest

from omnigraph.catalog.indexes import table_indexes
from omnigraph.errors import SchemaError
from omnigraph.language.schema.compile import compile_schema

SOURCE = """
node Doc {
    slug: String @key
    title: String @index
    state: enum(open, closed) @index
    score: F64? @index
    at: DateTime?
    face: Vector(3)? @index
    tags: [String]
    email: String? @unique
    photo: Blob?
    @index(tags)
    @index(title, at)
}
node Plain { name: String }
node Pair { org: String code: I64 @key(org, code) }
edge Cites: Doc -> Doc {
    weight: F32? @index
    kind: String
    @index(src, kind)
    @unique(src, dst)
}
"""
CATALOG = compile_schema(SOURCE)


def listed(name: str) -> list[tuple[str, str, str]]:
    table = CATALOG.nodes.get(name) or CATALOG.edges[name]
    return [(each.name, each.column, each.kind) for each in table_indexes(table)]


def test_a_node_type_has_an_index_on_its_id_and_on_what_it_declares() -> None:
    assert listed("Plain") == [("id_idx", "id", "btree")]
    assert listed("Doc") == [
        ("id_idx", "id", "btree"),
        ("at_idx", "at", "btree"),
        ("title_idx_equality", "title", "btree"),
        ("face_idx", "face", "vector"),
        ("score_idx", "score", "btree"),
        ("state_idx", "state", "btree"),
        ("tags_idx", "tags", "label_list"),
        ("title_idx", "title", "inverted"),
        ("slug_idx", "slug", "inverted"),
        ("slug_idx_equality", "slug", "btree"),
        ("email_idx_equality", "email", "btree"),
    ]


def test_a_composite_key_is_indexed_column_by_column() -> None:
    assert listed("Pair") == [
        ("id_idx", "id", "btree"),
        ("code_idx", "code", "btree"),
        ("org_idx_equality", "org", "btree"),
    ]


def test_an_edge_type_has_indexes_on_its_ends_and_on_its_properties() -> None:
    assert listed("Cites") == [
        ("id_idx", "id", "btree"),
        ("src_idx", "src", "btree"),
        ("dst_idx", "dst", "btree"),
        ("kind_idx_equality", "kind", "btree"),
        ("weight_idx", "weight", "btree"),
    ]


def test_an_index_remembers_the_tuple_and_the_reason_it_was_declared_for() -> None:
    found = {each.name: each for each in table_indexes(CATALOG.edges["Cites"])}
    assert (found["kind_idx_equality"].declared, found["kind_idx_equality"].reason) == (("kind", "src"), "index")
    assert found["src_idx"].reason == "identity"


def test_no_two_indexes_of_a_table_share_a_name() -> None:
    others = "slug_idx: String @index slug_idx_equality: String @index slug_equality: I32 @index"
    names = [each.name for each in table_indexes(compile_schema(f"node P {{ slug: String @key {others} }}").nodes["P"])]
    assert len(names) == len(set(names)) == 6


def test_a_vector_index_has_the_metric_of_its_property() -> None:
    found = compile_schema("""
        node Doc { slug: String @key
          plain: Vector(2) @index
          angle: Vector(2) @index @metric(cosine)
          product: Vector(2) @metric(dot) @index }
    """).nodes["Doc"]
    assert {each.column: each.metric for each in table_indexes(found) if each.kind == "vector"} == {
        "plain": "L2",
        "angle": "cosine",
        "product": "dot",
    }


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("v: Vector(2) @metric(hamming)", "S501"),
        ("v: Vector(2) @metric", "S501"),
        ("v: Vector(2) @metric(l2) @metric(dot)", "S502"),
        ("v: String @metric(cosine)", "S504"),
    ],
)
def test_a_metric_is_one_of_three_and_for_vectors(written: str, code: str) -> None:
    with pytest.raises(SchemaError, match=code):
        compile_schema(f"node Doc {{ slug: String @key\n {written} }}")
