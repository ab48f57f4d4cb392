"""The packages are layered as designed: imports go one way, and each library is used where it belongs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import omnigraph as og
from source import ROOT, modules

HEAVY = {"pyspark", "py4j"}
# Where Lance is used outside `storage`, and why.
MAY_USE_LANCE = {
    "query/search/text.py": "text queries are objects of Lance",
    "query/search/word_index.py": "words are split by the tokenizer of Lance's index, so that both find the same rows",
}
# Lance's own object of a table: `Table.handle`; and how Lance opens one.
RAW_HANDLES = {"dataset", "handle"}
# One starts its instances and converts columns, the other runs a read in one and knows its errors.
MAY_USE_DUCKDB = ("kernels/duckdb_pool.py", "query/exec/duckdb.py")
# Their `.state` is a snapshot, or the row numbers of a table version, never that of a branch manifest.
OTHER_STATES = ("query/run.py", "query/columns/table_columns.py", "query/csr/edge_adjacency.py")
# Where the world of a process enters: what a user calls, and what another process calls by itself.
MAY_USE_THE_REAL_WORLD = (
    "world.py",
    "failpoints.py",  # armed by the environment when the process starts
    "cli/",
    "graph/open.py",
    "graph/graph.py",  # a pickled graph, opened where it arrives
    "embeddings/embedder.py",  # `Embeddings.vectors`, and the step of a task
    "pipeline/datasource/",  # Spark makes it, in processes of its own
    "load/files.py",  # a task reads its part of a file
    "load/bulk/write.py",  # a task has its own clock, and the settings of the driver
    "spark/export.py",  # a task writes its file
    "spark/runtime/session.py",
    "spark/runtime/progress.py",
    "spark/runtime/build_class_archive.py",  # a process of its own
    "spark/runtime/jvm.py",  # pyspark reads the environment of the process
    "tasks/table_scan.py",  # a task opens its tables
)
# Private attributes of other libraries that have no public way in, and of another object of the same class.
MAY_LOOK_INSIDE = {
    "graph/open.py": {"graph._manifest", "graph._schemas", "graph._embeddings"},  # the parts of a graph, in its package
    "language/core/parse_tables.py": {"loaded._load"},  # lark
    "query/csr/adjacency.py": {"whole._lower_bounds"},
    "storage/objects/settings.py": {"parts._replace"},  # a named tuple's way to replace a field
    "storage/tables/version_diff.py": {"each._path"},  # Lance
}
BANNED_NAMES = {"utils", "helpers", "common", "manager", "base", "util", "misc"}


def test_imports_go_one_way() -> None:
    """The contracts of import-linter in pyproject.toml."""
    linter = Path(sys.executable).with_name("lint-imports")
    checked = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT.parent.parent, capture_output=True, text=True, timeout=120, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def at_import(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """The imports that run when a module is imported: not those of functions, not those for the type checker."""
    found: list[ast.Import | ast.ImportFrom] = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting.extend(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return {name.partition(".")[0] for name in names}


def strays(libraries: set[str], allowed: tuple[str, ...]) -> list[str]:
    """Where a library is imported at run time outside the packages that may."""
    return [
        f"{file}:{node.lineno}"
        for file, tree in modules().items()
        if not file.startswith(allowed)
        for node in at_import(tree)
        if packages(node) & libraries
    ]


def test_nothing_outside_spark_imports_pyspark_when_it_is_imported() -> None:
    assert strays(HEAVY, ("spark/", "pipeline/")) == []


def anywhere(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """The imports that run at some time: those of functions too, but not those for the type checker."""
    return at_import(tree) + [
        inner
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]


def lance_outside_storage(files: dict[str, ast.Module]) -> set[str]:
    return {
        file
        for file, tree in files.items()
        if not file.startswith("storage/") and any("lance" in packages(node) for node in anywhere(tree))
    }


def raw_handles(files: dict[str, ast.Module]) -> list[str]:
    """Where Lance's object of a table is reached for outside `storage`."""
    return [
        f"{file}:{node.lineno}"
        for file, tree in files.items()
        if not file.startswith("storage/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in RAW_HANDLES
    ]


def test_lance_is_used_where_tables_are() -> None:
    assert lance_outside_storage(modules()) == set(MAY_USE_LANCE)


def test_no_raw_lance_handle_leaves_storage() -> None:
    assert raw_handles(modules()) == []


def test_the_rules_see_a_raw_handle_and_lance_in_a_function() -> None:
    seen = {"query/a.py": ast.parse("def f(t):\n import lance\n return t.handle, lance.dataset(t)\n")}
    assert lance_outside_storage(seen) == {"query/a.py"}
    assert raw_handles(seen) == ["query/a.py:3", "query/a.py:3"]
    assert raw_handles({"storage/a.py": seen["query/a.py"]}) == []


def uses_of_duckdb(tree: ast.Module) -> list[int]:
    """The lines that import DuckDB at run time, inside functions too, or that connect to it."""
    imports = [node.lineno for node in anywhere(tree) if "duckdb" in packages(node)]
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return sorted({*imports, *(node.lineno for node in attributes if ast.unparse(node) == "duckdb.connect")})


def test_one_module_starts_duckdb() -> None:
    assert {file for file, tree in modules().items() if uses_of_duckdb(tree)} == set(MAY_USE_DUCKDB)
    assert "duckdb.connect" not in ast.unparse(modules()["query/exec/duckdb.py"])


def test_the_rule_sees_every_way_to_start_duckdb() -> None:
    assert uses_of_duckdb(ast.parse("def f():\n import duckdb\n return duckdb.connect()\n")) == [2, 3]
    assert uses_of_duckdb(ast.parse("def f():\n from duckdb import connect\n")) == [2]
    assert uses_of_duckdb(ast.parse("if TYPE_CHECKING:\n import duckdb\n")) == []


def test_the_rule_sees_imports_in_branches_and_ignores_those_of_functions_and_of_the_type_checker() -> None:
    seen = ast.parse("try:\n import pyspark\nexcept ImportError:\n pass\nclass A:\n from pyspark.sql import B\n")
    unseen = ast.parse("if TYPE_CHECKING:\n import pyspark\ndef f():\n import pyspark\n")
    assert len(at_import(seen)) == 2
    assert at_import(unseen) == []


def attributes(names: set[str]) -> list[str]:
    """Where an attribute with one of these names is read or set."""
    return [
        f"{file}:{node.lineno}"
        for file, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in names
    ]


def test_only_the_manifest_package_locks_a_branch_manifest_and_sees_its_mutable_state() -> None:
    locks = [each for each in attributes({"lock"}) if not each.startswith("manifest/")]
    states = [each for each in attributes({"state"}) if not each.startswith(("manifest/", *OTHER_STATES))]
    imports = [
        f"{file}:{node.lineno}"
        for file, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "omnigraph.manifest.state"
        if not file.startswith("manifest/")
    ]
    assert [*locks, *states, *imports] == []
    assert any(each.startswith("manifest/publisher.py") for each in attributes({"lock"})), "the rule sees nothing"


def test_the_real_world_enters_where_a_user_or_another_process_calls() -> None:
    """Everything else is given a `World`, so that a test can replay it."""
    named = [
        f"{file}:{node.lineno}"
        for file, tree in modules().items()
        if not file.startswith(MAY_USE_THE_REAL_WORLD)
        for node in ast.walk(tree)
        if (isinstance(node, ast.alias) and node.name == "REAL")
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "World")
    ]
    assert named == []


def looks_inside(tree: ast.Module) -> list[tuple[int, str]]:
    """Where a private attribute of another object is used: not of `self`, of a class by itself, or of pyspark."""
    return [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
        if ast.unparse(node.value) not in ("self", "cls", "SparkContext")
    ]


def test_no_package_looks_inside_an_object_of_another() -> None:
    found = [
        f"{file}:{line} {what}"
        for file, tree in modules().items()
        for line, what in looks_inside(tree)
        if what not in MAY_LOOK_INSIDE.get(file, set())
    ]
    imported = [
        f"{file}:{node.lineno} {name.name}"
        for file, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omnigraph")
        for name in node.names
        if name.name.startswith("_") and not name.name.startswith("__")
    ]
    assert [*found, *imported] == []
    assert looks_inside(ast.parse("graph._manifest.x")) == [(1, "graph._manifest")]


def test_importing_omnigraph_starts_nothing_heavy() -> None:
    ask = "import sys, omnigraph; print([name for name in ('pyspark', 'py4j', 'duckdb') if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.strip() == "[]"


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [file for file in modules() if BANNED_NAMES & set(file.removesuffix(".py").split("/"))] == []


def test_every_module_says_what_it_is() -> None:
    assert [file for file, tree in modules().items() if not ast.get_docstring(tree)] == []


def test_opening_a_graph_loads_nothing_that_writes(tmp_path: Path) -> None:
    """What is unfinished is looked for at every open; what finishes it, and all that commits, is loaded when needed."""
    og.init(tmp_path / "graph.omni", schema="node Person { name: String @key }")
    ask = (
        "import sys, omnigraph; omnigraph.open(sys.argv[1], read_only=True); "
        "print(sorted(name for name in sys.modules if name.startswith('omnigraph.transaction.')))"
    )
    found = subprocess.run(
        [sys.executable, "-c", ask, str(tmp_path / "graph.omni")], capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(found.stdout) == [
        "omnigraph.transaction.intents",
        "omnigraph.transaction.intents.queue",
        "omnigraph.transaction.intents.queue_rules",
        "omnigraph.transaction.intents.sidecar",
        "omnigraph.transaction.intents.sidecar_json",
        "omnigraph.transaction.schemas",
    ]
