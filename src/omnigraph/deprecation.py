"""Names and keywords that are on their way out: they still work, warn, and say what to write instead.

A deprecated name works for at least one minor release and warns with `DeprecationWarning`, which names the release that
removes it. `docs/operations.md` has the policy.
"""

from __future__ import annotations

import warnings
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


def warn_deprecated(old: str, new: str, *, removed_in: str, stacklevel: int = 2) -> None:
    """Warn that `old` goes away in a release, and that `new` takes its place. `stacklevel` 2 is the caller's caller."""
    text = f"{old} is deprecated and will be removed in omnigraph {removed_in}: use {new}."
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)


def renamed_keywords(*, removed_in: str, **renamed: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function accept keywords under their old names, with a warning: `@renamed_keywords(old="new", …)`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if not renamed.keys().isdisjoint(kwargs):
                _rename(function.__qualname__, kwargs, renamed, removed_in)
            return function(*args, **kwargs)

        return call

    return decorate


def _rename(function: str, kwargs: Any, renamed: dict[str, str], removed_in: str) -> None:
    for old in renamed.keys() & kwargs.keys():
        new, value = renamed[old], kwargs.pop(old)
        warn_deprecated(f"{function}({old}=…)", f"{new}=…", removed_in=removed_in, stacklevel=3)
        if value is None:
            continue
        if kwargs.get(new) is not None:
            raise InvalidInput(f"{function} takes {new}, which was called {old}: give one of them.")
        kwargs[new] = value
