"""Checks the arguments of public methods against their annotations, before a method uses them.

A wrong type raises `InvalidInput`, which names the argument, its annotation and the value. The annotations are read as
text when a method is first called: nothing that a type checker alone imports is imported here. Which choices an
enumerated argument has is checked by `require_choice` where the argument is used.
"""

from __future__ import annotations

import ast
import datetime as dt
import os
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

from omnigraph.errors import InvalidInput

P = ParamSpec("P")
T = TypeVar("T")
Check: TypeAlias = Callable[[object], bool]

# Enumerated arguments, which are compared with their choices where they are used.
_CHOICES = ("Mode", "Engine", "EntityKind", "ChangeOp", "TraversalMode", "Direction", "Literal")
# Names of the API that stand for these types.
_ALIASES = {
    "Resolver": "str | Mapping[str, str] | Callable | None",
    "Embedder": "Callable",
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "Path": (Path,),
    "os.PathLike": (os.PathLike,),
    "dt.timedelta": (dt.timedelta,),
    "dt.datetime": (dt.datetime,),
}
# The packages of classes that are named here only.
_PACKAGES = {"SparkSession": "pyspark", "DataFrame": "pyspark"}


def checked_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Check the arguments of a function at each call."""
    if getattr(function, "has_checked_arguments", False):
        return function

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        checks = _checks(function)
        for (name, accept), value in zip(checks.items(), args, strict=False):
            if type(value) not in accept.types and not accept(value):
                raise _wrong_type(function, name, value)
        for name, value in kwargs.items():
            if name in checks and type(value) not in checks[name].types and not checks[name](value):
                raise _wrong_type(function, name, value)
        return function(*args, **kwargs)

    call.has_checked_arguments = True  # type: ignore[attr-defined]
    return call


def checked_methods(cls: type[T]) -> type[T]:
    """Check the arguments of all public methods of a class."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(cls, name, classmethod(checked_arguments(member.__func__)))
        elif callable(member) and not isinstance(member, type):
            setattr(cls, name, checked_arguments(member))
    return cls


def checked_fields(cls: type[T]) -> type[T]:
    """Check the arguments of a dataclass's constructor."""
    created: Any = cls
    created.__init__ = checked_arguments(created.__init__)
    return cls


def text_of(source: str | Path) -> str:
    """A text that is passed as it is, or as the `Path` of a file in UTF-8."""
    if isinstance(source, str):
        return source
    try:
        return source.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{source} cannot be read: {error}.") from error


def _wrong_type(function: Callable[..., object], name: str, value: object) -> InvalidInput:
    annotation = signature(function).parameters[name].annotation
    expected = _ALIASES.get(annotation, annotation)
    owner = function.__qualname__.removesuffix(".__init__")
    return InvalidInput(f"{owner}: {name} must be {expected}, not {reprlib.repr(value)} ({type(value).__name__}).")


@dataclass(frozen=True)
class _Parameter:
    """The check of one parameter, and the types of values that it has accepted because of their type alone."""

    check: Check
    types: set[type] = field(default_factory=set)

    def __call__(self, value: object) -> bool:
        if not self.check(value):
            return False
        if isinstance(value, str) or not isinstance(value, Collection):
            self.types.add(type(value))
        return True


@cache
def _checks(function: Callable[..., object]) -> dict[str, _Parameter]:
    """The checks of a function's parameters by name, in their order; `self` and `cls` have no annotation."""
    annotated = {name: each.annotation for name, each in signature(function).parameters.items()}
    return {
        name: _Parameter(_check(ast.parse(each, mode="eval").body) if isinstance(each, str) else _accept_any)
        for name, each in annotated.items()
    }


def _check(annotation: ast.expr) -> Check:
    if isinstance(annotation, ast.BinOp):
        return _either(_check(annotation.left), _check(annotation.right))
    if isinstance(annotation, ast.Constant):
        return _is_none
    name, inner = ast.unparse(annotation), list[ast.expr]()
    if isinstance(annotation, ast.Subscript):
        name, elements = ast.unparse(annotation.value), annotation.slice
        inner = elements.elts if isinstance(elements, ast.Tuple) else [elements]
    if name in _ALIASES:
        return _check(ast.parse(_ALIASES[name], mode="eval").body)
    return _SHAPES[name](inner) if name in _SHAPES else _instance(name)


def _either(one: Check, other: Check) -> Check:
    if _accept_any in (one, other):
        return _accept_any
    return lambda value: one(value) or other(value)


def _instance(name: str) -> Check:
    """Instances of a type, or of the class that has this name in this package or in the one that it is known from."""
    if name in _TYPES:
        types = _TYPES[name]
        return lambda value: isinstance(value, types)
    package = _PACKAGES.get(name, "omnigraph")
    return lambda value: any(
        each.__name__ == name and each.__module__.startswith(package) for each in type(value).__mro__
    )


def _collection(inner: list[ast.expr]) -> Check:
    element = _check(inner[0])

    def check(value: object) -> bool:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
            return False
        return element is _accept_any or all(map(element, value))

    return check


def _mapping(inner: list[ast.expr]) -> Check:
    key, element = (_check(each) for each in inner)

    def check(value: object) -> bool:
        return isinstance(value, Mapping) and all(map(key, value)) and all(map(element, value.values()))

    return check


def _accept_any(_: object) -> bool:
    return True


def _is_none(value: object) -> bool:
    return value is None


def _is_given(value: object) -> bool:
    return value is not None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_float(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SHAPES: Mapping[str, Callable[[list[ast.expr]], Check]] = {
    "Sequence": _collection,
    "Mapping": _mapping,
    "Callable": lambda _: callable,
    "int": lambda _: _is_int,
    "float": lambda _: _is_float,
    **dict.fromkeys(("object", *_CHOICES), lambda _: _accept_any),
    # Further checked where it is resolved.
    "State": lambda _: _is_given,
}
