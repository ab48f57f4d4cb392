"""The plan of a pipeline run, shown before it starts: what is read, how it is mapped, and where it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.deprecation import warn_deprecated
from omnigraph.kernels.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class SourcePlan:
    """A source or transform with its columns and their Spark types; for files, also their count and bytes."""

    name: str
    format: str
    columns: Mapping[str, str]
    files: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class TypePlan:
    """The rows of one type. `columns` are the mapped properties, `lookups` the endpoints that are looked up; `direct`
    is true if the loader reads the files without a mapping.
    """

    kind: str
    type: str
    source: str
    columns: tuple[str, ...]
    lookups: Mapping[str, tuple[str, ...]]
    direct: bool


@dataclass(frozen=True, repr=False)
class PipelinePlan(Report):
    """The complete plan. `done`: a run with this run id was made before, and another one does nothing."""

    graph: str
    mode: str
    branch: str
    creates_branch_from: str | None
    merges_into: str | None
    quarantine: int
    run_id: str | None
    done: bool
    sources: tuple[SourcePlan, ...]
    types: tuple[TypePlan, ...]

    def _summary(self) -> str:
        return f"{len(self.sources)} sources, {len(self.types)} types, to branch {self.branch} with {self.mode}"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield "reads"
        for source in self.sources:
            size = "" if source.files is None else f" {source.files} files, {source.bytes} bytes"
            columns = ", ".join(f"{name} {kind}" for name, kind in source.columns.items())
            yield f"  {source.name} ({source.format}){size}" + (f": {columns}" if columns else "")
        yield "writes"
        for each in self.types:
            endpoints = "".join(f", {end} by {', '.join(names)}" for end, names in each.lookups.items())
            how = "as it is" if each.direct else ", ".join(each.columns)
            yield f"  {each.kind} {each.type} from {each.source}: {how}{endpoints}"
        made = f" (created from {self.creates_branch_from})" if self.creates_branch_from else ""
        yield f"to {self.graph} on branch {self.branch}{made} with {self.mode}"
        if self.quarantine:
            yield f"sets aside up to {self.quarantine} bad rows"
        if self.merges_into:
            yield f"then merges {self.branch} into {self.merges_into}"
        if self.run_id:
            yield f"run id {self.run_id}" + (": done already, a run does nothing" if self.done else "")

    def as_json(self) -> dict[str, Any]:
        """The former name of `to_dict`."""
        warn_deprecated("PipelinePlan.as_json()", "to_dict()", removed_in="0.3")
        return self.to_dict()
