"""The words of the glossary in CONTRIBUTING: its left column is gone from names, documentation and help texts.

A word that is also plain technical English (a text line, a known variable, a public option `keep`) is not in the list,
or its identifiers are in ALLOWED with the reason.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from typer.core import TyperGroup

from omnigraph.cli.main import app
from source import ROOT as SOURCE
from source import modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click import Command

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

# Words that no identifier has, as whole words of the name.
OLD_WORDS = frozenset(
    [
        "piece",
        "pieces",
        "told",
        "tells",
        "places",
        "placed",
        "sieve",
        "ledger",
        "workshop",
        "kept",
        "asked",
        "drawn",
        "noted",
        "stretch",
        "stretches",
        "ticket",
        "tickets",
        "claim",
        "claims",
        "effects",
        "overlay",
        "survivors",
        "offender",
        "offenders",
        "inquiry",
        "suspect",
        "suspects",
        "landed",
        "armed",
        "disarm",
        "tidy",
        "tidied",
        "tidying",
        "stamp",
        "stamped",
        "genesis",
        "blueprint",
        "folded",
        "moment",
        "moments",
        "shaped",
        "reshaping",
        "removals",
        "spelling",
        "spellings",
        "misread",
        "settle",
        "settled",
        "settling",
        "meeting",
        "sift",
        "sifted",
        "upkeep",
        "weigh",
        "tally",
        "maybe",
        "meet",
        "moves",
    ]
)
# Identifiers that have such a word, and why.
ALLOWED = {
    "collect_usage_pieces": "a method of typer, which is overridden",
    "kept_because": "a public field of a merge's result",
    "PendingIndex": "an index that waits to be built",
    "CorruptStamp": "a public error",
    "stamp": "a public field of errors",
    "_armed": "a failpoint is armed",
    "_Armed": "a failpoint is armed",
    "maybe_placeholders": "an option of lark",
    "InitializationClaimed": "a public error",
}
# Words and phrases that the pages and the help texts do not use in the project's former sense.
OLD_PHRASES = re.compile(
    r"\b(?:told|sieves?|ledger|workshop|rivals?|upkeep|tid(?:y|ied|ying)|bare Lance|pieces|settled?|settles|anew|"
    r"whoever|lay(?:s|ing)? (?:\w+ ){0,4}down|asks it|ends of edges|stands? (?:in|on|beside|twice)|goes? with it|"
    r"come to need)\b",
    re.IGNORECASE,
)
# Two trees, of the syntax and of what was checked, name the same things alike.
SAME_IN_BOTH_TREES = 15


def words_of(name: str) -> list[str]:
    """`PendingWrites` and `pending_writes` are the words pending and writes."""
    return [each.lower() for each in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def identifiers(tree: ast.AST) -> set[str]:
    """Every name that a module defines or uses: classes, functions, parameters, keywords, variables, attributes."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.keyword(arg=str(name)):
                found.add(name)
            case ast.ImportFrom(names=names):
                found.update(each.asname or each.name for each in names)
    return found


def old_words_in(names: set[str]) -> set[str]:
    return {name for name in names - ALLOWED.keys() if OLD_WORDS & set(words_of(name))}


def classes() -> list[tuple[str, str]]:
    return [
        (file, node.name) for file, tree in modules().items() for node in tree.body if isinstance(node, ast.ClassDef)
    ]


def test_the_rule_sees_every_kind_of_name_in_every_case() -> None:
    tree = ast.parse(
        "from a import told\nclass Pieces:\n  kept_rows: int\n"
        "def f(ticket): return g(tidy=self.asked)\nOLD_STAMP = 1\nfrom b import c as noted"
    )
    assert old_words_in(identifiers(tree)) == {
        "told", "Pieces", "kept_rows", "ticket", "tidy", "asked", "OLD_STAMP", "noted"
    }  # fmt: skip
    assert words_of("PendingWrites") == words_of("pending_writes") == ["pending", "writes"]
    assert OLD_PHRASES.search("conflicts are told at once")
    assert OLD_PHRASES.search("lays the rows of it down")
    assert not OLD_PHRASES.search("the settings of a session")


def test_names_have_the_words_of_the_glossary() -> None:
    found = {file: old_words_in(identifiers(tree)) for file, tree in modules().items()}
    assert {file: names for file, names in found.items() if names} == {}


def test_modules_have_the_words_of_the_glossary() -> None:
    assert [file for file in modules() if OLD_WORDS & set(words_of(Path(file).stem))] == []


def test_every_exception_is_still_used() -> None:
    used = set().union(*(identifiers(tree) for tree in modules().values()))
    assert ALLOWED.keys() - used == set()


def test_nobody_speaks_of_pieces() -> None:
    """Except where the library is named that renders the help."""
    speaks_typer = ("cli/frame/help.py", "cli/frame/options.py")
    assert [file for file in modules() if "piece" in (SOURCE / file).read_text() and file not in speaks_typer] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_the_words_of_the_glossary(page: Path) -> None:
    text, _, _ = page.read_text("utf-8").partition("\n## Words\n")
    assert [line for line in text.splitlines() if OLD_PHRASES.search(line)] == []


def test_help_texts_have_the_words_of_the_glossary() -> None:
    found = [line for text in help_texts() for line in text.splitlines() if OLD_PHRASES.search(line)]
    assert found == []


def help_texts() -> list[str]:
    """The help of every command and of each of its options."""
    found = []
    for command in _commands(_program()):
        found.append(command.help or "")
        found += [str(getattr(each, "help", "") or "") for each in command.params]
    return found


def _program() -> TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    return found


def _commands(group: TyperGroup) -> Iterator[Command]:
    for command in group.commands.values():
        yield command
        if isinstance(command, TyperGroup):
            yield from _commands(command)


def test_the_help_texts_are_those_of_all_commands() -> None:
    assert len(list(_commands(_program()))) > 40


def test_a_class_name_means_one_thing() -> None:
    names = [name for _, name in classes()]
    repeated = {name for name in names if names.count(name) > 1}
    homes = {name: {file.split("/")[0] for file, each in classes() if each == name} for name in repeated}
    assert {name: where for name, where in homes.items() if where != {"language"}} == {}
    assert len(repeated) <= SAME_IN_BOTH_TREES
