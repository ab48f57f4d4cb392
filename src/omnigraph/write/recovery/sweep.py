"""Looking for unfinished operations: all of them when a graph is opened for writing, and on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.write.recovery.recover import recover
from omnigraph.write.recovery.schema_leftovers import settle_leftovers
from omnigraph.write.tickets import list_sidecars, recover_if_over

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.write.recovery.classify import Decision


def sweep(manifest: GraphManifest) -> dict[str, Decision]:
    """Recover every operation whose owner is gone, in the order they began; what was done, by operation id.

    Operations of living owners are theirs. Being unable to list or to read a sidecar is an error: going on would be
    writing over an operation that nobody has looked at.
    """
    objects, world = manifest.stores.objects, manifest.world
    settle_leftovers(manifest)
    done = {}
    for found in list_sidecars(objects):
        decision = recover_if_over(objects, found, world, lambda ticket: recover(manifest, ticket))
        if decision is not None:
            done[found.sidecar.operation_id] = decision
    return done
