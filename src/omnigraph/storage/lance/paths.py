"""Where Lance keeps the files of a table, relative to the root of the graph. `path` is the directory of the table.

A branch of a table has a directory of its own below that of the table, and a reference file beside the tables' own.
"""

from __future__ import annotations

import re

DATA, DELETIONS, TRANSACTIONS, VERSIONS, REFERENCES = "data", "_deletions", "_transactions", "_versions", "_refs"

_U64 = (1 << 64) - 1
_VERSION = re.compile(r"(\d+)\.manifest")
_DETACHED = re.compile(r"d\d+\.manifest")
_TRANSACTION = re.compile(rf"{TRANSACTIONS}/(\d+)-[^/]+\.txn")
_CONTENT = re.compile(rf"{DATA}/[^/]+\.lance|{DELETIONS}/\d+-\d+-\d+\.(arrow|bin)")


def table_dir(path: str, branch: str | None) -> str:
    """The directory of a table, or of a branch of it."""
    return path if branch is None else f"{path}/tree/{branch}"


def versions_dir(path: str, branch: str | None) -> str:
    """The directory of the version files."""
    return f"{table_dir(path, branch)}/{VERSIONS}"


def version_file(path: str, branch: str | None, version: int) -> str:
    """The file of one version, Lance's manifest. Lance counts down, so that the newest sorts first."""
    return f"{versions_dir(path, branch)}/{_U64 - version:020d}.manifest"


def detached_version_file(path: str, branch: str | None, version: int) -> str:
    """The file of a detached version, which is in no history."""
    return f"{versions_dir(path, branch)}/d{version}.manifest"


def version_of(file: str) -> int | None:
    """The version that a version file is of; None for a detached version, and for other files.

    Lance counts down in names of twenty digits; the older naming scheme has the version itself.
    """
    found = _VERSION.fullmatch(file.rpartition("/")[2])
    if found is None:
        return None
    return _U64 - int(found[1]) if len(found[1]) == 20 else int(found[1])


def is_detached(file: str) -> bool:
    """Whether a file is that of a detached version."""
    return _DETACHED.fullmatch(file.rpartition("/")[2]) is not None


def references_dir(path: str) -> str:
    """The directory of the references to branches and tags of a table."""
    return f"{path}/{REFERENCES}"


def branch_reference_file(path: str, branch: str) -> str:
    """The reference file that makes a directory a branch."""
    return f"{references_dir(path)}/branches/{branch.replace('/', '%2F')}.json"


def is_tag_reference(file: str) -> bool:
    """Whether a reference file is that of a tag."""
    return "/tags/" in file


def data_file(directory: str, name: str) -> str:
    """A data file below the directory of a table or branch, or, without one, relative to it."""
    return f"{directory}/{DATA}/{name}" if directory else f"{DATA}/{name}"


def is_content(name: str) -> bool:
    """Whether a file, named relative to its table or branch, is a data file or a deletion file."""
    return _CONTENT.fullmatch(name) is not None


def version_read_by(name: str) -> int | None:
    """The version that a transaction was staged upon, by its file relative to its table or branch."""
    found = _TRANSACTION.fullmatch(name)
    return None if found is None else int(found[1])
