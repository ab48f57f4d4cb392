"""Compiles written constraints to the rules of a type and reports every violation of the language's rules.

`@key`, `@unique` and `@index` on a property are equivalent to the body constraint on that property alone. The regular
expressions of `@check` are RE2, the dialect that the engines run at every write, in linear time. Rules between the
properties of one node are checked here as well: the source of an embedding, and defaults that the constraints permit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from omnigraph.catalog.canonical import in_check_order, in_column_order, in_range_order
from omnigraph.catalog.catalog import NUMERIC, Check, PropertyType, Range, TypeRules
from omnigraph.language.schema.annotations import range_bounds
from omnigraph.language.schema.syntax import AnnotationSyntax, Argument, Bounds, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.language.core.diagnostics import Span
    from omnigraph.language.schema.findings import Findings
    from omnigraph.language.schema.properties import Member


def pattern_fault(pattern: str) -> str | None:
    """The reason why a regular expression is invalid, or None."""
    _, fault = _search(pattern, "")
    return fault


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether a text contains a match."""
    return _search(pattern, text)[0]


def _search(pattern: str, text: str) -> tuple[bool, str | None]:
    # Imported here, so that a schema without checks does not load Arrow.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        found = pc.match_substring_regex(pa.array([text], pa.string()), pattern=pattern)
    except pa.ArrowInvalid as error:
        return False, str(error)
    return bool(found[0].as_py()), None


EDGE_COLUMNS = frozenset({"src", "dst"})
_ENDPOINT = PropertyType("String")
# Other spellings of the endpoint columns: those of loads and mutations, and those of later releases.
_ENDPOINTS = {"from": "src", "to": "dst", "@src": "src", "@dst": "dst"}


def rules_of(
    members: Mapping[str, Member],
    written: tuple[AnnotationSyntax, ...],
    kind: Literal["node", "edge"],
    findings: Findings,
    *,
    released: bool,
) -> TypeRules:
    """The rules of one type: its body constraints, then those of its properties."""
    reader = _Reader(members, kind, findings, released)
    for constraint in written:
        reader.read(constraint)
    # An edge property with @key is refused as an annotation already.
    shorthand = ("key", "unique", "index") if kind == "node" else ("unique", "index")
    for member in members.values():
        for annotation in member.syntax.annotations:
            if annotation.name in shorthand and annotation.arguments is None:
                reader.read_columns(annotation, (member.property.name,), annotation.span)
    return reader.rules()


@dataclass
class _Reader:
    """Collects the rules of one type."""

    members: Mapping[str, Member]
    kind: Literal["node", "edge"]
    findings: Findings
    released: bool
    columns: dict[str, list[tuple[str, ...]]] = field(default_factory=lambda: {"key": [], "unique": [], "index": []})
    ranges: list[Range] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def rules(self) -> TypeRules:
        """The collected rules in canonical order."""
        return TypeRules(
            key=self.columns["key"][0] if self.columns["key"] else (),
            unique=in_column_order(self.columns["unique"]),
            indexes=in_column_order(self.columns["index"]),
            ranges=in_range_order(self.ranges),
            checks=in_check_order(self.checks),
        )

    def read(self, syntax: AnnotationSyntax) -> None:
        """Add one body constraint."""
        if syntax.name == "range":
            self._read_range(syntax)
        elif syntax.name == "check":
            self._read_check(syntax)
        elif names := self._names(syntax):
            self.read_columns(syntax, names, syntax.span)

    def read_columns(self, syntax: AnnotationSyntax, names: tuple[str, ...], span: Span) -> None:
        """Add a key, unique or index constraint over these columns."""
        for name in names:
            fault = self._fault(syntax, name)
            if fault:
                self.findings.add(_FAULT_CODES[syntax.name], span, f"`{name}` {fault}")
        if syntax.name == "key":
            self._check_key(names, span)
        self.columns[syntax.name].append(tuple(sorted(names)))

    def _check_key(self, names: tuple[str, ...], span: Span) -> None:
        if self.columns["key"]:
            self.findings.add("S403", span, "a type has one key: name all its properties in one @key(…)")
        if self.kind == "edge" and not set(names) >= EDGE_COLUMNS:
            self.findings.add("S412", span, "the key of an edge names both ends: @key(from, to, …)")

    def _names(self, syntax: AnnotationSyntax) -> tuple[str, ...]:
        """The existing columns that a constraint names; missing ones are reported."""
        names: list[str] = []
        if not syntax.arguments:
            self.findings.add("S401", syntax.span, f"@{syntax.name}(…) names at least one property")
        for argument in syntax.arguments or ():
            name = self._name(syntax, argument)
            if name in names and not self.released:
                self.findings.add("S415", argument.span, f"`{name}` is named twice")
            elif name:
                names.append(name)
        return tuple(names)

    def _name(self, syntax: AnnotationSyntax, argument: Argument) -> str | None:
        value = argument.value
        if argument.keyword or not isinstance(value, Value) or value.kind != "name":
            self.findings.add("S401", argument.span, f"@{syntax.name}(…) takes names of properties, without quotes")
            return None
        if value.text in self.members:
            return value.text
        name = _ENDPOINTS.get(value.text, value.text) if self.kind == "edge" else value.text
        if not self._is_endpoint(name):
            self.findings.add("S402", value.span, f"there is no property `{value.text}` here")
            return None
        return name

    def _is_endpoint(self, name: str) -> bool:
        return self.kind == "edge" and name in EDGE_COLUMNS

    def _type(self, name: str) -> PropertyType:
        return _ENDPOINT if self._is_endpoint(name) else self.members[name].property.type

    def _fault(self, syntax: AnnotationSyntax, name: str) -> str | None:
        on_property = syntax.arguments is None
        if syntax.name == "key":
            return _key_fault(self._type(name))
        if syntax.name == "unique":
            return _unique_fault(self._type(name), on_property=on_property, released=self.released)
        return _index_fault(self._type(name), on_property=on_property)

    def _subject(self, syntax: AnnotationSyntax) -> tuple[str, Argument] | None:
        """The property and the second argument of a range or check."""
        if self.kind == "edge":
            self.findings.add("S411", syntax.span, f"edges have no @{syntax.name}(…): put the property on a node")
            return None
        arguments = syntax.arguments or ()
        if len(arguments) != 2:
            self.findings.add("S401", syntax.span, f"@{syntax.name}(…) takes a property and one more argument")
            return None
        name = self._name(syntax, arguments[0])
        return (name, arguments[1]) if name else None

    def _read_range(self, syntax: AnnotationSyntax) -> None:
        subject = self._subject(syntax)
        if subject is None:
            return
        name, argument = subject
        declared = self._type(name)
        if declared.scalar not in NUMERIC or declared.is_list:
            self.findings.add("S407", syntax.span, f"`{name}` is a {declared}: a range needs a number")
        if argument.keyword or not isinstance(argument.value, Bounds):
            self.findings.add("S401", argument.span, "a range is written min..max, min.. or ..max")
            return
        minimum, maximum = range_bounds(argument.value, self.findings, released=self.released)
        self.ranges.append(Range(name, minimum, maximum))

    def _read_check(self, syntax: AnnotationSyntax) -> None:
        subject = self._subject(syntax)
        if subject is None:
            return
        name, argument = subject
        declared = self._type(name)
        if declared.scalar != "String" or declared.is_list:
            self.findings.add("S409", syntax.span, f"`{name}` is a {declared}: a check needs a String")
        value = argument.value
        if argument.keyword or not isinstance(value, Value) or value.kind != "string":
            self.findings.add("S401", argument.span, "the pattern of a check is a text in quotes")
            return
        fault = None if self.released else pattern_fault(value.text)
        if fault:
            self.findings.add("S410", argument.span, f"this is no regular expression: {fault}")
        self.checks.append(Check(name, value.text))


_FAULT_CODES = {"key": "S404", "unique": "S405", "index": "S406"}


def _key_fault(declared: PropertyType) -> str | None:
    if declared.nullable:
        return "may be null: a key may not"
    if declared.is_list or declared.scalar in ("Vector", "Blob"):
        return f"is a {declared}: a key is made of scalars"
    return None


def _unique_fault(declared: PropertyType, *, on_property: bool, released: bool) -> str | None:
    if on_property and (declared.is_list or declared.scalar == "Vector"):
        return f"is a {declared}: only scalars can be unique"
    # The released program accepted @unique(blob) in a body; such a graph must stay readable.
    if declared.scalar == "Blob" and (on_property or not released):
        return "is a Blob: blobs are not compared"
    return None


def _index_fault(declared: PropertyType, *, on_property: bool) -> str | None:
    if declared.scalar == "Blob":
        return "is a Blob: blobs have no index"
    if on_property and declared.is_list:
        return f"is a {declared}: name a list in the body, @index(property)"
    return None


def check_embeds(members: Mapping[str, Member], findings: Findings) -> None:
    """Check that every embedded vector has a String property of the same node as its source."""
    for member in members.values():
        source = member.property.embed_source
        if source is None:
            continue
        origin = members.get(source)
        if origin is None or origin.property.type.scalar != "String" or origin.property.type.is_list:
            span = _annotation(member, "embed").span
            findings.add("S506", span, f"@embed reads a String property of this node, and `{source}` is none")


def check_defaults(members: Mapping[str, Member], rules: TypeRules, findings: Findings) -> None:
    """Check that every default satisfies the ranges and checks of its property."""
    for member in members.values():
        default = member.property.default
        fault = None if default is None else _fault(member.property.name, default, rules)
        if fault:
            findings.add("S508", _annotation(member, "default").span, f"the default {default!r} {fault}")


def _fault(name: str, default: object, rules: TypeRules) -> str | None:
    for each in rules.ranges:
        if (
            each.property == name
            and isinstance(default, int | float)
            and not _inside(default, each.minimum, each.maximum)
        ):
            return "lies outside the range of the property"
    for check in rules.checks:
        if check.property != name or pattern_fault(check.pattern):
            continue
        if not pattern_matches(check.pattern, str(default)):
            return f"does not match {check.pattern!r}"
    return None


def _inside(value: float, minimum: float | None, maximum: float | None) -> bool:
    return (minimum is None or value >= minimum) and (maximum is None or value <= maximum)


def _annotation(member: Member, name: str) -> AnnotationSyntax:
    return next(each for each in member.syntax.annotations if each.name == name)
