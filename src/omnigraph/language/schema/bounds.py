"""The numbers of `@range(p, a..b)` and `@card(a..b)`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from omnigraph.language.schema.catalog import Cardinality
from omnigraph.language.schema.syntax import Bounds

if TYPE_CHECKING:
    from omnigraph.language.schema.codes import Findings
    from omnigraph.language.schema.syntax import AnnotationSyntax, Name

_LARGEST_COUNT = 2**32 - 1


def range_bounds(written: Bounds, findings: Findings, *, released: bool) -> tuple[float | None, float | None]:
    """Both ends of a range; an end that is not written is open."""
    minimum, maximum = _bound(written.minimum, findings), _bound(written.maximum, findings)
    if not released and minimum is not None and maximum is not None and minimum > maximum:
        findings.add("S408", written.span, "the lower bound is above the upper one")
    return minimum, maximum


def _bound(written: Name | None, findings: Findings) -> float | None:
    """An integer when it is written as one and fits 64 bits, otherwise a float."""
    if written is None:
        return None
    if "." not in written.text and len(written.text) <= 20 and -(2**63) <= int(written.text) < 2**63:
        return int(written.text)
    value = float(written.text)
    if math.isinf(value):
        findings.add("S408", written.span, "this number is too large for a bound")
        return None
    return value


def cardinality_of(written: AnnotationSyntax | None, findings: Findings) -> Cardinality:
    """The value of `@card(min..max)`; without it any number of edges is allowed."""
    if written is None:
        return Cardinality()
    arguments = written.arguments or ()
    bounds = arguments[0].value if len(arguments) == 1 and arguments[0].keyword is None else None
    if not isinstance(bounds, Bounds) or bounds.minimum is None:
        findings.add("S413", written.span, "a cardinality is written @card(min..max) or @card(min..)")
        return Cardinality()
    minimum, maximum = _count(bounds.minimum, findings), _count(bounds.maximum, findings)
    if minimum is not None and maximum is not None and minimum > maximum:
        findings.add("S413", bounds.span, f"at least {minimum} and at most {maximum} cannot both hold")
    return Cardinality(minimum or 0, maximum)


def _count(written: Name | None, findings: Findings) -> int | None:
    if written is None:
        return None
    digits = written.text.lstrip("0") or "0"
    if digits.isdecimal() and len(digits) <= 10 and int(digits) <= _LARGEST_COUNT:
        return int(digits)
    findings.add("S413", written.span, f"a number of edges is a whole number from 0 to {_LARGEST_COUNT}")
    return None
