"""The contents of blob columns. A scan gives only descriptions of them: how they are kept, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.store.arrow_columns import one_array
from omnigraph.store.filters import one_of
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.tables import ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.store.tables import Table

# A blob as it is written: its bytes, or the address of somebody else's.
Blob = dict[str, Any]

_EXTERNAL = 3


def read_blobs(table: Table, column: str, ids: Sequence[str]) -> dict[str, Blob | None]:
    """The blobs of some rows, by the rows' ids; None where a row has none."""
    rows = table.read([ID, "_rowid", column], one_of(ID, ids))
    names: list[Any] = rows.column(ID).to_pylist()
    places: list[Any] = rows.column("_rowid").to_pylist()
    found = [external(each) for each in descriptions(rows.column(column))]
    inline = [at for at, each in enumerate(descriptions(rows.column(column))) if is_inline(each)]
    if inline:
        with lance_errors(f"reading blobs of {table.path}.{column}"):
            files = table.dataset.take_blobs(column, ids=[places[at] for at in inline])
            for at, file in zip(inline, files, strict=True):
                found[at] = None if file is None else {"data": file.read(), "uri": None}
    return dict(zip(names, found, strict=True))


def descriptions(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> list[Any]:
    """What a scan says of each blob; None for null."""
    array = one_array(column)
    stored: list[Any] = (array.storage if isinstance(array, pa.ExtensionArray) else array).to_pylist()
    return stored


def is_inline(description: dict[str, Any] | None) -> bool:
    """Whether the bytes are ours. Earlier releases wrote a null as an empty payload at position 0."""
    if description is None or description["kind"] == _EXTERNAL:
        return False
    return any(description[name] for name in ("kind", "position", "size", "blob_uri"))


def external(description: dict[str, Any] | None) -> Blob | None:
    """The address of a blob that is kept elsewhere."""
    if description is None or description["kind"] != _EXTERNAL:
        return None
    return {"data": None, "uri": description["blob_uri"]}
