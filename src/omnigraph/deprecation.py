"""Names and keywords that are on their way out: they still work, warn, and say what to write instead.

A deprecated name works for at least one minor release and warns with `DeprecationWarning`, which names the release that
removes it. `docs/operations.md` has the policy.
"""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from omnigraph.arguments import checked_arguments
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

P = ParamSpec("P")
T = TypeVar("T")


def warn_deprecated(old: str, new: str, *, removed_in: str, stacklevel: int = 2) -> None:
    """Warn that `old` goes away in a release, and that `new` takes its place. `stacklevel` 2 is the caller's caller."""
    text = f"{old} is deprecated and will be removed in omnigraph {removed_in}: use {new}."
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)


def renamed_keywords(*, removed_in: str, **renamed: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function accept keywords under their old names, with a warning: `@renamed_keywords(old="new", …)`.

    The arguments are checked after that, under their new names.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        function = checked_arguments(function)

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


# Documented places of an earlier tree, and the names that they had.
_MOVED = {
    "omnigraph.read.options": {"ReadOptions": "omnigraph.types"},
    "omnigraph.spark.session": {"spark_session": "omnigraph"},
    "omnigraph.versions.change_rows": {"Change": "omnigraph.types"},
    "omnigraph.versions.merge.conflicts": {"Conflict": "omnigraph.types"},
}
_PACKAGES = ("omnigraph.read", "omnigraph.versions", "omnigraph.versions.merge")


class _MovedModules(Loader):
    """Finds modules that have moved, after all others: importing a name from one warns and gives what it is now."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        if name not in _MOVED and name not in _PACKAGES:
            return None
        return ModuleSpec(name, _MovedModules(), is_package=name in _PACKAGES)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        names, owner = _MOVED.get(module.__name__, {}), module.__name__

        def moved(name: str) -> object:
            if name not in names:
                raise AttributeError(f"module {owner!r} has no attribute {name!r}")
            warn_deprecated(f"{owner}.{name}", f"{names[name]}.{name}", removed_in="0.3")
            return getattr(import_module(names[name]), name)

        module.__getattr__ = moved  # type: ignore[method-assign]


def install_moved_modules() -> None:
    """Let the documented places of an earlier tree be imported."""
    if _MovedModules not in sys.meta_path:
        sys.meta_path.append(_MovedModules)
