"""Looking for unfinished operations: all of them when a graph is opened for writing, and on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.store.store_clock import read_store_clock, remove_left_probes
from omnigraph.write.recovery.recover import recover
from omnigraph.write.recovery.schema_leftovers import settle_leftovers
from omnigraph.write.recovery.sidecar import PREFIX
from omnigraph.write.tickets import may_recover, read_sidecars, recover_if_over

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.write.recovery.classify import Decision


def sweep(manifest: GraphManifest) -> dict[str, Decision]:
    """Recover every operation whose owner is gone, in the order they began; what was done, by operation id.

    Operations of living owners are theirs, and one that competes with such is left for later. Being unable to list or
    to read a sidecar is an error: going on would be writing over an operation that nobody has looked at.
    """
    objects, world = manifest.stores.objects, manifest.world
    settle_leftovers(manifest)
    objects.remove_unfinished()
    done = {}
    listed = objects.list(PREFIX)
    remove_left_probes(objects, listed, world)
    everyone = read_sidecars(objects, listed)
    given_up = all(each.is_given_up(world) for each in everyone)
    clock = None if given_up else read_store_clock(objects, world)
    over = [each for each in everyone if each.is_over(world, clock)]
    living = [each.sidecar for each in everyone if each not in over]
    for found in over:
        if not may_recover(found.sidecar, living):
            continue
        decision = recover_if_over(objects, found, world, lambda ticket: recover(manifest, ticket), clock)
        if decision is not None:
            done[found.sidecar.operation_id] = decision
    return done
