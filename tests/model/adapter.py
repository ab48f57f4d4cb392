"""The one place where the model calls the code under test: the rule of the queue, and what recovery decides."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from model.state import TABLES, Plan
from omnigraph.transaction.intents.queue_rules import QueueDecision, compete, decide_next, may_recover
from omnigraph.transaction.intents.sidecar import FastForwardedTable, PlannedCommit, PlannedSchema, Sidecar, TablePin
from omnigraph.transaction.recovery.classify import Decision, Observation, classify, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.transaction.intents.sidecar import Phase, WriterKind

__all__ = ["Decision", "QueueDecision", "Queued", "Seen", "decision", "disturbs_nobody", "rivals", "whose_turn"]

# A sidecar as the queue sees it: its plan, its ticket and its phase.
Queued = tuple[Plan, int, "Phase"]

# What recovery sees of one table: newest, published, and where the change, its undoing and its tidying have landed.
Seen = tuple[int, int, int | None, int | None, int | None]

_KINDS: dict[str, WriterKind] = {"index": "EnsureIndices", "overwrite": "Load", "schema": "SchemaApply"}


def rivals(plans: Sequence[Plan]) -> tuple[frozenset[int], ...]:
    """For each plan, the plans that must not have effects at the same time; a plan is its own rival."""
    sidecars = [_sidecar(plan, number, (1,) * len(plan.moves + plan.reads)) for number, plan in enumerate(plans)]
    return tuple(
        frozenset(number for number, other in enumerate(sidecars) if compete(mine, other)) for mine in sidecars
    )


@cache
def whose_turn(ticket: int, phase: Phase, others: tuple[tuple[int, Phase], ...]) -> QueueDecision:
    """What a ticket does next, given the living rivals of one listing."""
    return decide_next(_queued(ticket, phase), [_queued(*each) for each in others])


@cache
def disturbs_nobody(dead: Queued, living: tuple[Queued, ...], mine: int) -> bool:
    """Whether a sidecar that is over may be recovered now, given all the living ones of one listing."""
    return may_recover(_ticket(*dead), [_ticket(*each) for each in living], mine=f"{mine:026}")


@cache
def decision(
    plan: Plan,
    expected: tuple[int, ...],
    tables: tuple[Seen, ...],
    *,
    published: bool,
    undone: bool,
    confirmed: bool,
    aborted: bool,
) -> Decision:
    """What to do with an operation. `tables` are those that it moves; `expected` where it began with each."""
    sidecar = replace(_sidecar(plan, 0, expected, confirmed=confirmed), aborted=aborted)
    seen = [
        Observation(pin, head=head, published=published_at, committed=committed, restored=restored, compacted=compacted)
        for pin, (head, published_at, committed, restored, compacted) in zip(sidecar.tables, tables, strict=True)
    ]
    findings = [classify(sidecar, each) for each in seen]
    return decide(sidecar, findings, seen, published=published, undone=undone, schema_ready=confirmed)


def _ticket(plan: Plan, ticket: int, phase: Phase) -> Sidecar:
    return replace(_sidecar(plan, ticket, (1,) * len(plan.moves + plan.reads)), phase=phase)


def _queued(ticket: int, phase: Phase) -> Sidecar:
    return Sidecar(f"{ticket:026}", 0, "Mutation", phase=phase)


def _sidecar(plan: Plan, ticket: int, expected: tuple[int, ...], *, confirmed: bool = False) -> Sidecar:
    pins = tuple(
        TablePin(f"node:{TABLES[table]}", "", version, version + 1, transaction=f"change {ticket}")
        for table, version in zip(plan.moves, expected, strict=False)
    )
    return Sidecar(
        f"{ticket:026}",
        0,
        _KINDS.get(plan.kind, "Mutation"),
        tables=pins,
        reads=() if plan.kind == "point" else tuple(f"node:{TABLES[table]}" for table in plan.reads),
        fast_forwarded=tuple(
            FastForwardedTable(f"node:{TABLES[table]}", 1, 1, 0) for table in plan.reads if plan.kind == "point"
        ),
        commit=PlannedCommit(f"commit {ticket}", 0),
        schema=PlannedSchema("before", "after", confirmed=confirmed) if plan.kind == "schema" else None,
    )
