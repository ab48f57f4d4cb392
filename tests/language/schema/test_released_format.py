"""The schema files are those of the released program, byte for byte, and a graph whose files disagree is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from language.schema.ir_reader import catalog_from_ir
from omnigraph.catalog.canonical import compact, float_text, hash32, pretty
from omnigraph.catalog.catalog import Range
from omnigraph.errors import SchemaContractDrift, SchemaError
from omnigraph.language.schema.compile import compile_accepted, compile_schema
from omnigraph.language.stored.files import check_schema_files, schema_files
from omnigraph.language.stored.ir import catalog_to_ir, ir_hash
from omnigraph.language.stored.ir_shape import StoredSchemaFault, ir_from_json

RELEASED = Path(__file__).parent / "fixtures" / "released"
PLAIN = "node Person { name: String @key age: I32? @range(age, 0..) }"


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_files_are_those_of_the_released_program(name: str) -> None:
    files = schema_files((RELEASED / f"{name}.pg").read_text(encoding="utf-8"))
    assert files.source == (RELEASED / f"{name}.pg").read_bytes()
    assert files.ir_json == (RELEASED / f"{name}._schema.ir.json").read_bytes()
    assert files.state_json == (RELEASED / f"{name}.__schema_state.json").read_bytes()
    ir = ir_from_json(files.ir_json)
    assert compact(ir).encode() == (RELEASED / f"{name}.ir.compact.json").read_bytes()
    assert files.ir_hash == json.loads(files.state_json)["schema_ir_hash"]


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_released_files_open(name: str) -> None:
    source = (RELEASED / f"{name}.pg").read_bytes()
    ir_json = (RELEASED / f"{name}._schema.ir.json").read_bytes()
    state_json = (RELEASED / f"{name}.__schema_state.json").read_bytes()
    catalog = check_schema_files(source, ir_json, state_json, uri="/graph")
    assert catalog == compile_schema(source.decode()) == catalog_from_ir(ir_from_json(ir_json))


def test_white_space_and_unknown_keys_in_the_stored_schema_are_harmless() -> None:
    files = schema_files(PLAIN)
    ir = json.loads(files.ir_json)
    ir["from_the_future"] = [1, 2]
    ir["nodes"][0]["colour"] = "red"
    assert check_schema_files(PLAIN, json.dumps(ir), files.state_json) == compile_schema(PLAIN)


def test_a_missing_nullable_key_is_null() -> None:
    files = schema_files(PLAIN)
    ir = json.loads(files.ir_json)
    for each in ir["nodes"][0]["properties"]:
        del each["prop_type"]["enum_values"]
    del ir["nodes"][0]["constraints"][1]["Range"]["max"]
    assert ir_hash(ir_from_json(json.dumps(ir))) == files.ir_hash


def test_the_order_of_declarations_does_not_change_the_hash() -> None:
    one = "node B { y: I32 x: I32 @unique(y, x) }\nnode A {}\nedge E: B -> A"
    other = "edge E: B -> A\nnode A {}\nnode B { x: I32 y: I32 @unique(x, y) }"
    assert schema_files(one).ir_hash == schema_files(other).ir_hash


def test_an_annotation_beside_a_body_constraint_stores_the_constraint_twice() -> None:
    ir = catalog_to_ir(compile_schema("node P { a: I32 @index @index(a) }"))
    assert compact(ir).count('{"Index":["a"]}') == 2


def test_extensions_keep_the_released_shape() -> None:
    ir = compact(catalog_to_ir(compile_schema("node P { a: I32 @default(5) }\nedge E: P -> P { @key(src, dst) }")))
    assert '"annotations":[{"name":"default","value":"5"}]' in ir
    assert '"constraints":[{"Key":["dst","src"]}]' in ir


def test_an_upper_bound_is_stored_as_one() -> None:
    ir = compact(catalog_to_ir(compile_schema("node P { a: I32 @range(a, ..10) }")))
    assert '{"Range":{"property":"a","min":null,"max":{"Integer":10}}}' in ir


def test_a_released_graph_keeps_the_lower_bound_that_the_released_program_enforced() -> None:
    source = "node P { a: I32 b: I32 @range(a, ..10) @range(b, 1..2) }"
    ir = json.loads(pretty(catalog_to_ir(compile_schema(source))))
    stored = next(each["Range"] for each in ir["nodes"][0]["constraints"] if each["Range"]["property"] == "a")
    stored["min"], stored["max"] = stored["max"], None
    ranges = check_schema_files(source, json.dumps(ir), _state(ir_hash(ir))).nodes["P"].rules.ranges
    assert ranges == (Range("a", 10, None), Range("b", 1, 2))


def test_a_released_graph_may_have_a_unique_blob_and_an_odd_default() -> None:
    source = 'node P { scan: Blob n: I32 @default("many") @unique(scan) }'
    ir = ir_from_json((RELEASED / "A._schema.ir.json").read_bytes())
    ir["nodes"] = [
        {
            "name": "P",
            "type_id": hash32("node:P"),
            "annotations": [],
            "implements": [],
            "properties": [
                _property("n", "I32", [{"name": "default", "value": "many"}]),
                _property("scan", "Blob", []),
            ],
            "constraints": [{"Unique": ["scan"]}],
        }
    ]
    ir["edges"] = []
    node = check_schema_files(source, compact(ir), _state(ir_hash(ir))).nodes["P"]
    assert node.rules.unique == (("scan",),)
    assert node.properties["n"].default is None


@pytest.mark.parametrize(
    "text",
    [
        "node P { scan: Blob @unique(scan) }",
        "node P { a: I32 @range(a, 5..1) }",
        'node P { a: String @check(a, "(") }',
        "node P { a: I32 @unique(a, a) }",
        "interface A { a: I32 } interface B { a: I32 @index } node P implements A, B {}",
        'node P @default("x") { a: [I32] @default("y") @default("z", w=1) b: I32 @range }',
    ],
)
def test_what_the_released_program_let_through_is_refused_only_in_new_schemas(text: str) -> None:
    with pytest.raises(SchemaError):
        compile_schema(text)
    catalog = compile_accepted(text)
    ir = catalog_to_ir(catalog)
    assert check_schema_files(text, pretty(ir), _state(ir_hash(ir))) == catalog


def _property(name: str, scalar: str, annotations: list[dict[str, str]]) -> dict[str, object]:
    kind = {"scalar": scalar, "nullable": False, "list": False, "enum_values": None}
    return {"name": name, "prop_id": hash32(f"node:P:{name}"), "prop_type": kind, "annotations": annotations}


def _state(accepted: str) -> str:
    return json.dumps({"format_version": 1, "schema_ir_hash": accepted, "schema_identity_version": 1})


def refusal(source: str | bytes, ir_json: str | bytes | None, state_json: str | bytes | None) -> str:
    with pytest.raises(SchemaContractDrift) as caught:
        check_schema_files(source, ir_json, state_json, uri="s3://bucket/g")
    assert caught.value.uri == "s3://bucket/g"
    return str(caught.value)


def test_a_drifted_source_is_refused_with_what_differs() -> None:
    files = schema_files(PLAIN)
    drifted = PLAIN.replace("I32?", "I64") + "\nnode Extra {}"
    message = refusal(drifted, files.ir_json, files.state_json)
    assert 'nodes[Person].properties[age].prop_type.scalar: "I64" in _schema.pg, "I32" in _schema.ir.json' in message
    assert "nodes[Person].properties[age].prop_type.nullable: false in _schema.pg, true in _schema.ir.json" in message
    assert "nodes[Extra]: present in _schema.pg, absent in _schema.ir.json" in message


def test_a_source_that_differs_everywhere_is_told_in_a_few_lines() -> None:
    many = "\n".join(f"node N{number} {{}}" for number in range(40))
    message = refusal(many, schema_files(PLAIN).ir_json, schema_files(PLAIN).state_json)
    assert "and 33 more" in message


def test_a_foreign_stored_schema_is_refused_with_both_hashes() -> None:
    files, other = schema_files(PLAIN), schema_files("node Team {}")
    message = refusal(PLAIN, other.ir_json, files.state_json)
    assert files.ir_hash in message
    assert other.ir_hash in message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda ir: ir.update(ir_version=2), "ir_version is 2, and this release reads 1"),
        (lambda ir: ir.pop("edges"), "edges is missing"),
        (lambda ir: ir["nodes"][0].pop("type_id"), "nodes[Person].type_id is missing"),
        (
            lambda ir: ir["nodes"][0]["properties"][0]["prop_type"].update(scalar="I128"),
            "nodes[Person].properties[age].prop_type.scalar should be one of Vector, found 'I128'",
        ),
        (lambda ir: ir["nodes"][0].update(type_id=-1), "nodes[Person].type_id should be a whole number"),
        (lambda ir: ir["nodes"][0].update(constraints=[{"Maybe": 1}]), "nodes[Person].constraints[0] should be one of"),
        (lambda ir: ir.update(nodes={}), "nodes should be a list"),
    ],
)
def test_a_stored_schema_that_cannot_be_read_names_the_place(change: object, expected: str) -> None:
    files = schema_files(PLAIN)
    ir = json.loads(files.ir_json)
    change(ir)  # type: ignore[operator]
    assert expected in refusal(PLAIN, json.dumps(ir), files.state_json)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"ir_version": NaN}', b"\xff\xfe\x00"])
def test_a_stored_schema_that_is_no_json_is_refused(text: str | bytes) -> None:
    assert "_schema.ir.json cannot be read" in refusal(PLAIN, text, schema_files(PLAIN).state_json)
    with pytest.raises(StoredSchemaFault):
        ir_from_json(text)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("{", "__schema_state.json cannot be read"),
        ("[]", "format_version None"),
        ('{"format_version": 2}', "format_version 2, and this release reads 1"),
        ('{"format_version": true, "schema_ir_hash": "x"}', "format_version True"),
        ('{"format_version": 1}', "no schema_ir_hash"),
        ('{"format_version": 1, "schema_ir_hash": "sha256:0"}', "accepted sha256:0"),
    ],
)
def test_a_state_file_that_cannot_be_trusted_is_refused(state: str, expected: str) -> None:
    assert expected in refusal(PLAIN, schema_files(PLAIN).ir_json, state)


def test_missing_files_and_broken_sources_are_refused() -> None:
    files = schema_files(PLAIN)
    assert "_schema.ir.json is missing" in refusal(PLAIN, None, files.state_json)
    assert "__schema_state.json is missing" in refusal(PLAIN, files.ir_json, None)
    assert "_schema.pg does not compile" in refusal("node {", files.ir_json, files.state_json)
    assert "_schema.pg is not UTF-8 text" in refusal(b"\xff", files.ir_json, files.state_json)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1.0, "1.0"),
        (-2.5, "-2.5"),
        (0.1, "0.1"),
        (1e-5, "0.00001"),
        (9.9e-6, "9.9e-6"),
        (1.5e-7, "1.5e-7"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e16"),
        (-1.25e300, "-1.25e300"),
    ],
)
def test_numbers_are_written_as_the_released_program_does(value: float, text: str) -> None:
    assert float_text(value) == text
    assert float(text) == value


def test_ids_are_hashes_of_names() -> None:
    assert hash32("a") == 0xE40C292C
    assert hash32("node:Author") == 193451558
    assert hash32("node:Author:born") == 4138040963
