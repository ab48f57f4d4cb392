"""Agents that remember in a graph, each on a branch of its own, reviewed before it becomes common knowledge.

    python examples/agent_memory.py

Every agent writes to its branch as it works, so that a half-finished thought is nobody else's fact. When it is done its
branch is merged: what two agents found out about different properties of one thing merges by itself, and what they
disagree on goes to the reviewer, here a function that believes the agent that is surer.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import omnigraph as og
from omnigraph.errors import MergeConflicts

if TYPE_CHECKING:
    from omnigraph.types import Conflict

SCHEMA = """
node Topic {
    name: String @key
    summary: String? @index
    sure: F64 @default(0)
    owner: String?
    @range(sure, 0..1)
}
node Source { url: String @key }
edge SupportedBy: Topic -> Source { quote: String? }
edge LeadsTo: Topic -> Topic
"""

REMEMBER = """
query remember($topic: String, $summary: String, $sure: F64, $url: String, $quote: String) {
    upsert Topic { name: $topic, summary: $summary, sure: $sure }
    upsert Source { url: $url }
    insert SupportedBy { from: $topic, to: $url, quote: $quote }
}
"""
CLAIM = "query claim($topic: String, $who: String) { update Topic set { owner: $who } where name = $topic }"
RECALL = """
query recall($words: String) {
    match { $t: Topic  search($t.summary, $words)  optional { $t supportedBy $s } }
    return { $t.name, $t.sure, $t.owner, count($s) as sources }
    order { $t.sure desc, $t.name }
}
"""


class Agent:
    """Writes to its own branch; sees what was common knowledge when it began, and what it wrote since."""

    def __init__(self, graph: og.Graph, name: str) -> None:
        self.graph, self.name, self.branch = graph, name, f"agents/{name}"
        graph.branches.create(self.branch)

    def remember(self, topic: str, summary: str, *, sure: float, url: str, quote: str) -> None:
        """One thought, one commit: the topic, where it is from, and the edge between them."""
        found = {"topic": topic, "summary": summary, "sure": sure, "url": url, "quote": quote}
        self.graph.mutate(REMEMBER, found, branch=self.branch, actor=self.name)

    def claim(self, topic: str) -> None:
        """Say that this agent looks after a topic."""
        self.graph.mutate(CLAIM, {"topic": topic, "who": self.name}, branch=self.branch, actor=self.name)

    def recall(self, words: str) -> list[dict[str, object]]:
        """What the graph knows about some words, as this agent sees it."""
        return self.graph.query(RECALL, {"words": words}, branch=self.branch).to_pylist()


def surer(conflict: Conflict) -> str:
    """Believe whoever was surer; when the conflict is about something else, keep what is known."""
    ours, theirs = (side.get("sure", 0) if side else 0 for side in (conflict.ours, conflict.theirs))
    return "theirs" if theirs > ours else "ours"


def main(place: Path) -> None:
    """Two agents, one topic, one disagreement."""
    graph = og.init(place, schema=SCHEMA)
    graph.load({"Topic": [{"name": "lance", "summary": "a table format", "sure": 0.3}]}, actor="curator")

    ada, alan = Agent(graph, "ada"), Agent(graph, "alan")
    ada.remember("lance", "a columnar table format with row ids", sure=0.9, url="lance.org", quote="columnar")
    alan.remember("lance", "a file format", sure=0.6, url="blog.example", quote="files")
    alan.claim("lance")
    print("ada sees     ", ada.recall("format"))
    print("alan sees    ", alan.recall("format"))
    print("main still is", graph.query(RECALL, {"words": "format"}).to_pylist())

    print("\nmerge ada:  ", graph.merge(ada.branch, actor="reviewer", delete_branch=True).kind)
    try:
        graph.merge(alan.branch, actor="reviewer")
    except MergeConflicts as error:
        print("merge alan: ", "; ".join(f"{each.table_key}/{each.row_id}: {each.kind}" for each in error.conflicts))
    print("with a reviewer:", graph.merge(alan.branch, resolve=surer, actor="reviewer", delete_branch=True).kind)
    print("main now is  ", graph.query(RECALL, {"words": "format"}).to_pylist())
    print("by whom      ", [each.actor for each in graph.commits()])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        scratch = Path(tempfile.mkdtemp())
        main(scratch / "memory.omni")
        shutil.rmtree(scratch)
