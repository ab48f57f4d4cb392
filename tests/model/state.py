"""What the model is made of: the store, the processes, and everything else that tells one state from another.

All of it is tuples of small values, so that a state is its own key. There is no clock in it: no decision compares the
wall clocks of two machines, so clocks that differ make no difference by construction. A lease is either good, or it is
`over` for everybody who looks; the event that makes it so is "stop", whether the owner was suspended for an hour or
only slow. `Rules.skewed` brings back the rule that compared wall clocks.

Resuming is no event either: a process that was stopped takes its next step whenever the schedule gives it one, and the
schedules in which it never does are those of a process that is stopped for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

# `point`: takes a version that is there already, so that no table moves before the publish. `clean` deletes old
# versions; `tag` gives a name to the oldest commit, which stands for branches too. `branch`, `unbranch` and `fill`
# make, delete and write to one branch, always of the same name.
Kind = Literal[
    "insert", "update", "overwrite", "index", "schema", "point", "clean", "tag", "branch", "unbranch", "fill"
]
UPKEEP = frozenset({"clean", "tag", "branch", "unbranch", "fill"})
# The result of an operation, told to its caller. `refused`: the table cannot be written without an operator.
ENDS = frozenset({"done", "failed", "refused"})
TABLES = "ABC"


class Plan(NamedTuple):
    """What one writer wants: the tables it moves and those that it only reads, by their numbers.

    `tidies`: each change is followed by a second commit to the table that leaves the rows as they are.
    """

    kind: Kind
    moves: tuple[int, ...] = (0,)
    reads: tuple[int, ...] = ()
    tidies: bool = False

    def __str__(self) -> str:
        moves, reads = ("".join(TABLES[table] for table in tables) for tables in (self.moves, self.reads))
        words = [self.kind, moves, f"reading {reads}" if reads else "", "and tidying" if self.tidies else ""]
        return " ".join(filter(None, words))


@dataclass(frozen=True)
class Rules:
    """The protections. Each can be left out, to see what it is for.

    `fence`: undoing restores every table that the sidecar names, unless every owner so far is surely dead.
    `healing`: versions above the published one that are ours are taken back by the writer that meets them.
    `heals_in_turn`: only a writer that has its turn does so, and not whoever recovers the operation of another.
    `guard`: the remaining lease is looked at before each durable step but the deletion of a sidecar whose operation is
    done or undone.
    `expected`: a publish compares the versions that it was computed from, and a change of schema the schema.
    `exclusion`: of an operation and its undoing only one is published.
    `aborted`: an owner marks its sidecar before it takes its own operation back.
    `settle`: an owner that lost its lease waits for what becomes of its operation before it tries again.
    `checked_reuse`: a table that an earlier try has restored is restored again if another version is published now.
    `waiting_untouched`: to undo a sidecar that is `waiting` no table is touched: its owner has had no effects, and must
    announce itself first.
    `considerate`: an operation is not recovered while a living rival of it may be having its turn.
    `all_owners`: a sidecar remembers that one of its former owners may live.
    `back_always`: undoing an operation whose owner may live is published even if no table is restored.
    `note`: a cleaner writes down what it is about to delete: not at all, at once, or as a proposal that it makes final
    after it has looked once more at what branches, tags and sidecars need.
    `note_stays`: what a final note condemns counts as gone for ever, whether or not a version of that number is there.
    Otherwise the note goes after the versions.
    `looks_again`: whoever makes a branch or tag looks for notes, and where they go also for the versions, before it is
    acknowledged.
    `by_incarnation`: what a branch leaves behind is deleted under a name that no later branch of that name has.
    `skewed`: processes that go by the wall clock, which is so far ahead that every lease looks over to them.
    """

    fence: bool = True
    healing: bool = True
    heals_in_turn: bool = True
    guard: bool = True
    expected: bool = True
    exclusion: bool = True
    aborted: bool = True
    settle: bool = True
    checked_reuse: bool = True
    waiting_untouched: bool = True
    considerate: bool = True
    all_owners: bool = True
    back_always: bool = True
    note: Literal["none", "at once", "proposed"] = "proposed"
    note_stays: bool = True
    looks_again: bool = True
    by_incarnation: bool = True
    skewed: frozenset[int] = frozenset()


class Budget(NamedTuple):
    """How often something may still go wrong: leases running out, deaths, errors of an owner, answers that get lost."""

    stops: int = 0
    kills: int = 0
    errors: int = 0
    losses: int = 0


class File(NamedTuple):
    """A sidecar on the store. Tags are not counted: whoever holds the current one knows (`mine`, `held`).

    `expected` are the versions it was computed from, of the tables it moves and then of those it reads. `stained`: an
    owner from whom it was taken over may still live.
    """

    owner: int
    phase: Literal["running", "waiting"]
    expected: tuple[int, ...]
    schema: int
    over: bool = False
    aborted: bool = False
    confirmed: bool = False
    stained: bool = False


class Version(NamedTuple):
    """A version of a table. `content` has a bit for each ticket whose change is in it; `by` is the ticket it is for."""

    kind: Literal["insert", "update", "overwrite", "index", "tidy", "restore", "first"]
    by: int
    content: int
    there: bool = True
    # The version that a Restore has taken.
    of: int = 0
    # Whether it ever was published; noted only where versions are deleted.
    shown: bool = False


class Actor(NamedTuple):
    """One process: where it is in its program, and what it remembers."""

    at: str = "draw"
    attempt: int = 0
    view: tuple[int, ...] = ()
    schema: int = 0
    landed: tuple[int, ...] = ()
    # Its own sidecar: whether its tag is the current one, and whether its lease has time left by its own clock.
    mine: bool = False
    sure: bool = False
    # The sidecar that it recovers, and the same of that.
    victim: int = -1
    held: bool = False
    certain: bool = False
    # What the recovery has decided: the published versions it saw, and by table what to restore or to publish.
    seen: tuple[int, ...] = ()
    todo: tuple[tuple[int, int], ...] = ()
    made: tuple[tuple[int, int], ...] = ()
    # What Lance is about to put as the next version, where its commits take two steps.
    pending: tuple[int, Version] | None = None
    # Where it goes after the recovery, and what becomes of its own operation once that is undone.
    back: str = ""
    then: str = ""
    alive: bool = True
    # Whether it has made a durable change under a lease that another had taken over.
    strayed: bool = False


class Claim(NamedTuple):
    """The claim under which branches and tags are made and old versions deleted."""

    owner: int
    over: bool = False
    # The incarnation of a branch that is half-made.
    unfinished: int = 0


class Note(NamedTuple):
    """What a cleaner is about to delete, by table and version. A final one is carried out by whoever finds it."""

    condemned: frozenset[tuple[int, int]]
    final: bool


class Ref(NamedTuple):
    """A tag or branch, and the versions that it stands on."""

    versions: tuple[int, ...]
    acknowledged: bool = False


class Branch(NamedTuple):
    """The one branch, told from earlier ones of the name by its incarnation; 0 is none.

    `known`: the incarnation that was acknowledged. `fork`: whose rows lie in the branch's line of a table. `filled`:
    the incarnation to which rows were written and acknowledged.
    """

    incarnation: int = 0
    last: int = 0
    known: int = 0
    fork: int = 0
    filled: int = 0


class Upkeep(NamedTuple):
    """What cleaning, branches and tags need. Each cleaner has a note, each maker of tags a name."""

    claim: Claim | None = None
    notes: tuple[Note | None, ...] = ()
    refs: tuple[Ref | None, ...] = ()
    branch: Branch = Branch()


class State(NamedTuple):
    """Everything. `commits` has two bits a ticket: its own commit, and the one that takes it back."""

    files: tuple[File | None, ...]
    tables: tuple[tuple[Version, ...], ...]
    published: tuple[int, ...]
    commits: int
    schema: int
    actors: tuple[Actor, ...]
    budget: Budget
    upkeep: Upkeep = Upkeep()


class Violation(Exception):
    """A property does not hold; the first words name it. `steps`: the states that a fresh writer `who` came through."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.steps: list[State] = []
        self.who = -1


def forward_bit(ticket: int) -> int:
    """The commit that the operation wants to become."""
    return 1 << 2 * ticket


def back_bit(ticket: int) -> int:
    """The commit that takes it back."""
    return 2 << 2 * ticket


def newest(versions: tuple[Version, ...]) -> int:
    """The number of the newest version; the first is 1."""
    return len(versions)
