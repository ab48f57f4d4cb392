"""Writes docs/api.md from the docstrings of the public names.

python docs/api.py            write it
python docs/api.py --check    say whether it is what the docstrings say
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH = 110
PAGE = Path(__file__).with_name("api.md")
HEAD = """# Python API

Written by `docs/api.py` from the docstrings; do not edit by hand. Guides with examples: [loading](loading.md),
[queries](queries.md), [branches](branching.md), [operations](operations.md).
"""
TYPES = """## omnigraph.types

What methods return and take.
"""


def page() -> str:
    """The whole page."""
    import omnigraph as og

    parts = [HEAD, "## omnigraph\n"]
    public = [(name, getattr(og, name)) for name in og.__all__ if name not in ("errors", "types")]
    parts += [_function(f"omnigraph.{name}", found) for name, found in public if isinstance(found, FunctionType)]
    parts += [_class(f"omnigraph.{name}", found) for name, found in public if inspect.isclass(found)]
    parts.append(TYPES)
    types = [(name, getattr(og.types, name)) for name in og.types.MODULES]
    parts += [_class(f"omnigraph.types.{name}", found) for name, found in types if inspect.isclass(found)]
    parts += [_aliases((name, found) for name, found in types if not inspect.isclass(found))]
    parts.append(_errors(og.errors))
    return "\n".join(parts)


def _function(title: str, found: Any, level: int = 3) -> str:
    return f"{'#' * level} `{title}`\n\n```text\n{_signature(title.rsplit('.', 1)[-1], found)}\n```\n\n{_doc(found)}\n"


def _class(title: str, found: type) -> str:
    lines = [f"### `{title}`\n", f"{_doc(found)}\n"]
    if dataclasses.is_dataclass(found):
        fields = [f"`{each.name}`: `{each.type}`" for each in dataclasses.fields(found) if each.name[0] != "_"]
        lines += [f"Fields: {', '.join(fields)}.\n"] if fields else []
    members = [(name, each) for name, each in vars(found).items() if name[0] != "_" and inspect.getdoc(each)]
    lines += [f"- **`{name}`** {_flat(each)}" for name, each in members if isinstance(each, property | cached_property)]
    lines += [""] if any(isinstance(each, property | cached_property) for _, each in members) else []
    for name, each in members:
        if isinstance(each, FunctionType | classmethod):
            lines.append(_function(name, each.__func__ if isinstance(each, classmethod) else each, level=4))
    return "\n".join(lines)


def _aliases(aliases: Iterable[tuple[str, object]]) -> str:
    lines = ["### Names of unions and choices\n"]
    lines += [f"- `omnigraph.types.{name}` = `{_shown(found)}`" for name, found in aliases]
    return "\n".join(lines) + "\n"


def _shown(alias: object) -> str:
    """An alias as it would be written, without the modules of its parts."""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", repr(alias))


def _errors(module: Any) -> str:
    rows = [
        "## omnigraph.errors\n",
        "Every error has `.code` and `.retryable`.\n",
        "| error | code | retry | meaning |",
    ]
    rows.append("|---|---|---|---|")
    for name, found in vars(module).items():
        if inspect.isclass(found) and issubclass(found, module.OmniGraphError):
            retry = "yes" if found.retryable is True else ""
            rows.append(f"| `{name}` | `{found.code}` | {retry} | {_flat(found)} |")
    return "\n".join(rows) + "\n"


def _signature(name: str, found: Any) -> str:
    signature = inspect.signature(found)
    parts, starred = [], False
    for each in signature.parameters.values():
        if each.name in {"self", "cls", "world"}:
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_parameter(each))
    end = f") -> {signature.return_annotation}"
    line = f"{name}({', '.join(parts)}{end}"
    return line if len(line) <= WIDTH else f"{name}(\n    " + ",\n    ".join(parts) + f",\n{end}"


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    if each.default is each.empty:
        return f"{stars}{each.name}: {each.annotation}"
    return f"{each.name}: {each.annotation} = {_default(each.default)}"


def _default(value: object) -> str:
    text = repr(value)
    return text if isinstance(value, str | int | float | bool | tuple | None) else f"{type(value).__name__}(…)"


def _doc(found: Any) -> str:
    return inspect.getdoc(found) or ""


def _flat(found: Any) -> str:
    return " ".join(_doc(found).split()).replace("|", "\\|")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(None if PAGE.read_text("utf-8") == page() else "docs/api.md is out of date: run python docs/api.py")
    PAGE.write_text(page(), "utf-8")
