"""A record is a frozen dataclass in everything but what it costs to declare."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace

import pytest

from omnigraph.lazy import record


@record
class Point:
    """Two numbers and a note that does not count."""

    x: float
    y: float = 0.0
    note: str = field(default="", compare=False)
    tags: dict[str, int] = field(default_factory=dict, repr=False, compare=False)


@record
class Nothing:
    """No fields at all."""


@dataclass(frozen=True)
class Plain:
    """The same as Point, by the library."""

    x: float
    y: float = 0.0
    note: str = field(default="", compare=False)
    tags: dict[str, int] = field(default_factory=dict, repr=False, compare=False)


def test_it_is_made_with_defaults_and_names_like_any_dataclass() -> None:
    point = Point(1.0, note="here")

    assert (point.x, point.y, point.note, point.tags) == (1.0, 0.0, "here", {})
    assert Point(1.0).tags is not Point(1.0).tags
    assert is_dataclass(point)
    assert [each.name for each in fields(point)] == [each.name for each in fields(Plain)]
    assert repr(point) == repr(Plain(1.0, note="here")).replace("Plain", "Point")


def test_it_is_equal_by_what_counts_and_only_to_its_own_kind() -> None:
    nan = float("nan")

    assert Point(1.0, note="a") == Point(1.0, note="b")
    assert hash(Point(1.0, note="a")) == hash(Point(1.0, note="b"))
    assert Point(1.0) != Point(2.0)
    assert Point(1.0) != Plain(1.0)
    assert Point(nan) == Point(nan)
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1


def test_it_cannot_be_changed() -> None:
    point = Point(1.0)

    with pytest.raises(FrozenInstanceError, match="'x'"):
        point.x = 2.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="'x'"):
        del point.x  # type: ignore[misc]
    assert replace(point, x=2.0) == Point(2.0)


def test_wrong_arguments_are_told_as_usual() -> None:
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1.0, z=1)  # type: ignore[call-arg]


def test_patterns_know_its_places() -> None:
    match Point(1.0, 2.0):
        case Point(x, y):
            assert (x, y) == (1.0, 2.0)


def test_a_copy_that_no_constructor_made_is_whole() -> None:
    script = pickle.dumps(Point(1.0, 2.0))

    assert pickle.loads(script) == Point(1.0, 2.0)
    assert copy.deepcopy(Point(1.0)) == Point(1.0)
    assert hash(pickle.loads(script)) == hash(Point(1.0, 2.0))
