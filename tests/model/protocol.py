"""What writers and recoverers share: tickets, tags, leases, and the publish."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from model import adapter
from model.lance import changed
from model.state import (
    TABLES,
    UPKEEP,
    Actor,
    Budget,
    Rules,
    State,
    Upkeep,
    Version,
    Violation,
    back_bit,
    forward_bit,
)

if TYPE_CHECKING:
    from model.state import File, Plan

ATTEMPTS = 5

Outcome = Literal["published", "excluded", "moved"]


@dataclass(frozen=True)
class Protocol:
    """The plans of all writers, and the rules they keep.

    A ticket is `attempt * len(plans) + writer`: a later attempt has a larger id, and of two writers the one with the
    smaller id may be the later to come. `fresh` plans take no part; the checker lets them run alone to see whether
    anybody could still write. `unchecked` properties are passed over, to see what else goes wrong.
    """

    plans: tuple[Plan, ...]
    fresh: tuple[Plan, ...] = ()
    rules: Rules = field(default_factory=Rules)
    budget: Budget = field(default_factory=Budget)
    # How many older versions there are of every table when it begins.
    older: int = 0
    # Whether tickets are drawn in the order of their ids, as they are when clocks agree.
    in_order: bool = False
    # Whether a commit to a table can be held up between looking for the newest version and putting the next one.
    slow_commits: bool = False
    # Whether a request of a process that was killed can reach the store after its death.
    in_flight: bool = False
    # Whether something may happen between the looks of a recovery at the manifest and at the tables.
    slow_looks: bool = False
    unchecked: frozenset[str] = frozenset()
    # All plans, those of fresh writers last; and for each, those with which it competes.
    everybody: tuple[Plan, ...] = field(init=False)
    rivals: tuple[frozenset[int], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "everybody", self.plans + self.fresh)
        object.__setattr__(self, "rivals", adapter.rivals(self.everybody))

    def start(self) -> State:
        """Every table at its first version, and nobody has begun."""
        number = len(self.everybody)
        tables = 1 + max((table for plan in self.everybody for table in plan.moves + plan.reads), default=0)
        return State(
            (None,) * (number * ATTEMPTS),
            ((Version("first", -1, 0, shown=self.has_upkeep),) * (1 + self.older),) * tables,
            (1 + self.older,) * tables,
            0,
            0,
            tuple(Actor(_first(plan)) for plan in self.everybody),
            self.budget,
            Upkeep(None, (None,) * number, (None,) * number) if self.has_upkeep else Upkeep(),
        )

    @property
    def has_upkeep(self) -> bool:
        """Whether somebody cleans up, or makes branches or tags."""
        return any(plan.kind in UPKEEP for plan in self.everybody)

    def ticket(self, state: State, me: int) -> int:
        """The ticket that a writer has, or is about to draw."""
        return state.actors[me].attempt * len(self.everybody) + me

    def writer(self, ticket: int) -> int:
        """Whose operation a ticket is for."""
        return ticket % len(self.everybody)

    def plan(self, ticket: int) -> Plan:
        """What the operation of a ticket wants."""
        return self.everybody[self.writer(ticket)]

    def name(self, who: int) -> str:
        """What a process is called in a schedule."""
        return f"W{who}" if who < len(self.plans) else f"F{who - len(self.plans)}"

    def ticket_name(self, ticket: int) -> str:
        """What a ticket is called: its writer, with a stroke for each earlier attempt."""
        return f"{self.writer(ticket)}" + "'" * (ticket // len(self.everybody))

    def current(self, state: State, plan: Plan) -> tuple[int, ...]:
        """The published versions of what a plan moves and reads."""
        return tuple([state.published[table] for table in plan.moves + plan.reads])

    def is_dead(self, state: State, who: int) -> bool:
        """Whether a process is dead and others can tell."""
        return not state.actors[who].alive

    def require(self, name: str, holds: bool, text: str, *details: object) -> None:
        """A property."""
        if not holds and name not in self.unchecked:
            raise Violation(name, text.format(*details))


def _first(plan: Plan) -> str:
    if plan.kind == "fill":
        return "enter"
    return "claim" if plan.kind in UPKEEP else "draw"


_FIELDS = {name: number for number, name in enumerate(Actor._fields)}
_ACTORS = State._fields.index("actors")


def with_actor(state: State, me: int, **changes: Any) -> State:
    """The same with one process changed. Most steps do only this, so it avoids the slow way of named tuples."""
    fields = list(state.actors[me])
    for name, value in changes.items():
        fields[_FIELDS[name]] = value
    parts = list(state)
    parts[_ACTORS] = (*state.actors[:me], Actor._make(fields), *state.actors[me + 1 :])
    return State._make(parts)


def with_table(state: State, table: int, versions: tuple[Version, ...]) -> State:
    """The same with one table changed."""
    return state._replace(tables=(*state.tables[:table], versions, *state.tables[table + 1 :]))


def put(protocol: Protocol, state: State, ticket: int, file: File | None, by: int) -> State:
    """Write or delete a sidecar: the tags that others remember of it are not the current ones any more."""
    actors = state.actors
    writer, attempt = protocol.writer(ticket), ticket // len(protocol.everybody)
    stale: list[Actor] | None = None
    for number, each in enumerate(actors):
        if number == by and file is not None:
            continue
        if each.mine and number == writer and each.attempt == attempt:
            stale = stale or list(actors)
            stale[number] = stale[number]._replace(mine=False)
        if each.held and each.victim == ticket:
            stale = stale or list(actors)
            stale[number] = stale[number]._replace(held=False)
    files = (*state.files[:ticket], file, *state.files[ticket + 1 :])
    return state._replace(files=files, actors=actors if stale is None else tuple(stale))


def guarded(protocol: Protocol, state: State, me: int, *, own: bool, go: str) -> State | None:
    """Look at the remaining lease: go on, renewing it first if need be; None when it is lost."""
    actor = state.actors[me]
    if not protocol.rules.guard or (actor.sure if own else actor.certain):
        return with_actor(state, me, at=go)
    if not (actor.mine if own else actor.held):
        return None
    ticket = protocol.ticket(state, me) if own else actor.victim
    file = state.files[ticket]
    assert file is not None
    state = put(protocol, state, ticket, file._replace(over=False), me)
    return with_actor(state, me, at=go, **({"sure": True} if own else {"certain": True}))


def stray(protocol: Protocol, state: State, me: int, *, own: bool) -> State:
    """Note a durable change that is made under a lease which has run out and is another's by now: one may be."""
    actor = state.actors[me]
    if (actor.mine or actor.sure) if own else (actor.held or actor.certain):
        return state
    protocol.require("one step", not actor.strayed, "a second durable step under a lease that another has taken over")
    return with_actor(state, me, strayed=True)


class Request(NamedTuple):
    """What is to become visible at once, for an operation or (`back`) for what takes it back.

    `expected` are the versions that the publish compares. `based_on` are all that the operation was computed from, and
    `under` is the schema: what must still hold, compared or not.
    """

    ticket: int
    versions: tuple[tuple[int, int], ...]
    expected: tuple[tuple[int, int], ...]
    based_on: tuple[int, ...] = ()
    under: int = 0
    back: bool = False


def publish(protocol: Protocol, state: State, request: Request) -> tuple[Outcome, State]:
    """The one write to the manifest."""
    rules, ticket, plan = protocol.rules, request.ticket, protocol.plan(request.ticket)
    mine, other = forward_bit(ticket), back_bit(ticket)
    if request.back:
        mine, other = other, mine
    if state.commits & mine:
        return "published", state
    if rules.exclusion and state.commits & other:
        return "excluded", state
    if rules.expected and any(state.published[table] != version for table, version in request.expected):
        return "moved", state
    changes_schema = plan.kind == "schema" and not request.back
    if changes_schema and rules.expected and state.schema != request.under:
        return "moved", state
    _check(protocol, state, request)
    published = list(state.published)
    for table, version in request.versions:
        published[table] = version
        if protocol.has_upkeep:
            state = _shown(state, table, version)
    schema = state.schema + changes_schema
    return "published", state._replace(published=tuple(published), commits=state.commits | mine, schema=schema)


def _shown(state: State, table: int, version: int) -> State:
    versions = state.tables[table]
    return with_table(
        state, table, (*versions[: version - 1], versions[version - 1]._replace(shown=True), *versions[version:])
    )


def _check(protocol: Protocol, state: State, request: Request) -> None:
    """What must hold for whatever becomes visible."""
    plan = protocol.plan(request.ticket)
    for table, version in request.versions:
        before = state.tables[table][state.published[table] - 1].content
        after = state.tables[table][version - 1]
        wanted = before if request.back else changed(before, plan.kind, request.ticket)
        protocol.require("kept", after.there, "version {} of {} is published and deleted", version, TABLES[table])
        protocol.require(
            "exact", after.content == wanted, "{} gets {:b}, not {:b}", TABLES[table], after.content, wanted
        )
    other = forward_bit(request.ticket) if request.back else back_bit(request.ticket)
    writer = protocol.writer(request.ticket)
    protocol.require("either", not state.commits & other, "operation {} is both done and undone", writer)
    if not request.back:
        _check_operation(protocol, state, request)


def _check_operation(protocol: Protocol, state: State, request: Request) -> None:
    plan, writer = protocol.plan(request.ticket), protocol.writer(request.ticket)
    reads = request.based_on[len(plan.moves) :]
    same = all(_same_rows(state, table, version) for table, version in zip(plan.reads, reads, strict=True))
    holds = same and request.under == state.schema
    protocol.require("serial", holds, "operation {} was computed from another state", writer)
    for attempt in range(ATTEMPTS):
        other = attempt * len(protocol.everybody) + writer
        protocol.require("once", not state.commits & forward_bit(other), "operation {} is done twice", writer)
    told = state.actors[writer].at
    protocol.require("failed", told not in ("failed", "refused"), "operation {} was told to have failed", writer)


def _same_rows(state: State, table: int, version: int) -> bool:
    versions = state.tables[table]
    return versions[version - 1].content == versions[state.published[table] - 1].content
