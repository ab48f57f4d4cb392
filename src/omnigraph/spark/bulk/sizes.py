"""How much a load takes at once, so that memory follows these numbers and not the input.

Set on the session: `spark.omnigraph.splitBytes`, `rowsPerFile`, `bufferBytes`, `numbersPerPart`, `smallLoad`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.spark.splits import SPLIT_BYTES
from omnigraph.store.tables import ROWS_PER_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "spark.omnigraph."


@dataclass(frozen=True)
class Sizes:
    """A task reads `split_bytes` of text, writes files of `rows_per_file`, and holds `buffer_bytes` of one type.

    A part of the shuffle has `numbers_per_part` numbers of 8 bytes, which are in memory several times over. Of a load
    of at most `small_load` rows the numbers, and the rows that they find, are in every task and in the driver.
    """

    split_bytes: int = SPLIT_BYTES
    rows_per_file: int = ROWS_PER_FILE
    buffer_bytes: int = 64 << 20
    numbers_per_part: int = 2_000_000
    small_load: int = 1_000_000


def sizes_of(session: SparkSession) -> Sizes:
    """The sizes that a session is configured with."""
    plain = Sizes()
    return Sizes(
        split_bytes=_setting(session, "splitBytes", plain.split_bytes),
        rows_per_file=_setting(session, "rowsPerFile", plain.rows_per_file),
        buffer_bytes=_setting(session, "bufferBytes", plain.buffer_bytes),
        numbers_per_part=_setting(session, "numbersPerPart", plain.numbers_per_part),
        small_load=_setting(session, "smallLoad", plain.small_load),
    )


def _setting(session: SparkSession, name: str, otherwise: int) -> int:
    return int(session.conf.get(_PREFIX + name, None) or otherwise)
