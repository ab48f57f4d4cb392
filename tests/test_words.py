"""Names use the field's words: the glossary of CONTRIBUTING is kept by classes and modules."""

from __future__ import annotations

import ast
import re

from source import modules

# Words that a class or module must not be named with, as whole words of the name.
OLD_WORDS = frozenset(
    [
        "piece",
        "pieces",
        "tail",
        "removals",
        "ticket",
        "turn",
        "claim",
        "effects",
        "overlay",
        "pending",
        "sieve",
        "ledger",
        "noted",
        "drawn",
        "suspect",
        "suspects",
        "offender",
        "inquiry",
        "workshop",
        "meet",
        "weigh",
        "tally",
        "maybe",
        "without",
        "stretch",
        "moves",
        "told",
        "asked",
    ]
)
# Two trees, of the syntax and of what was checked, name the same things alike.
SAME_IN_BOTH_TREES = 15
# An index that waits to be built.
EXCEPT = frozenset({"PendingIndex"})


def words_of(name: str) -> list[str]:
    """`PendingWrites` and `pending_writes` are the words pending and writes."""
    return [each.lower() for each in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def classes() -> list[tuple[str, str]]:
    return [
        (file, node.name)
        for file, tree in modules().items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name not in EXCEPT
    ]


def test_the_rule_sees_words_in_every_spelling() -> None:
    assert words_of("PendingWrites") == words_of("pending_writes") == ["pending", "writes"]
    assert words_of("_Told") == ["told"]


def test_classes_have_the_words_of_the_glossary() -> None:
    assert [(file, name) for file, name in classes() if OLD_WORDS & set(words_of(name))] == []


def test_modules_have_the_words_of_the_glossary() -> None:
    assert [file for file in modules() if OLD_WORDS & set(words_of(file.rpartition("/")[2].removesuffix(".py")))] == []


def test_nobody_speaks_of_pieces() -> None:
    """All but the name of a function of the library that draws the help."""
    assert [file for file in modules() if re.search("piece", _source(file)) and file not in SPEAKS_TYPER] == []


def test_a_class_name_means_one_thing() -> None:
    names = [name for _, name in classes()]
    repeated = {name for name in names if names.count(name) > 1}
    homes = {name: {file.split("/")[0] for file, each in classes() if each == name} for name in repeated}
    assert {name: where for name, where in homes.items() if where != {"language"}} == {}
    assert len(repeated) <= SAME_IN_BOTH_TREES


SPEAKS_TYPER = ("cli/frame/help.py", "cli/frame/options.py")


def _source(file: str) -> str:
    from source import ROOT

    return (ROOT / file).read_text()
