"""Adds, recomputes or removes vectors in a file of graph records. Other lines are copied unchanged.

A specification says which types have vectors and from which fields they are computed:
`{"dimension": 8, "types": {"Doc": {"target": "vector", "fields": ["title", "text"]}}}`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.world import World

Mode = Literal["fill_missing", "reembed_selected", "reembed_all", "clean"]
# Records per batch, which are in memory while their vectors are computed.
RECORDS = 512


@dataclass(frozen=True)
class TypeSpec:
    """The vector property of a type, and the fields whose texts, joined by line breaks, are embedded."""

    target: str
    fields: tuple[str, ...]

    def text(self, data: Mapping[str, Any]) -> str:
        """The text to embed for a record; empty if it has none of the fields."""
        given = (data.get(name) for name in self.fields)
        return "\n".join(str(each) for each in given if each not in (None, ""))


@dataclass(frozen=True)
class Specification:
    """The dimension of the vectors and the types to embed."""

    dimension: int
    types: Mapping[str, TypeSpec]


@dataclass(frozen=True)
class Selection:
    """Selects records by type (empty: all) and by values (type or None, field, value), all of which must match."""

    types: tuple[str, ...] = ()
    values: tuple[tuple[str | None, str, str], ...] = ()

    def has(self, type_name: str, data: Mapping[str, Any]) -> bool:
        """Whether the selection includes a record."""
        if self.types and type_name not in self.types:
            return False
        mine = [(name, value) for kind, name, value in self.values if kind in (None, type_name)]
        if self.values and not mine:
            return False
        return all(_text(data.get(name)) == value for name, value in mine)


@dataclass
class EmbeddingReport:
    """The counts of a run over a file."""

    input: str
    output: str
    mode: Mode
    dimension: int
    model: str
    records: int = 0
    selected_records: int = 0
    embedded_records: int = 0
    cleaned_records: int = 0

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, in the key order of the released program."""
        return {
            "input": self.input,
            "output": self.output,
            "records": self.records,
            "selected_records": self.selected_records,
            "embedded_records": self.embedded_records,
            "cleaned_records": self.cleaned_records,
            "mode": self.mode,
            "dimension": self.dimension,
            "model": self.model,
        }


@dataclass
class FileEmbedding:
    """One run over one file."""

    source: Path
    target: Path
    specification: Specification
    mode: Mode
    embeddings: Embeddings
    world: World
    selection: Selection = Selection()
    outcome: EmbeddingReport = field(init=False)

    def run(self) -> EmbeddingReport:
        """Replace the output atomically; on failure it stays unchanged. Input and output may be the same file."""
        model, dimension = self.embeddings.provider.model, self.specification.dimension
        self.outcome = EmbeddingReport(str(self.source), str(self.target), self.mode, dimension, model)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        beside = self.target.with_name(f"{self.target.name}.tmp")
        try:
            with beside.open("w", encoding="utf-8") as file:
                for batch in self._batches():
                    file.writelines(f"{each}\n" for each in self._done(batch))
            beside.replace(self.target)
        finally:
            beside.unlink(missing_ok=True)
        return self.outcome

    def _batches(self) -> Iterator[list[str]]:
        batch: list[str] = []
        with self.source.open(encoding="utf-8") as lines:
            for line in lines:
                batch.append(line.rstrip("\r\n"))
                if len(batch) == RECORDS:
                    yield batch
                    batch = []
        yield batch

    def _done(self, lines: list[str]) -> list[str]:
        done = list(lines)
        selected: list[tuple[int, dict[str, Any], TypeSpec]] = []
        for at, line in enumerate(lines):
            record = self._record(line)
            if record is None:
                continue
            spec, data = self.specification.types[record["type"]], record["data"]
            if self.mode == "clean":
                done[at] = self._cleaned(record, spec, line)
            elif spec.text(data) and (self.mode != "fill_missing" or data.get(spec.target) in (None, [])):
                selected.append((at, record, spec))
        texts = [spec.text(record["data"]) for _, record, spec in selected]
        vectors = self.embeddings.vectors(texts, dimensions=self.specification.dimension, world=self.world)
        for (at, record, spec), vector in zip(selected, vectors, strict=True):
            record["data"][spec.target] = [float(each) for each in vector]
            done[at] = _line(record)
        self.outcome.embedded_records += len(selected)
        return done

    def _record(self, line: str) -> dict[str, Any] | None:
        """The record of a selected line; None for a line that is copied unchanged."""
        if not line.strip():
            return None
        self.outcome.records += 1
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{self.source}: record {self.outcome.records} is not JSON: {error}") from error
        if not isinstance(record, dict) or record.get("type") not in self.specification.types:
            return None
        record["data"] = data = record.get("data") or {}
        if not isinstance(data, dict) or not self.selection.has(record["type"], data):
            return None
        self.outcome.selected_records += 1
        return record

    def _cleaned(self, record: dict[str, Any], spec: TypeSpec, line: str) -> str:
        if spec.target not in record["data"]:
            return line
        del record["data"][spec.target]
        self.outcome.cleaned_records += 1
        return _line(record)


def read_specification(given: object, name: str) -> Specification:
    """Parse a specification from its JSON or YAML form."""
    try:
        held: Any = given
        types = {
            str(kind): TypeSpec(str(each["target"]), tuple(map(str, each["fields"])))
            for kind, each in held["types"].items()
        }
        dimension = int(held["dimension"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"{name} is no specification of embeddings ({error!r}): it has `dimension` and `types`, and each type has "
            "`target` and `fields`."
        ) from error
    if dimension < 1 or not all(each.fields for each in types.values()):
        raise InvalidInput(f"{name}: `dimension` must be positive, and every type needs `fields`.")
    return Specification(dimension, types)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(record: object) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
