"""Checks a pipeline file against a schema: types and properties must exist, and endpoint lookups must be unique."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors.inputs import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.pipeline.file import End, PipelineFile, TypeMapping, YamlText
    from omnigraph.pipeline.yaml import PipelineFindings


def check_against(pipeline: PipelineFile, catalog: Catalog, findings: PipelineFindings) -> None:
    """Add a finding for everything that the schema does not define or allow."""
    for mapping in pipeline.mappings:
        kind = type_of(mapping, catalog)
        if kind is None:
            names = [*catalog.nodes] if mapping.kind == "node" else [*catalog.edges]
            findings.add(mapping.type, "P007", f"the schema has no {mapping.kind} type {_named(mapping.type, names)}")
            continue
        _check_columns(mapping, kind, findings)
        if isinstance(kind, EdgeType):
            for end, node_type in ((mapping.from_, kind.source), (mapping.to, kind.target)):
                if end is not None:
                    _check_lookup(pipeline, end, catalog.nodes[node_type], findings)


def type_of(mapping: TypeMapping, catalog: Catalog) -> NodeType | EdgeType | None:
    """The type that a mapping writes, or None if the schema lacks it."""
    name = mapping.type.value
    return catalog.nodes.get(name) if mapping.kind == "node" else catalog.edge(name)


def _check_columns(mapping: TypeMapping, kind: NodeType | EdgeType, findings: PipelineFindings) -> None:
    for name, _ in mapping.columns or ():
        if name.value not in kind.properties:
            findings.add(name, "P007", f"{kind.name} has no property {_named(name, [*kind.properties])}")
    if mapping.columns is None:
        return
    given = {name.value for name, _ in mapping.columns} | {"src", "dst"}
    missing = [each for each in kind.rules.key if each not in given]
    required = [each.name for each in kind.properties.values() if not each.type.nullable and each.default is None]
    missing += [each for each in required if each not in given and each not in missing]
    if missing:
        findings.add(mapping.type, "P008", f"{kind.name} needs {', '.join(missing)}: map a column to it")


def _check_lookup(pipeline: PipelineFile, end: End, kind: NodeType, findings: PipelineFindings) -> None:
    names = [name.value for name, _ in end.lookup]
    if not names:
        return
    unknown = [name for name, _ in end.lookup if name.value not in kind.properties]
    for name in unknown:
        findings.add(name, "P007", f"{kind.name} has no property {_named(name, [*kind.properties])}")
    unique = [kind.rules.key, *kind.rules.unique]
    if not unknown and tuple(sorted(names)) not in {tuple(sorted(each)) for each in unique}:
        unique_rules = " or ".join("(" + ", ".join(each) + ")" for each in unique if each) or "none"
        text = f"{kind.name} can be looked up by what is unique, {unique_rules}, not by {', '.join(names)}"
        findings.add(end.lookup[0][0], "P008", text)
    for mapping in pipeline.mappings:
        if mapping.table_key == kind.table_key and not kind.rules.key and mapping.id is None:
            text = f"{kind.name} has no key, so its new rows can only be looked up if the mapping gives them an id"
            findings.add(mapping.type, "P008", text)


def _named(name: YamlText, names: Iterable[str]) -> str:
    options = list(names)
    return f"{name.value!r}" + suggestion(name.value, options, otherwise=f"; it has {', '.join(options)}")
