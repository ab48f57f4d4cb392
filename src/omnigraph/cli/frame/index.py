"""The index of commands in the order of help: a one-line summary of each, and the module that implements it.

The summaries are here, and not only in the commands, so that help and completion load no command module.
"""

from __future__ import annotations

CHAPTERS: dict[str, dict[str, str]] = {
    "Data": {
        "load": "Load nodes and edges in one commit.",
        "ingest": "Load with the permissive grammar.",
        "embed": "Compute vectors for the records of a file that have none.",
        "pipeline": "Check, plan and run pipeline files.",
        "query": "Run a query and print its rows.",
        "mutate": "Run a mutation.",
        "snapshot": "Show the version of each table of a snapshot.",
        "export": "Print the graph as JSONL records, or write files.",
        "blob": "Read the blobs of nodes and edges.",
    },
    "Branches and history": {
        "branch": "Create, list, merge and delete branches.",
        "commit": "Show the history of a branch, and single commits.",
        "diff": "Show the differences between two branches or commits.",
        "changes": "Read the changes of a branch, commit by commit, from any position.",
        "tag": "Name commits; cleanup retains tagged commits.",
        "revert": "Revert a commit with a new commit.",
    },
    "Schema": {
        "init": "Create a graph from a schema.",
        "schema": "Show, plan and change the schema.",
        "lint": "Check queries against a schema file or a graph's schema.",
    },
    "Maintenance": {
        "optimize": "Compact small fragments and complete the declared indexes.",
        "ensure-indices": "Build the indexes that are declared and missing.",
        "cleanup": "Delete table versions that are no longer needed.",
        "repair": "List tables that another program has committed to.",
        "doctor": "Check whether a store is safe for a graph.",
        "recovery": "Show the operations that were recovered after a crash.",
    },
    "This program": {
        "profile": "Show the profiles of the configuration.",
        "completion": "Print or install shell completion.",
        "version": "Print the version of this program and of its format.",
    },
}
HIDDEN = {"ingest"}
_MODULES = {
    "ingest": "load",
    "branch": "branches",
    "tag": "tags",
    "commit": "commits",
    "revert": "commits",
    "init": "setup",
    "doctor": "setup",
    "profile": "setup",
    "version": "setup",
    "lint": "query",
    "ensure-indices": "maintenance",
    "optimize": "maintenance",
    "cleanup": "maintenance",
    "repair": "maintenance",
    "recovery": "maintenance",
}


def names() -> list[str]:
    """Every command, the hidden ones too."""
    return [name for commands in CHAPTERS.values() for name in commands]


def visible_commands() -> dict[str, dict[str, str]]:
    """The visible commands by chapter, with their summaries."""
    return {
        chapter: {name: line for name, line in commands.items() if name not in HIDDEN}
        for chapter, commands in CHAPTERS.items()
    }


def location_of(name: str) -> tuple[str, str]:
    """The module of a command, and its name there."""
    if name == "completion":
        return "omnigraph.cli.frame.completion", name
    return f"omnigraph.cli.commands.{_MODULES.get(name, name)}", name.replace("-", "_")
