"""What must hold for every schema, over schemas that hypothesis makes."""

from __future__ import annotations

import pickle

from hypothesis import HealthCheck, given, settings

from language.schema.generated import schemas
from language.schema.ir_reader import catalog_from_ir
from omnigraph.catalog.arrow import table_arrow_schemas
from omnigraph.catalog.canonical import compact
from omnigraph.catalog.indexes import table_indexes
from omnigraph.language.evolution import plan_evolution
from omnigraph.language.schema.compile import compile_schema
from omnigraph.language.schema.printer import print_schema
from omnigraph.language.stored.files import check_schema_files, schema_files
from omnigraph.language.stored.ir import catalog_to_ir, ir_hash
from omnigraph.language.stored.ir_shape import ir_from_json

many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(schemas)
def test_a_printed_schema_reads_back_as_the_same_schema(text: str) -> None:
    catalog = compile_schema(text)
    printed = print_schema(catalog)
    again = compile_schema(printed)
    assert again == catalog
    assert compact(catalog_to_ir(again)) == compact(catalog_to_ir(catalog))
    assert print_schema(again) == printed


@many
@given(schemas)
def test_a_stored_schema_opens_as_the_same_schema(text: str) -> None:
    catalog, files = compile_schema(text), schema_files(text)
    assert check_schema_files(files.source, files.ir_json, files.state_json) == catalog
    assert catalog_from_ir(ir_from_json(files.ir_json)) == catalog
    assert ir_hash(ir_from_json(files.ir_json)) == files.ir_hash
    assert pickle.loads(pickle.dumps(catalog)) == catalog


@many
@given(schemas)
def test_every_table_has_columns_and_indexes_on_them(text: str) -> None:
    catalog = compile_schema(text)
    columns = table_arrow_schemas(catalog)
    assert tuple(columns) == catalog.table_keys()
    for table in [*catalog.nodes.values(), *catalog.edges.values()]:
        indexes = table_indexes(table)
        assert {each.column for each in indexes} <= set(columns[table.table_key].names)
        assert len({each.name for each in indexes}) == len(indexes)


@many
@given(schemas, schemas)
def test_a_plan_covers_every_difference_and_nothing_else(accepted_text: str, desired_text: str) -> None:
    accepted, desired = compile_schema(accepted_text), compile_schema(desired_text)
    plan = plan_evolution(accepted, desired)
    same = ir_hash(catalog_to_ir(accepted)) == ir_hash(catalog_to_ir(desired))
    assert bool(plan.steps) != same
    assert all(step.code != "OG-BC-105" for step in plan.steps)
    assert plan_evolution(desired, desired).steps == ()
    if plan.supported:
        before, after = table_arrow_schemas(accepted), table_arrow_schemas(desired)
        changed = {table.table_key for table in plan.tables if table.action != "keep"}
        assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == changed
