"""Reads YAML with source positions. Each node is checked against its expected form; all findings are collected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from omnigraph.errors import Diagnostic, PipelineError
from omnigraph.errors.inputs import suggestion
from omnigraph.language.core.diagnostics import Span, diagnostic
from omnigraph.pipeline.file import YamlText

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Node = yaml.Node
_TEXTS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "timestamp")}
_BOOL, _INT, _NULL = (f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "null"))


@dataclass
class PipelineFindings:
    """The errors found in a pipeline file, with their positions."""

    text: str
    name: str
    found: list[Diagnostic] = field(default_factory=list)

    def add(self, at: Span | YamlText | Node, code: str, message: str) -> None:
        """Add a finding; duplicates are ignored."""
        span = at.span if isinstance(at, YamlText) else at if isinstance(at, Span) else span_of(at)
        made = diagnostic(self.text, start=span.start, end=span.end, message=message, code=code, source_name=self.name)
        if made not in self.found:
            self.found.append(made)

    def raise_if_any(self) -> None:
        """Raise a `PipelineError` with all findings in file order, if there are any."""
        if self.found:
            raise self.error()

    def error(self) -> PipelineError:
        """All findings as one error, in file order."""
        return PipelineError(tuple(sorted(self.found, key=lambda each: (each.start, each.end, each.message))))


def compose(text: str, findings: PipelineFindings) -> Node | None:
    """The node tree of a YAML text. Invalid or empty YAML becomes a finding and returns None."""
    try:
        root: Node | None = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = mark.index if mark is not None else 0
        findings.add(Span(at, at), "P001", f"this is not YAML: {error.problem or error.context}")
        return None
    except yaml.YAMLError as error:
        findings.add(Span(0, 0), "P001", f"this is not YAML: {error}")
        return None
    if root is None:
        findings.add(Span(0, 0), "P001", "the file is empty")
    return root


def span_of(node: Node) -> Span:
    """The span of a node; for a node of several lines, only its first character."""
    start, end = node.start_mark.index, node.end_mark.index
    return Span(start, end if node.start_mark.line == node.end_mark.line else start + 1)


@dataclass(frozen=True)
class YamlMapping:
    """A mapping node whose values are read by key and expected type."""

    what: str
    node: Node
    members: dict[str, tuple[Node, Node]]
    findings: PipelineFindings

    def __contains__(self, key: str) -> bool:
        return key in self.members

    def node_of(self, key: str) -> Node | None:
        """The value node of a key, or None."""
        return self.members[key][1] if key in self.members else None

    def text(self, key: str) -> YamlText | None:
        """The text of a key, or None."""
        found = self.node_of(key)
        return None if found is None else text_of(found, f"{key} of {self.what}", self.findings)

    def required(self, key: str) -> YamlText:
        """The text of a required key. If it is missing, adds a finding and returns an empty text."""
        found = self.text(key)
        if found is None and key not in self.members:
            self.findings.add(self.node, "P004", f"{self.what} needs {key}")
        return found or YamlText("", span_of(self.node))

    def choice(self, key: str, allowed: Sequence[str]) -> str | None:
        """The text of a key, which must be one of `allowed`, or None."""
        found = self.text(key)
        if found is None or found.value in allowed:
            return None if found is None else found.value
        self.findings.add(found, "P002", f"{key} is {', '.join(allowed[:-1])} or {allowed[-1]}, not {found.value!r}")
        return None

    def flag(self, key: str, *, default: bool) -> bool:
        """The boolean of a key."""
        found = self.node_of(key)
        if found is None:
            return default
        if found.tag != _BOOL:
            self.findings.add(found, "P002", f"{key} is true or false")
            return default
        return bool(found.value.lower() in ("true", "yes", "on"))

    def number(self, key: str, *, least: int) -> int | None:
        """The integer of a key, at least `least`, or None."""
        found = self.node_of(key)
        if found is None:
            return None
        if found.tag != _INT or not found.value.isdigit() or int(found.value) < least:
            self.findings.add(found, "P002", f"{key} is a whole number of at least {least}")
            return None
        return int(found.value)

    def each(self, key: str, read: Callable[[YamlText, Node], Any]) -> list[Any]:
        """Apply `read` to every member of the mapping under a key, in file order."""
        found = self.node_of(key)
        if found is None or found.tag == _NULL:
            return []
        inner = mapping_of(found, key, self.findings)
        return [read(YamlText(name, span_of(at)), value) for name, (at, value) in inner.members.items()]


def mapping_of(node: Node, what: str, findings: PipelineFindings, allowed: Sequence[str] | None = None) -> YamlMapping:
    """Read a mapping node. Unknown and duplicate keys become findings."""
    members: dict[str, tuple[Node, Node]] = {}
    if not isinstance(node, yaml.MappingNode):
        findings.add(node, "P002", f"{what} is a mapping of names to values")
        return YamlMapping(what, node, members, findings)
    for key, value in node.value:
        name = text_of(key, f"a name in {what}", findings).value
        if name in members:
            findings.add(key, "P005", f"{name!r} stands twice in {what}")
        elif allowed is not None and name not in allowed:
            findings.add(key, "P003", f"{what} has no {name!r}{_hint(name, allowed)}")
        else:
            members[name] = (key, value)
    return YamlMapping(what, node, members, findings)


def text_of(node: Node, what: str, findings: PipelineFindings) -> YamlText:
    """The text of a scalar as written."""
    if isinstance(node, yaml.ScalarNode) and node.tag in _TEXTS:
        return YamlText(node.value, span_of(node))
    if isinstance(node, yaml.ScalarNode) and node.tag == _BOOL:
        return YamlText(node.value.lower(), span_of(node))
    findings.add(node, "P002", f"{what} is a text")
    return YamlText("", span_of(node))


def texts_of(node: Node, what: str, findings: PipelineFindings) -> tuple[YamlText, ...]:
    """The texts of a scalar or of a list of scalars."""
    if isinstance(node, yaml.SequenceNode):
        return tuple(text_of(each, what, findings) for each in node.value)
    return (text_of(node, what, findings),)


def _hint(name: str, allowed: Sequence[str]) -> str:
    return suggestion(name, allowed, otherwise=f"; it has {', '.join(allowed)}")
