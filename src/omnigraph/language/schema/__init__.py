"""The `.pg` schema language: text to catalog, catalog to Arrow, to stored files, and to a plan of migration steps.

Importing this package loads neither pyarrow nor the parser; the first call that needs them does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    import pyarrow as pa

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


def node_arrow_schema(node: NodeType) -> pa.Schema:
    """The columns of a node table exactly as they are on disk."""
    from omnigraph.language.schema import arrow

    return arrow.node_arrow_schema(node)


def edge_arrow_schema(edge: EdgeType) -> pa.Schema:
    """The columns of an edge table exactly as they are on disk."""
    from omnigraph.language.schema import arrow

    return arrow.edge_arrow_schema(edge)
