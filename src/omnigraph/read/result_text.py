"""A result as a table to look at: in a terminal, and in a notebook."""

from __future__ import annotations

import html
import json
import unicodedata
from typing import TYPE_CHECKING, Any

from omnigraph.read.result_json import json_rows

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS, _WIDEST = 20, 40


def text_table(table: pa.Table) -> str:
    """The first rows in a frame, and how many there are."""
    names, rows = table.column_names, _cells(table, _ROWS)
    numeric = [_is_number(table, name) for name in names]
    widths = [max([_width(name), *(_width(row[at]) for row in rows)]) for at, name in enumerate(names)]
    lines = [_rule("┌", "┬", "┐", widths), _line(names, widths, [False] * len(names)), _rule("├", "┼", "┤", widths)]
    lines += [_line(row, widths, numeric) for row in rows]
    lines += [_rule("└", "┴", "┘", widths), _footer(table)]
    return "\n".join(lines)


def html_table(table: pa.Table) -> str:
    """The first rows as an HTML table."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
    numeric = [_is_number(table, name) for name in table.column_names]
    body = "".join(
        "<tr>" + "".join(_html_cell(cell, right) for cell, right in zip(row, numeric, strict=True)) + "</tr>"
        for row in _cells(table, _ROWS)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{html.escape(_footer(table))}</p>"


def _html_cell(cell: str, right: bool) -> str:
    return f'<td style="text-align: {"right" if right else "left"}">{html.escape(cell)}</td>'


def _cells(table: pa.Table, most: int) -> list[list[str]]:
    rows = json_rows(table.slice(0, most), large_integers_as_text=False)
    return [[_cell(value) for value in row.values()] for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _is_number(table: pa.Table, name: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(name).type
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _width(text: str) -> int:
    """Columns of a terminal: characters of East Asia take two."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - _width(cell))
        padded.append(f"{space}{cell}" if to_right else f"{cell}{space}")
    return "│ " + " │ ".join(padded) + " │"


def _rule(left: str, middle: str, right: str, widths: list[int]) -> str:
    return left + middle.join("─" * (width + 2) for width in widths) + right


def _footer(table: pa.Table) -> str:
    rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
    return rows if table.num_rows <= _ROWS else f"{rows}, the first {_ROWS} are shown"
