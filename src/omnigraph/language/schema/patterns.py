"""Regular expressions of `@check`: RE2, the dialect that the engines run at every write, in linear time."""

from __future__ import annotations


def pattern_fault(pattern: str) -> str | None:
    """Why a regular expression cannot be used, or None."""
    _, fault = _search(pattern, "")
    return fault


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether a text contains a match."""
    return _search(pattern, text)[0]


def _search(pattern: str, text: str) -> tuple[bool, str | None]:
    # A schema without checks does not pay for Arrow.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        found = pc.match_substring_regex(pa.array([text], pa.string()), pattern=pattern)
    except pa.ArrowInvalid as error:
        return False, str(error)
    return bool(found[0].as_py()), None
