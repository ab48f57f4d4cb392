"""The program: its commands in their order, the old names that still work, and what happens to errors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from omnigraph.cli.blob import blob
from omnigraph.cli.branch import branch
from omnigraph.cli.changes import changes
from omnigraph.cli.commit import commit
from omnigraph.cli.completion import PROGRAM, VARIABLE, completion, prepare_completion
from omnigraph.cli.diff import diff
from omnigraph.cli.doctor import doctor
from omnigraph.cli.embed import embed
from omnigraph.cli.export import export
from omnigraph.cli.failures import FAILED, hide_tracebacks, report
from omnigraph.cli.indices import ensure_indices
from omnigraph.cli.init import init
from omnigraph.cli.lint import lint
from omnigraph.cli.load import ingest, load
from omnigraph.cli.mutate import mutate
from omnigraph.cli.options import Command, Group, given
from omnigraph.cli.output import note
from omnigraph.cli.pipeline import pipeline
from omnigraph.cli.profile import profile
from omnigraph.cli.query import query
from omnigraph.cli.recovery import recovery
from omnigraph.cli.revert import revert
from omnigraph.cli.schema import schema
from omnigraph.cli.snapshot import snapshot
from omnigraph.cli.tag import tag
from omnigraph.cli.upkeep import cleanup, optimize, repair
from omnigraph.cli.version import version
from omnigraph.errors import OmniGraphError
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer._click import Command as AnyCommand
    from typer._click import Context

CHAPTERS: dict[str, dict[str, typer.Typer | Callable[..., None]]] = {
    "Data": {
        "load": load,
        "ingest": ingest,
        "embed": embed,
        "pipeline": pipeline,
        "query": query,
        "mutate": mutate,
        "snapshot": snapshot,
        "export": export,
        "blob": blob,
    },
    "Branches and history": {
        "branch": branch,
        "commit": commit,
        "diff": diff,
        "changes": changes,
        "tag": tag,
        "revert": revert,
    },
    "Schema": {"init": init, "schema": schema, "lint": lint},
    "Upkeep": {
        "optimize": optimize,
        "ensure-indices": ensure_indices,
        "cleanup": cleanup,
        "repair": repair,
        "doctor": doctor,
        "recovery": recovery,
    },
    "This program": {"profile": profile, "completion": completion, "version": version},
}
HIDDEN = {"ingest"}
ORDER = [name for commands in CHAPTERS.values() for name in commands]
# Names of earlier releases that still work, and what they are called now.
RENAMED = {"read": "query", "change": "mutate", "check": "lint"}


class Program(Group):
    """The whole command line: translates old names, and turns errors into messages and exit codes."""

    def list_commands(self, ctx: Context) -> list[str]:
        """In the order of the help's chapters, each chapter in the order of its commands."""
        return sorted(super().list_commands(ctx), key=ORDER.index)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, AnyCommand | None, list[str]]:
        """The command of the first words."""
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
    for panel, commands in CHAPTERS.items():
        for name, command in commands.items():
            if isinstance(command, typer.Typer):
                made.add_typer(command, name=name, rich_help_panel=panel)
            else:
                made.command(name, cls=Command, rich_help_panel=panel, hidden=name in HIDDEN)(command)
    return made


app = _app()


def main() -> None:
    """Run the program of the command line."""
    if "--debug" not in sys.argv:
        hide_tracebacks()
    if VARIABLE in REAL.environ:
        prepare_completion()
    # Calling the app itself would put typer's own hook for tracebacks in place.
    typer.main.get_command(app)(prog_name=PROGRAM)
