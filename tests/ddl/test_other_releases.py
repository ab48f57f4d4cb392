"""Changes of schema that another release has left unfinished, with a sidecar of its own or with none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.errors import ObjectChanged, SchemaContractDrift
from omnigraph.language.stored.files import schema_files
from omnigraph.manifest.layout import SCHEMA_IR, SCHEMA_SOURCE, SCHEMA_STATE
from omnigraph.manifest.schema_files import STAGING, live_files, promote, stage_files

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = "node Person { name: String @key  age: I32? }\n"
DESCRIBED = 'node Person @description("people") { name: String @key  age: I32? }\n'
WIDER = "node Person { name: String @key  age: I32?  city: String? }\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g", schema=BEFORE)


def files(text: str) -> dict[str, bytes]:
    made = schema_files(text)
    return {SCHEMA_SOURCE: made.source, SCHEMA_IR: made.ir_json, SCHEMA_STATE: made.state_json}


def leftovers(graph: og.Graph) -> list[str]:
    return [each for each in graph._manifest.stores.objects.list_names() if each.endswith(STAGING)]


def test_a_change_that_touched_no_table_is_taken_back(graph: og.Graph) -> None:
    stage_files(graph._manifest.stores.objects, files(DESCRIBED))
    again = og.open(graph.uri)
    assert again.schema == BEFORE
    assert leftovers(again) == []


def test_files_that_the_tables_are_in_are_moved_into_place(graph: og.Graph) -> None:
    objects = graph._manifest.stores.objects
    graph.apply_schema(WIDER)
    # As a release leaves it that published and died before it moved a file, and names no schema in its commits.
    promote(objects, files(BEFORE), over=live_files(objects))
    stage_files(objects, files(WIDER))
    again = og.open(graph.uri)
    assert again.schema == WIDER
    assert leftovers(again) == []


def test_a_move_that_had_begun_is_finished(graph: og.Graph) -> None:
    objects = graph._manifest.stores.objects
    stage_files(objects, files(DESCRIBED))
    objects.write(SCHEMA_SOURCE, DESCRIBED.encode())
    objects.delete(f"{SCHEMA_SOURCE}{STAGING}")
    with pytest.raises(SchemaContractDrift):
        og.open(graph.uri, read_only=True)
    again = og.open(graph.uri)
    assert again.schema == DESCRIBED
    assert leftovers(again) == []


def test_files_that_do_not_belong_together_are_no_change(graph: og.Graph) -> None:
    graph._manifest.stores.objects.write(f"{SCHEMA_STATE}{STAGING}", files(DESCRIBED)[SCHEMA_STATE])
    again = og.open(graph.uri)
    assert again.schema == BEFORE
    assert leftovers(again) == []


def test_live_files_that_somebody_changed_meanwhile_are_left_alone(graph: og.Graph) -> None:
    objects = graph._manifest.stores.objects
    seen = live_files(objects)
    promote(objects, files(WIDER), over=seen)
    promote(objects, files(WIDER), over=seen)
    with pytest.raises(ObjectChanged):
        promote(objects, files(DESCRIBED), over=seen)
    assert {name: data for name, (data, _) in live_files(objects).items()} == files(WIDER)


def test_tables_in_neither_schema_are_not_guessed_about(graph: og.Graph) -> None:
    objects = graph._manifest.stores.objects
    promote(objects, files(WIDER), over=live_files(objects))
    stage_files(objects, files(WIDER.replace("city", "town")))
    with pytest.raises(SchemaContractDrift, match="in neither schema"):
        og.open(graph.uri)
    assert len(leftovers(graph)) == 3
