"""What is exported is what was loaded: the same records, in one order, and the same graph when loaded again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from load.loading import load
from omnigraph.errors import InvalidInput, UniqueViolation
from omnigraph.export import records as export_module
from omnigraph.export.records import export_records, export_tables
from omnigraph.load.operation import prepare_load
from omnigraph.transaction.write_set import TableChanges
from seeded_world import SeededWorld
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.catalog.catalog import EdgeType, NodeType, PropertyType

EVERYTHING = """
node All {
    z: String @key  y: Bool?  x: I32?  w: I64?  v: U32?  u: U64?  t: F32?  s: F64?  r: Date?  q: DateTime?
    p: Vector(3)?  o: [String]?  n: [I64]?  nn: [F32]?  nd: [Date]?  nm: [DateTime]?  m: enum(b, a)?  l: Blob?
}
node Plain { note: String? }
edge Link: All -> Plain { weight: U64?  at: DateTime? }
"""


def export(graph: SmallGraph, **options: Any) -> bytes:
    tables = graph.manifest.stores.tables
    return b"".join(export_records(graph.manifest.snapshot(), tables, graph.catalog, **options))


def records(graph: SmallGraph, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export(graph, **options).splitlines()]


@pytest.fixture
def graph(tmp_path: Path) -> SmallGraph:
    return SmallGraph(tmp_path / "graph.omni", EVERYTHING)


FULL = {
    "z": "k", "y": True, "x": -5, "w": -(2**63), "v": 2**32 - 1, "u": 2**64 - 1, "t": 0.1, "s": 1e-300,
    "r": "2024-02-29", "q": "2024-02-29T23:59:59.999Z", "p": [1.0, 0.1, -3.5], "o": ["", "é"], "n": [], "nn": [0.1],
    "nd": ["1970-01-01"], "nm": ["1969-12-31T23:59:59.999Z"], "m": "b", "l": "base64:aGk=",
}  # fmt: skip


def test_records_have_every_property_in_the_released_form(graph: SmallGraph) -> None:
    load(graph, [{"type": "All", "data": FULL}, {"type": "All", "data": {"z": "nulls"}}])
    full, nulls = records(graph)
    assert full == {"type": "All", "data": {"id": "k", **FULL}}
    assert list(full["data"]) == ["id", *sorted(FULL)]
    assert nulls == {"type": "All", "data": {"id": "nulls", **dict.fromkeys(FULL), "z": "nulls"}}


def test_numbers_are_written_with_the_digits_they_have(graph: SmallGraph) -> None:
    load(graph, [{"type": "All", "data": FULL}])
    text = export(graph).decode()
    for expected in ('"t":0.1,', '"p":[1.0,0.1,-3.5]', '"u":18446744073709551615', '"nn":[0.1]', '"s":1e-300'):
        assert expected in text


def test_edges_come_before_nodes_and_rows_in_the_order_of_their_ids(graph: SmallGraph) -> None:
    nodes = [{"type": "All", "data": {"z": name}} for name in ("b", "Z", "é", "a", "10", "9")]
    notes = [{"type": "Plain", "data": {"id": name}} for name in ("y", "x")]
    edges = [{"edge": "Link", "from": "a", "to": "x", "data": {"id": name, "weight": 2**64 - 1}} for name in ("f", "e")]
    load(graph, [*nodes, *notes, *edges])
    found = [(each.get("edge") or each["type"], each["data"]["id"]) for each in records(graph)]
    assert found[:2] == [("Link", "e"), ("Link", "f")]
    assert [row_id for name, row_id in found if name == "All"] == ["10", "9", "Z", "a", "b", "é"]
    assert found[-2:] == [("Plain", "x"), ("Plain", "y")]
    link = records(graph)[0]
    assert link == {"edge": "Link", "from": "a", "to": "x", "data": {"id": "e", "at": None, "weight": 2**64 - 1}}


def test_dates_beyond_four_digit_years_are_numbers(graph: SmallGraph) -> None:
    data = {"z": "k", "r": 2**31 - 1, "q": -(2**60), "nd": [-(2**31)]}
    load(graph, [{"type": "All", "data": data}])
    (only,) = records(graph)
    assert {name: only["data"][name] for name in data} == data


def test_blobs_keep_bytes_and_null(graph: SmallGraph) -> None:
    big = "base64:" + "QUJD" * 100_000
    values = {"a": "base64:aGk=", "b": None, "c": big, "d": "base64:AA=="}
    load(graph, [{"type": "All", "data": {"z": name, "l": value}} for name, value in values.items()])
    assert {each["data"]["id"]: each["data"]["l"] for each in records(graph)} == values


def test_external_blobs_are_their_uris(graph: SmallGraph, tmp_path: Path) -> None:
    (tmp_path / "payload.bin").write_bytes(b"outside")
    uri = f"file://{tmp_path}/payload.bin"
    load(graph, [{"type": "All", "data": {"z": "k", "l": uri}}])
    assert records(graph)[0]["data"]["l"] == uri


def test_some_types_alone(graph: SmallGraph) -> None:
    load(graph, [{"type": "All", "data": {"z": "a"}}, {"type": "Plain", "data": {"id": "p"}}])
    load(graph, [{"edge": "Link", "from": "a", "to": "p"}])
    assert [each.get("type") for each in records(graph, types=["Plain"])] == ["Plain"]
    assert [each.get("edge") for each in records(graph, types=["link"])] == ["Link"]
    with pytest.raises(InvalidInput, match="no type 'Plane'"):
        export(graph, types=["Plane"])


def test_numbers_that_json_cannot_carry_are_refused_by_name(graph: SmallGraph) -> None:
    rows = graph.rows("node:All", [{"id": "k", "z": "k", "s": float("nan")}])
    graph.apply({"node:All": TableChanges("node:All", rows)}, check=False)
    with pytest.raises(InvalidInput, match=r"All\.s holds nan, which JSON cannot carry: export to Parquet"):
        export(graph)


def test_an_empty_graph_exports_nothing(graph: SmallGraph) -> None:
    assert export(graph) == b""


def test_a_table_too_large_to_sort_gives_the_same_bytes(graph: SmallGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    load(graph, {"Plain": pa.table({"id": [f"{number * 7919 % 20_000:05d}" for number in range(20_000)]})})
    graph.apply({"node:Plain": graph.change("node:Plain", [], {"00003", "19999"})})
    sorted_in_memory = export(graph)
    monkeypatch.setattr(export_module, "SORTED_IN_MEMORY", 0)
    monkeypatch.setattr(export_module, "_FETCHED_AT_ONCE", 0)
    assert export(graph) == sorted_in_memory
    assert sorted_in_memory.count(b"\n") == 19_998


def test_an_export_reads_its_snapshot_whatever_happens_later(graph: SmallGraph) -> None:
    load(graph, [{"type": "Plain", "data": {"id": "old"}}])
    snapshot = graph.manifest.snapshot()
    load(graph, [{"type": "Plain", "data": {"id": "new"}}], "overwrite")
    lines = export_records(snapshot, graph.manifest.stores.tables, graph.catalog)
    assert b'"id":"old"' in b"".join(lines)


# -- export, then load -------------------------------------------------------------------------------------------------

texts = st.text(max_size=6)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "String": texts,
    "Bool": st.booleans(),
    "I32": st.integers(-(2**31), 2**31 - 1),
    "I64": st.integers(-(2**63), 2**63 - 1),
    "U32": st.integers(0, 2**32 - 1),
    "U64": st.integers(0, 2**64 - 1),
    "F32": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "F64": st.floats(allow_nan=False, allow_infinity=False),
    "Date": st.one_of(st.dates().map(str), st.integers(-(2**31), 2**31 - 1)),
    "DateTime": st.one_of(st.datetimes().map(lambda at: at.isoformat() + "Z"), st.integers(-(2**55), 2**55)),
    # The first empty payload of a file cannot be told from a null of an older release.
    "Blob": st.binary(min_size=1, max_size=8),
}


def values(declared: PropertyType) -> st.SearchStrategy[Any]:
    if declared.enum_values is not None:
        return st.sampled_from(declared.enum_values)
    if declared.dimensions is not None:
        return st.lists(VALUES["F32"], min_size=declared.dimensions, max_size=declared.dimensions)
    one = VALUES[declared.scalar]
    return st.lists(one, max_size=3) if declared.is_list else one


def rows_of(kind: NodeType | EdgeType) -> st.SearchStrategy[dict[str, Any]]:
    required, optional = {}, {}
    for name, each in kind.properties.items():
        if each.type.nullable or each.default is not None:
            optional[name] = st.none() | values(each.type) if each.type.nullable else values(each.type)
        else:
            required[name] = values(each.type)
    return st.fixed_dictionaries(required, optional=optional)


SCALARS = sorted(set(VALUES) - {"Blob"})
DEFAULTS = {"String": '"x:y"', "Bool": "true", "I32": "7", "F64": "1.5", "DateTime": '"2026-01-31T12:00:00Z"'}


@st.composite
def properties(draw: st.DrawFn) -> list[str]:
    """Declarations of properties of every type, some of them with a key."""
    lines = []
    for name in draw(st.lists(st.sampled_from("abcdefg"), unique=True, min_size=1)):
        scalar = draw(st.sampled_from(SCALARS))
        kind = draw(st.sampled_from([scalar, scalar, f"[{scalar}]", "Vector(2)", "enum(p, q-r)", "Blob"]))
        default = f"@default({DEFAULTS[kind]})" if kind in DEFAULTS and draw(st.booleans()) else ""
        lines.append(f"{name}: {kind}{draw(st.sampled_from(['', '?']))} {default}")
    keys = [line[0] for line in lines if line.split()[1] in SCALARS]
    if keys and draw(st.booleans()):
        lines.append(f"@key({', '.join(draw(st.lists(st.sampled_from(keys), unique=True, min_size=1)))})")
    return lines


@st.composite
def schemas(draw: st.DrawFn) -> str:
    """Two node types and an edge type that shares a name with one of them."""
    nodes = [f"node {name} {{ {' '.join(draw(properties()))} }}" for name in ("One", "Two")]
    edge = [line for line in draw(properties()) if not line.startswith("@")]
    return "\n".join([*nodes, f"edge One: One -> Two {{ {' '.join(edge)} }}"])


def twin(graph: SmallGraph, source: object, path: Path) -> SmallGraph:
    """Another graph of the same schema, loaded from an export."""
    copy = SmallGraph(path, graph.manifest.stores.objects.read("_schema.pg").decode())
    replace_content(copy, source)
    return copy


def replace_content(graph: SmallGraph, source: object) -> None:
    changes, _ = prepare_load(graph.catalog, graph.view(), source, "overwrite", SeededWorld())
    graph.apply(changes, check=False)


@given(data=st.data(), schema=schemas())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_exported_and_loaded_again_it_is_the_same_graph(
    data: st.DataObject, schema: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("twins")
    graph = SmallGraph(tmp_path / "one", schema)
    source: dict[str, list[dict[str, Any]]] = {}
    for kind in graph.catalog.nodes.values():
        source[kind.table_key] = data.draw(st.lists(rows_of(kind), max_size=3))
    for edge in graph.catalog.edges.values():
        ends = st.fixed_dictionaries({"from": texts, "to": texts})
        source[edge.table_key] = data.draw(st.lists(st.builds(dict.__or__, ends, rows_of(edge)), max_size=3))
    try:
        replace_content(graph, source)
    except UniqueViolation:
        reject()
    exported = export(graph)
    assert export(twin(graph, exported, tmp_path / "records")) == exported
    snapshot, tables = graph.manifest.snapshot(), graph.manifest.stores.tables
    export_tables(snapshot, tables, graph.catalog, tmp_path / "parquet", form="parquet")
    assert export(twin(graph, tmp_path / "parquet", tmp_path / "from-parquet")) == exported


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_tables_come_back_as_they_were(graph: SmallGraph, tmp_path: Path, form: Any) -> None:
    load(
        graph,
        [{"type": "All", "data": FULL}, {"type": "All", "data": {"z": ""}}, {"type": "Plain", "data": {"id": "p"}}],
    )
    load(graph, [{"edge": "Link", "from": "k", "to": "p", "data": {"id": "e", "at": "2024-01-01T01:02:03.004Z"}}])
    tables = graph.manifest.stores.tables
    paths = export_tables(graph.manifest.snapshot(), tables, graph.catalog, tmp_path / form, form=form)
    assert {key: path.name for key, path in paths.items()} == {
        "edge:Link": f"Link.{form}",
        "node:All": f"All.{form}",
        "node:Plain": f"Plain.{form}",
    }
    assert export(twin(graph, tmp_path / form, tmp_path / "copy")) == export(graph)


def test_a_type_without_rows_is_a_file_with_its_columns(graph: SmallGraph, tmp_path: Path) -> None:
    tables = graph.manifest.stores.tables
    paths = export_tables(graph.manifest.snapshot(), tables, graph.catalog, tmp_path, form="csv", types=["Link"])
    assert paths["edge:Link"].read_text() == '"id","from","to","at","weight"\n'
