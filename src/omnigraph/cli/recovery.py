"""`omnigraph recovery`: the audit of operations that died and were finished or undone."""

import datetime as dt
from typing import TYPE_CHECKING, Any

import typer

from omnigraph.cli.arguments import Json, Uri
from omnigraph.cli.options import Command, Group
from omnigraph.cli.output import is_terminal, say, say_json, show_table
from omnigraph.cli.scopes import addressed

if TYPE_CHECKING:
    from omnigraph.write.recovery.audit import Recovery

recovery = typer.Typer(cls=Group, no_args_is_help=True, help="What was recovered after a crash.")


@recovery.callback()
def _group() -> None:
    """What was recovered after a crash."""


@recovery.command("list", cls=Command)
def list_recoveries(uri: Uri = None, json: Json = False) -> None:
    """List the operations that died and were finished or undone, the oldest first.

    $ omnigraph recovery list social.omni
    """
    found = addressed(uri).open(read_only=True).recoveries()
    if json:
        say_json({"recoveries": [_told(each) for each in found]})
    elif is_terminal():
        rows = [(each.operation_id, each.kind, each.writer_kind, each.for_actor, _when(each)) for each in found]
        show_table(("operation", "outcome", "kind", "actor", "when"), rows)
    else:
        for each in found:
            actor = f" actor={each.for_actor}" if each.for_actor is not None else ""
            say(f"{each.operation_id} {each.kind} writer={each.writer_kind} commit={each.commit_id}{actor}")


def _told(each: "Recovery") -> dict[str, Any]:
    from omnigraph.cli.wire import present

    datasets = [
        {"type_key": one.table_key, "from_version": one.from_version, "to_version": one.to_version}
        for one in each.outcomes
    ]
    return present(
        operation_id=each.operation_id,
        recovery_kind=each.kind,
        writer_kind=each.writer_kind,
        graph_commit_id=each.commit_id,
        actor_id=each.for_actor,
        created_at=each.created_at,
        datasets=datasets,
    )


def _when(each: "Recovery") -> str:
    return dt.datetime.fromtimestamp(each.created_at / 1_000_000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
