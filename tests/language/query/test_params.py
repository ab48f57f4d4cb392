"""Parameters are converted by their declared types; what is missing, unknown or wrong is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import numpy as np
import pytest

from language.query.showing import world
from omnigraph.errors import QueryError
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.ir.params import bind_params

if TYPE_CHECKING:
    from omnigraph.language.ir.params import Mode


def bind(declared: str, value: object, mode: Mode = "standard") -> object:
    return bind_params(checked(f"$x: {declared}"), {"x": value}, mode)["x"]


def checked(parameters: str, rest: str = ""):
    text = f"query q({parameters}) {{ match {{ $p: Person }} return {{ $p.name }} {rest} }}"
    return check_query(parse_queries(text).queries[0], world())


def refusals(query: object, values: dict[str, object] | None, mode: Mode = "standard") -> list[tuple[str, str]]:
    with pytest.raises(QueryError) as caught:
        bind_params(query, values, mode)
    return [(each.code, each.message) for each in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("declared", "given", "bound"),
    [
        ("String", "é", "é"),
        ("Bool", False, False),
        ("I32", 5, 5),
        ("I32", "-2147483648", -(2**31)),
        ("I64", "9223372036854775807", 2**63 - 1),
        ("U32", 4294967295, 2**32 - 1),
        ("U64", "9223372036854775807", 2**63 - 1),
        ("F64", 3, 3.0),
        ("F32", 0.1, 0.1),
        ("Date", "2024-02-29", date(2024, 2, 29)),
        ("Date", date(2024, 2, 29), date(2024, 2, 29)),
        ("DateTime", "2024-01-02T03:04:05.678901Z", datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)),
        ("DateTime", "2024-01-02T03:04:05+02:30", datetime(2024, 1, 2, 0, 34, 5, 0, UTC)),
        ("DateTime", "2024-01-02 03:04", datetime(2024, 1, 2, 3, 4, 0, 0, UTC)),
        ("DateTime", "2024-01-02", datetime(2024, 1, 2, tzinfo=UTC)),
        ("DateTime", "1969-12-31T23:59:59.9Z", datetime(1969, 12, 31, 23, 59, 59, 900000, UTC)),
        ("DateTime", datetime(2024, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))), datetime(2024, 1, 2, 2, tzinfo=UTC)),
        ("DateTime", datetime(2024, 1, 2, 3, 0, 0, 1999), datetime(2024, 1, 2, 3, 0, 0, 1000, UTC)),  # noqa: DTZ001
        ("Blob", "aGk=", "aGk="),
        ("Blob", b"hi", b"hi"),
        ("[String]", ["a", "b"], ["a", "b"]),
        ("[I64]", (1, "2"), [1, 2]),
        ("[Date]", [], []),
        ("Vector(3)", [1, 2.5, 0], [1.0, 2.5, 0.0]),
        ("Vector(2)", np.array([1, 2], dtype=np.float32), [1.0, 2.0]),
        ("I64", np.int32(7), 7),
        ("F64", np.float32(0.5), 0.5),
        ("String?", None, None),
        ("Vector(2)?", None, None),
    ],
)
def test_values_become_what_was_declared(declared: str, given: object, bound: object) -> None:
    result = bind(declared, given)
    assert result == bound
    assert type(result) is type(bound)


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ("String", 3),
        ("Bool", 1),
        ("Bool", "true"),
        ("I32", True),
        ("I32", 1.0),
        ("I32", 2**31),
        ("I32", "3000000000"),
        ("I32", "1.0"),
        ("I32", "٣"),
        ("U32", -1),
        ("U64", 2**63),
        ("I64", "9" * 10_000),
        ("F64", "1.5"),
        ("F64", True),
        ("F64", float("nan")),
        ("F64", float("inf")),
        ("F32", 1e39),
        ("F64", 10**400),
        ("Date", "2024-2-1"),
        ("Date", "2023-02-29"),
        ("Date", datetime(2024, 1, 1, tzinfo=UTC)),
        ("DateTime", "soon"),
        ("DateTime", "2024-01-01T25:00:00Z"),
        ("DateTime", 0),
        ("Blob", 3),
        ("[String]", "abc"),
        ("[String]", ["a", 3]),
        ("[I32]", {"a": 1}),
        ("Vector(2)", [1.0]),
        ("Vector(2)", [1.0, "x"]),
        ("Vector(2)", [1.0, 1e300]),
    ],
)
def test_wrong_values_are_refused_by_name(declared: str, given: object) -> None:
    ((code, message),) = refusals(checked(f"$x: {declared}"), {"x": given})
    assert code == "P4"
    assert message.startswith("param 'x': ")


def test_a_vector_of_the_wrong_length_says_both_lengths() -> None:
    ((_, message),) = refusals(checked("$x: Vector(3)"), {"x": [1, 2]})
    assert "expects 3 dimensions, got 2" in message


def test_null_is_for_nullable_parameters_only() -> None:
    assert refusals(checked("$x: String"), {"x": None})[0][0] == "P3"
    assert refusals(checked("$x: [String]"), {"x": ["a", None]})[0][0] == "P3"


def test_an_omitted_parameter_is_null_or_an_error() -> None:
    assert bind_params(checked("$x: String?, $y: I32?"), None) == {"x": None, "y": None}
    assert refusals(checked("$x: String"), {})[0][0] == "P1"
    assert refusals(checked("$x: String"), None)[0][1].startswith("param 'x': parameter not provided")


def test_an_unknown_parameter_is_an_error_with_a_guess() -> None:
    ((code, message),) = refusals(checked("$name: String?"), {"nmae": "x"})
    assert code == "P2"
    assert "did you mean 'name'?" in message


def test_everything_wrong_is_told_at_once() -> None:
    found = refusals(checked("$a: I32, $b: String, $c: Bool"), {"a": "x", "c": None, "d": 1})
    assert sorted(code for code, _ in found) == ["P1", "P2", "P3", "P4"]


def test_javascript_cannot_pass_large_integers_as_numbers() -> None:
    assert bind("I64", 2**53 - 1, "javascript") == 2**53 - 1
    assert bind("I64", str(2**60), "javascript") == 2**60
    assert bind("I64", 2**53) == 2**53
    assert refusals(checked("$x: I64"), {"x": 2**53}, "javascript")[0][0] == "P4"
    assert refusals(checked("$x: [I64]"), {"x": [-(2**53)]}, "javascript")[0][0] == "P4"


@pytest.mark.parametrize("bound", ["limit", "offset"])
def test_a_bound_cannot_be_below_zero(bound: str) -> None:
    query = checked("$n: I32", f"{bound} $n")
    assert bind_params(query, {"n": 0}) == {"n": 0}
    ((code, message),) = refusals(query, {"n": -1})
    assert code == "P5"
    assert bound in message


def test_mutations_bind_the_same_way() -> None:
    text = "query q($n: String, $a: I32?) { insert Person { name: $n active: true age: $a } }"
    mutation = check_query(parse_queries(text).queries[0], world())
    assert bind_params(mutation, {"n": "x"}) == {"n": "x", "a": None}
    assert refusals(mutation, {"a": 1})[0][0] == "P1"


def test_the_message_of_the_error_is_the_message_of_the_finding() -> None:
    with pytest.raises(QueryError, match=r"^param 'x': expected I32, got 'ten'$"):
        bind("I32", "ten")
