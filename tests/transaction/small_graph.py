"""A real graph in a directory, written through the commit protocol, for tests of the write path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.arrow import table_arrow_schemas
from omnigraph.language.schema.compile import compile_schema
from omnigraph.manifest.graph_manifest import create_manifest
from omnigraph.storage.objects.location import parse_location
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.constraints.validate import validate
from omnigraph.transaction.read_view import ReadView
from omnigraph.transaction.schemas import new_graph
from omnigraph.transaction.table_writes import writes_of
from omnigraph.transaction.write_buffer import Budget, WriteBuffer
from omnigraph.transaction.write_set import TableChanges, WriteSet
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from omnigraph.transaction.commit.protocol import Receipt

Rows = list[dict[str, Any]]


class SmallGraph:
    """A graph of one schema. Edges and nodes are dicts; a column that is not given is null."""

    def __init__(self, path: Path, schema: str) -> None:
        self.catalog = compile_schema(schema)
        self.schemas = table_arrow_schemas(self.catalog)
        self.manifest = create_manifest(parse_location(path, REAL), new_graph(schema, "schema.pg"), REAL)

    def rows(self, table_key: str, rows: Rows) -> pa.Table:
        """Dicts as whole rows. A moment is given as milliseconds."""
        schema = self.schemas[table_key]
        columns = [_column(field.type, [each.get(field.name) for each in rows]) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def view(self, branch: str = "main") -> ReadView:
        """The newest state of a branch."""
        return ReadView(self.manifest.snapshot(branch), self.manifest.stores.tables)

    def pending(self, branch: str = "main", *, budget: Budget | None = None) -> WriteBuffer:
        """Pending writes over the newest state."""
        return WriteBuffer(self.view(branch), self.catalog, budget)

    def change(
        self,
        table_key: str,
        puts: Sequence[dict[str, Any]] = (),
        deletes: Iterable[str] = (),
        *,
        overwrite: bool = False,
        only_new: bool = False,
    ) -> TableChanges:
        """A net change of one table."""
        rows = self.rows(table_key, list(puts))
        return TableChanges(table_key, rows, frozenset(deletes), overwrite=overwrite, only_new=only_new)

    def apply(self, changes: Mapping[str, TableChanges], branch: str = "main", *, check: bool = True) -> Receipt | None:
        """Validate and commit net changes."""

        def prepare(view: ReadView) -> WriteSet | None:
            if check:
                validate(self.catalog, view, changes)
            writes = writes_of(view, changes)
            return WriteSet(writes) if writes else None

        return commit(self.manifest, Operation("Mutation", prepare, branch))

    def write(self, statements: Callable[[WriteBuffer], object], branch: str = "main") -> Receipt | None:
        """Let statements run over pending writes, then validate and commit the result."""

        def prepare(view: ReadView) -> WriteSet | None:
            pending = WriteBuffer(view, self.catalog)
            statements(pending)
            changes = pending.changes()
            validate(self.catalog, view, changes)
            writes = pending.writes()
            return WriteSet(writes) if writes else None

        return commit(self.manifest, Operation("Mutation", prepare, branch))

    def load(self, branch: str = "main", **tables: Rows) -> None:
        """Commit rows without asking: `node_Person=[...]`, `edge_Knows=[...]`."""
        changes = {name.replace("_", ":", 1): rows for name, rows in tables.items()}
        self.apply({key: self.change(key, rows) for key, rows in changes.items()}, branch, check=False)

    def content(self, table_key: str, branch: str = "main") -> dict[str, dict[str, Any]]:
        """The committed rows by id."""
        return {row["id"]: row for row in self.view(branch).read(table_key).to_pylist()}


def _column(kind: pa.DataType, values: list[Any]) -> pa.Array[Any]:
    if pa.types.is_date64(kind) and any(isinstance(each, int) for each in values):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)
