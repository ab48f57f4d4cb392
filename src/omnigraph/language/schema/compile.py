"""From a parsed text to a catalog, with every rule of the language checked and every finding shown at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from omnigraph.catalog.canonical import hash32
from omnigraph.catalog.catalog import Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.language.schema.annotations import annotation_list, cardinality_of
from omnigraph.language.schema.constraints import check_defaults, check_embeds, rules_of
from omnigraph.language.schema.findings import Findings
from omnigraph.language.schema.parse import read
from omnigraph.language.schema.properties import Members, inherit, members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.language.schema.syntax import EdgeSyntax, InterfaceSyntax, Name, NodeSyntax, SchemaDocument

    Declaration = TypeVar("Declaration", InterfaceSyntax, NodeSyntax, EdgeSyntax)

Named = TypeVar("Named")


def compile_schema(text: str, source_name: str = "<text>") -> Catalog:
    """The catalog of a `.pg` text. Raises `SchemaError` with every finding and its place."""
    return _compile(text, source_name, released=False)


def compile_accepted(text: str, source_name: str = "<text>") -> Catalog:
    """Like `compile_schema` for the text of an existing graph: what the released program let through is let through."""
    return _compile(text, source_name, released=True)


def _compile(text: str, source_name: str, *, released: bool) -> Catalog:
    findings = Findings(text, source_name)
    catalog = _Compiler(read(text, findings), findings, released).catalog()
    findings.raise_if_any()
    return catalog


@dataclass
class _Compiler:
    """Compiles one document; findings gather on the way."""

    document: SchemaDocument
    findings: Findings
    released: bool

    def catalog(self) -> Catalog:
        """Interfaces first, because nodes take properties from them."""
        promised = {
            syntax.name.text: members(syntax.properties, "interface", self.findings, released=self.released)
            for syntax in self._first_of_each("interface", self.document.interfaces)
        }
        catalog = Catalog(
            interfaces=_by_name(InterfaceType(name, _properties(held)) for name, held in promised.items()),
            nodes=_by_name(self._node(syntax, promised) for syntax in self._first_of_each("node", self.document.nodes)),
            edges=_by_name(self._edge(syntax) for syntax in self._first_of_each("edge", self.document.edges)),
        )
        self._check_edge_names()
        self._check_endpoints(catalog)
        self._check_ids()
        return catalog

    def _node(self, syntax: NodeSyntax, promised: Mapping[str, Members]) -> NodeType:
        own = members(syntax.properties, "node", self.findings, released=self.released)
        held = inherit(own, syntax.implements, promised, self.findings, released=self.released)
        rules = rules_of(held, syntax.constraints, "node", self.findings, released=self.released)
        check_embeds(held, self.findings)
        if not self.released:
            check_defaults(held, rules, self.findings)
        return NodeType(
            syntax.name.text,
            _properties(held),
            rules,
            implements=tuple(sorted({each.text for each in syntax.implements})),
            annotations=annotation_list(syntax.annotations, "node", self.findings, released=self.released),
        )

    def _edge(self, syntax: EdgeSyntax) -> EdgeType:
        held = members(syntax.properties, "edge", self.findings, released=self.released)
        return EdgeType(
            syntax.name.text,
            syntax.source.text,
            syntax.target.text,
            _properties(held),
            rules_of(held, syntax.constraints, "edge", self.findings, released=self.released),
            cardinality=cardinality_of(syntax.cardinality, self.findings),
            annotations=annotation_list(syntax.annotations, "edge", self.findings, released=self.released),
        )

    def _first_of_each(self, kind: str, written: tuple[Declaration, ...]) -> list[Declaration]:
        first: dict[str, Declaration] = {}
        for syntax in written:
            if syntax.name.text in first:
                self.findings.add("S101", syntax.name.span, f"the {kind} {syntax.name.text} is declared twice")
            first.setdefault(syntax.name.text, syntax)
        return list(first.values())

    def _check_edge_names(self) -> None:
        """Queries find edges in any case, so two names may not differ in case alone."""
        seen: dict[str, str] = {}
        for syntax in self.document.edges:
            name = syntax.name.text
            other = seen.setdefault(name.lower(), name)
            if other != name:
                self.findings.add("S102", syntax.name.span, f"the edges {other} and {name} differ only in case")

    def _check_endpoints(self, catalog: Catalog) -> None:
        for syntax in self.document.edges:
            for end in (syntax.source, syntax.target):
                if end.text not in catalog.nodes:
                    self.findings.add("S105", end.span, f"there is no node type `{end.text}`")

    def _check_ids(self) -> None:
        """Stored ids are hashes of names; a collision would make two things one."""
        document = self.document
        kinds = (("interface", document.interfaces), ("node", document.nodes), ("edge", document.edges))
        names = [(f"{kind}:{each.name.text}", each.name) for kind, written in kinds for each in written]
        self._refuse_collisions(names)
        for kind, written in kinds:
            for owner in written:
                prefix = f"{kind}:{owner.name.text}"
                self._refuse_collisions((f"{prefix}:{each.name.text}", each.name) for each in owner.properties)

    def _refuse_collisions(self, names: Iterable[tuple[str, Name]]) -> None:
        seen: dict[int, str] = {}
        for text, name in names:
            other = seen.setdefault(hash32(text), text)
            if other != text:
                self.findings.add("S107", name.span, f"{text} and {other} have the same stored id: rename one of them")


def _properties(held: Members) -> dict[str, Property]:
    return {name: held[name].property for name in sorted(held)}


def _by_name(types: Iterable[Named]) -> dict[str, Named]:
    named = {str(each.name): each for each in types}  # type: ignore[attr-defined]
    return {name: named[name] for name in sorted(named)}
