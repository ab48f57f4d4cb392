"""What an unfinished operation shows, table by table, and what is done about the whole of it: all of it as data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest

from omnigraph.transaction.intents.sidecar import AddedTable, PlannedCommit, Sidecar, TablePin, WriterKind
from omnigraph.transaction.recovery.classify import Decision, Observation, TableFinding, classify, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

NONE, PAST = TableFinding.NO_MOVEMENT, TableFinding.ROLLED_PAST_EXPECTED
AT_P1, MULTI = TableFinding.UNEXPECTED_AT_P1, TableFinding.UNEXPECTED_MULTISTEP
HALF, BROKEN = TableFinding.INCOMPLETE_PHASE_B, TableFinding.INVARIANT_VIOLATION
STRICT: tuple[WriterKind, ...] = ("Mutation", "Load")
LOOSE: tuple[WriterKind, ...] = ("SchemaApply", "EnsureIndices", "Optimize")

# Of other releases. (expected, post, confirmed), (head, published), then what strict, loose and confirmed kinds show.
BY_OTHERS = [
    ((5, 6, None), (5, 5), NONE, NONE, NONE),
    ((5, 6, None), (6, 6), NONE, NONE, NONE),  # published, and only the file left behind
    ((5, 6, None), (6, 5), PAST, PAST, HALF),
    ((5, 6, 6), (6, 5), PAST, PAST, PAST),
    ((5, 6, 7), (7, 5), MULTI, PAST, PAST),
    ((5, 6, 7), (6, 5), PAST, PAST, AT_P1),  # confirmed beyond what is there
    ((5, 6, 6), (7, 5), MULTI, PAST, MULTI),  # something came after the confirmation
    ((5, 6, None), (7, 5), MULTI, PAST, HALF),
    ((5, 7, None), (6, 5), AT_P1, PAST, HALF),
    ((4, 5, None), (6, 5), AT_P1, AT_P1, HALF),  # computed from an older state than the published one
    ((4, 5, 6), (6, 5), AT_P1, AT_P1, AT_P1),
    ((4, 5, None), (8, 5), MULTI, MULTI, HALF),
    ((4, 5, 8), (8, 5), MULTI, MULTI, MULTI),
    ((5, 6, None), (4, 5), BROKEN, BROKEN, BROKEN),
    ((5, 6, 6), (4, 5), BROKEN, BROKEN, BROKEN),
    ((0, 1, None), (1, 0), PAST, PAST, HALF),  # a table that the manifest does not know
]

# Of ours. (expected, post), (head, published), committed, what every kind shows.
BY_US = [
    ((5, 6), (5, 5), None, NONE),
    ((5, 6), (6, 5), 6, PAST),
    ((5, 6), (6, 5), None, NONE),  # somebody else's version
    ((5, 6), (7, 5), 6, MULTI),  # something on top: an earlier try to undo, or a foreign commit
    ((5, 6), (7, 5), 7, MULTI),  # a foreign commit underneath
    ((5, 6), (6, 6), 6, MULTI),  # published in part: impossible, and not for rolling forward again
    ((5, 6), (7, 7), 6, MULTI),  # undone and published
    ((5, 6), (9, 9), None, NONE),
    ((5, 6), (4, 5), None, BROKEN),
]


@pytest.mark.parametrize("kind", get_args(WriterKind))
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("pin", "there", "strict", "loose", "confirmed"), BY_OTHERS)
def test_a_pin_of_another_release(
    pin: tuple[int, int, int | None],
    there: tuple[int, int],
    strict: TableFinding,
    loose: TableFinding,
    confirmed: TableFinding,
    version: int,
    kind: WriterKind,
) -> None:
    expects = strict if kind in STRICT else confirmed if kind == "BranchMerge" and version == 2 else loose
    table = TablePin("node:Person", "nodes/x", pin[0], pin[1], confirmed_version=pin[2])
    found = classify(_sidecar(kind, version=version), Observation(table, head=there[0], published=there[1]))
    assert found is expects


@pytest.mark.parametrize("kind", get_args(WriterKind))
@pytest.mark.parametrize(("pin", "there", "committed", "expects"), BY_US)
def test_a_pin_with_a_planned_transaction(
    pin: tuple[int, int], there: tuple[int, int], committed: int | None, expects: TableFinding, kind: WriterKind
) -> None:
    table = TablePin("node:Person", "nodes/x", *pin, transaction="6e9f")
    seen = Observation(table, head=there[0], published=there[1], committed=committed)
    found = classify(_planned(kind), seen)
    assert found is expects


@pytest.mark.parametrize("kind", get_args(WriterKind))
@pytest.mark.parametrize("there", [(5, 5), (6, 5), (7, 5), (4, 5)])
def test_a_planned_pin_whose_transaction_was_never_noted_has_done_nothing(
    kind: WriterKind, there: tuple[int, int]
) -> None:
    """Whatever moved on that branch of the table, even one version ahead, is a stale fork or another writer's work."""
    seen = Observation(TablePin("node:Person", "nodes/x", 5, 6, table_branch="dev"), head=there[0], published=there[1])
    assert classify(_planned(kind), seen) is NONE


@pytest.mark.parametrize("kind", get_args(WriterKind))
@pytest.mark.parametrize(
    ("findings", "others", "ours"),
    [
        ((PAST,), Decision.FORWARD, Decision.FORWARD),
        ((PAST, PAST), Decision.FORWARD, Decision.FORWARD),
        ((PAST, NONE), Decision.BACK, Decision.BACK),
        ((NONE, NONE), Decision.BACK, Decision.BACK),
        ((AT_P1, PAST), Decision.BACK, Decision.BACK),
        ((MULTI,), Decision.BACK, Decision.BACK),
        ((HALF, PAST), Decision.BACK, Decision.BACK),
        ((BROKEN, PAST), Decision.ABORT, Decision.ABORT),
        ((NONE, BROKEN), Decision.ABORT, Decision.ABORT),
        ((), Decision.BACK, Decision.BACK),
    ],
)
def test_the_whole_operation_goes_forward_or_back(
    kind: WriterKind, findings: tuple[TableFinding, ...], others: Decision, ours: Decision
) -> None:
    seen = _at(5, count=len(findings))
    # A schema change of another release has not changed the schema files before its publish: it never goes forward.
    foreign = Decision.BACK if kind == "SchemaApply" and others is Decision.FORWARD else others
    assert decide(_sidecar(kind), findings, seen) is foreign
    assert decide(_planned(kind), findings, seen) is ours


def test_tables_that_have_gone_by_mean_that_another_release_had_published() -> None:
    beyond = _at(6, count=2)
    assert decide(_sidecar("Mutation"), (NONE, NONE), beyond) is Decision.FINISHED
    assert decide(_sidecar("SchemaApply"), (NONE, NONE), beyond) is Decision.FINISHED


def test_of_ours_only_the_history_says_that_it_had_published() -> None:
    beyond = _at(6, count=2)
    assert decide(_planned("Mutation"), (NONE, NONE), beyond) is Decision.BACK
    assert decide(_planned("Mutation"), (NONE, NONE), beyond, published=True) is Decision.FINISHED


def test_what_was_undone_stays_undone() -> None:
    assert decide(_sidecar("Mutation"), (NONE,), _at(7), undone=True) is Decision.BACK
    assert decide(_sidecar("Optimize"), (PAST,), _at(5), undone=True) is Decision.BACK


def test_a_schema_change_that_only_adds_tables_and_did_not_publish_is_undone() -> None:
    adds = replace(_sidecar("SchemaApply"), added=(AddedTable("node:Tag", "nodes/y"),))
    assert decide(adds, (), ()) is Decision.BACK


def _sidecar(kind: WriterKind, *, version: int = 2) -> Sidecar:
    return Sidecar("01JZ0000000000000000000001", 0, kind, schema_version=version)


def _planned(kind: WriterKind) -> Sidecar:
    return replace(_sidecar(kind), commit=PlannedCommit("01JZ00000000000000000000C0", 0))


def _at(published: int, *, count: int = 1) -> Sequence[Observation]:
    """Tables whose operation began at version 5."""
    pin = TablePin("node:Person", "nodes/x", 5, 6)
    return [Observation(pin, head=published, published=published)] * count
