"""What a person who misspelt a name may have meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def suggestion(name: object, known: Iterable[str], *, otherwise: str = "") -> str:
    """`: did you mean 'x'?` when a known name is close, to be put after the name; else the other text."""
    close = get_close_matches(str(name), list(known), n=1)
    return f": did you mean '{close[0]}'?" if close else otherwise
