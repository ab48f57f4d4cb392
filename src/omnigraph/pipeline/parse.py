"""Parses the text of a pipeline file and checks it against a schema. All errors are collected and reported at once,
with their positions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, cast

import yaml

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import InvalidInput
from omnigraph.errors.inputs import suggestion
from omnigraph.load.plan import FAIL, ErrorPolicy
from omnigraph.pipeline.file import (
    FILES,
    FORMATS,
    End,
    Format,
    Mode,
    PipelineFile,
    PipelineSource,
    Publish,
    Transform,
    TypeMapping,
    YamlText,
)
from omnigraph.pipeline.yaml import PipelineFindings, YamlMapping, compose, mapping_of, text_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.pipeline.yaml import Node


_TOP = ("graph", "mode", "branch", "run_id", "errors", "embed", "publish", "sources", "transforms", "nodes", "edges")
_SOURCE = ("format", "path", "table", "schema", "options", "type", "branch", "snapshot", "query")
_NODE = ("source", "columns", "id", "where")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_file(path: Path) -> tuple[PipelineFile, PipelineFindings]:
    """Parse a pipeline file. Also returns an empty collector for later findings. Raises `PipelineError`."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the pipeline file {path} is not UTF-8: {error.reason} at byte {error.start}.") from error
    except OSError as error:
        raise InvalidInput(f"the pipeline file {path} cannot be read: {error.strerror}.") from error
    return read_text(text, str(path))


def read_text(text: str, name: str = "<pipeline>") -> tuple[PipelineFile, PipelineFindings]:
    """Parse the text of a pipeline file, like `read_file`."""
    findings = PipelineFindings(text, name)
    root = compose(text, findings)
    findings.raise_if_any()
    assert root is not None
    pipeline = _Parser(findings).file(root)
    findings.raise_if_any()
    return pipeline, PipelineFindings(text, name)


class _Parser:
    def __init__(self, findings: PipelineFindings) -> None:
        self.findings = findings

    def file(self, root: Node) -> PipelineFile:
        top = mapping_of(root, "a pipeline", self.findings, _TOP)
        sources = tuple(top.each("sources", self.source))
        if not sources:
            self.findings.add(top.node, "P004", "a pipeline needs sources")
        transforms = tuple(top.each("transforms", self.transform))
        mappings = tuple(self.mappings(top, "node")) + tuple(self.mappings(top, "edge"))
        self.check_names([each.name for each in sources], [each.name for each in transforms])
        branch, from_ = self.branch(top)
        pipeline = PipelineFile(
            mode=self.mode(top),
            sources=sources,
            transforms=transforms,
            mappings=mappings,
            graph=top.text("graph"),
            branch=branch,
            from_=from_,
            errors=self.errors(top),
            publish=self.publish(top, branch),
            run_id=top.text("run_id"),
            embed=top.flag("embed", default=False),
        )
        self.check_uses(pipeline)
        return pipeline

    def mode(self, top: YamlMapping) -> Mode:
        top.required("mode")
        return cast("Mode", top.choice("mode", ("append", "merge", "overwrite")) or "merge")

    def source(self, name: YamlText, node: Node) -> PipelineSource:
        held = mapping_of(node, f"source {name}", self.findings, _SOURCE)
        held.required("format")
        form = cast("Format", held.choice("format", FORMATS) or "table")
        paths = texts_of(held.members["path"][1], "path", self.findings) if "path" in held else ()
        if form in FILES and not paths and "format" in held:
            self.findings.add(held.node, "P004", f"source {name} reads {form}: it needs path")
        if form == "table" and "format" in held:
            held.required("table")
        options = {str(key): value.value for key, value in held.each("options", self.option)}
        settings = {key: value for key in ("type", "branch", "snapshot", "query") if (value := held.text(key))}
        if form == "omnigraph" and ("type" in settings) == ("query" in settings):
            self.findings.add(held.node, "P004", f"source {name} reads a graph: it needs a type or a query")
        if settings and form != "omnigraph":
            self.findings.add(held.node, "P002", f"{', '.join(settings)} mean something to format omnigraph only")
        return PipelineSource(name, form, paths, held.text("table"), held.text("schema"), options, settings)

    def option(self, name: YamlText, node: Node) -> tuple[YamlText, YamlText]:
        return name, text_of(node, f"option {name}", self.findings)

    def transform(self, name: YamlText, node: Node) -> Transform:
        return Transform(name, text_of(node, f"transform {name}", self.findings))

    def mappings(self, top: YamlMapping, kind: Literal["node", "edge"]) -> Iterator[TypeMapping]:
        """The mappings of all types; a type has one mapping or a list of them."""

        def read(name: YamlText, node: Node) -> list[TypeMapping]:
            nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
            return [self.mapping(kind, name, each) for each in nodes]

        for several in top.each(f"{kind}s", read):
            yield from several

    def mapping(self, kind: Literal["node", "edge"], name: YamlText, node: Node) -> TypeMapping:
        allowed = (*_NODE, "from", "to") if kind == "edge" else _NODE
        held = mapping_of(node, f"{kind} {name}", self.findings, allowed)
        columns = self.columns(held) if "columns" in held else None
        return TypeMapping(
            kind=kind,
            type=name,
            source=held.required("source"),
            columns=columns,
            id=held.text("id"),
            where=held.text("where"),
            from_=self.end(held, "from"),
            to=self.end(held, "to"),
        )

    def columns(self, held: YamlMapping) -> tuple[tuple[YamlText, YamlText], ...]:
        """The column mapping: properties to expressions, or a list of columns named like their properties."""
        node = held.members["columns"][1]
        if isinstance(node, yaml.SequenceNode):
            return tuple((each, YamlText(f"`{each}`", each.span)) for each in texts_of(node, "a column", self.findings))
        return tuple(held.each("columns", self.option))

    def end(self, held: YamlMapping, key: str) -> End | None:
        node = held.node_of(key)
        if node is None:
            return None
        if not isinstance(node, yaml.MappingNode):
            return End(text_of(node, key, self.findings))
        inner = mapping_of(node, f"{key} of {held.what}", self.findings, ("lookup",))
        pairs: list[tuple[YamlText, YamlText]] = inner.each("lookup", self.option)
        if not pairs:
            self.findings.add(node, "P004", f"{inner.what} is an id, or lookup: {{property: expression}}")
        return End(lookup=tuple(pairs))

    def branch(self, top: YamlMapping) -> tuple[YamlText, YamlText | None]:
        node = top.node_of("branch")
        if not isinstance(node, yaml.MappingNode):
            return top.text("branch") or YamlText("main"), None
        held = mapping_of(node, "branch", self.findings, ("name", "from"))
        return held.required("name"), held.text("from")

    def errors(self, top: YamlMapping) -> ErrorPolicy:
        node = top.node_of("errors")
        if not isinstance(node, yaml.MappingNode):
            top.choice("errors", ("fail", "quarantine"))
            if node is not None and node.value == "quarantine":
                self.findings.add(node, "P004", "quarantine has a limit: errors: {quarantine: 100, path: rejects}")
            return FAIL
        held = mapping_of(node, "errors", self.findings, ("quarantine", "path"))
        limit, path = held.number("quarantine", least=1), held.text("path")
        if "quarantine" not in held:
            self.findings.add(node, "P004", "errors needs quarantine, the number of bad rows to set aside")
        return ErrorPolicy(limit or 1, None if path is None else path.value)

    def publish(self, top: YamlMapping, branch: YamlText) -> Publish | None:
        node = top.node_of("publish")
        if node is None:
            return None
        if not isinstance(node, yaml.MappingNode):
            chosen = top.choice("publish", ("stay", "merge"))
            publish = (
                Publish(YamlText("main", text_of(node, "publish", self.findings).span)) if chosen == "merge" else None
            )
        else:
            held = mapping_of(node, "publish", self.findings, ("merge", "delete_branch", "resolve"))
            resolve: Any = held.choice("resolve", ("ours", "theirs"))
            delete = held.flag("delete_branch", default=False)
            publish = Publish(held.required("merge"), delete_branch=delete, resolve=resolve)
        if publish is not None and publish.into.value == branch.value:
            self.findings.add(
                publish.into, "P008", f"branch {branch.value!r} cannot be merged into itself: load another"
            )
        return publish

    def check_names(self, sources: list[YamlText], transforms: list[YamlText]) -> None:
        seen = {each.value for each in sources}
        for each in [*sources, *transforms]:
            if each.value and not _NAME.fullmatch(each.value):
                self.findings.add(each, "P002", f"{each.value!r} cannot be a name in SQL: use letters, digits and _")
        for each in transforms:
            if each.value in seen:
                self.findings.add(each, "P005", f"{each.value!r} is the name of a source already")

    def check_uses(self, pipeline: PipelineFile) -> None:
        formats = {each.name.value: each.format for each in pipeline.sources}
        formats |= {each.name.value: "table" for each in pipeline.transforms}
        for mapping in pipeline.mappings:
            name = mapping.source
            if name.value and name.value not in formats:
                self.findings.add(name, "P006", f"there is no source {name.value!r}; there are {', '.join(formats)}")
            if formats.get(name.value) == "graph":
                self.findings.add(name, "P006", f"{name.value!r} holds graph records, which are loaded as they are")
        if pipeline.sources and not pipeline.mappings and "graph" not in formats.values():
            self.findings.add(pipeline.sources[0].name, "P004", "nothing is loaded: map a source to nodes or edges")


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
