"""What a pipeline file says, as data. Every text remembers where it stands, so that later findings can point at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from omnigraph.language.core.diagnostics import NOWHERE, Span
from omnigraph.load.plan import FAIL, ErrorPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

Mode = Literal["append", "merge", "overwrite"]
Format = Literal["graph", "parquet", "csv", "json", "orc", "jdbc", "table", "lance", "omnigraph"]
FILES: tuple[Format, ...] = ("graph", "parquet", "csv", "json", "orc", "lance", "omnigraph")
FORMATS: tuple[Format, ...] = (*FILES, "jdbc", "table")


@dataclass(frozen=True)
class YamlText:
    """A text of the file."""

    value: str
    span: Span = NOWHERE

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class PipelineSource:
    """Something to read. `paths` for files, `table` for a table of the session, `options` for the reader."""

    name: YamlText
    format: Format
    paths: tuple[YamlText, ...] = ()
    table: YamlText | None = None
    schema: YamlText | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, YamlText] = field(default_factory=dict)


@dataclass(frozen=True)
class Transform:
    """A Spark SQL query over sources and earlier transforms, known by a name from then on."""

    name: YamlText
    sql: YamlText


@dataclass(frozen=True)
class End:
    """How an edge finds a node: by an expression that is its id, or by values of unique properties."""

    expression: YamlText | None = None
    lookup: tuple[tuple[YamlText, YamlText], ...] = ()


@dataclass(frozen=True)
class TypeMapping:
    """Rows of one source as nodes or edges of one type. `columns` None means those named as properties."""

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
        """Whether the source's rows are taken as they are."""
        ends = [each for each in (self.from_, self.to) if each is not None]
        return self.columns is None and self.id is None and self.where is None and not ends

    @property
    def table_key(self) -> str:
        """The name of the table that it writes to, in the type's own spelling."""
        return f"{self.kind}:{self.type}"


@dataclass(frozen=True)
class Publish:
    """What happens after the load: a merge into another branch."""

    into: YamlText
    delete_branch: bool = False
    resolve: Literal["ours", "theirs"] | None = None


@dataclass(frozen=True)
class PipelineFile:
    """A whole file."""

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
        """A source by its name; None for a transform's name."""
        return next((each for each in self.sources if each.name.value == name), None)
