"""The program: its commands in their order, the old names that still work, and what happens to errors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from omnigraph.cli.branch import branch
from omnigraph.cli.commit import commit
from omnigraph.cli.completion import PROGRAM, VARIABLE, completion, prepare_completion
from omnigraph.cli.diff import diff
from omnigraph.cli.doctor import doctor
from omnigraph.cli.failures import FAILED, hide_tracebacks, report
from omnigraph.cli.init import init
from omnigraph.cli.lint import lint
from omnigraph.cli.mutate import mutate
from omnigraph.cli.options import Command, Group, given
from omnigraph.cli.output import note
from omnigraph.cli.profile import profile
from omnigraph.cli.recovery import recovery
from omnigraph.cli.schema import schema
from omnigraph.cli.snapshot import snapshot
from omnigraph.cli.version import version
from omnigraph.errors import OmniGraphError
from omnigraph.world import REAL

if TYPE_CHECKING:
    import click

DATA, HISTORY, UPKEEP, LOCAL = "Data", "Branches and history", "Storage and upkeep", "This program"
# Names of earlier releases that still work, and what they are called now.
RENAMED = {"read": "query", "change": "mutate", "check": "lint"}


class Program(Group):
    """The whole command line: translates old names, and turns errors into messages and exit codes."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first words."""
        if args[0] == "query" and args[1:2] in (["lint"], ["check"]):
            note(f"warning: `query {args[1]}` is now `lint`")
            args = ["lint", *args[2:]]
        elif args[0] in RENAMED:
            note(f"warning: `{args[0]}` is now `{RENAMED[args[0]]}`")
            args = [RENAMED[args[0]], *args[1:]]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a user's mistake ends in a message, not in a traceback."""
        with ctx:
            try:
                return super().invoke(ctx)
            except OmniGraphError as error:
                report(error, debug=given().debug)
                raise typer.Exit(FAILED) from error


def _app() -> typer.Typer:
    made = typer.Typer(
        cls=Program,
        name=PROGRAM,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        help="A typed property graph with branches, commits and time travel, on a disk or in a bucket.",
        epilog="Every command has --help. Results go to stdout, everything else to stderr.",
    )
    made.command("mutate", cls=Command, rich_help_panel=DATA)(mutate)
    made.command("snapshot", cls=Command, rich_help_panel=DATA)(snapshot)
    made.add_typer(branch, name="branch", rich_help_panel=HISTORY)
    made.add_typer(commit, name="commit", rich_help_panel=HISTORY)
    made.command("diff", cls=Command, rich_help_panel=HISTORY)(diff)
    made.command("init", cls=Command, rich_help_panel=UPKEEP)(init)
    made.add_typer(schema, name="schema", rich_help_panel=UPKEEP)
    made.command("lint", cls=Command, rich_help_panel=UPKEEP)(lint)
    made.add_typer(recovery, name="recovery", rich_help_panel=UPKEEP)
    made.command("doctor", cls=Command, rich_help_panel=UPKEEP)(doctor)
    made.add_typer(profile, name="profile", rich_help_panel=LOCAL)
    made.command("completion", cls=Command, rich_help_panel=LOCAL)(completion)
    made.command("version", cls=Command, rich_help_panel=LOCAL)(version)
    return made


app = _app()


def main() -> None:
    """Run the program of the command line."""
    if "--debug" not in sys.argv:
        hide_tracebacks()
    if VARIABLE in REAL.environ:
        prepare_completion()
    app(prog_name=PROGRAM)
