"""Rewrites edges of a permissive bulk load whose endpoints name the legacy id of a node.

Tasks record legacy ids while they read, and the driver holds all of them. Usually there are none and nothing is done.
Otherwise, after all nodes are known, fragments with edges that name a legacy id are rewritten.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType
from omnigraph.catalog.rules import value_rules
from omnigraph.errors import InvalidInput
from omnigraph.kernels.arrays import ID
from omnigraph.kernels.row_address import staged_order
from omnigraph.load.bulk.rejects import FrameUnit, InputError, source_position_of
from omnigraph.load.bulk.write import READING, VALUES
from omnigraph.load.rows import LegacyId, LegacyIds, legacy_id_taken, whole_rows
from omnigraph.storage.lance.data_files import write_rows
from omnigraph.tasks.runner import BYTES, LONG, TEXT
from omnigraph.tasks.staged_rows import fragment_files
from omnigraph.transaction.constraints.evaluate import value_violations
from omnigraph.values.batches import Batch
from omnigraph.values.columns import SourcePosition, SourcePositions
from omnigraph.values.row_ids import derived_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.errors import OmniGraphError
    from omnigraph.load.bulk.read import InputRead, Written
    from omnigraph.load.bulk.units import Unit
    from omnigraph.tasks.staged_rows import FragmentFile, StagedRows

_FOUND = pa.schema([("fragment", LONG), ("offset", LONG)])
_REWRITTEN = pa.schema([("number", LONG), ("fragment", TEXT), ("error", BYTES)])
_NOWHERE = SourcePositions("", "row", ())


@dataclass(frozen=True)
class LegacyIdUse:
    """A legacy id, and the unit whose task recorded it."""

    unit: int
    legacy_id: LegacyId


def recorded_legacy_ids(rows: Sequence[Mapping[str, Any]], units: Sequence[Unit | FrameUnit]) -> list[LegacyIdUse]:
    """The legacy ids that tasks recorded, in input order."""
    found = []
    for row in sorted((each for each in rows if each["kind"] == "legacy_ids"), key=lambda each: each["unit"]):
        unit = units[row["unit"]]
        earlier_rows = unit.first_row - 1 if isinstance(unit, FrameUnit) else 0
        for kind, old, new, source, counted, number in json.loads(row["body"]):
            found.append(
                LegacyIdUse(
                    row["unit"], LegacyId(kind, old, new, SourcePosition(source, counted, number + earlier_rows))
                )
            )
    return found


def rewrite_legacy_endpoints(reading: InputRead, written: Written, recorded: Sequence[LegacyIdUse]) -> Written:
    """Replace legacy endpoint ids in all edge tables. An ambiguous legacy id is an error."""
    first_bad = min((each.unit for each in written.errors if each.rank == READING), default=None)
    legacy_ids = LegacyIds()
    for each in recorded:
        if first_bad is not None and each.unit > first_bad:
            break
        legacy_ids.record(each.legacy_id)
    if first_bad is not None or not legacy_ids:
        return written
    for table in written.tables.values():
        _refuse_taken_legacy_ids(reading, table, written, legacy_ids)
    rewritten = {key: _rewritten(reading, table, legacy_ids) for key, table in written.tables.items()}
    violations = [
        InputError(-1, VALUES, key, each.error) for key, each in rewritten.items() if each is not None and each.error
    ]
    errors = [each for each in written.errors if each.rank != VALUES or rewritten[each.table_key] is None]
    tables = {key: written.tables[key] if each is None else each.table for key, each in rewritten.items()}
    ordered = sorted([*errors, *violations], key=lambda each: (each.rank, each.table_key, each.unit))
    return replace(written, tables=tables, errors=ordered)


def _refuse_taken_legacy_ids(reading: InputRead, table: StagedRows, written: Written, legacy_ids: LegacyIds) -> None:
    old = legacy_ids.old_ids(table.type.name)
    if isinstance(table.type, EdgeType) or not len(old):
        return

    def work(file: FragmentFile) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in file.read([ID]):
            found = pc.index(pc.is_in(batch.column(ID), value_set=old), value=True).as_py()
            if found >= 0:
                yield pa.record_batch([[file.number], [start + found]], schema=_FOUND)
                return
            start += batch.num_rows

    results = reading.runner.map(fragment_files(table), work, _FOUND).collect()
    orders = [staged_order(each["fragment"], each["offset"]) for each in results.to_pylist()]
    if orders:
        position = source_position_of(table, min(orders), written.units, reading.readable, reading.world)
        raise legacy_id_taken(table.type.name, position)


@dataclass(frozen=True)
class _RewrittenTable:
    table: StagedRows
    error: OmniGraphError | None


def _rewritten(reading: InputRead, table: StagedRows, legacy_ids: LegacyIds) -> _RewrittenTable | None:
    """The rewritten edge table with its first value violation; None if the table cannot refer to a legacy id."""
    kind, uri, mode = table.type, table.location.child(table.directory), reading.mode
    if not isinstance(kind, EdgeType) or not legacy_ids.renames_endpoints_of(kind) or not table.rows:
        return None
    if table.has_blobs:
        raise InvalidInput(
            f"{kind.name} has blobs and ends at nodes with old ids: load this input with engine='local'."
        )
    rules = value_rules(reading.catalog, kind.table_key)
    how: Literal["append", "overwrite"] = "overwrite" if mode == "overwrite" else "append"

    def work(file: FragmentFile) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(list(file.read(None)))
        rewritten_rows = _with_current_endpoints(rows, kind, legacy_ids)
        broken = next(value_violations(rules, rows if rewritten_rows is None else rewritten_rows), None)
        fragment = "" if rewritten_rows is None else _written(rewritten_rows, file, uri, how)
        yield pa.record_batch(
            [[file.number], [fragment], [b"" if broken is None else pickle.dumps(broken)]], schema=_REWRITTEN
        )

    results = reading.runner.map(fragment_files(table), work, _REWRITTEN).collect()
    fragments = list(table.fragments)
    broken = []
    for each in sorted(results.to_pylist(), key=lambda each: int(each["number"])):
        if each["fragment"]:
            fragments[each["number"]] = replace(fragments[each["number"]], fragment=each["fragment"])
        if each["error"]:
            broken.append(pickle.loads(each["error"]))  # noqa: S301
    return _RewrittenTable(replace(table, fragments=tuple(fragments), hash_runs={}), next(iter(broken), None))


def _with_current_endpoints(rows: pa.Table, kind: EdgeType, legacy_ids: LegacyIds) -> pa.Table | None:
    """The rows with current endpoint ids and derived row ids; None if no row names a legacy id."""
    stored = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    endpoints = {"src": stored["src"], "dst": stored["dst"]}
    batch = Batch(kind, _NOWHERE, {name: stored[name] for name in kind.properties}, stored[ID], **endpoints)
    rewritten = legacy_ids.follow(batch)
    if (rewritten.src, rewritten.dst) == (batch.src, batch.dst):
        return None
    derived = derived_ids(rewritten)
    return whole_rows(rewritten, batch.ids if derived is None else derived)


def _written(rows: pa.Table, file: FragmentFile, uri: str, mode: Literal["append", "overwrite"]) -> str:
    options = None if file.options is None else dict(file.options)
    batches = iter(rows.combine_chunks().to_batches())
    (fragment,) = write_rows(batches, uri, options, rows.schema, rows.num_rows, mode)
    return json.dumps(fragment.to_json())
