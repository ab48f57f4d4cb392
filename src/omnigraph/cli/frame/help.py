"""Formats help: what a command is for, its arguments and options by panel, and examples at the end.

It uses click's plain formatter, because the rich one takes longer to load than most commands take to run.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    # typer carries its own copy of click and names these types nowhere else.
    from typer._click import Command, Context, HelpFormatter, Parameter

WIDEST = 100
_PROMPT = "$ "
_JOINT = "\N{NO-BREAK SPACE}"


def split_examples(text: str) -> tuple[str, list[str]]:
    """The prose of a help text, and its examples: the lines that begin with a prompt."""
    lines = inspect.cleandoc(text).splitlines()
    examples = [line.removeprefix(_PROMPT) for line in lines if line.startswith(_PROMPT)]
    return "\n".join(line for line in lines if not line.startswith(_PROMPT)).strip(), examples


def first_sentence(text: str) -> str:
    """What a list of commands says about one."""
    line = split_examples(text)[0].partition("\n")[0]
    sentence, stop, _ = line.partition(". ")
    return sentence + "." if stop else line


def write_prose(formatter: HelpFormatter, text: str) -> None:
    """What a command is for, in paragraphs."""
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(split_examples(text)[0])


def write_examples(formatter: HelpFormatter, text: str) -> None:
    """Lines to copy, which are never wrapped."""
    examples = split_examples(text)[1]
    if not examples:
        return
    with formatter.section(_strong("Examples")):
        for each in examples:
            formatter.write(f"  {each}\n")


def write_parameters(formatter: HelpFormatter, ctx: Context, parameters: Sequence[Parameter]) -> None:
    """Arguments, then options by panel; those of the command come before those of the program."""
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for each in parameters:
        record = each.get_help_record(ctx)
        if record is not None:
            panels.setdefault(_panel(each), []).append((_strong(_without_brackets(record[0])), _joined(record[1])))
    for panel, records in panels.items():
        if records:
            with formatter.section(_strong(panel)):
                formatter.write_dl(records, col_max=28)
    formatter.buffer[:] = [each.replace(_JOINT, " ") for each in formatter.buffer]


def write_commands(formatter: HelpFormatter, chapters: Mapping[str, Mapping[str, str]]) -> None:
    """The commands of each chapter with the line about them, all in one column."""
    width = max(len(name) for commands in chapters.values() for name in commands)
    for chapter, commands in chapters.items():
        with formatter.section(_strong(chapter)):
            formatter.write_dl([(_strong(name.ljust(width)), line) for name, line in commands.items()])


def usage_arguments(arguments: Sequence[str]) -> list[str]:
    """A required argument is written as it is everywhere: without braces."""
    return [each[1:-1] if each.startswith("{") and each.endswith("}") else each for each in arguments]


def lines_about(commands: Mapping[str, Command]) -> dict[str, str]:
    """The visible commands of a group, each with its first sentence."""
    return {name: first_sentence(each.help or "") for name, each in commands.items() if not each.hidden}


def _panel(parameter: Parameter) -> str:
    named = getattr(parameter, "rich_help_panel", None)
    return str(named) if named else "Arguments" if parameter.param_type_name == "argument" else "Options"


def _without_brackets(names: str) -> str:
    """`--mode <append|merge>` is `--mode append|merge`: the brackets carry no meaning."""
    return names.replace("<", "").replace(">", "")


def _joined(text: str) -> str:
    """`[default: main]` at the end of a text is never broken over two lines."""
    prose, found, extra = text.rpartition("  [")
    return f"{prose} [{extra.replace(' ', _JOINT)}" if found else text


def _strong(text: str) -> str:
    """Bold on a terminal; click removes it elsewhere."""
    return typer.style(text, bold=True)
