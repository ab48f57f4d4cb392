"""Sidecars of other releases and the tables they tell of, made by hand as a crash would have left them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.manifest.layout import MAIN, physical_branch
from omnigraph.storage.objects.lease import lease_seconds, patience
from omnigraph.transaction.intents.sidecar import Sidecar, TablePin
from omnigraph.transaction.intents.sidecar_json import decode, encode
from omnigraph.world import REAL
from transaction.recovery.hand_made import foreign_append

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.transaction.intents.sidecar import WriterKind

OPERATION = "01JZ0000000000000000000001"
LONG_AGO = 1_782_650_000_000_000


def leave_behind(
    graph: GraphManifest,
    kind: WriterKind,
    steps: dict[str, int],
    *,
    branch: str = MAIN,
    confirmed: bool = False,
    operation_id: str = OPERATION,
    started_at: int = LONG_AGO,
    **more: Any,
) -> Sidecar:
    """What a writer of another release leaves that died after this many commits to each table."""
    pins = [_pin(graph, table_key, branch) for table_key in steps]
    for table_key, count in steps.items():
        for number in range(count):
            foreign_append(graph, f"{kind}-{number}", table_key, branch)
    if confirmed:
        pins = [_confirmed(pin, steps[pin.table_key]) for pin in pins]
    sidecar = Sidecar(
        operation_id, started_at, kind, branch=physical_branch(branch), actor="act-1", tables=tuple(pins), **more
    )
    graph.stores.objects.create(sidecar.path, encode(sidecar))
    if started_at == LONG_AGO:
        let_time_pass()
    return sidecar


def let_time_pass() -> None:
    """Until nobody waits for what was just written: the store's clock tells how old it is, and nobody can set that."""
    REAL.sleep(patience(lease_seconds(REAL)) + 0.05)


def standing(graph: GraphManifest) -> Sidecar:
    """The one sidecar that stands."""
    (path,) = graph.stores.objects.list_names("__recovery")
    return decode(graph.stores.objects.read(path), path=path)


def _pin(graph: GraphManifest, table_key: str, branch: str) -> TablePin:
    entry = graph.snapshot(branch)[table_key]
    where = graph.stores.tables.location.child(entry.path)
    return TablePin(table_key, where, entry.version, entry.version + 1, table_branch=physical_branch(branch))


def _confirmed(pin: TablePin, steps: int) -> TablePin:
    return TablePin(
        pin.table_key,
        pin.table_path,
        pin.expected_version,
        pin.post_commit_pin,
        confirmed_version=pin.expected_version + steps,
        table_branch=pin.table_branch,
    )
