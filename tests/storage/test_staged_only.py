"""Staged only: what makes a change visible in Lance is called from the few places that may, and nowhere else."""

from __future__ import annotations

import ast

import pytest

from source import modules

# Lance's calls that commit by themselves, wherever they are called on anything.
COMMITTING = frozenset(
    {
        *("write_dataset", "commit_batch", "merge_insert", "restore", "compact_files", "optimize_indices"),
        *("create_index", "create_scalar_index", "commit_existing_index_segments", "drop_index", "prewarm_index"),
        *("add_columns", "drop_columns", "alter_columns", "merge_columns", "add_bases", "cleanup_old_versions"),
        *("update_schema_metadata", "update_field_metadata", "update_metadata", "update_config"),
        *("delete_config_keys", "replace_schema_metadata", "replace_field_metadata", "enable_auto_cleanup"),
        *("create_branch", "shallow_clone", "deep_clone", "migrate_manifest_paths_v2"),
    }
)
# Calls that commit when they are made on Lance's own objects, and mean something else on others.
ON_LANCE = {
    "commit": ("LanceDataset", "Compaction"),
    "drop": ("LanceDataset",),
    "delete": ("dataset", "handle", "branches", "tags", "fragment"),
    "update": ("dataset", "handle", "tags"),
    "insert": ("dataset", "handle"),
    "create": ("tags",),
    "optimize": ("dataset", "handle"),
    "execute": ("merge_insert", "builder"),
}
# Where Lance itself may be asked to commit, and why.
MAY_COMMIT = {
    "storage/tables/staging.py": "commit_staged",
    "storage/tables/new_tables.py": "create_table, and commit_new_table, which the commit protocol calls",
    "storage/tables/immediate.py": "what has no staged form",
    "storage/tables/column_writes.py": "fragment.merge_columns, which writes new columns that nobody has committed",
}
# Who may land what was staged: the manifest's own writes and the commit protocol.
MAY_LAND = ("manifest/publisher.py", "manifest/compaction.py", "manifest/branches.py", "transaction/")


def receivers(call: ast.Call) -> list[str]:
    """The names along the chain that a method is called on: `a.b(x).c()` is called on a and b."""
    names: list[str] = []
    node: ast.AST = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    while True:
        match node:
            case ast.Attribute(value=inner, attr=name):
                names.append(name)
                node = inner
            case ast.Call(func=inner):
                node = inner
            case ast.Name(id=name):
                return [*names, name]
            case _:
                return names


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def commits(call: ast.Call) -> bool:
    """Whether a call asks Lance to make something visible."""
    name = called(call)
    if name in COMMITTING:
        return True
    on = [each.lstrip("_").lower() for each in receivers(call)]
    return any(each.lower() in part for each in ON_LANCE.get(name, ()) for part in on)


def uses_lance(tree: ast.Module) -> bool:
    """Whether a module can hold one of Lance's objects: it imports lance, or a `Table` whose handle it reaches for."""
    return any(
        (isinstance(node, ast.Import) and any(each.name.split(".")[0] == "lance" for each in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lance")
        or (isinstance(node, ast.Attribute) and node.attr in ("dataset", "handle"))
        for node in ast.walk(tree)
    )


def calls(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def strays(file: str, tree: ast.Module) -> list[str]:
    """The calls of a module that commit and must not."""
    found = [call for call in calls(tree) if called(call) == "commit_staged"] if not file.startswith(MAY_LAND) else []
    if file not in MAY_COMMIT and uses_lance(tree):
        found += [call for call in calls(tree) if commits(call)]
    return [f"{file}:{call.lineno} {ast.unparse(call)[:80]}" for call in found]


def test_only_the_few_places_that_may_commit_do() -> None:
    assert [each for file, tree in modules().items() for each in strays(file, tree)] == []


@pytest.mark.parametrize("file", MAY_COMMIT)
def test_every_place_that_may_commit_does(file: str) -> None:
    assert uses_lance(modules()[file])
    assert [call for call in calls(modules()[file]) if commits(call)]


@pytest.mark.parametrize("place", MAY_LAND)
def test_every_place_that_may_land_does(place: str) -> None:
    trees = [tree for file, tree in modules().items() if file.startswith(place)]
    assert [call for tree in trees for call in calls(tree) if called(call) == "commit_staged"]


def test_staging_itself_never_executes_a_merge() -> None:
    executed = [
        ast.unparse(call)[:80]
        for call in calls(modules()["storage/tables/staging.py"])
        if called(call) == "execute" or (called(call) in COMMITTING - {"merge_insert"})
    ]
    assert executed == []


@pytest.mark.parametrize(
    ("file", "functions"), [("staging", ["commit_staged"]), ("new_tables", ["_commit", "create_table"])]
)
def test_lance_commits_in_few_functions_and_nowhere_else_in_their_modules(file: str, functions: list[str]) -> None:
    where = [
        function.name
        for function in modules()[f"storage/tables/{file}.py"].body
        if isinstance(function, ast.FunctionDef)
        for call in calls(ast.Module(function.body, []))
        if ast.unparse(call.func) == "LanceDataset.commit"
    ]
    assert sorted(where) == functions


@pytest.mark.parametrize(
    "line",
    [
        "LanceDataset.commit(uri, operation)",
        "lance.LanceDataset.commit(uri, operation)",
        "lance.write_dataset(rows, uri)",
        "write_dataset(rows, uri)",
        "table.handle.merge_insert('id').when_matched_update_all().execute(rows)",
        "builder.execute(rows)",
        "table.handle.delete('true')",
        "dataset.update({'a': '1'})",
        "table.handle.insert(rows)",
        "self._dataset.restore()",
        "dataset.optimize.compact_files()",
        "dataset.optimize.optimize_indices()",
        "dataset.create_index('v', 'IVF_FLAT')",
        "dataset.create_scalar_index('id', 'BTREE')",
        "dataset.add_columns({'x': '1'})",
        "dataset.drop_columns(['x'])",
        "dataset.alter_columns({'path': 'x'})",
        "Compaction.commit(dataset, results)",
        "dataset.branches.delete('x')",
        "dataset.tags.create('t', 1)",
        "dataset.cleanup_old_versions()",
        "LanceDataset.drop(uri)",
        "commit_staged(staged)",
        "staging.commit_staged(staged)",
    ],
)
def test_the_rule_sees_what_it_forbids(line: str) -> None:
    assert strays("query/somewhere.py", ast.parse(f"import lance\n{line}"))


@pytest.mark.parametrize(
    "line",
    [
        "objects.delete('a.json')",
        "counts.update({'a': 1})",
        "connection.execute('select 1')",
        "names.insert(0, 'x')",
        "stage_append(table, rows)",
        "table.handle.scanner(columns=['id']).to_table()",
        "stores.objects.create('a', b'')",
    ],
)
def test_the_rule_leaves_the_rest_alone(line: str) -> None:
    assert strays("query/somewhere.py", ast.parse(f"import lance\n{line}")) == []
