"""Sets of numbers below 2^32 as Roaring bitmaps, the form in which Lance keeps long lists of removed rows."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from omnigraph.errors import StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Set = NDArray[np.uint32]


def decode(data: bytes) -> Set:
    """The numbers of a set, in order. What is no such set is a `StoreError`."""
    try:
        return np.array(BitMap.deserialize(data).to_array(), np.uint32)
    except (ValueError, IndexError) as error:
        raise StoreError(f"a set of removed rows cannot be read: {error}.") from error


def encode(numbers: Set) -> bytes:
    """A set of numbers, byte for byte as Lance writes it."""
    return BitMap(array("I", numbers.tobytes()), optimize=False).serialize()
