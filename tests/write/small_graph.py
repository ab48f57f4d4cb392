"""A real graph in a directory, written through the commit protocol, for tests of the write path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.language.schema import compile_schema
from omnigraph.language.schema.arrow import table_arrow_schemas
from omnigraph.manifest.graph_manifest import create_manifest
from omnigraph.schema_contract import blueprint
from omnigraph.store.location import parse_location
from omnigraph.write.changes import TableChanges
from omnigraph.write.commit import Operation, WriteSet, commit
from omnigraph.write.constraints import validate
from omnigraph.write.pending import Budget, PendingWrites
from omnigraph.write.stage import writes_of
from omnigraph.write.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from omnigraph.write.commit import Receipt

Rows = list[dict[str, Any]]


class SmallGraph:
    """A graph of one schema. Edges and nodes are dicts; a column that is not given is null."""

    def __init__(self, path: Path, schema: str) -> None:
        self.catalog = compile_schema(schema)
        self.schemas = table_arrow_schemas(self.catalog)
        self.manifest = create_manifest(parse_location(path), blueprint(schema, "schema.pg"))

    def rows(self, table_key: str, rows: Rows) -> pa.Table:
        """Dicts as whole rows. A moment is given as milliseconds."""
        schema = self.schemas[table_key]
        columns = [_column(field.type, [each.get(field.name) for each in rows]) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def view(self, branch: str = "main") -> View:
        """The newest state of a branch."""
        return View(self.manifest.snapshot(branch), self.manifest.stores.tables)

    def pending(self, branch: str = "main", *, budget: Budget | None = None) -> PendingWrites:
        """Pending writes over the newest state."""
        return PendingWrites(self.view(branch), self.catalog, budget)

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

        def prepare(view: View) -> WriteSet | None:
            if check:
                validate(self.catalog, view, changes)
            writes = writes_of(view, changes)
            return WriteSet(writes) if writes else None

        return commit(self.manifest, Operation("Mutation", prepare, branch))

    def write(self, statements: Callable[[PendingWrites], object], branch: str = "main") -> Receipt | None:
        """Let statements run over pending writes, then validate and commit the result."""

        def prepare(view: View) -> WriteSet | None:
            pending = PendingWrites(view, self.catalog)
            statements(pending)
            changes = pending.changes()
            validate(self.catalog, view, changes)
            writes = writes_of(view, changes)
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
