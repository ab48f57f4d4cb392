"""The `.pg` schema language: text to catalog, catalog to Arrow, to stored files, and to a plan of migration steps.

Importing this package loads nothing else of it: each name below brings its module when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.lazy_names import names_from

if TYPE_CHECKING:
    from omnigraph.language.schema.arrow import edge_arrow_schema, node_arrow_schema
    from omnigraph.language.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType, Property, PropertyType
    from omnigraph.language.schema.compile import compile_schema
    from omnigraph.language.schema.contract import SchemaFiles, check_schema_files, schema_files
    from omnigraph.language.schema.evolution import MigrationPlan, plan_evolution
    from omnigraph.language.schema.identity import edge_id, node_id
    from omnigraph.language.schema.indexes import IndexSpec, table_indexes
    from omnigraph.language.schema.ir import catalog_to_ir, ir_hash
    from omnigraph.language.schema.ir_reader import catalog_from_ir
    from omnigraph.language.schema.ir_shape import StoredSchemaFault, ir_from_json
    from omnigraph.language.schema.parse import parse_schema
    from omnigraph.language.schema.printer import print_schema
    from omnigraph.language.schema.syntax import SchemaDocument

__all__ = [
    "Catalog",
    "EdgeType",
    "IndexSpec",
    "InterfaceType",
    "MigrationPlan",
    "NodeType",
    "Property",
    "PropertyType",
    "SchemaDocument",
    "SchemaFiles",
    "StoredSchemaFault",
    "catalog_from_ir",
    "catalog_to_ir",
    "check_schema_files",
    "compile_schema",
    "edge_arrow_schema",
    "edge_id",
    "ir_from_json",
    "ir_hash",
    "node_arrow_schema",
    "node_id",
    "parse_schema",
    "plan_evolution",
    "print_schema",
    "schema_files",
    "table_indexes",
]

_MODULES = {
    "Catalog": "catalog",
    "EdgeType": "catalog",
    "IndexSpec": "indexes",
    "InterfaceType": "catalog",
    "MigrationPlan": "evolution",
    "NodeType": "catalog",
    "Property": "catalog",
    "PropertyType": "catalog",
    "SchemaDocument": "syntax",
    "SchemaFiles": "contract",
    "StoredSchemaFault": "ir_shape",
    "catalog_from_ir": "ir_reader",
    "catalog_to_ir": "ir",
    "check_schema_files": "contract",
    "compile_schema": "compile",
    "edge_arrow_schema": "arrow",
    "edge_id": "identity",
    "ir_from_json": "ir_shape",
    "ir_hash": "ir",
    "node_arrow_schema": "arrow",
    "node_id": "identity",
    "parse_schema": "parse",
    "plan_evolution": "evolution",
    "print_schema": "printer",
    "schema_files": "contract",
    "table_indexes": "indexes",
}

__getattr__ = names_from(__name__, _MODULES)
