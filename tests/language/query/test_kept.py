"""Queries that were checked before are the same object again; another schema, name or text is checked anew."""

from __future__ import annotations

import pytest

from omnigraph.errors import QueryError
from omnigraph.language.gq.compile import QueryCache
from omnigraph.language.schema.compile import compile_schema

CATALOG = compile_schema("node Person { name: String @key }")
TEXT = """
query one() { match { $p: Person } return { $p.name } }
query two() { match { $p: Person } return { count($p) as n } }
"""


def test_a_text_is_checked_once_for_each_of_its_queries() -> None:
    kept = QueryCache()
    one, two = (kept.checked(TEXT, name, CATALOG) for name in ("one", "two"))
    assert (one.name, two.name) == ("one", "two")
    assert kept.checked(TEXT, "one", CATALOG) is one


def test_another_schema_is_another_check() -> None:
    kept = QueryCache()
    before = kept.checked(TEXT, "one", CATALOG)
    later = compile_schema("node Person { name: String @key\n age: I32? }")
    assert kept.checked(TEXT, "one", later) is not before
    with pytest.raises(QueryError, match="T1"):
        kept.checked(TEXT, "one", compile_schema("node Other { name: String @key }"))


def test_those_not_used_for_longest_go() -> None:
    kept = QueryCache()
    first = kept.checked(TEXT, "one", CATALOG)
    for number in range(256):
        kept.checked(f"query q{number}() {{ match {{ $p: Person }} return {{ $p.name }} }}", None, CATALOG)
    assert kept.checked(TEXT, "one", CATALOG) is not first
