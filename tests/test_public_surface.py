"""The names that people use: exported, documented, and cheap to import."""

from __future__ import annotations

import ast
import dataclasses
import datetime as dt
import gc
import inspect
import json
import re
import subprocess
import sys
import weakref
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = "node Person { name: String @key born: DateTime? }"
PACKAGE = Path(og.__file__).parent
PUBLIC = {name: getattr(og, name) for name in og.__all__} | {name: getattr(og.types, name) for name in og.types.__all__}


def test_every_public_name_is_there_and_documented() -> None:
    for name in og.__all__:
        found = getattr(og, name)
        assert inspect.getdoc(found), f"omnigraph.{name} says nothing of itself"


def test_every_public_method_of_the_graph_is_documented() -> None:
    for name, member in inspect.getmembers(og.Graph):
        if not name.startswith("_"):
            assert inspect.getdoc(member), f"Graph.{name} says nothing of itself"


def test_a_name_that_is_not_there_is_an_ordinary_error() -> None:
    assert not hasattr(og, "nonsense")


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("lance", "pyarrow", "duckdb", "pyspark", "lark", "sqlglot")
    code = f"import sys, omnigraph; print([each for each in {heavy} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_names_can_be_listed() -> None:
    assert {"Graph", "open", "types", "errors"} <= set(dir(og))
    assert {"Result", "Snapshot"} <= set(dir(og.types))


def test_type_checkers_see_the_same_types() -> None:
    found = re.findall(r"^from (\S+) import (\w+) as (\w+)$", (PACKAGE / "types.pyi").read_text(), re.MULTILINE)
    assert {again: module for module, name, again in found if name == again} == og.types.MODULES


def test_type_checkers_see_the_same_names() -> None:
    found = re.findall(r"^from \S+ import \w+ as (\w+)\b", (PACKAGE / "__init__.pyi").read_text(), re.MULTILINE)
    assert sorted(found) == sorted(og.__all__)


def test_every_type_in_a_public_signature_can_be_imported() -> None:
    public = {each for each in PUBLIC.values() if inspect.isclass(each)} | {
        each for each in vars(og.errors).values() if inspect.isclass(each)
    }
    told = [
        f"{owner}.{member} names {name}, which is in neither omnigraph, omnigraph.types nor omnigraph.errors"
        for owner, found in PUBLIC.items()
        for member, annotation in _annotations(found)
        for name, value in _omnigraph_types(annotation, sys.modules[found.__module__])
        if name not in og.types.__all__ and value not in public
    ]
    assert not told, "\n".join(told)


def test_the_manual_names_public_names_alone() -> None:
    page = (Path(__file__).parent.parent / "docs" / "api.md").read_text()
    for title in re.findall(r"^### `(\S+)`$", page, re.MULTILINE):
        owner, _, name = title.rpartition(".")
        assert owner in ("omnigraph", "omnigraph.types"), title
        assert name in import_module(owner).__all__, title


def test_a_closed_graph_says_so(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", schema="node Person { name: String @key }") as graph:
        graph.load({"Person": [{"name": "Ada"}]})
        result = graph.query("query q() { match { $p: Person } return { $p.name as name } }")
        tables = weakref.ref(graph._manifest.stores.tables)
    assert result.to_pylist() == [{"name": "Ada"}]
    gc.collect()
    assert tables() is None, "something still holds the handles"
    calls = (
        graph.snapshot,
        graph.branches.list,
        graph.tags.list,
        graph.commits,
        graph.refresh,
        graph.optimize,
        lambda: graph.query("query q() { match { $p: Person } return { $p.name as name } }"),
        lambda: graph.mutate('query m() { insert Person { name: "Bob" } }'),
        lambda: graph.load({"Person": [{"name": "Bob"}]}),
        lambda: graph.changes(since="beginning"),
    )
    for call in calls:
        with pytest.raises(og.errors.GraphClosed, match="open it again"):
            call()
    assert repr(graph) == f"<Graph {graph.uri}, closed>"
    graph.close()


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("omnigraph.read.options", "ReadOptions", og.types.ReadOptions),
        ("omnigraph.spark.session", "spark_session", og.spark_session),
        ("omnigraph.versions.change_rows", "Change", og.types.Change),
        ("omnigraph.versions.merge.conflicts", "Conflict", og.types.Conflict),
    ],
)
def test_documented_places_of_the_earlier_tree_work_and_warn(module: str, name: str, now: object) -> None:
    found: dict[str, object] = {}
    with pytest.warns(DeprecationWarning, match=rf"{module}.{name} is deprecated .* omnigraph 0.3") as told:
        exec(f"from {module} import {name}", found)
    assert found[name] is now
    assert told[0].filename == "<string>"


def test_other_places_of_the_earlier_tree_are_ordinary_errors() -> None:
    for name in ("omnigraph.read.cache", "omnigraph.versions.merge.three_way", "omnigraph.write"):
        with pytest.raises(ModuleNotFoundError):
            import_module(name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        import_module("omnigraph.read.options").nonsense  # noqa: B018


def test_an_unknown_choice_is_refused_with_the_choices(tmp_path: Path) -> None:
    graph: Any = og.init(tmp_path / "g.omni", schema=SCHEMA)
    graph.branches.create("side")
    calls = {
        r"no format 'Parquet': use jsonl, parquet or csv": lambda: graph.export(tmp_path / "out", format="Parquet"),
        r"no operation 'inserted': use insert, update or delete": lambda: graph.changes(ops=["inserted"]),
        r"no kind 'nodes': use node or edge": lambda: graph.changes(kinds=["nodes"]),
        r"no side 'mine': use ours or theirs": lambda: graph.merge("side", resolve="mine"),
        r"no side 'me': use ours or theirs": lambda: graph.merge("side", resolve={"*": "me"}),
        r"no side 'our': use ours or theirs": lambda: graph.revert("main", resolve="our"),
        r"no traversal 'CSR': use auto, indexed or csr": lambda: og.types.ReadOptions(traversal="CSR"),  # type: ignore[arg-type]
        r"no engine 'Spark'": lambda: graph.query("query q() { match { $p: Person } return { $p } }", engine="Spark"),
        r"no engine 5": lambda: graph.optimize(engine=5),
    }
    for text, call in calls.items():
        with pytest.raises(og.errors.InvalidInput, match=text):
            call()


def test_an_actor_can_be_named_wherever_a_commit_or_tag_is_made(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", schema=SCHEMA, actor="me")
    graph.load({"Person": [{"name": "Ada"}]})
    assert graph.tags.create("v1", actor="you").actor == "you"
    assert graph.tags.create("v2").actor == "me"
    for name in ("mutate", "load", "merge", "revert", "apply_schema", "ensure_indices", "optimize", "repair"):
        assert "actor" in inspect.signature(getattr(graph, name)).parameters, name
    built = graph.ensure_indices(actor="you")
    assert built.commit is None or built.commit.actor == "you"


def test_what_is_returned_prints_as_one_line_and_converts_to_json(tmp_path: Path) -> None:
    for name, report in _reports(og.init(tmp_path / "g.omni", schema=SCHEMA)).items():
        assert isinstance(report, og.types.Report), name
        line = repr(report)
        assert "\n" not in line or name == "explanation", name
        assert len(line) < 200, f"{name}: {line}"
        assert json.loads(report.to_json()) == report.to_dict(), name
        assert report._repr_html_().startswith(("<table>", "<pre>")), name


def test_reports_tell_numbers_and_times(tmp_path: Path) -> None:
    reports = _reports(og.init(tmp_path / "g.omni", schema=SCHEMA, actor="me"))
    commit = reports["loaded"].commit
    assert repr(reports["loaded"]).startswith("<Loaded 2 rows in 0.")
    assert repr(reports["loaded"]).endswith(f" s, commit {commit.id} on main>")
    assert repr(reports["mutated"]) == f"<Mutated 1 nodes, 0 edges, commit {reports['mutated'].commit.id} on side>"
    assert repr(reports["merged"]).startswith(
        "<Merged side into main: fast_forward, 1 rows put, 0 deleted, 0 conflicts"
    )
    assert repr(commit) == f"<GraphCommit {commit.id} on main by me, {commit.created_at:%Y-%m-%d %H:%M:%S} UTC>"
    assert commit.created_at.tzinfo is dt.UTC
    assert dt.datetime.fromisoformat(commit.to_dict()["created_at"]) == commit.created_at
    assert reports["diff"].to_dict()["tables"] == [
        {"table_key": "node:Person", "inserted": 1, "updated": 0, "deleted": 0}
    ]
    assert reports["cleanup"].to_dict()["older_than"] == 3600.0


def test_notebooks_show_a_graph_and_its_log(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g<b>.omni", schema=SCHEMA)
    graph.load({"Person": [{"name": "Ada"}]})
    assert "<td>node:Person</td><td>1</td>" in graph._repr_html_()
    assert "g&lt;b&gt;.omni" in graph._repr_html_()
    log = graph.commits()
    assert log == list(log)
    assert log._repr_html_().count("<tr>") == 3


def _reports(graph: og.Graph) -> dict[str, Any]:
    """One of each: what the calls of a small session return."""
    loaded = graph.load({"Person": [{"name": "Ada"}, {"name": "Bob"}]})
    graph.branches.create("side")
    add = 'query m() { insert Person { name: "Cy", born: datetime("1815-12-10T00:00:00Z") } }'
    mutated = graph.mutate(add, branch="side")
    diff = graph.diff("main", "side")
    return {
        "loaded": loaded,
        "summary": loaded.summary,
        "mutated": mutated,
        "diff": diff,
        "summary of a diff": diff.summary()[0],
        "merged": graph.merge("side"),
        "commit": loaded.commit,
        "branch": graph.branches.list()[1],
        "tag": graph.tags.create("v1"),
        "snapshot": graph.snapshot(),
        "page": graph.changes(since="beginning"),
        "change": graph.changes(since="beginning").changes[-1],
        "history": graph.history("Person", "Cy"),
        "version": graph.history("Person", "Cy").versions[0],
        "explanation": graph.explain("query q() { match { $p: Person } return { $p.name } }"),
        "plan": graph.plan_schema(SCHEMA.replace("}", "age: I32? }")),
        "applied": graph.apply_schema(SCHEMA.replace("}", "age: I32? }"), dry_run=True),
        "indexes": graph.ensure_indices(),
        "optimized": graph.optimize(),
        "cleanup": graph.cleanup(keep=1, older_than=dt.timedelta(hours=1), dry_run=True),
        "repair": graph.repair(),
        "reverted": graph.revert(str(mutated.commit and mutated.commit.id)),
    }


def _annotations(found: Any) -> Iterator[tuple[str, str]]:
    """The annotations of a function; of a class those of its public fields, methods and properties."""
    if isinstance(found, FunctionType):
        yield from ((found.__name__, each) for each in found.__annotations__.values())
    if not inspect.isclass(found):
        return
    if dataclasses.is_dataclass(found):
        yield from ((each.name, str(each.type)) for each in dataclasses.fields(found) if each.name[0] != "_")
    for name, member in vars(found).items():
        function = _function(member)
        if name[0] != "_" and function is not None:
            yield from ((name, each) for each in function.__annotations__.values())


def _function(member: Any) -> FunctionType | None:
    for kind, attribute in ((property, "fget"), (cached_property, "func"), (classmethod, "__func__")):
        if isinstance(member, kind):
            member = getattr(member, attribute)
    return member if isinstance(member, FunctionType) else None


def _omnigraph_types(annotation: str, module: Any) -> Iterator[tuple[str, object]]:
    """The names in an annotation that stand for something of this package, with what they stand for."""
    places = _places(module)
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if isinstance(node, ast.Name) and node.id in places:
            where, name = places[node.id]
            yield node.id, getattr(import_module(where), name)


def _places(module: Any) -> dict[str, tuple[str, str]]:
    """Where the names of a module come from: those it defines, and those it imports from this package."""
    tree = ast.parse(inspect.getsource(module))
    own = {name: (module.__name__, name) for name in vars(module) if _is_of(vars(module)[name], module)}
    assigned = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    own |= {each.id: (module.__name__, each.id) for each in assigned if isinstance(each, ast.Name)}
    taken = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return own | {
        alias.asname or alias.name: (node.module, alias.name)
        for node in taken
        if node.module is not None and node.module.split(".")[0] == "omnigraph"
        for alias in node.names
    }


def _is_of(value: object, module: Any) -> bool:
    return inspect.isclass(value) and value.__module__ == module.__name__
