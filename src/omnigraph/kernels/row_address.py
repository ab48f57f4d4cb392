"""Row addresses, and the names of the columns that Lance has for every row beside the declared ones.

A row address is the id of a fragment in the upper 32 bits and the offset of the row in the fragment in the lower ones.
A load has an order of the same shape for rows that are not committed yet: the number of a staged fragment, and the
offset in it. The functions take one address or an array of them. The schema language reserves the names without loading
NumPy, so this module does not load it at import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Addresses = NDArray[np.uint64]
    Offsets = NDArray[np.uint32]

ROW_ID: Final = "_rowid"
ROW_ADDRESS: Final = "_rowaddr"
ROW_NUMBER: Final = "_rowoffset"  # the position of a row in a scan of the table
CREATED_AT: Final = "_row_created_at_version"
UPDATED_AT: Final = "_row_last_updated_at_version"
SYSTEM_COLUMNS: Final = frozenset({ROW_ID, ROW_ADDRESS, ROW_NUMBER, CREATED_AT, UPDATED_AT})

FRAGMENT_BITS: Final = 32
_OFFSET: Final = (1 << FRAGMENT_BITS) - 1

A = TypeVar("A", int, "NDArray[np.uint64]")


def fragment_of(address: A) -> A:
    """The fragment of a row address."""
    found: Any = address >> FRAGMENT_BITS
    return cast("A", found)


def offset_of(address: A) -> A:
    """The offset in its fragment of a row address."""
    found: Any = address & _OFFSET
    return cast("A", found)


def address(fragment: int, offset: int) -> int:
    """The address of a row."""
    return fragment << FRAGMENT_BITS | offset


def addresses(fragment: int, offsets: NDArray[Any]) -> Addresses:
    """The addresses of some rows of one fragment."""
    found: Addresses = offsets.astype("uint64") + (fragment << FRAGMENT_BITS)
    return found


def fragments_of(rows: Addresses) -> list[int]:
    """The fragments that rows are in, ascending."""
    import numpy as np

    found: list[int] = np.unique(fragment_of(rows)).tolist()
    return found


def by_fragment(rows: Addresses) -> list[tuple[int, Offsets]]:
    """The fragments that rows are in, ascending, each with the ascending offsets of its rows."""
    import numpy as np

    ordered = np.sort(rows)
    fragments, starts = np.unique(fragment_of(ordered), return_index=True)
    offsets = np.split(offset_of(ordered).astype(np.uint32), starts[1:])
    # Without rows, `split` still returns one empty array.
    return list(zip(fragments.tolist(), offsets, strict=False))


def staged_order(fragment: int, offset: int) -> int:
    """The order of a row of a load: by the number of its staged fragment, then by its offset."""
    return address(fragment, offset)


def staged_row(order: A) -> tuple[A, A]:
    """The number of the staged fragment and the offset of the row that has this order in a load."""
    return fragment_of(order), offset_of(order)
