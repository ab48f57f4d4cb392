"""Which of many numbers are among a few: most are ruled out by their first bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]

_LEAST_BITS, _MOST_BITS = 10, 24


@dataclass(frozen=True)
class Sieve:
    """The few, sorted and each once, and a mark for all first bits that one of them has."""

    few: Numbers
    marks: NDArray[np.bool_]
    shift: np.uint64


def sieve_of(numbers: Numbers) -> Sieve:
    """A sieve that lets these numbers through."""
    few = np.unique(numbers)
    bits = min(_MOST_BITS, max(_LEAST_BITS, (16 * len(few)).bit_length()))
    shift = np.uint64(64 - bits)
    marks = np.zeros(1 << bits, dtype=bool)
    marks[(few >> shift).astype(np.intp)] = True
    return Sieve(few, marks, shift)


def among(sieve: Sieve, numbers: Numbers) -> NDArray[np.bool_]:
    """For each number, whether the sieve lets it through."""
    found: NDArray[np.bool_] = sieve.marks[(numbers >> sieve.shift).astype(np.intp)]
    if not found.any():
        return found
    places = np.flatnonzero(found)
    chosen = numbers[places]
    at = np.minimum(np.searchsorted(sieve.few, chosen), len(sieve.few) - 1)
    found[places] = sieve.few[at] == chosen
    return found
