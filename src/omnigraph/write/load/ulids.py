"""Many ULIDs at once, from one question to the clock and one for randomness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.world import World

_LENGTH = 26
_ALPHABET = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Ten bits are two characters: written together, a ULID is 13 of these.
_PAIRS = np.array([_ALPHABET[each >> 5] | _ALPHABET[each & 31] << 8 for each in range(1 << 10)], dtype="<u2")
_PAIRS_OF_MOMENT = 5


def mint_ulids(count: int, world: World) -> pa.Array[Any]:
    """New ids that share their millisecond and differ in 80 random bits."""
    if not count:
        return pa.array([], pa.string())
    randomness = world.random_bits(80 * count).to_bytes(10 * count, "big")
    moment = world.now_us() // 1_000
    texts = np.empty((count, _LENGTH // 2), dtype="<u2")
    for place in range(_PAIRS_OF_MOMENT):
        texts[:, place] = _PAIRS[moment >> 10 * (_PAIRS_OF_MOMENT - 1 - place) & 1023]
    _spell(np.frombuffer(randomness, dtype=np.uint8).reshape(count, 10), texts[:, _PAIRS_OF_MOMENT:])
    offsets = np.arange(count + 1, dtype=np.int32) * _LENGTH
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts.tobytes())]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _spell(octets: NDArray[np.uint8], pairs: NDArray[np.uint16]) -> None:
    """Five octets are four pairs."""
    for half in range(2):
        first, second, third, fourth, fifth = octets[:, half * 5 : half * 5 + 5].astype(np.uint16).T
        at = half * 4
        pairs[:, at] = _PAIRS[first << 2 | second >> 6]
        pairs[:, at + 1] = _PAIRS[(second & 63) << 4 | third >> 4]
        pairs[:, at + 2] = _PAIRS[(third & 15) << 6 | fourth >> 2]
        pairs[:, at + 3] = _PAIRS[(fourth & 3) << 8 | fifth]
