"""The tree of a `.pg` text: declarations as they were written, each with its place.

Nothing here is checked for meaning; `compile.py` does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.lazy import record

if TYPE_CHECKING:
    from omnigraph.language.core.diagnostics import Span

ValueKind = Literal["string", "number", "bool", "name"]


@record
class Name:
    """A word of the text."""

    text: str
    span: Span


@record
class Value:
    """A literal or a bare name; `text` is decoded when the literal is a string."""

    kind: ValueKind
    text: str
    span: Span


@record
class Bounds:
    """`a..b`, `a..` or `..b`."""

    minimum: Name | None
    maximum: Name | None
    span: Span


@record
class Argument:
    """One argument of an annotation; `keyword` is set for `name=value`."""

    value: Value | Bounds
    keyword: Name | None = None

    @property
    def span(self) -> Span:
        """From the keyword, if there is one, to the value."""
        return self.keyword.span.to(self.value.span) if self.keyword else self.value.span


@record
class AnnotationSyntax:
    """`@name` or `@name(arguments)`; `arguments` is None without parentheses."""

    name: str
    span: Span
    arguments: tuple[Argument, ...] | None = None


@record
class TypeSyntax:
    """A type as written: `scalar` is a scalar's name, "enum" or "Vector"."""

    scalar: str
    span: Span
    is_list: bool = False
    nullable: bool = False
    enum_values: tuple[Name, ...] = ()
    dimensions: Name | None = None


@record
class PropertySyntax:
    """`name: Type @annotation…`."""

    name: Name
    type: TypeSyntax
    annotations: tuple[AnnotationSyntax, ...] = ()


@record
class InterfaceSyntax:
    """`interface Name { … }`."""

    name: Name
    properties: tuple[PropertySyntax, ...]


@record
class NodeSyntax:
    """`node Name @annotation… implements A, B { … }`."""

    name: Name
    annotations: tuple[AnnotationSyntax, ...]
    implements: tuple[Name, ...]
    properties: tuple[PropertySyntax, ...]
    constraints: tuple[AnnotationSyntax, ...]


@record
class EdgeSyntax:
    """`edge Name: Source -> Target @card(…) @annotation… { … }`."""

    name: Name
    source: Name
    target: Name
    cardinality: AnnotationSyntax | None
    annotations: tuple[AnnotationSyntax, ...]
    properties: tuple[PropertySyntax, ...]
    constraints: tuple[AnnotationSyntax, ...]


@record
class SchemaDocument:
    """A parsed text with its declarations in the order they were written."""

    text: str
    source_name: str
    interfaces: tuple[InterfaceSyntax, ...] = ()
    nodes: tuple[NodeSyntax, ...] = ()
    edges: tuple[EdgeSyntax, ...] = ()
