"""Numbers of sources: drawn from their rows, noted where that has not been done, and read back part by part."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.spark.bulk.columns import BYTES
from omnigraph.spark.bulk.grouping import grouped_rows
from omnigraph.spark.bulk.numbers.drawing import draw
from omnigraph.spark.bulk.numbers.ledger import Ledger
from omnigraph.spark.bulk.numbers.packed import joined_numbers
from omnigraph.spark.bulk.numbers.sieve import Sieve, among, sieve_of
from omnigraph.spark.bulk.pieces.staged import PieceFile
from omnigraph.spark.bulk.rules.questions import THERE
from omnigraph.spark.tasks import errors_of_tasks, one_task_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from omnigraph.spark.bulk.numbers.ledger import Noted
    from omnigraph.spark.bulk.numbers.packed import Collected
    from omnigraph.spark.bulk.rules.questions import Emission, Questions, Source

    Numbers = NDArray[np.uint64]

# So many numbers of the load are few: committed ones that are not among them need not be noted.
FEW_NUMBERS = 4_000_000
_AT_ONCE = 200_000
_NOTED = pa.schema([("noted", BYTES)])


def emitted(source: Source) -> Iterator[tuple[Emission, Numbers]]:
    """The numbers of a source, for each of its emissions."""
    wanted = list(dict.fromkeys(each.drawn for each in source.emissions))
    for rows in in_chunks(read_source(source, source.columns)):
        numbers = dict(draw(rows, wanted))
        yield from ((each, numbers[each.drawn]) for each in source.emissions)


def note_unread(session: SparkSession, questions: Questions, directory: str) -> list[tuple[Emission, Noted]]:
    """Draw what has not been noted, in tasks. Of committed rows only what the load can have to do with."""
    unread = questions.unread()
    if not unread:
        return []
    related = _related(questions, unread)

    def work(group: list[Source]) -> Iterator[pa.RecordBatch]:
        sieves = {space: sieve_of(_all(files)) for space, files in related.items()}
        for source in group:
            for emission, noted in _note(source, sieves, directory):
                yield pa.record_batch([[pickle.dumps((emission, noted))]], schema=_NOTED)

    groups = grouped_rows(session, unread, lambda each: each.size)
    with errors_of_tasks():
        told: Any = one_task_each(session, groups, work, _NOTED).toArrow()
    return [pickle.loads(each) for each in told.column("noted").to_pylist()]  # noqa: S301


def read_part(noted: Iterable[tuple[Emission, Noted]], part: int, parts: int) -> Collected:
    """The numbers of one part, by space and role; single ones sorted."""
    found: dict[tuple[int, int], list[Numbers]] = {}
    for emission, each in noted:
        numbers = each.of_part(part, parts)
        if len(numbers):
            found.setdefault((emission.space, emission.role), []).append(numbers)
    return {key: joined_numbers(pieces) for key, pieces in found.items()}


def read_source(source: Source, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a source, in the order of its rows."""
    if isinstance(source.rows, PieceFile):
        yield from source.rows.read(columns)
        return
    scan = source.rows
    yield from scan.table().scan(columns, fragments=scan.fragments, batch_size=65_536)


def in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """A file at once, or as many committed rows: much work with every call, in memory that stays small."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _related(questions: Questions, unread: Sequence[Source]) -> dict[int, list[Noted]]:
    """The spaces whose committed rows matter only where the load has their number, and the files of its numbers.

    Ends of committed edges that stay, and rows that are removed, matter by themselves.
    """
    whole = {each.space for source in unread for each in source.emissions if each.role != THERE}
    found: dict[int, list[Noted]] = {}
    for emission, noted in questions.noted:
        found.setdefault(emission.space, []).append(noted)
    return {
        space: files
        for space, files in found.items()
        if space not in whole and sum(each.count for each in files) <= FEW_NUMBERS
    }


def _note(source: Source, sieves: Mapping[int, Sieve], directory: str) -> Iterator[tuple[Emission, Noted]]:
    ledgers = {each: Ledger(directory) for each in source.emissions}
    for emission, numbers in emitted(source):
        sieve = sieves.get(emission.space)
        left = numbers if sieve is None else numbers[among(sieve, _firsts(numbers))]
        yield from ((emission, noted) for noted in ledgers[emission].note(emission.drawn, left))
    for emission, ledger in ledgers.items():
        yield from ((emission, noted) for noted in ledger.finish())


def _all(files: Sequence[Noted]) -> Numbers:
    return np.concatenate([_firsts(each.numbers()) for each in files])


def _firsts(numbers: Numbers) -> Numbers:
    return numbers if numbers.ndim == 1 else numbers[:, 0]
