"""Rows that were set aside: where each stood, which rule it broke, what it was."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pyarrow as pa
from pyarrow import parquet

from omnigraph.errors import ConstraintViolation, InvalidInput, InvalidRecord, ValueViolation
from omnigraph.spark.bulk.columns import LONG, TEXT
from omnigraph.store.location import parse_location
from omnigraph.store.remote_objects import open_remote_objects
from omnigraph.write.load.opening import is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.errors import OmniGraphError
    from omnigraph.world import World
    from omnigraph.write.load.places import Place

REJECTS = pa.schema(
    [
        ("source", TEXT),
        ("unit", TEXT),
        ("number", LONG),
        ("type", TEXT),
        ("property", TEXT),
        ("rule", TEXT),
        ("value", TEXT),
        ("message", TEXT),
    ]
)


@dataclass(frozen=True)
class Reject:
    """One row. `number` counts lines, rows or records (`unit`) of the source from 1; `value` is the row as it stood."""

    source: str
    unit: str
    number: int
    type: str | None
    property: str | None
    rule: str
    value: str
    message: str


def reject_of(error: OmniGraphError, place: Place, value: str) -> Reject:
    """What is kept of a row that an error is about."""
    known = error if isinstance(error, InvalidRecord | ConstraintViolation) else None
    return Reject(
        place.source,
        place.unit,
        place.number,
        known.type_name if known else None,
        known.property_name if known else None,
        error.rule if isinstance(error, InvalidRecord | ValueViolation) else error.code,
        value,
        error.message,
    )


def counts_of(rejects: Sequence[Reject]) -> dict[str, int]:
    """How many rows broke each rule."""
    return dict(sorted(Counter(each.rule for each in rejects).items()))


def require_within(rejects: Sequence[Reject], limit: int) -> None:
    """Fail when more rows are bad than may be set aside."""
    if len(rejects) > limit:
        first = min(rejects, key=lambda each: (each.source, each.number))
        raise InvalidInput(
            f"more than {limit:,} rows cannot be loaded, which is what may be set aside. The first: {first.message}"
        )


def write_rejects(rejects: Sequence[Reject], path: str, world: World) -> None:
    """A Parquet file with the rejects, by source and place; empty when there are none."""
    ordered = sorted(rejects, key=lambda each: (each.source, each.number))
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist([asdict(each) for each in ordered], schema=REJECTS), sink)
    if not is_remote(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(sink.getvalue())
        return
    directory, _, name = path.rpartition("/")
    obstore.put(open_remote_objects(parse_location(directory, world), world).store, name, sink.getvalue())
