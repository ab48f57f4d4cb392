"""Branches, tags, commits and states that are not there, or are there already."""

from __future__ import annotations

from omnigraph.errors.root import OmniGraphError


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
            f"there is no table at {path}{where} at version {version} any more: a cleanup has taken it or is taking "
            "it, or its branch was deleted. Read a later commit; a tag keeps a commit from being cleaned up."
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
