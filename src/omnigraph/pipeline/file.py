"""The parsed form of a pipeline file. Every text carries its source span, so that later findings can point at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from omnigraph.language.core.diagnostics import NOWHERE, Span
from omnigraph.load.plan import FAIL, ErrorPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Mode = Literal["append", "merge", "overwrite"]
Format = Literal["graph", "parquet", "csv", "json", "orc", "jdbc", "table", "lance", "omnigraph"]
FILES: tuple[Format, ...] = ("graph", "parquet", "csv", "json", "orc", "lance", "omnigraph")
FORMATS: tuple[Format, ...] = (*FILES, "jdbc", "table")


@dataclass(frozen=True)
class YamlText:
    """A scalar of the file with its source span."""

    value: str
    span: Span = NOWHERE

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class PipelineSource:
    """A source: `paths` of files or `table` of the session, `options` for Spark's reader."""

    name: YamlText
    format: Format
    paths: tuple[YamlText, ...] = ()
    table: YamlText | None = None
    schema: YamlText | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, YamlText] = field(default_factory=dict)


@dataclass(frozen=True)
class Transform:
    """A named Spark SQL query over sources and earlier transforms."""

    name: YamlText
    sql: YamlText


@dataclass(frozen=True)
class End:
    """An edge endpoint: an expression that yields the node id, or a lookup by values of unique properties."""

    expression: YamlText | None = None
    lookup: tuple[tuple[YamlText, YamlText], ...] = ()


@dataclass(frozen=True)
class TypeMapping:
    """Maps rows of one source to one type. With `columns` None, columns named like properties are used."""

    kind: Literal["node", "edge"]
    type: YamlText
    source: YamlText
    columns: tuple[tuple[YamlText, YamlText], ...] | None = None
    id: YamlText | None = None
    where: YamlText | None = None
    from_: End | None = None
    to: End | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the source's rows are loaded without transformation."""
        endpoints = [each for each in (self.from_, self.to) if each is not None]
        return self.columns is None and self.id is None and self.where is None and not endpoints

    @property
    def table_key(self) -> str:
        """The table key as spelled in the file."""
        return f"{self.kind}:{self.type}"


@dataclass(frozen=True)
class Publish:
    """The merge into another branch after the load."""

    into: YamlText
    delete_branch: bool = False
    resolve: Literal["ours", "theirs"] | None = None


@dataclass(frozen=True)
class PipelineFile:
    """A complete pipeline file."""

    mode: Mode
    sources: tuple[PipelineSource, ...]
    transforms: tuple[Transform, ...] = ()
    mappings: tuple[TypeMapping, ...] = ()
    graph: YamlText | None = None
    branch: YamlText = YamlText("main")
    from_: YamlText | None = None
    errors: ErrorPolicy = FAIL
    publish: Publish | None = None
    run_id: YamlText | None = None
    embed: bool = False

    def source(self, name: str) -> PipelineSource | None:
        """The source of this name; None if there is none, as for the name of a transform."""
        return next((each for each in self.sources if each.name.value == name), None)


def names_of(pipeline: PipelineFile) -> Iterator[tuple[YamlText, str]]:
    """The names of all sources and transforms, in order, with their descriptions."""
    yield from ((each.name, f"source {each.name}") for each in pipeline.sources)
    yield from ((each.name, f"transform {each.name}") for each in pipeline.transforms)


def expressions_of(pipeline: PipelineFile) -> Iterator[tuple[YamlText, str]]:
    """Every SQL text of the file with a description: transforms, then the expressions of mappings."""
    yield from ((each.sql, f"transform {each.name}") for each in pipeline.transforms)
    for mapping in pipeline.mappings:
        what = f"{mapping.kind} {mapping.type}"
        for name, expression in mapping.columns or ():
            yield expression, f"{what}, column {name}"
        for key, given in (("id", mapping.id), ("where", mapping.where)):
            if given is not None:
                yield given, f"{what}, {key}"
        for key, end in (("from", mapping.from_), ("to", mapping.to)):
            for given in () if end is None else (end.expression, *(value for _, value in end.lookup)):
                if given is not None:
                    yield given, f"{what}, {key}"
