r"""Draws the commit graph as text: one column per line of history, the newest commit on top.

    *    a merge of two lines
    |\
    | *  a commit on the merged branch
    * |  a commit on main
    |/
    *    where the branch began
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.manifest.rows import GraphCommit

GraphLine = tuple[str, "GraphCommit | None"]


def draw_graph(commits: Iterable[GraphCommit]) -> Iterator[GraphLine]:
    """The lines of the drawing, each with its commit, or None between commits.

    Parents that are not among the commits are not drawn.
    """
    by_id = {each.id: each for each in commits}
    lanes: list[str] = []
    for commit in _children_first(by_id):
        if commit.id not in lanes:
            lanes.append(commit.id)
        yield from _join(lanes, commit.id)
        at = lanes.index(commit.id)
        yield " ".join("*" if lane == at else "|" for lane in range(len(lanes))), commit
        yield from _continue(lanes, at, _parents(commit, by_id))


def _children_first(by_id: dict[str, GraphCommit]) -> Iterator[GraphCommit]:
    """Every commit after all its children; of those whose children were drawn, the newest."""
    open_children = dict.fromkeys(by_id, 0)
    for each in by_id.values():
        for parent in _parents(each, by_id):
            open_children[parent] += 1
    free = [each for each in by_id.values() if not open_children[each.id]]
    while free:
        free.sort(key=lambda each: (each.created_us, each.manifest_version, each.id))
        commit = free.pop()
        yield commit
        for parent in _parents(commit, by_id):
            open_children[parent] -= 1
            if not open_children[parent]:
                free.append(by_id[parent])


def _parents(commit: GraphCommit, by_id: dict[str, GraphCommit]) -> list[str]:
    return [each for each in (commit.parent, commit.merged_parent) if each is not None and each in by_id]


def _join(lanes: list[str], commit_id: str) -> Iterator[GraphLine]:
    """Join the lanes that lead to one commit above it, one at a time from the right."""
    while lanes.count(commit_id) > 1:
        *_, other, last = [lane for lane, held in enumerate(lanes) if held == commit_id]
        crossing = {2 * lane - 1: "_" for lane in range(other + 1, last)}
        yield _line({**crossing, **_straight(last), **_moved(last, len(lanes), "/", -1)}), None
        del lanes[last]


def _continue(lanes: list[str], at: int, parents: list[str]) -> Iterator[GraphLine]:
    """Below a commit its lane continues to the first parent; a second parent gets a lane to the right."""
    if not parents:
        if at + 1 < len(lanes):
            yield _line({**_straight(at), **_moved(at + 1, len(lanes), "/", -1)}), None
        del lanes[at]
        return
    lanes[at] = parents[0]
    for parent in parents[1:]:
        yield _line({**_straight(at + 1), **_moved(at, len(lanes), "\\", 1)}), None
        lanes.insert(at + 1, parent)


def _straight(lanes: int) -> dict[int, str]:
    return {2 * lane: "|" for lane in range(lanes)}


def _moved(first: int, lanes: int, stroke: str, by: int) -> dict[int, str]:
    """The lanes from `first` on, each moved half a column to one side."""
    return {2 * lane + by: stroke for lane in range(first, lanes)}


def _line(strokes: dict[int, str]) -> str:
    return "".join(strokes.get(at, " ") for at in range(max(strokes) + 1))
