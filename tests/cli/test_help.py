"""The help: every command explains itself, with examples that can be typed, in any terminal."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
import typer
from typer.core import TyperGroup

from omnigraph.cli.frame.help import first_sentence, split_examples
from omnigraph.cli.frame.index import CHAPTERS, names
from omnigraph.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typer._click import Command

    from cli.conftest import Ran

    Run = Callable[..., Ran]


def _program() -> TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    return found


def _commands(group: TyperGroup, *before: str) -> Iterator[tuple[tuple[str, ...], Command]]:
    for name, command in group.commands.items():
        yield (*before, name), command
        if isinstance(command, TyperGroup):
            yield from _commands(command, *before, name)


EVERY = dict(_commands(_program()))
EXAMPLES = [
    pytest.param(words, example, id=example)
    for words, command in EVERY.items()
    for example in split_examples(command.help or "")[1]
]


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_explains_itself_and_each_of_its_options(run: Run, words: tuple[str, ...]) -> None:
    long, short = run(*words, "--help"), run(*words, "-h")
    command = EVERY[words]

    assert long.code == 0
    assert long.out == short.out
    assert f"Usage: omnigraph {' '.join(words)}" in long.out
    assert command.help
    assert all(getattr(each, "help", None) for each in command.params), "every option says what it is for"
    assert isinstance(command, TyperGroup) or "\nExamples:\n" in long.out


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("words", [(), *EVERY], ids=" ".join)
def test_no_line_is_wider_than_the_terminal_and_no_default_is_broken(words: tuple[str, ...], columns: int) -> None:
    command: Command = _program()
    context = command.make_context("omnigraph", [], resilient_parsing=True, terminal_width=columns - 2)
    for word in words:
        assert isinstance(command, TyperGroup)
        command = command.commands[word]
        context = command.make_context(word, [], parent=context, resilient_parsing=True)

    shown, _, _ = re.sub(r"\x1b\[\d+m", "", command.get_help(context)).partition("\nExamples:\n")

    assert max(len(line) for line in shown.splitlines()) < columns
    assert not re.search(r"\[(default|required)[^\]]*\n", shown)


@pytest.mark.parametrize(("words", "example"), EXAMPLES)
def test_every_example_can_be_typed(words: tuple[str, ...], example: str) -> None:
    program, *arguments = shlex.split(example.partition(" > ")[0])
    command: Command = _program()
    context = command.make_context(program, arguments)
    while isinstance(command, TyperGroup):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)

    assert command is EVERY[words] or command.help == EVERY[words].help


@pytest.mark.parametrize("name", names())
def test_the_list_of_commands_says_what_the_commands_say(name: str) -> None:
    told = {name: line for chapter in CHAPTERS.values() for name, line in chapter.items()}

    assert told[name] == first_sentence(EVERY[(name,)].help or "")


def test_the_program_lists_its_commands_by_chapter_without_the_hidden_ones(run: Run) -> None:
    shown = run("--help").out

    assert [line for line in shown.splitlines() if line[:-1] in CHAPTERS] == [f"{each}:" for each in CHAPTERS]
    assert "  ensure-indices  Build" in shown
    assert "ingest" not in shown


def test_scope_flags_are_shown_where_they_mean_something(run: Run) -> None:
    assert "--store" in run("snapshot", "--help").out
    assert "--store" not in run("version", "--help").out
    assert "--cluster" in run("lint", "--help").out
    assert "--cluster" not in run("snapshot", "--help").out
    assert "--yes" in run("branch", "delete", "--help").out
    assert "--yes" not in run("branch", "create", "--help").out
    assert "--server" not in run("--help").out


def test_defaults_and_what_is_required_are_shown(run: Run) -> None:
    shown = run("load", "--help").out

    assert "[required]" in shown
    assert "[default: main]" in shown
    assert "--mode overwrite|append|merge" in shown
    assert "Usage: omnigraph branch merge [OPTIONS] SOURCE\n" in run("branch", "merge", "--help").out


def test_headings_are_bold_at_a_terminal_only(run: Run, at_a_terminal: Callable[..., tuple[int, str]]) -> None:
    assert "\x1b[" not in run("load", "--help").out
    assert "\x1b[1mOptions\x1b[0m" in at_a_terminal("load", "--help", NO_COLOR=None)[1]
    assert "\x1b[" not in at_a_terminal("load", "--help", NO_COLOR="1")[1]
