"""What was passed in is wrong: nothing was read or written.

Branches, tags, commits and states that are not there, or are there already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors.root import Diagnostic, OmniGraphError, display_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def suggestion(name: object, names: Iterable[str], *, otherwise: str = "") -> str:
    """`: did you mean 'x'?` when a known name is close, to be put after the name; else the other text."""
    from difflib import get_close_matches

    close = get_close_matches(str(name), list(names), n=1)
    return f": did you mean '{close[0]}'?" if close else otherwise


def require_choice(what: str, value: object, choices: Sequence[str]) -> None:
    """Raise `InvalidInput` unless the value is one of the choices; a misspelt one would otherwise pass for another."""
    if value not in choices:
        raise InvalidInput(f"there is no {what} {value!r}: use {', '.join(choices[:-1])} or {choices[-1]}.")


def require_text(what: str, value: object) -> None:
    """Raise `InvalidInput` unless the value is None or a text that can be stored."""
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{what} is a text, not {display_text(value)}.")
    try:
        (value or "").encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} {display_text(value)} is not valid Unicode: {error.reason}.") from None


class InvalidInput(OmniGraphError):
    """What was passed in is wrong; nothing was read or written."""

    code = "invalid_input"


class GraphClosed(InvalidInput):
    """The graph was closed: open it again."""

    code = "graph_closed"

    def __init__(self, uri: str) -> None:
        super().__init__(f"the graph at {uri} was closed: open it again.")
        self.uri = uri


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
    """Findings about a text, with their positions."""

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
    """The name is in use, or is a path prefix of one that is, or extends one."""

    code = "branch_exists"


class BranchInUse(BranchError):
    """Another branch or a tag depends on the branch."""

    code = "branch_in_use"


class BranchReplaced(BranchError):
    """The branch was deleted and created again since it was read."""

    code = "branch_replaced"


class TagExists(OmniGraphError):
    """The name of the tag is in use."""

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
            f"there is no table at {path}{where} at version {version} any more: a cleanup has deleted it or is "
            "deleting it, or its branch was deleted. Read a later commit; a tag retains a commit."
        )
        self.path = path
        self.version = version
        self.branch = branch


class ChangeFeedGap(OmniGraphError):
    """Changes that the feed cannot return, because a cleanup has deleted a state that they lead from or to."""

    code = "change_feed_gap"

    def __init__(self, branch: str, commit_id: str) -> None:
        super().__init__(
            f"the changes of commit {commit_id} on branch {branch!r} are no longer available: a cleanup has deleted a "
            "state that they are computed from. Read a baseline of the branch and continue from its cursor."
        )
        self.branch = branch
        self.commit_id = commit_id
