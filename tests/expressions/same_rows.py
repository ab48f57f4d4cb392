"""A type with a property of every type, rows at the edges of each, and predicates over them."""

from __future__ import annotations

from itertools import product
from typing import Any

SCALARS = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
LISTED = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
ORDERED = ("<", "<=", ">", ">=")

SCHEMA = "\n".join(
    [
        "node Thing { name: String @key",
        *(f"  {each.lower()}: {each}?" for each in SCALARS),
        *(f"  other_{each.lower()}: {each}?" for each in SCALARS),
        *(f"  many_{each.lower()}: [{each}]?" for each in LISTED),
        "  v: Vector(2)?",
        "  mark: I32? }",
    ]
)

# What rows have, as JSON.
HELD: dict[str, list[Any]] = {
    "String": ["", "a", "ab", "o'neil", "é"],
    "Bool": [True, False],
    "I32": [0, -1, 7, 2**31 - 1],
    "I64": [0, -1, 7, 2**62 + 1, -(2**63)],
    "U32": [0, 7, 2**32 - 1],
    "U64": [0, 7, 2**53 + 1, 2**63],
    "F32": [0.0, -0.0, 0.1, 7.0, -2.5],
    "F64": [0.0, 0.1, 7.0, -2.5, 1e300],
    "Date": ["1969-12-31", "2024-02-29", "2024-03-01"],
    "DateTime": ["2024-02-29T00:00:00Z", "2024-02-29T10:30:00.250Z", "1969-12-31T23:59:59.999Z"],
}
# What is compared with, as it is written in a query.
ASKED: dict[str, list[str]] = {
    "String": ['"a"', '"ab"', '"o\'neil"', '"zz"'],
    "Bool": ["true", "false"],
    "I32": ["0", "7", "-1", "3 + 4", "7 % 4"],
    "I64": ["0", "7", "-1", str(2**62 + 1)],
    "U32": ["0", "7"],
    "U64": ["0", "7", str(2**53 + 1)],
    "F32": ["0.0", "0.1", "7", "-2.5"],
    "F64": ["0.0", "0.1", "7.0", "-2.5", "1.0 / 4.0"],
    "Date": ['date("2024-02-29")'],
    "DateTime": ['datetime("2024-02-29T10:30:00.250Z")', 'datetime("2024-02-29T00:00:00Z")'],
}
ROWS = 12


def rows() -> list[dict[str, Any]]:
    """Rows that differ in everything, some of it null."""
    return [{"type": "Thing", "data": _row(number)} for number in range(ROWS)]


def _row(number: int) -> dict[str, Any]:
    data: dict[str, Any] = {"name": f"n{number}"}
    for shift, scalar in enumerate(SCALARS):
        held = [*HELD[scalar], None]
        name = scalar.lower()
        data[name] = held[(number + shift) % len(held)]
        data[f"other_{name}"] = held[(2 * number + shift) % len(held)]
        lists: list[Any] = [HELD[scalar][:1], HELD[scalar][1:3], [], None, HELD[scalar]]
        data[f"many_{name}"] = lists[(number + shift) % len(lists)]
    data["v"] = [1.0, float(number)] if number % 3 else None
    return {name: value for name, value in data.items() if value is not None}


def predicates() -> list[str]:
    """Every type with every operator; `{}` stands before the name of each property."""
    found = [f"{{}}{kind.lower()} is null" for kind in SCALARS]
    found += [f"{{}}many_{kind.lower()} is null" for kind in LISTED] + ["{}v is null", "not ({}v is null)", "{}bool"]
    for kind in SCALARS:
        name = kind.lower()
        operators = ("=", "!=") if kind == "Bool" else ("=", "!=", *ORDERED)
        for operator, value in product(operators, ASKED[kind]):
            found += [f"{{}}{name} {operator} {value}", f"not ({value} {operator} {{}}{name})"]
        found += [f"{{}}{name} {operator} {{}}other_{name}" for operator in operators]
        plain = [each for each in ASKED[kind] if not set(each) & set("+%/")]
        found += [f"{{}}{name} in [{', '.join(plain)}]", f"not ({{}}{name} in [{plain[0]}])"]
        found += [f"{{}}many_{name} contains {value}" for value in plain]
        found += [f"not ({{}}many_{name} contains {plain[0]})", f"{{}}{name} in {{}}many_{name}"]
    found += [f"{{}}string {how} {needle}" for how in ("contains", "starts_with") for needle in ASKED["String"]]
    # As deep as no filter of a table goes.
    deep = "{}i32 = 7"
    for _ in range(12):
        deep = f"not ({deep} or {{}}string is null)"
    return [*found, deep, "{}i32 + 1 = 8", "{}datetime < now()", "{}i32 / 2 > 3.0 and {}many_datetime is null"]
