"""The sidecar of a change of schema: what it says to this program, and to others, and what is done about it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from omnigraph.storage.objects.lease import Owner
from omnigraph.transaction.intents.sidecar import (
    AddedTable,
    DroppedTable,
    PlannedCommit,
    PlannedSchema,
    Sidecar,
)
from omnigraph.transaction.intents.sidecar_json import decode, encode
from omnigraph.transaction.recovery.classify import Decision, TableFinding, decide

SIDECAR = Sidecar(
    "01JZ0000000000000000000001",
    7,
    "SchemaApply",
    added=(AddedTable("node:Tag", "nodes/6ce0cb19e201b153", version=3, row_count=9, transaction="u"),),
    dropped=(DroppedTable("node:Author", 6),),
    owner=Owner("o", "h", "p"),
    expires_at=1,
    commit=PlannedCommit("01JZ00000000000000000000C0", 7),
    schema=PlannedSchema("sha256:a", "sha256:b", ("side",), ("nodes/x",)),
)


def test_it_reads_back_as_it_was_written() -> None:
    confirmed = replace(SIDECAR, schema=replace(SIDECAR.schema, confirmed=True))  # type: ignore[type-var]
    for each in (SIDECAR, confirmed):
        assert decode(encode(each), path=each.path) == each


def test_other_releases_find_the_fields_that_they_know() -> None:
    fields = json.loads(encode(SIDECAR))
    assert fields["additional_registrations"] == [{"table_key": "node:Tag", "table_path": "nodes/6ce0cb19e201b153"}]
    assert fields["tombstones"] == [{"table_key": "node:Author", "tombstone_version": 6}]
    assert set(fields) == {
        *("schema_version", "operation_id", "started_at", "branch", "actor_id", "writer_kind", "tables"),
        *("additional_registrations", "tombstones", "omnigraph_python"),
    }


@pytest.mark.parametrize(
    ("findings", "ready", "published", "decision"),
    [
        ((), True, False, Decision.FORWARD),
        ((TableFinding.ROLLED_PAST_EXPECTED,), True, False, Decision.FORWARD),
        ((TableFinding.ROLLED_PAST_EXPECTED,), False, False, Decision.BACK),
        ((TableFinding.ROLLED_PAST_EXPECTED, TableFinding.NO_MOVEMENT), True, False, Decision.BACK),
        ((), False, False, Decision.BACK),
        ((TableFinding.NO_MOVEMENT,), True, True, Decision.FINISHED),
        ((TableFinding.INVARIANT_VIOLATION,), True, False, Decision.ABORT),
    ],
)
def test_only_what_is_whole_is_finished_by_others(
    findings: tuple[TableFinding, ...], ready: bool, published: bool, decision: Decision
) -> None:
    assert decide(SIDECAR, findings, (), published=published, schema_ready=ready) is decision
