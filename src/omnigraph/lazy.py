"""Keeps imports fast: `record`, a frozen dataclass that is cheap to declare, and lazily imported names.

A frozen dataclass compiles six methods when its class is created, which takes most of a millisecond. The languages have
a hundred classes of syntax trees, and one text uses a few of them: `record` compiles nothing before the first instance
of a class. `lazy_names` imports a module only when a name of it is used, so that a command loads only what it needs.
"""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import FrozenInstanceError, dataclass, field, fields, make_dataclass
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def lazy_names(owner: str, locations: Mapping[str, str]) -> Callable[[str], object]:
    """A `__getattr__` for a module that imports each name from its location, `module:attribute`, at its first use."""

    def found(name: str) -> object:
        if name not in locations:
            raise AttributeError(f"module {owner!r} has no attribute {name!r}")
        module, _, attribute = locations[name].partition(":")
        value = vars(sys.modules[owner])[name] = getattr(import_module(module), attribute)
        return value

    return found


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass, with `fields`, `replace` and patterns. For classes without `__post_init__`."""
    made: Any = dataclass(init=False, repr=False, eq=False)(cls)
    key = _key([each.name for each in fields(made) if each.compare])
    shared: dict[str, Any] = {
        "__eq__": lambda self, other: key(self) == key(other) if other.__class__ is cls else NotImplemented,
        "__hash__": lambda self: hash(key(self)),
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__init__": _first_init(made),
    }
    if cls.__repr__ is object.__repr__:
        shared["__repr__"] = _repr
    for name, method in shared.items():
        setattr(cls, name, method)
    return cls


def _key(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """The function that returns the fields compared by `==`, always as a tuple: it compares identity first, for NaN."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _first_init(made: Any) -> Callable[..., None]:
    def __init__(self: object, *args: object, **kwargs: object) -> None:  # noqa: N807 - it stands for that method
        made.__init__ = _compiled_init(made)
        made.__init__(self, *args, **kwargs)

    return __init__


def _compiled_init(made: Any) -> Callable[..., None]:
    """The constructor that `dataclass` would have compiled. Fields are copied, since a field belongs to one class."""
    twin: Any = make_dataclass(
        made.__name__,
        [(each.name, each.type, copy(each)) for each in fields(made)],
        frozen=True,
        repr=False,
        eq=False,
    )
    init: Callable[..., None] = twin.__init__
    return init


def _repr(self: Any) -> str:
    display_text = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({display_text})"


def _refuse_to_set(_self: object, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
