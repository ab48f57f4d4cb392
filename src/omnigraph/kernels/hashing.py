"""64-bit hashes of values and tuples, the same in every process, and membership tests by hash.

Tasks shuffle hashes instead of the values themselves. Collisions are resolved later, by comparing the values of the few
rows whose hashes are equal. Only an edge's endpoint is taken to exist when its hash does: that a missing one collides
with one of n existing ids has a probability of n / 2**64. `PrefixFilter` finds which of many hashes are among a few;
most are ruled out by their leading bits.

Membership and uniqueness of hundreds of thousands of strings are answered by hash too, and then verified on the
strings. Arrow hashes strings one by one; DuckDB hashes several at once, and integers are quick to sort and to look up.
On a collision, which is rare, the strings differ and Arrow computes the answer instead.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import comparable, one_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from omnigraph.kernels.arrays import Values

    Hashes = NDArray[np.uint64]
    Texts = pa.Array[Any]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_LEAST_BITS, _MOST_BITS = 10, 24
MANY = 100_000
ALL_BITS = (1 << 64) - 1


def hash_column(values: Values) -> Hashes:
    """The hash of each value, the same in every process. Null has a hash as well."""
    return hash_columns([values])[0]


def hash_columns(columns: Sequence[Values]) -> list[Hashes]:
    """The hash of each value of each column; the columns have equal length."""
    return _queried([one_array(each) for each in columns], "hash({})")


def hash_rows(columns: Sequence[Values], *, width: int = 1) -> tuple[Hashes, NDArray[np.bool_]]:
    """The hashes of rows without a null, by value equality, and the mask of these rows.

    With a width of 2, each row has two independent hashes: rows that collide in one hardly collide in both.
    """
    plain = [comparable(each) for each in columns]
    valid = np.logical_and.reduce([is_there(each) for each in plain])
    found = functools.reduce(joined, hash_columns(plain))
    if width == 2:
        second = functools.reduce(joined, _queried(plain, "hash(reverse({}::VARCHAR))"))
        found = np.column_stack([found, second])
    return found if valid.all() else found[valid], valid


def is_there(values: pa.Array[Any]) -> NDArray[np.bool_]:
    """Which values are not null."""
    if not values.null_count:
        return np.ones(len(values), dtype=bool)
    return values.is_valid().to_numpy(zero_copy_only=False)


def joined(first: Hashes, second: Hashes) -> Hashes:
    """Combine two columns of hashes into one."""
    with np.errstate(over="ignore"):
        return (first ^ (first >> _SHIFT)) * _FACTOR + second


def prefixes(hashes: Hashes, bits: int) -> NDArray[np.intp]:
    """The leading bits of each hash, as indices: of a partition, or of a bitmap."""
    return (hashes >> np.uint64(64 - bits)).astype(np.intp) if bits else np.zeros(len(hashes), np.intp)


def _queried(columns: Sequence[pa.Array[Any]], expression: str) -> list[Hashes]:
    """Hash all columns in one query, so that the fixed cost of a query is paid once.

    One thread: DuckDB scans an Arrow array with one, and tasks have their own parallelism. It is loaded when needed.
    """
    if not len(columns[0]):
        return [np.empty(0, np.uint64) for _ in columns]
    from omnigraph.kernels.duckdb_pool import ONE_THREAD, connection

    names = [f"c{number}" for number in range(len(columns))]
    expressions = ", ".join(f"{expression.format(name)} AS {name}" for name in names)
    with connection(ONE_THREAD) as duck:
        answer: Any = duck.from_arrow(pa.table(dict(zip(names, columns, strict=True))))
        found: dict[str, Hashes] = answer.query("t", f"SELECT {expressions} FROM t").fetchnumpy()  # noqa: S608
    return [found[name] for name in names]


@dataclass(frozen=True)
class PrefixFilter:
    """Which of many hashes are among a few: a bitmap of the leading bits rules most out, the few themselves the rest.

    `members` are distinct and sorted.
    """

    members: Hashes
    marks: NDArray[np.bool_]
    bits: int

    @classmethod
    def of(cls, hashes: Hashes) -> PrefixFilter:
        """Build the filter that accepts exactly these hashes."""
        members = np.unique(hashes)
        bits = min(_MOST_BITS, max(_LEAST_BITS, (16 * len(members)).bit_length()))
        marks = np.zeros(1 << bits, dtype=bool)
        marks[prefixes(members, bits)] = True
        return cls(members, marks, bits)

    def accepts(self, hashes: Hashes) -> NDArray[np.bool_]:
        """For each hash, whether it is one of the few."""
        found: NDArray[np.bool_] = self.marks[prefixes(hashes, self.bits)]
        if not found.any():
            return found
        candidates = np.flatnonzero(found)
        chosen = hashes[candidates]
        at = np.minimum(np.searchsorted(self.members, chosen), len(self.members) - 1)
        found[candidates] = self.members[at] == chosen
        return found


def all_differ(texts: Texts, *, bits: int = ALL_BITS) -> bool:
    """Whether no string occurs twice; none may be null. `bits` masks the hashes, for tests of collisions."""
    if len(texts) >= MANY:
        hashes = np.sort(_masked(texts, bits))
        if (hashes[1:] != hashes[:-1]).all():
            return True
    return bool(pc.count_distinct(texts).as_py() == len(texts))


def are_among(texts: Texts, others: Texts, *, bits: int = ALL_BITS) -> Texts | None:
    """For each string, whether it is in `others`, which has no null; None when a collision prevents an answer."""
    hashes: Any = pa.array(_masked(texts, bits))
    other_hashes: Any = pa.array(_masked(others, bits))
    if len(texts) < len(others):
        wanted = pc.is_in(other_hashes, value_set=hashes)
        others, other_hashes = others.filter(wanted), other_hashes.filter(wanted)
    candidates: Any = pc.index_in(hashes, value_set=other_hashes)
    same: Any = pc.equal(others.take(candidates), texts)
    # Null: the hash is not there, or the string is null. False: another string has the same hash.
    return pc.is_valid(same) if pc.all(same, min_count=0).as_py() else None


def _masked(texts: Texts, bits: int) -> Hashes:
    found = hash_column(texts)
    return found if bits == ALL_BITS else found & np.uint64(bits)
