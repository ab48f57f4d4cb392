"""`omnigraph optimize`, `cleanup` and `repair`: compaction, garbage collection, foreign commits.

`omnigraph ensure-indices`: build the indexes that the schema declares.

`omnigraph recovery`: the audit of operations that died and were finished or undone.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.frame.arguments import Branch, Json, Uri
from omnigraph.cli.frame.graph_scope import addressed, require_consent
from omnigraph.cli.frame.options import Command, Group
from omnigraph.cli.frame.output import FAILED, is_terminal, note, say, say_json, show_table, working
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from omnigraph.maintenance.cleanup import CleanupReport
    from omnigraph.maintenance.optimize import OptimizedTable
    from omnigraph.maintenance.repair import RepairReport
    from omnigraph.transaction.recovery.audit import Recovery


def ensure_indices(
    uri: Uri = None,
    branch: Branch = None,
    engine: Annotated[
        Literal["auto", "local", "spark"],
        typer.Option("--engine", help="The engine: spark builds the partitions of each index in tasks."),
    ] = "auto",
    json: Json = False,
) -> None:
    """Build the indexes that are declared and missing. All of them are one commit.

    $ omnigraph ensure-indices social.omni
    $ omnigraph ensure-indices social.omni --engine spark
    """
    from omnigraph.cli.render.documents import commit_json

    target = addressed(uri)
    graph = target.open()
    with working("building indexes"):
        done = graph.ensure_indices(branch=branch or "main", engine=engine)
    if json:
        built = [{"type_key": key, "indexes": list(names)} for key, names in sorted(done.built.items())]
        pending = [
            {"type_key": each.table_key, "property": each.property, "reason": each.reason} for each in done.pending
        ]
        commit = commit_json(done.commit) if done.commit else None
        say_json({"uri": target.uri, "built": built, "pending_indexes": pending, "commit": commit})
        return
    if not done.built:
        say("no index was missing")
    for key, names in sorted(done.built.items()):
        say(f"built {key}: {', '.join(names)}")
    for each in done.pending:
        say(f"pending {each.table_key}.{each.property}: {each.reason}")


recovery = typer.Typer(cls=Group, no_args_is_help=True, help="Show the operations that were recovered after a crash.")


@recovery.callback()
def _group() -> None:
    """Show the operations that were recovered after a crash."""


@recovery.command("list", cls=Command)
def list_recoveries(uri: Uri = None, json: Json = False) -> None:
    """List the operations that were interrupted and then completed or rolled back, oldest first.

    $ omnigraph recovery list social.omni
    """
    found = addressed(uri).open(read_only=True).recoveries()
    if json:
        say_json({"recoveries": [_recovery_json(each) for each in found]})
    elif is_terminal():
        rows = [(each.operation_id, each.kind, each.writer_kind, each.for_actor, _when(each)) for each in found]
        show_table(("operation", "outcome", "kind", "actor", "when"), rows)
    else:
        for each in found:
            actor = f" actor={each.for_actor}" if each.for_actor is not None else ""
            say(f"{each.operation_id} {each.kind} writer={each.writer_kind} commit={each.commit_id}{actor}")


def _recovery_json(each: "Recovery") -> dict[str, Any]:
    from omnigraph.cli.render.documents import present

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
        created_at=each.created_us,
        datasets=datasets,
    )


def _when(each: "Recovery") -> str:
    return each.created_at.strftime("%Y-%m-%d %H:%M:%S")


def optimize(
    uri: Uri = None,
    branch: Branch = None,
    engine: Annotated[
        Literal["auto", "local", "spark"], typer.Option("--engine", help="The engine that rewrites tables.")
    ] = "auto",
    json: Json = False,
) -> None:
    """Compact small fragments and complete the declared indexes. It is one commit; earlier commits stay readable.

    $ omnigraph optimize social.omni
    """
    target = addressed(uri)
    graph = target.open()
    with working("optimizing"):
        report = graph.optimize(branch=branch or "main", engine=engine)
    failed = [each for each in report.tables if each.error]
    if json:
        say_json({"uri": target.uri, "datasets": [_optimized_json(each) for each in report.tables]})
    else:
        for each in report.tables:
            say(f"{each.table_key}: {_optimized_text(each)}")
    if failed:
        raise typer.Exit(FAILED)


def _optimized_text(each: "OptimizedTable") -> str:
    if each.error or each.skipped:
        return f"failed: {each.error}" if each.error else f"skipped ({each.skipped})"
    if not each.committed:
        return "nothing to do"
    indexed = f", indexed {', '.join(each.indexed)}" if each.indexed else ""
    return f"{each.fragments_removed} fragments became {each.fragments_added}{indexed}"


def _optimized_json(each: "OptimizedTable") -> dict[str, Any]:
    document = {
        "type_key": each.table_key,
        "fragments_removed": each.fragments_removed,
        "fragments_added": each.fragments_added,
        "committed": each.committed,
        "skipped": each.skipped,
        "published_dataset_version": each.published_version,
        "lance_head_version": each.head_version,
        "indexed": list(each.indexed),
        "pending_indexes": [{"property": one.property, "reason": one.reason} for one in each.pending],
    }
    return {**document, "error": each.error} if each.error else document


def cleanup(
    uri: Uri = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", help="Retain the newest N commits of each branch.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="D", help="Also retain commits younger than D: 30s, 10m, 6h, 7d, 2w."),
    ] = None,
    grace: Annotated[
        str, typer.Option("--grace", metavar="D", help="Retain states that readers may still use for this long.")
    ] = "10m",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Delete. Without it, only print what would be retained.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be deleted, in bytes.")] = False,
    json: Json = False,
) -> None:
    """Delete table versions that are no longer needed. Retained commits, branches and tags stay readable.

    $ omnigraph cleanup social.omni --keep 10 --dry-run
    $ omnigraph cleanup social.omni --keep 10 --older-than 7d --confirm
    """
    if keep is None and older_than is None:
        raise InvalidInput("say what to keep: --keep N, --older-than D, or both.")
    target = addressed(uri)
    from omnigraph.maintenance.cleanup import duration

    age = None if older_than is None else duration(older_than)
    if not confirm and not dry_run:
        note(
            f"cleanup would keep {_policy(keep, older_than)}; nothing was deleted. Add --confirm, or --dry-run to see."
        )
        return
    if not dry_run:
        require_consent("cleanup", target.uri, is_local=target.is_local, json=json)
    graph = target.open(read_only=dry_run)
    with working("cleaning up"):
        report = graph.cleanup(keep=keep, older_than=age, grace=duration(grace), dry_run=dry_run)
    _say_cleaned(report, target.uri, json=json)
    if any(each.error for each in report.tables):
        raise typer.Exit(FAILED)


def _say_cleaned(report: "CleanupReport", uri: str, *, json: bool) -> None:
    if json:
        age = None if report.older_than is None else int(report.older_than.total_seconds())
        datasets = [
            {
                "type_key": each.table_key,
                "bytes_removed": each.bytes_removed,
                "old_versions_removed": each.versions_removed,
                "forks_removed": list(each.forks_removed),
                "error": each.error,
            }
            for each in report.tables
        ]
        document = {"uri": uri, "keep_versions": report.keep, "older_than_secs": age, "dry_run": report.dry_run}
        say_json({**document, "datasets": datasets})
        return
    verb = "would remove" if report.dry_run else "removed"
    for each in report.tables:
        said = f"failed: {each.error}" if each.error else _removal_text(each.versions_removed, each.bytes_removed)
        forks = f", forks {', '.join(each.forks_removed)}" if each.forks_removed else ""
        say(f"{each.table_key}: {said}{forks}")
    say(f"{verb} {_removal_text(report.versions_removed, report.bytes_removed)}")


def _removal_text(versions: int, size: int) -> str:
    return f"{versions} {'version' if versions == 1 else 'versions'}, {size:,} bytes"


def _policy(keep: int | None, older_than: str | None) -> str:
    conditions = ([f"the newest {keep} commits of each branch"] if keep is not None else []) + (
        [f"everything of the last {older_than}"] if older_than is not None else []
    )
    return " and ".join(conditions)


def repair(
    uri: Uri = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Publish changes that only rewrote files.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Publish changes that may have changed rows, too, without validation.")
    ] = False,
    json: Json = False,
) -> None:
    """List tables that another program has committed to. With --confirm, their newest versions are published.

    $ omnigraph repair social.omni
    $ omnigraph repair social.omni --confirm
    """
    if force and not confirm:
        raise InvalidInput("--force says what to do with changes that may have touched rows: it needs --confirm too.")
    target = addressed(uri)
    report = target.open(read_only=not confirm).repair(confirm=confirm, force=force)
    _say_repaired(report, target.uri, json=json)
    if report.refused:
        raise typer.Exit(FAILED)


def _say_repaired(report: "RepairReport", uri: str, *, json: bool) -> None:
    if json:
        datasets = [
            {
                "type_key": each.table_key,
                "graph_branch": each.branch,
                "published_dataset_version": each.published_version,
                "lance_head_version": each.head_version,
                "classification": each.classification,
                "action": each.action,
                "operations": list(each.operations),
                "error": each.error,
            }
            for each in report.tables
        ]
        document = {"uri": uri, "confirm": report.confirm, "force": report.force}
        say_json({**document, "graph_manifest_version": report.manifest_version, "datasets": datasets})
        return
    moved = [each for each in report.tables if each.classification != "no_drift"]
    for each in moved:
        operations = f" [{', '.join(each.operations)}]" if each.operations else ""
        versions = f"{each.published_version} → {each.head_version}"
        said = f": {each.error}" if each.error else ""
        say(f"{each.table_key} on {each.branch}: {versions} {each.classification}{operations} {each.action}{said}")
    if not moved:
        say("every table is where the graph says")
