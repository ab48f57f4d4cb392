"""A pipeline: read from a file, checked, planned and run.

p = Pipeline.from_file("nightly.yaml")
p.validate(g)                     # raises PipelineError with everything that is wrong
print(p.plan(g))                  # what would be read and written; writes nothing
done = p.run(g)                   # one commit, then the merge if the file asks for one
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.arguments import checked_methods
from omnigraph.graph.open import components_of
from omnigraph.kernels.report import Report
from omnigraph.load.plan import Input, LoadOptions, LoadPlan, plan_load, vectors_may_be_missing
from omnigraph.pipeline.file import FILES, YamlText
from omnigraph.pipeline.parse import check_against, read_file, read_text
from omnigraph.pipeline.plan import PipelinePlan, SourcePlan, TypePlan
from omnigraph.pipeline.yaml import PipelineFindings

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.graph.graph import Graph
    from omnigraph.history.merge.merge import Merged
    from omnigraph.load.operation import LoadSummary
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.pipeline.file import PipelineFile, PipelineSource, TypeMapping
    from omnigraph.pipeline.mapping import Mapped
    from omnigraph.pipeline.sources import Workspace

_DIRECT = ("parquet", "csv", "json", "orc")


@dataclass(frozen=True)
class _Schema:
    """A schema of the graph by the name that commits give it. `readable`: as rows are read, before vectors are made."""

    name: str | None
    catalog: Catalog
    readable: Catalog


@dataclass(frozen=True, repr=False)
class PipelineRun(Report):
    """What a run did. `repeated`: a run with its run id had been made before, and nothing was read or written.

    `merged` is the report of the publish step, if there is one.
    """

    commit: GraphCommit
    summary: LoadSummary | None
    merged: Merged | None = None
    repeated: bool = False

    def _summary(self) -> str:
        rows = "repeated" if self.summary is None else f"{self.summary.rows:,} rows"
        return f"{rows}, commit {self.commit.id} on {self.commit.branch}" + ("" if self.merged is None else ", merged")


@checked_methods
@dataclass(frozen=True)
class Pipeline:
    """A pipeline file and its folder, to which its paths are relative."""

    _file: PipelineFile = field(repr=False)
    folder: Path
    text: str = field(repr=False)
    name: str

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Pipeline:
        """Read a pipeline file. `PipelineError` lists every syntax error, with line and column."""
        where = Path(path)
        file, findings = read_file(where)
        return cls(file, where.absolute().parent, findings.text, findings.name)

    @classmethod
    def from_text(cls, text: str, *, folder: str | os.PathLike[str] = ".") -> Pipeline:
        """The same from a text."""
        file, findings = read_text(text)
        return cls(file, Path(folder).absolute(), findings.text, findings.name)

    @property
    def branch(self) -> str:
        """The branch that it loads into."""
        return self._file.branch.value

    @property
    def mode(self) -> Literal["append", "merge", "overwrite"]:
        """How rows are loaded."""
        return self._file.mode

    @property
    def run_id(self) -> str | None:
        """The run id: a run with the same id is done once."""
        return None if self._file.run_id is None else self._file.run_id.value

    @property
    def graph_uri(self) -> str | None:
        """The graph that the file names, if it does."""
        given = self._file.graph
        if given is None:
            return None
        return given.value if "://" in given.value else str(self.folder / given.value)

    def with_run_id(self, run_id: str | None) -> Pipeline:
        """The same pipeline under another run id; None leaves the file's."""
        return self if run_id is None else replace(self, _file=replace(self._file, run_id=YamlText(run_id)))

    def validate(self, graph: Graph) -> None:
        """Check it against the graph's schema, without Spark. Raises `PipelineError` with everything that is wrong."""
        self._check(self._schema(graph).readable)

    def plan(self, graph: Graph, *, session: SparkSession | None = None) -> PipelinePlan:
        """What a run would do. Sources are opened for their columns and sizes; nothing is written."""
        schema = self._schema(graph)
        self._check(schema.readable)
        with self._workspace(graph, session) as work:
            mapped = self._mapped(graph, work, schema.readable)
            return self._plan_of(graph, work, mapped)

    def run(self, graph: Graph, *, session: SparkSession | None = None, actor: str | None = None) -> PipelineRun:
        """Load everything as one commit on the branch, then publish as the file says.

        When the schema of the branch is changed meanwhile, that is `SchemaChanged`, and nothing is written.
        """
        schema = self._schema(graph)
        self._check(schema.readable)
        done = self._done_before(graph)
        if done is not None:
            return PipelineRun(done, None, repeated=True)
        with self._workspace(graph, session) as work:
            mapped = self._mapped(graph, work, schema.readable)
            self._make_branch(graph)
            with work.findings_of_run(self._file):
                commit, summary, repeated = self._load(graph, work, mapped, schema, actor)
        return PipelineRun(commit, summary, self._publish(graph, actor), repeated=repeated)

    def _findings(self) -> PipelineFindings:
        return PipelineFindings(self.text, self.name)

    def _check(self, catalog: Catalog) -> None:
        findings = self._findings()
        check_against(self._file, catalog, findings)
        findings.raise_if_any()

    def _schema(self, graph: Graph) -> _Schema:
        """The schema of the state that the run starts from; that of main while the branch does not exist."""
        starts = self._file.from_ is not None or self._has_branch(graph)
        name = (self._base(graph) if starts else graph.snapshot()).schema
        catalog = components_of(graph).schemas.of(name).catalog
        return _Schema(name, catalog, vectors_may_be_missing(catalog) if self._file.embed else catalog)

    @contextmanager
    def _workspace(self, graph: Graph, session: SparkSession | None) -> Iterator[Workspace]:
        from omnigraph.pipeline.sources import workspace
        from omnigraph.spark.runtime.session import spark_session

        world = components_of(graph).manifest.world
        with workspace(spark_session(session=session, world=world), self.folder, self._findings(), world) as work:
            work.open(self._file)
            yield work

    def _mapped(self, graph: Graph, work: Workspace, catalog: Catalog) -> list[Mapped]:
        from omnigraph.pipeline.mapping import Mapper

        location = components_of(graph).manifest.stores.tables.location
        work.findings.raise_if_any()
        mapped = Mapper(self._file, catalog, work, location, self._base(graph)).map()
        work.findings.raise_if_any()
        return mapped

    def _base(self, graph: Graph) -> Snapshot:
        """The state that the run starts from."""
        given = self._file.from_
        if given is None or self._has_branch(graph):
            return graph.snapshot(branch=self._file.branch.value)
        return graph.snapshot(at=given.value)

    def _has_branch(self, graph: Graph) -> bool:
        return self._file.branch.value in {each.name for each in graph.branches.list()}

    def _make_branch(self, graph: Graph) -> None:
        if self._file.from_ is not None and not self._has_branch(graph):
            graph.branches.create(self._file.branch.value, from_=self._file.from_.value)

    def _load(
        self, graph: Graph, work: Workspace, mapped: list[Mapped], schema: _Schema, actor: str | None
    ) -> tuple[GraphCommit, LoadSummary | None, bool]:
        from omnigraph.pipeline.mapping import refuse_unresolved
        from omnigraph.spark.load import load_plan

        if self._file.errors.fails:
            for each in mapped:
                refuse_unresolved(each)
        receipt, summary = load_plan(
            components_of(graph).manifest,
            schema.catalog,
            LoadPlan(tuple(self._inputs(graph, work, mapped, schema.readable))),
            LoadOptions(
                mode=self._file.mode,
                branch=self._file.branch.value,
                actor=actor or graph.actor,
                idempotency_key=None if self._file.run_id is None else self._file.run_id.value,
                on_error=self._errors(),
                spark=work.session,
                embeddings=components_of(graph).embeddings if self._file.embed else None,
            ),
            schema=schema.name,
        )
        return receipt.commit, None if receipt.repeated else summary, receipt.repeated

    def _errors(self) -> Any:
        policy = self._file.errors
        if policy.path is None or "://" in policy.path:
            return policy
        return replace(policy, path=str(self.folder / policy.path))

    def _inputs(self, graph: Graph, work: Workspace, mapped: list[Mapped], catalog: Catalog) -> Iterator[Input]:
        from omnigraph.pipeline.mapping import without_keys

        world = components_of(graph).manifest.world
        for source in self._file.sources:
            for path in source.paths if source.format == "graph" else ():
                yield from plan_load(work.located(path.value), catalog, world).inputs
        for each in mapped:
            source_of = self._file.source(each.mapping.source.value)
            if source_of is not None and _is_direct(each.mapping, source_of):
                for path in source_of.paths:
                    yield from plan_load({each.type.table_key: work.located(path.value)}, catalog, world).inputs
            else:
                yield Input("spark", without_keys(each), each.type.name, each.type)

    def _done_before(self, graph: Graph) -> GraphCommit | None:
        """The commit of an earlier run with this run id: the merge, if this pipeline publishes, else the load."""
        if self._file.run_id is None:
            return None
        branch = self._file.branch.value if self._file.publish is None else self._file.publish.into.value
        if branch not in {each.name for each in graph.branches.list()}:
            return None
        return components_of(graph).manifest.fresh_branch(branch).commit_by_key(self._file.run_id.value)

    def _publish(self, graph: Graph, actor: str | None) -> Merged | None:
        publish = self._file.publish
        if publish is None:
            return None
        return graph.merge(
            self._file.branch.value,
            into=publish.into.value,
            resolve=publish.resolve,
            actor=actor,
            idempotency_key=None if self._file.run_id is None else self._file.run_id.value,
            delete_branch=publish.delete_branch,
        )

    def _plan_of(self, graph: Graph, work: Workspace, mapped: list[Mapped]) -> PipelinePlan:
        file, publish = self._file, self._file.publish
        transforms = (SourcePlan(each.name.value, "sql", _columns(work, each.name.value)) for each in file.transforms)
        return PipelinePlan(
            graph=graph.uri,
            mode=file.mode,
            branch=file.branch.value,
            creates_branch_from=file.from_.value if file.from_ and not self._has_branch(graph) else None,
            merges_into=publish.into.value if publish else None,
            quarantine=file.errors.limit,
            run_id=file.run_id.value if file.run_id else None,
            done=self._done_before(graph) is not None,
            sources=(*(self._source_plan(graph, work, each) for each in file.sources), *transforms),
            types=tuple(self._type_plan(each) for each in mapped),
        )

    def _source_plan(self, graph: Graph, work: Workspace, source: PipelineSource) -> SourcePlan:
        from omnigraph.load.files import find_files

        columns = {} if source.format == "graph" else _columns(work, source.name.value)
        if source.format not in FILES or source.format in ("lance", "omnigraph"):
            return SourcePlan(source.name.value, source.format, columns)
        world = components_of(graph).manifest.world
        found = [file for path in source.paths for file in find_files(work.located(path.value), world)]
        return SourcePlan(source.name.value, source.format, columns, len(found), sum(each.size for each in found))

    def _type_plan(self, each: Mapped) -> TypePlan:
        mapping, source = each.mapping, self._file.source(each.mapping.source.value)
        names = tuple(name for name in each.frame.columns if not name.startswith(("from ", "to ")))
        endpoints = {"from": mapping.from_, "to": mapping.to}
        lookups = {
            end: tuple(name.value for name, _ in given.lookup)
            for end, given in endpoints.items()
            if given and given.lookup
        }
        direct = source is not None and _is_direct(mapping, source)
        return TypePlan(mapping.kind, each.type.name, mapping.source.value, names, lookups, direct)


def _is_direct(mapping: TypeMapping, source: PipelineSource) -> bool:
    """Whether the loader can read the files itself, and so name the line of a bad row."""
    return mapping.is_plain and source.format in _DIRECT and not source.options and source.schema is None


def _columns(work: Workspace, name: str) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in work.frames[name].schema.fields}
