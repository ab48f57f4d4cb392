"""Sidecars are the files of releases 0.4.2 to 0.8, byte for byte, with one object of ours beside their fields."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph.errors import RecoveryRequired
from omnigraph.storage.objects.lease import Owner
from omnigraph.transaction.commit.protocol import commit
from omnigraph.transaction.intents.sidecar import (
    AddedTable,
    DroppedTable,
    FastForwardedTable,
    PlannedCommit,
    PlannedSchema,
    Sidecar,
    TablePin,
)
from omnigraph.transaction.intents.sidecar_json import decode, encode
from omnigraph.transaction.recovery.outcome import sweep
from omnigraph.world import REAL
from seeded_world import SeededWorld
from transaction.recovery.hand_made import CITY, PERSON, add, content, insert, newest, reopen, sidecars

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.manifest.graph_manifest import GraphManifest

ID = "01JZ0000000000000000000001"
STARTED = 1_782_650_000_000_000
AUTHORS = "/data/g/nodes/01d32b35baa3b676"

MUTATION = f"""{{
  "schema_version": 2,
  "operation_id": "{ID}",
  "started_at": "1782650000000000",
  "branch": null,
  "actor_id": "act-1",
  "writer_kind": "Mutation",
  "tables": [
    {{
      "table_key": "node:Author",
      "table_path": "{AUTHORS}",
      "expected_version": 1,
      "post_commit_pin": 2
    }}
  ]
}}"""
LOAD_ON_A_BRANCH = f"""{{
  "schema_version": 2,
  "operation_id": "{ID}",
  "started_at": "1782650000000000",
  "branch": "feature",
  "actor_id": "act-1",
  "writer_kind": "Load",
  "tables": [
    {{
      "table_key": "node:Author",
      "table_path": "{AUTHORS}",
      "expected_version": 4,
      "post_commit_pin": 5,
      "table_branch": "feature"
    }}
  ]
}}"""
MERGE = f"""{{
  "schema_version": 2,
  "operation_id": "{ID}",
  "started_at": "1782650000000000",
  "branch": null,
  "actor_id": null,
  "writer_kind": "BranchMerge",
  "tables": [
    {{
      "table_key": "node:Author",
      "table_path": "{AUTHORS}",
      "expected_version": 4,
      "post_commit_pin": 5,
      "confirmed_version": 5
    }}
  ],
  "merge_source_commit_id": "01JZ00000000000000000000M0"
}}"""
SCHEMA_APPLY = f"""{{
  "schema_version": 2,
  "operation_id": "{ID}",
  "started_at": "1782650000000000",
  "branch": null,
  "actor_id": null,
  "writer_kind": "SchemaApply",
  "tables": [
    {{
      "table_key": "node:Paper",
      "table_path": "/data/g/nodes/da89d00e1b71df59",
      "expected_version": 1,
      "post_commit_pin": 2
    }}
  ],
  "additional_registrations": [
    {{
      "table_key": "node:Tag",
      "table_path": "nodes/6ce0cb19e201b153"
    }},
    {{
      "table_key": "node:Writer",
      "table_path": "nodes/12c5238602e8012a"
    }}
  ],
  "tombstones": [
    {{
      "table_key": "node:Author",
      "tombstone_version": 6
    }}
  ]
}}"""

AUTHOR = {"table_key": "node:Author", "table_path": AUTHORS, "expected_version": 1, "post_commit_pin": 2}

BY_0_8: dict[str, tuple[str, Sidecar]] = {
    "mutation": (
        MUTATION,
        Sidecar(ID, STARTED, "Mutation", actor="act-1", tables=(TablePin("node:Author", AUTHORS, 1, 2),)),
    ),
    "load on a branch": (
        LOAD_ON_A_BRANCH,
        Sidecar(
            ID,
            STARTED,
            "Load",
            branch="feature",
            actor="act-1",
            tables=(TablePin("node:Author", AUTHORS, 4, 5, table_branch="feature"),),
        ),
    ),
    "confirmed merge": (
        MERGE,
        Sidecar(
            ID,
            STARTED,
            "BranchMerge",
            tables=(TablePin("node:Author", AUTHORS, 4, 5, confirmed_version=5),),
            merge_source_commit_id="01JZ00000000000000000000M0",
        ),
    ),
    "schema apply": (
        SCHEMA_APPLY,
        Sidecar(
            ID,
            STARTED,
            "SchemaApply",
            tables=(TablePin("node:Paper", "/data/g/nodes/da89d00e1b71df59", 1, 2),),
            added=(
                AddedTable("node:Tag", "nodes/6ce0cb19e201b153"),
                AddedTable("node:Writer", "nodes/12c5238602e8012a"),
            ),
            dropped=(DroppedTable("node:Author", 6),),
        ),
    ),
}
PLANNED = replace(
    BY_0_8["load on a branch"][1],
    tables=(TablePin("node:Author", AUTHORS, 4, 5, table_branch="feature", transaction="6e9f"),),
    phase="running",
    commit=PlannedCommit("01JZ00000000000000000000C0", STARTED + 1, idempotency_key="order-7"),
    reads=("node:Paper",),
    incarnation='{"v": 3}',
)


@pytest.mark.parametrize("name", BY_0_8)
def test_a_file_of_release_0_8_reads_as_what_it_says(name: str) -> None:
    text, expected = BY_0_8[name]
    assert _read(text) == expected


@pytest.mark.parametrize("name", BY_0_8)
def test_without_a_lease_the_bytes_written_are_those_of_release_0_8(name: str) -> None:
    text, sidecar = BY_0_8[name]
    assert encode(sidecar).decode() == text


def test_ours_differs_from_release_0_8_by_one_object_at_the_end() -> None:
    fields = json.loads(encode(_leased(PLANNED)))
    ours = fields.pop("omnigraph_python")
    assert json.dumps(fields, indent=2) == LOAD_ON_A_BRANCH
    assert ours["transactions"] == {"node:Author": "6e9f"}
    assert ours["commit"]["commit_id"] == "01JZ00000000000000000000C0"
    assert ours["reads"] == ["node:Paper"]


def test_ours_reads_back_as_it_was_written() -> None:
    sidecar = _leased(PLANNED)
    assert _read(encode(sidecar)) == sidecar


def test_a_version_1_file_of_release_0_4_2_is_read() -> None:
    """Deletes were committed before the sidecar then: the pin names the version that was really reached."""
    fields = {**json.loads(MUTATION), "schema_version": 1}
    fields["tables"][0]["post_commit_pin"] = 4
    sidecar = _read(json.dumps(fields))
    assert (sidecar.schema_version, sidecar.tables[0].post_commit_pin) == (1, 4)
    assert json.loads(encode(sidecar))["schema_version"] == 1


def test_fields_inside_our_object_that_are_not_known_survive_a_rewrite() -> None:
    """A later release of this program may write them, and an earlier one may take the operation over."""
    mine = Sidecar(ID, STARTED, "Mutation", commit=PlannedCommit(ID, STARTED), reads=("node:Author",))
    fields = json.loads(encode(mine.leased(Owner.of(REAL), REAL)))
    fields["omnigraph_python"]["from_the_future"] = {"a": [1]}
    read = decode(json.dumps(fields).encode(), path=mine.path)
    rewritten = json.loads(encode(replace(read, phase="running")))["omnigraph_python"]
    assert rewritten == {**fields["omnigraph_python"], "phase": "running"}


def test_every_key_that_is_written_inside_our_object_is_known() -> None:
    """Otherwise a field that a rewrite leaves out, such as `aborted`, would come back."""
    owner = Owner.of(REAL)
    mine = Sidecar(
        ID,
        STARTED,
        "SchemaApply",
        aborted=True,
        former=(owner,),
        commit=PlannedCommit(ID, STARTED),
        reads=("node:Author",),
        incarnation="x",
        added=(AddedTable("node:Author", AUTHORS),),
        schema=PlannedSchema("a", "b"),
        fast_forwarded=(FastForwardedTable("node:Author", 1, 2, 3),),
    ).leased(owner, REAL)
    assert decode(encode(mine), path=mine.path).unknown_own == {}


def test_fields_that_are_not_known_survive_a_rewrite() -> None:
    sidecar = _read(json.dumps({**json.loads(MUTATION), "protocol_v3": {"effect_phase": "Armed"}}))
    assert json.loads(encode(_leased(sidecar)))["protocol_v3"] == {"effect_phase": "Armed"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema_version": 3}, "later release (sidecar version 3)"),
        ({"schema_version": "two"}, "cannot be read"),
        ({"writer_kind": "Telepathy"}, "no writer is called 'Telepathy'"),
        ({"tables": None}, "cannot be read"),
        ({"tables": [{"table_key": "node:Author"}]}, "cannot be read"),
        ({"operation_id": "01JZ0000000000000000000002"}, "it is about operation 01JZ0000000000000000000002"),
        ({"started_at": "yesterday"}, "cannot be read"),
        ({"omnigraph_python": {"lease": {}}}, "cannot be read"),
        ({"omnigraph_python": []}, "cannot be read"),
        ({"omnigraph_python": {"phase": 5}}, "the type of phase"),
        ({"omnigraph_python": {"reads": [5]}}, "cannot be read"),
        ({"omnigraph_python": {"reads": ["Author"]}}, "is not a table key"),
        ({"branch": 5}, "the type of branch"),
        ({"branch": ["main"]}, "the type of branch"),
        ({"branch": "\ud800"}, "cannot be read"),
        ({"actor_id": {}}, "the type of actor"),
        ({"merge_source_commit_id": 7}, "the type of merge_source_commit_id"),
        ({"started_at": float("inf")}, "cannot be read"),
        ({"tables": [{**AUTHOR, "table_branch": 1}]}, "the type of tables"),
        ({"tables": [{**AUTHOR, "confirmed_version": "5"}]}, "the type of tables"),
        ({"tables": [{**AUTHOR, "table_key": "Author"}]}, "is not a table key"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_operation(change: dict[str, Any], says: str) -> None:
    with pytest.raises(RecoveryRequired) as refused:
        _read(json.dumps({**json.loads(MUTATION), **change}))
    assert says in str(refused.value)
    assert refused.value.operation_id == ID


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"text"', b"[" * 200_000])
def test_what_is_no_sidecar_at_all_is_refused_with_its_operation(data: bytes) -> None:
    with pytest.raises(RecoveryRequired, match="kept") as refused:
        decode(data, path=f"__recovery/{ID}.json")
    assert refused.value.operation_id == ID


@pytest.mark.parametrize("data", [b"half a sid", json.dumps({"schema_version": 9}).encode()])
def test_a_sidecar_that_cannot_be_read_stops_writers_and_is_kept(graph: GraphManifest, uri: str, data: bytes) -> None:
    add(graph)
    before = content(graph)
    graph.stores.objects.create(f"__recovery/{ID}.json", data)
    with pytest.raises(RecoveryRequired, match=ID):
        commit(graph, insert("new"))
    assert sweep(graph) == {}
    assert sidecars(graph) == [f"__recovery/{ID}.json"]
    assert content(reopen(uri, read_only=True)) == before
    assert newest(graph, PERSON) == graph.snapshot()[PERSON].version
    graph.stores.objects.delete(f"__recovery/{ID}.json")
    assert commit(graph, insert("new")) is not None


def test_a_sidecar_that_cannot_be_read_refuses_writes_and_not_the_open(tmp_path: Path) -> None:
    where = tmp_path / "graph.omni"
    og.init(where, schema="node Person { name: String @key }")
    recovery = where / "__recovery"
    recovery.mkdir(exist_ok=True)
    (recovery / f"{ID}.json").write_bytes(b"{")
    with pytest.raises(RecoveryRequired, match=f"{ID}.json cannot be read .* all writers"):
        og.open(where).load([{"type": "Person", "data": {"name": "Ann"}}])
    assert og.open(where, read_only=True).snapshot()["node:Person"].version == 1
    assert (recovery / f"{ID}.json").read_bytes() == b"{"


@pytest.mark.parametrize(
    "change",
    [{"branch": 5}, {"started_at": []}, {"actor_id": {}}, {"omnigraph_python": {"phase": 5}}, {"operation_id": "x"}],
)
def test_a_damaged_sidecar_refuses_the_writers_of_the_tables_that_it_names_alone(
    graph: GraphManifest, change: dict[str, Any]
) -> None:
    pin = {"table_key": CITY, "table_path": "nodes/1", "expected_version": 1, "post_commit_pin": 2}
    damaged = json.dumps({**json.loads(MUTATION), "tables": [pin], **change}).encode()
    graph.stores.objects.create(f"__recovery/{ID}.json", damaged)
    assert sweep(graph) == {}
    assert commit(graph, insert("new")) is not None
    for refused_tables, reads in [([CITY], []), ([PERSON, CITY], []), ([PERSON], [CITY])]:
        with pytest.raises(RecoveryRequired, match=f"{ID}.json .* writers of node:City and changes") as refused:
            commit(graph, insert("other", refused_tables, reads=reads))
        assert refused.value.table_keys == (CITY,)
    assert graph.stores.objects.read(f"__recovery/{ID}.json") == damaged


@pytest.mark.parametrize(
    "change", [{"writer_kind": "SchemaApply"}, {"writer_kind": None}, {"tables": []}, {"tables": [{"table_key": 5}]}]
)
def test_where_the_tables_of_a_damaged_sidecar_cannot_be_determined_all_writers_are_refused(
    graph: GraphManifest, change: dict[str, Any]
) -> None:
    damaged = json.dumps({**json.loads(MUTATION), "branch": 5, **change}).encode()
    graph.stores.objects.create(f"__recovery/{ID}.json", damaged)
    assert sweep(graph) == {}
    with pytest.raises(RecoveryRequired, match="all writers of this graph are refused") as refused:
        commit(graph, insert("new"))
    assert refused.value.table_keys is None


def test_names_that_are_no_sidecars_are_passed_over(graph: GraphManifest) -> None:
    graph.stores.objects.create("__recovery/README.txt", b"notes")
    assert sweep(graph) == {}
    add(graph)
    assert sidecars(graph) == ["__recovery/README.txt"]


def test_a_sidecar_whose_owner_is_dead_or_has_let_go_is_free_for_all() -> None:
    world = SeededWorld()
    assert not PLANNED.leased(Owner.of(REAL), world).is_ownerless(world)
    assert PLANNED.leased(Owner("x", REAL.host(), "999999999:1"), world).is_ownerless(world)
    elsewhere = PLANNED.leased(Owner("x", "another-host", "999999999:1"), world)
    assert not elsewhere.is_ownerless(world)
    assert replace(elsewhere, expires_at=0).is_ownerless(world)
    assert not BY_0_8["mutation"][1].is_ownerless(world)


def test_a_sidecar_remembers_the_owners_that_may_still_live() -> None:
    world = SeededWorld()
    dead = PLANNED.leased(Owner("x", REAL.host(), "999999999:1"), world).taken_over(Owner.of(REAL), world)
    assert not dead.has_live_former_owner(world)
    silent = Owner("y", "another-host", "17:4")
    taken = PLANNED.leased(silent, world).taken_over(Owner("x", REAL.host(), "999999999:1"), world)
    again = _read(encode(taken)).taken_over(Owner.of(REAL), world)
    assert again.former == (silent,)
    assert again.has_live_former_owner(world)


def test_every_renewal_changes_the_bytes() -> None:
    """A store that tells objects apart by their content must see that the owner lives."""
    world = SeededWorld()
    once = PLANNED.leased(Owner.of(REAL), world)
    assert once.owner is not None
    twice = replace(once.leased(once.owner, world), expires_at=once.expires_at)
    assert encode(once) != encode(twice)


def _read(text: str | bytes) -> Sidecar:
    return decode(text.encode() if isinstance(text, str) else text, path=f"__recovery/{ID}.json")


def _leased(sidecar: Sidecar) -> Sidecar:
    return sidecar.leased(Owner.of(REAL), SeededWorld())
