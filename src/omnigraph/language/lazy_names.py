"""Names that a package has and does not load before somebody asks for one: a command starts with what it needs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def names_from(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose names stand in these modules of it."""

    def found(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        vars(sys.modules[package])[name] = value
        return value

    return found
