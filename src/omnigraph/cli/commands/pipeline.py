"""`omnigraph pipeline`: check, plan and run pipeline files."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.frame.arguments import Json
from omnigraph.cli.frame.capabilities import FLAGS
from omnigraph.cli.frame.graph_scope import GraphScope, actor, addressed, require_consent
from omnigraph.cli.frame.options import Command, Group, given
from omnigraph.cli.frame.output import say, say_json, working

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.pipeline.pipeline import Pipeline, PipelineRun

pipeline = typer.Typer(cls=Group, no_args_is_help=True, help="Check, plan and run pipeline files.")
File = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline, a YAML file.")]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="MASTER", help="The Spark master; default: SPARK_REMOTE, or a local session."),
]
RunId = Annotated[
    str | None, typer.Option("--run-id", metavar="ID", help="Run once: a repeated run with the same id has no effect.")
]


@pipeline.command("validate", cls=Command)
def validate(file: File, json: Json = False) -> None:
    """Check a pipeline file against the schema of its graph, without Spark.

    $ omnigraph pipeline validate pipeline.yaml
    """
    read, target = _read(file)
    read.validate(target.open(read_only=True))
    if json:
        say_json({"file": file, "valid": True})
    else:
        say(f"{file} is valid")


@pipeline.command("plan", cls=Command)
def plan(file: File, run_id: RunId = None, master: Master = None, json: Json = False) -> None:
    """Show what a run would read and write. Nothing is written.

    $ omnigraph pipeline plan pipeline.yaml
    """
    read, target = _read(file, run_id)
    graph = target.open(read_only=True)
    with working(f"planning {file}"):
        plan = read.plan(graph, session=_session(master))
    if json:
        say_json(plan.to_dict())
    else:
        say(str(plan))


@pipeline.command("run", cls=Command)
def run(file: File, run_id: RunId = None, master: Master = None, json: Json = False) -> None:
    """Run a pipeline: one commit on its branch, then the merge that the file declares.

    $ omnigraph pipeline run pipeline.yaml --master 'local[4]' --run-id 2026-11-16
    """
    read, target = _read(file, run_id)
    if read.mode == "overwrite":
        require_consent("pipeline run with mode overwrite", target.uri, is_local=target.is_local, json=json)
    graph = target.open()
    with working(f"running {file}"):
        done = read.run(graph, session=_session(master), actor=actor())
    if json:
        say_json(_run_json(file, target.uri, read, done))
        return
    for line in _run_lines(read, done):
        say(line)


def _read(file: str, run_id: str | None = None) -> "tuple[Pipeline, GraphScope]":
    """The pipeline and its graph: the one that flags name, else the file's, else the default one."""
    from omnigraph.pipeline.pipeline import Pipeline

    read = Pipeline.from_file(file).with_run_id(run_id)
    named = any(given().flag(flag) is not None for flag in FLAGS if flag != "as")
    return read, addressed(None if named else read.graph_uri)


def _session(master: str | None) -> "SparkSession":
    from omnigraph.tasks.runner import require_spark

    require_spark("omnigraph pipeline")
    from omnigraph.spark.runtime.session import spark_session

    return spark_session(master=master)


def _run_json(file: str, uri: str, read: "Pipeline", done: "PipelineRun") -> dict[str, Any]:
    from omnigraph.cli.render.documents import commit_json

    summary = done.summary
    merged = done.merged
    return {
        "file": file,
        "uri": uri,
        "branch": read.branch,
        "mode": read.mode,
        "repeated": done.repeated,
        "summary": None if summary is None else summary.to_dict(),
        "commit": commit_json(done.commit),
        "merge": None if merged is None else {"into": merged.target, "outcome": merged.kind},
    }


def _run_lines(read: "Pipeline", done: "PipelineRun") -> list[str]:
    branch, summary = read.branch, done.summary
    if summary is None:
        lines = [f"run {read.run_id} was done before: commit {done.commit.id}"]
    else:
        kinds = f"{len(summary.nodes)} node types and {len(summary.edges)} edge types"
        lines = [f"loaded {summary.rows} entities across {kinds} on branch {branch} with {read.mode}"]
    if done.merged is not None:
        lines.append(f"merged {branch} into {done.merged.target}: {done.merged.kind}")
    return lines
