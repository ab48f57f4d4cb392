"""Vectors made up from texts, bit for bit as the released program makes them up."""

from __future__ import annotations

import numpy as np

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def mock_vector(text: str, dimensions: int) -> list[float]:
    """FNV-1a of the text, stepped by xorshift for each component, between -1 and 1, then of length 1."""
    seed = _OFFSET
    for byte in text.encode():
        seed = ((seed ^ byte) * _PRIME) & _MASK
    components = np.empty(dimensions, np.float32)
    for at in range(dimensions):
        seed ^= (seed << 13) & _MASK
        seed ^= seed >> 7
        seed ^= (seed << 17) & _MASK
        components[at] = np.float32(2) * np.float32(float(seed) / float(_MASK)) - np.float32(1)
    length = np.sqrt(np.sum(components.astype(np.float64) ** 2))
    return [float(each) for each in (components.astype(np.float64) / length).astype(np.float32)]
