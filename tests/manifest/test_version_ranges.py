"""Sets of versions as ranges: whatever is done to them, they are the sets that they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.manifest.version_refs import NONE, VersionRanges

VERSIONS = st.sets(st.integers(1, 60))


@given(VERSIONS)
def test_ranges_survive_being_written_and_read(versions: set[int]) -> None:
    ranges = VersionRanges.of(versions)
    assert VersionRanges.parse(str(ranges)) == ranges
    assert set(ranges) == versions
    assert list(ranges) == sorted(versions)
    assert bool(ranges) == bool(versions)


@given(VERSIONS, VERSIONS)
def test_union_and_difference_are_those_of_sets(one: set[int], other: set[int]) -> None:
    first, second = VersionRanges.of(one), VersionRanges.of(other)
    assert set(first | second) == one | other
    assert set(first - second) == one - other
    assert [each in first for each in range(62)] == [each in one for each in range(62)]


@given(VERSIONS, VERSIONS)
def test_one_set_has_one_form(one: set[int], other: set[int]) -> None:
    """Notes are compared with each other: the way in which a set came about must not show."""
    assert VersionRanges.of(one) | VersionRanges.of(other) == VersionRanges.of(one | other)
    assert VersionRanges.of(one) - VersionRanges.of(other) == VersionRanges.of(one - other)


def test_neighbours_become_one_range() -> None:
    assert str(VersionRanges.of([3, 1, 2, 7, 9, 8, 5])) == "1-3,5,7-9"
    assert str(VersionRanges.parse("1-57,58,60")) == "1-58,60"
    assert str(NONE) == ""
    assert VersionRanges.parse("") == NONE


@pytest.mark.parametrize("text", ["1-", "-3", "5-2", "a", "1,,2", "1-2-3", " 1"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no range"):
        VersionRanges.parse(text)
