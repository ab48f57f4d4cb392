"""Every error a user can meet: one tree, stable codes.

    OmniGraphError
    ├── InvalidInput                 what was passed in is wrong; nothing was read or written
    │   ├── InvalidUri
    │   ├── InvalidBranchName
    │   ├── ChangeCursorRejected     a position in the change feed that means nothing here
    │   ├── TextError                findings about a text, with places
    │   │   ├── SchemaError          .pg
    │   │   ├── QueryError           .gq
    │   │   └── PipelineError        a pipeline file
    │   ├── SchemaChangeRefused      a migration plan that cannot be applied
    │   ├── InvalidRecord            a record or cell of an input that cannot be loaded, with its place
    │   └── ConstraintViolation      a row that breaks the schema's rules
    │       ├── ValueViolation       required, enum, @range, @check, vector length
    │       ├── UniqueViolation      @unique, @key
    │       ├── KeyConflict          an id that must be new is taken
    │       ├── OrphanEdge           an end of an edge is not there
    │       └── CardinalityViolation @card
    ├── GraphUnavailable             there is no graph here that this program may open
    │   ├── NotAGraph
    │   ├── IncompleteGraph
    │   ├── FormatTooNew
    │   ├── FormatTooOld
    │   ├── CorruptStamp
    │   ├── ManifestCorrupt
    │   └── SchemaContractDrift
    ├── AlreadyInitialized
    ├── InitializationClaimed
    ├── BranchError
    │   ├── BranchNotFound
    │   ├── BranchExists
    │   ├── BranchInUse
    │   └── BranchReplaced
    ├── TagExists
    ├── NotFound                     a commit, snapshot, table or object that is not there
    │   └── VersionReclaimed         a past state whose data a cleanup has taken
    ├── ChangeFeedGap                changes that can be told no more
    ├── CommitFailed                 nothing became visible
    │   ├── CommitConflict           somebody else was first: read again, try again
    │   │   ├── ExpectedVersionMismatch
    │   │   ├── HeadMismatch
    │   │   ├── ReadSetChanged
    │   │   ├── SchemaChanged
    │   │   └── Contention
    │   ├── MergeConflicts           two branches disagree
    │   ├── RevertConflicts          later changes stand in the way of taking a commit back
    │   └── CommitRejected           trying again cannot help
    ├── CommitOutcomeUnknown         it may or may not have landed: look before doing anything
    ├── RecoveryRequired             an unfinished operation is in the way
    ├── MigrationFailed
    ├── ResourceLimitExceeded        more than this program agreed to hold or do
    ├── QueryStopped                 a read that did not come to its end
    │   ├── QueryTimedOut
    │   ├── QueryCancelled
    │   ├── QueryTooLarge            more memory than the query may use
    │   └── HopCapReached            an unbounded traversal that would have to go on
    ├── EmbeddingFailed              no vector for a text
    ├── SparkUnavailable             no Spark, or no Java that it runs on
    └── StoreError                   the disk or the object store
        ├── StorePermissionDenied
        ├── StoreUnavailable
        ├── StoreUnsafe              the store breaks the rules that commits stand on
        ├── ObjectNotFound
        ├── ObjectExists
        └── ObjectChanged

`code` is stable and meant for programs; the message is meant for people and says what to do next. `retryable` says
whether the same call can succeed when it is simply made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.versions.merge.conflicts import Conflict


@dataclass(frozen=True)
class Diagnostic:
    """One finding about a text: what, and where. Line and column count from 1; offsets are in characters."""

    message: str
    code: str
    start: int = 0
    end: int = 0
    line: int = 1
    column: int = 1
    source_name: str = "<text>"
    excerpt: str = ""

    def __str__(self) -> str:
        return self.excerpt or f"{self.source_name}:{self.line}:{self.column}: {self.message}"


class OmniGraphError(Exception):
    """The root of the tree."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        return _revive, (type(self), self.message, self.__dict__)


def _revive(kind: type[OmniGraphError], message: str, fields: dict[str, object]) -> OmniGraphError:
    """Unpickle without calling a subclass's own constructor."""
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


# -- what was passed in ------------------------------------------------------------------------------------------------


class InvalidInput(OmniGraphError):
    """What was passed in is wrong; nothing was read or written."""

    code = "invalid_input"


class InvalidUri(InvalidInput):
    """A location this program cannot hold a graph at."""

    code = "invalid_uri"

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"{uri!r} cannot hold a graph: {reason}")
        self.uri = uri


class InvalidBranchName(InvalidInput):
    """A name no branch can have."""

    code = "invalid_branch_name"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name!r} cannot name a branch: {reason}")
        self.name = name


class ChangeCursorRejected(InvalidInput):
    """A position in the change feed that is damaged, or of another graph or branch."""

    code = "change_cursor_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(f"change cursor rejected: {reason}")
        self.reason = reason


class TextError(InvalidInput):
    """Findings about a text, with their places."""

    code = "text"

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("\n".join(str(each) for each in diagnostics))
        self.diagnostics = diagnostics


class SchemaError(TextError):
    """A `.pg` schema that cannot be accepted."""

    code = "schema"


class QueryError(TextError):
    """A `.gq` query that cannot be accepted."""

    code = "query"


class PipelineError(TextError):
    """A pipeline file that cannot be run."""

    code = "pipeline"


class SchemaChangeRefused(InvalidInput):
    """A schema change that would lose or break data."""

    code = "schema_change_refused"

    def __init__(self, message: str, *, change_code: str | None = None, entity: str = "schema") -> None:
        super().__init__(message)
        self.change_code = change_code
        self.entity = entity


class InvalidRecord(InvalidInput):
    """A record or cell of an input that cannot be loaded. `line` or `row` counts from 1; `rule` is stable."""

    code = "invalid_record"

    def __init__(
        self,
        message: str,
        *,
        rule: str,
        source: str = "",
        line: int | None = None,
        row: int | None = None,
        type_name: str | None = None,
        property_name: str | None = None,
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.source = source
        self.line = line
        self.row = row
        self.type_name = type_name
        self.property_name = property_name


class ConstraintViolation(InvalidInput):
    """A row that breaks a rule of the schema."""

    code = "constraint"

    def __init__(
        self, message: str, *, type_name: str, property_name: str | None = None, row_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.property_name = property_name
        self.row_id = row_id


class ValueViolation(ConstraintViolation):
    """One value that its property does not allow. `rule` is required, enum, range, check or vector."""

    code = "value_violation"

    def __init__(
        self, message: str, *, rule: str, type_name: str, property_name: str, row_id: str | None, value: object
    ) -> None:
        super().__init__(message, type_name=type_name, property_name=property_name, row_id=row_id)
        self.rule = rule
        self.value = value


class UniqueViolation(ConstraintViolation):
    """Two rows with the same values where the schema wants them to differ. `holder` is the other row's id."""

    code = "unique_violation"

    def __init__(
        self,
        message: str,
        *,
        type_name: str,
        properties: tuple[str, ...],
        values: tuple[object, ...],
        row_id: str,
        holder: str,
    ) -> None:
        super().__init__(message, type_name=type_name, property_name=properties[0], row_id=row_id)
        self.properties = properties
        self.values = values
        self.holder = holder


class KeyConflict(ConstraintViolation):
    """A row that must be new has the id of one that is there."""

    code = "key_conflict"

    def __init__(self, type_name: str, row_id: str) -> None:
        super().__init__(
            f"{type_name} {row_id!r} is there already: insert another id, or merge instead of appending.",
            type_name=type_name,
            row_id=row_id,
        )


class OrphanEdge(ConstraintViolation):
    """An edge with an end that is not there. `end` is src or dst."""

    code = "orphan_edge"

    def __init__(
        self, message: str, *, type_name: str, row_id: str, end: str, node_type: str, node_id: str | None
    ) -> None:
        super().__init__(message, type_name=type_name, property_name=end, row_id=row_id)
        self.end = end
        self.node_type = node_type
        self.node_id = node_id


class CardinalityViolation(ConstraintViolation):
    """A source node with too few or too many edges of a type."""

    code = "cardinality_violation"

    def __init__(
        self, message: str, *, type_name: str, source_id: str, count: int, minimum: int, maximum: int | None
    ) -> None:
        super().__init__(message, type_name=type_name, property_name="src", row_id=source_id)
        self.source_id = source_id
        self.count = count
        self.minimum = minimum
        self.maximum = maximum


# -- opening a graph ---------------------------------------------------------------------------------------------------


class GraphUnavailable(OmniGraphError):
    """There is no graph here that this program may open."""

    code = "graph_unavailable"

    def __init__(self, uri: str, message: str) -> None:
        super().__init__(message)
        self.uri = uri


class NotAGraph(GraphUnavailable):
    """The location holds no graph."""

    code = "not_a_graph"


class IncompleteGraph(GraphUnavailable):
    """An initialisation began here and did not finish."""

    code = "incomplete_graph"


class FormatTooNew(GraphUnavailable):
    """The graph was written by a newer release."""

    code = "format_too_new"

    def __init__(self, uri: str, *, stamp: int, supported: int) -> None:
        super().__init__(
            uri,
            f"{uri} has internal schema v{stamp}; this release reads up to v{supported}. Upgrade omnigraph first.",
        )
        self.stamp = stamp
        self.supported = supported


class FormatTooOld(GraphUnavailable):
    """The graph is older than the oldest format this release migrates."""

    code = "format_too_old"

    def __init__(self, uri: str, *, stamp: int, minimum: int) -> None:
        super().__init__(
            uri,
            f"{uri} has internal schema v{stamp}; this release migrates v{minimum} and later. "
            "Open it once with an older release, or export and load it again.",
        )
        self.stamp = stamp
        self.minimum = minimum


class CorruptStamp(GraphUnavailable):
    """The internal schema stamp is not a number."""

    code = "corrupt_stamp"

    def __init__(self, uri: str, value: str) -> None:
        super().__init__(
            uri,
            f"{uri} carries the internal schema stamp {value!r}, which is not a version number. "
            "The manifest was damaged or written by another program; restore it from a copy.",
        )
        self.value = value


class ManifestCorrupt(GraphUnavailable):
    """Rows of `__manifest` that contradict each other or the format."""

    code = "manifest_corrupt"


class SchemaContractDrift(GraphUnavailable):
    """The schema files disagree with each other."""

    code = "schema_contract_drift"


class AlreadyInitialized(OmniGraphError):
    """`init` found a graph."""

    code = "already_initialized"

    def __init__(self, uri: str) -> None:
        super().__init__(f"{uri} already holds a graph: open it, or choose another location.")
        self.uri = uri


class InitializationClaimed(OmniGraphError):
    """Another process is initialising this location."""

    code = "initialization_claimed"
    retryable = True

    def __init__(self, uri: str, *, attempt_id: str, owner: str) -> None:
        super().__init__(
            f"{uri} is being initialised by {owner} (attempt {attempt_id}). Wait for it, then open the graph."
        )
        self.uri = uri
        self.attempt_id = attempt_id
        self.owner = owner


# -- branches ----------------------------------------------------------------------------------------------------------


class BranchError(OmniGraphError):
    """Something about one branch."""

    code = "branch"

    def __init__(self, branch: str, message: str) -> None:
        super().__init__(message)
        self.branch = branch


class BranchNotFound(BranchError):
    """No branch of that name."""

    code = "branch_not_found"


class BranchExists(BranchError):
    """The name is taken, or stands in the path of one that is."""

    code = "branch_exists"


class BranchInUse(BranchError):
    """Something still stands on the branch."""

    code = "branch_in_use"


class BranchReplaced(BranchError):
    """The branch was deleted and made anew since it was read."""

    code = "branch_replaced"


class TagExists(OmniGraphError):
    """The name of the tag is taken."""

    code = "tag_exists"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a tag {name!r} already: delete it first, or choose another name.")
        self.name = name


class NotFound(OmniGraphError):
    """A commit, snapshot or table that is not there."""

    code = "not_found"


class VersionReclaimed(NotFound):
    """A past state of a table whose data is there no more. `branch` is the table's own; None is its main line."""

    code = "version_reclaimed"

    def __init__(self, path: str, *, version: int, branch: str | None) -> None:
        where = f" on branch {branch!r}" if branch else ""
        super().__init__(
            f"there is no table at {path}{where} at version {version} any more: a cleanup has taken it, or its branch "
            "was deleted. Read a later commit; a tag keeps a commit from being cleaned up."
        )
        self.path = path
        self.version = version
        self.branch = branch


class ChangeFeedGap(OmniGraphError):
    """Changes that the feed can tell no more: a cleanup has taken a state that they lead from or to."""

    code = "change_feed_gap"

    def __init__(self, branch: str, commit_id: str) -> None:
        super().__init__(
            f"the changes of commit {commit_id} on branch {branch!r} can be told no more: a cleanup has taken a state "
            "they are told from. Take a baseline of the branch, replace what you have with it, and go on from its "
            "cursor."
        )
        self.branch = branch
        self.commit_id = commit_id


# -- commits: conflict, rejected, unknown are three different things ---------------------------------------------------


class CommitFailed(OmniGraphError):
    """Nothing became visible."""

    code = "commit_failed"


class CommitConflict(CommitFailed):
    """Somebody else was first: read again, try again."""

    code = "conflict"
    retryable = True


class ExpectedVersionMismatch(CommitConflict):
    """A table moved since the caller looked at it."""

    code = "expected_version_mismatch"

    def __init__(self, table_key: str, *, expected: int, actual: int | None) -> None:
        now = "gone" if actual is None else f"at version {actual}"
        super().__init__(f"{table_key} was expected at version {expected} and is {now}: read it again, then retry.")
        self.table_key = table_key
        self.expected = expected
        self.actual = actual


class HeadMismatch(CommitConflict):
    """The branch head is not the one the caller required."""

    code = "head_mismatch"

    def __init__(self, branch: str, *, expected: str | None, actual: str | None) -> None:
        super().__init__(
            f"branch {branch!r} was expected at commit {expected} and is at {actual}: read it again, then decide."
        )
        self.branch = branch
        self.expected = expected
        self.actual = actual


class ReadSetChanged(CommitConflict):
    """A table that an operation was computed from moved before the operation could take effect."""

    code = "read_set_changed"

    def __init__(self, branch: str, tables: Sequence[str]) -> None:
        super().__init__(f"branch {branch!r} moved meanwhile ({', '.join(tables)}): nothing was changed; try again.")
        self.branch = branch
        self.tables = tuple(tables)


class SchemaChanged(CommitConflict):
    """The schema was changed while an operation under the old one was on its way."""

    code = "schema_changed"

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"the schema of branch {branch!r} was changed meanwhile: nothing was written; look at the new one and try "
            "again."
        )
        self.branch = branch


class Contention(CommitConflict):
    """Other writers won every attempt of the retry budget."""

    code = "contention"

    def __init__(self, what: str, *, attempts: int) -> None:
        super().__init__(f"{what}: other writers were first {attempts} times; try again.")
        self.attempts = attempts


class MergeConflicts(CommitFailed):
    """Two branches disagree; nothing was written. `conflicts` has all of them."""

    code = "merge_conflicts"

    def __init__(self, source: str, target: str, conflicts: Sequence[Conflict]) -> None:
        super().__init__(f"{source!r} cannot be merged into {target!r}: {_told(conflicts)}")
        self.source = source
        self.target = target
        self.conflicts = tuple(conflicts)


class RevertConflicts(CommitFailed):
    """Later changes stand in the way of taking a commit back; nothing was written. `conflicts` has all of them.

    In each, `base` is the entity as the commit left it, `ours` as it is now, `theirs` as it was before the commit.
    """

    code = "revert_conflicts"

    def __init__(self, commit_id: str, branch: str, conflicts: Sequence[Conflict]) -> None:
        super().__init__(f"commit {commit_id} cannot be taken back on branch {branch!r}: {_told(conflicts)}")
        self.commit_id = commit_id
        self.branch = branch
        self.conflicts = tuple(conflicts)


def _told(conflicts: Sequence[Conflict]) -> str:
    """How many they are, and the first of them, a line each."""
    noun = "conflict" if len(conflicts) == 1 else "conflicts"
    shown = "".join(f"\n  {each.kind} {each.table_key} {each.row_id!r}: {each.message}" for each in conflicts[:20])
    more = f"\n  and {len(conflicts) - 20} more" if len(conflicts) > 20 else ""
    return f"{len(conflicts)} {noun}, nothing was written.{shown}{more}"


class CommitRejected(CommitFailed):
    """Trying again cannot help."""

    code = "rejected"


class CommitOutcomeUnknown(OmniGraphError):
    """The commit may or may not have landed. Look for its transaction before doing anything else."""

    code = "outcome_unknown"

    def __init__(self, message: str, *, transaction: str | None = None) -> None:
        super().__init__(message)
        self.transaction = transaction


class RecoveryRequired(OmniGraphError):
    """An unfinished operation is in the way."""

    code = "recovery_required"

    def __init__(self, message: str, *, operation_id: str, branch: str | None = None) -> None:
        super().__init__(message)
        self.operation_id = operation_id
        self.branch = branch


class MigrationFailed(OmniGraphError):
    """A migration step stopped; the graph is as readable as before and the step can run again."""

    code = "migration_failed"


class ResourceLimitExceeded(OmniGraphError):
    """More than this program agreed to hold or do at once."""

    code = "resource_limit"

    def __init__(self, message: str, *, resource: str, limit: int, actual: int) -> None:
        super().__init__(message)
        self.resource = resource
        self.limit = limit
        self.actual = actual


# -- reads -------------------------------------------------------------------------------------------------------------


class QueryStopped(OmniGraphError):
    """A read that did not come to its end; nothing was changed."""

    code = "query_stopped"


class QueryTimedOut(QueryStopped):
    """The query took longer than it may."""

    code = "query_timed_out"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the query took longer than {seconds:g} s: narrow it, or allow more time.")
        self.seconds = seconds


class QueryCancelled(QueryStopped):
    """Somebody asked the query to stop."""

    code = "query_cancelled"

    def __init__(self) -> None:
        super().__init__("the query was cancelled.")


class QueryTooLarge(QueryStopped):
    """The query needs more memory than it may use, or counts more than 64 bits can hold."""

    code = "query_too_large"


class HopCapReached(QueryStopped):
    """A traversal without an upper bound would have to go on beyond the cap."""

    code = "hop_cap_reached"

    def __init__(self, edge: str, cap: int) -> None:
        super().__init__(
            f"following {edge} did not end within {cap} hops: write an upper bound, {{1,{2 * cap}}}, to go further."
        )
        self.edge = edge
        self.cap = cap


class EmbeddingFailed(OmniGraphError):
    """The embedding provider is not set up, did not answer, or gave something that is no vector of the right length."""

    code = "embedding_failed"

    def __init__(self, message: str, *, provider: str) -> None:
        super().__init__(message)
        self.provider = provider


class SparkUnavailable(OmniGraphError):
    """Spark, or a Java that it runs on, is not there or did not start."""

    code = "spark_unavailable"


# -- the disk or the object store --------------------------------------------------------------------------------------


class StoreError(OmniGraphError):
    """The disk or the object store."""

    code = "store"

    def __init__(self, message: str, *, location: str = "") -> None:
        super().__init__(message)
        self.location = location


class StorePermissionDenied(StoreError):
    """The credentials or the file mode do not allow it."""

    code = "store_permission_denied"


class StoreUnavailable(StoreError):
    """The store did not answer, or the bucket is not there."""

    code = "store_unavailable"
    retryable = True


class StoreUnsafe(StoreError):
    """The store breaks the rules that commits stand on; writing here would lose data."""

    code = "store_unsafe"


class ObjectNotFound(StoreError):
    """No object of that name."""

    code = "object_not_found"


class ObjectExists(StoreError):
    """Create-if-absent found an object."""

    code = "object_exists"


class ObjectChanged(StoreError):
    """Replace-if-unchanged found another content."""

    code = "object_changed"
    retryable = True
