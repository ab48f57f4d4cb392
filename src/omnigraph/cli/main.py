"""The program: finds a command when it is named, translates old names, and turns errors into messages."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer

from omnigraph.cli.frame.completion import PROGRAM, VARIABLE, prepare_completion
from omnigraph.cli.frame.help import WIDEST, write_commands, write_examples, write_parameters, write_prose
from omnigraph.cli.frame.index import HIDDEN, location_of, names, visible_commands
from omnigraph.cli.frame.options import SOURCE_NAME, Command, Group, given
from omnigraph.cli.frame.output import FAILED, hide_tracebacks, note, report, unusable_file
from omnigraph.errors import OmniGraphError
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click import Command as AnyCommand
    from typer._click import Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem

# Names of earlier releases that still work, and what they are called now.
RENAMED = {"read": "query", "change": "mutate", "check": "lint"}


class LazyCommands(Mapping[str, "AnyCommand"]):
    """All commands by name; each is imported on first use, because loading all of them takes time."""

    def __init__(self) -> None:
        self._loaded: dict[str, AnyCommand] = {}

    def __getitem__(self, name: str) -> AnyCommand:
        if name not in self._loaded:
            if name not in names():
                raise KeyError(name)
            self._loaded[name] = _command(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(names())

    def __len__(self) -> int:
        return len(names())


class Program(Group):
    """The whole command line: translates old names, and turns errors into messages and exit codes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": LazyCommands()})

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, AnyCommand | None, list[str]]:
        """The command that the first arguments name."""
        if args[0] == "query" and args[1:2] in (["lint"], ["check"]):
            note(f"warning: `query {args[1]}` is now `lint`")
            args = ["lint", *args[2:]]
        elif args[0] in RENAMED:
            note(f"warning: `{args[0]}` is now `{RENAMED[args[0]]}`")
            args = [RENAMED[args[0]], *args[1:]]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Context) -> Any:
        """Run the command; a user's mistake ends in a message, not in a traceback."""
        with ctx:
            try:
                return super().invoke(ctx)
            except OmniGraphError as error:
                report(error, debug=given().debug, source_name=ctx.meta.get(SOURCE_NAME))
                raise typer.Exit(FAILED) from error
            except OSError as error:
                # Without a file it is no mistake of the user's: a reader that went away, or a defect.
                if error.filename is None:
                    raise
                report(unusable_file(error), debug=given().debug)
                raise typer.Exit(FAILED) from error

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """The commands by chapter, and the global options."""
        self.format_usage(ctx, formatter)
        write_prose(formatter, self.help or "")
        write_commands(formatter, visible_commands())
        write_parameters(formatter, ctx, self.get_params(ctx))
        write_examples(formatter, self.help or "")

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """The commands with this prefix and their summaries; or the options."""
        from typer._click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        lines = {name: line for commands in visible_commands().values() for name, line in commands.items()}
        return [CompletionItem(name, help=line) for name, line in lines.items() if name.startswith(incomplete)]


def _command(name: str) -> AnyCommand:
    module, attribute = location_of(name)
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=Command, hidden=name in HIDDEN)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=Program,
    name=PROGRAM,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={
        "help_option_names": ["--help", "-h"],
        "max_content_width": WIDEST,
        "color": False if "NO_COLOR" in REAL.environ else None,
    },
)


@app.callback()
def omnigraph() -> None:
    """A typed property graph with branches, commits and time travel, on a disk or in a bucket.

    Every command has --help. Results are written to stdout, messages and errors to stderr.

    $ omnigraph init --schema schema.pg social.omni
    $ omnigraph load social.omni --data people.jsonl --mode merge
    $ omnigraph query friends --query queries.gq --params '{"name": "Ada"}' --store social.omni
    """


def main() -> None:
    """Run the program of the command line."""
    if "--debug" not in sys.argv:
        hide_tracebacks()
    if VARIABLE in REAL.environ:
        prepare_completion()
    # Calling the app itself would put typer's own hook for tracebacks in place.
    typer.main.get_command(app)(prog_name=PROGRAM)
