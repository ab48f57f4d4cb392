"""What exists only while a text is being read: parts of rules that end up inside larger nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.language.diagnostics import NOWHERE, Span
from omnigraph.language.record import record
from omnigraph.language.schema.catalog import PropertyType, ScalarName

if TYPE_CHECKING:
    from omnigraph.language.query import syntax


@record
class Fields:
    """`{ name: value … }`."""

    items: tuple[syntax.Field, ...]
    span: Span = NOWHERE


@record
class Parameters:
    """The parameters in parentheses."""

    items: tuple[syntax.Parameter, ...]
    span: Span = NOWHERE


@record
class Note:
    """`@name("value")`."""

    name: str
    value: str
    span: Span = NOWHERE


@record
class Section:
    """`match { … }`, `return { … }`, `having { … }` or `order { … }`."""

    name: str
    items: tuple[Any, ...]
    distinct: bool = False
    span: Span = NOWHERE


@record
class WrittenType:
    """The type of a parameter as written; `scalar` is None when there is no such type."""

    text: str
    scalar: ScalarName | None
    is_list: bool = False
    dimensions: int | None = None
    span: Span = NOWHERE

    def property_type(self, *, nullable: bool) -> PropertyType | None:
        """The declared type, if there is one."""
        if self.scalar is None:
            return None
        return PropertyType(self.scalar, nullable=nullable, is_list=self.is_list, dimensions=self.dimensions)
