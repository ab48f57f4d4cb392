"""Files of JSON values that cannot be cut at line ends, because a value spans lines or shares one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.spark.bulk.columns import LONG
from omnigraph.spark.splits import read_blocks
from omnigraph.spark.tasks import errors_of_tasks, one_task_each
from omnigraph.write.load.ndjson import has_one_value_a_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from omnigraph.spark.source_files import SourceFile
    from omnigraph.spark.splits import Split

_DIVIDED = pa.schema([("split", LONG)])


def undivided_files(
    session: SparkSession, splits: Sequence[Split], storage_options: Mapping[str, str]
) -> set[SourceFile]:
    """The files to be read as one: small ones, compressed ones, and those with a line that is no whole value.

    A value that spans lines begins with a line that is none, so looking at each split apart is enough.
    """
    cut = Counter(each.file for each in splits)
    asked = [each for each in splits if cut[each.file] > 1 and each.codec is None]

    def work(item: tuple[int, Split]) -> Iterator[pa.RecordBatch]:
        number, split = item
        if not all(has_one_value_a_line(block.data) for block in read_blocks(split, storage_options)):
            yield pa.record_batch([[number]], schema=_DIVIDED)

    whole = {each.file for each in splits} - {each.file for each in asked}
    if asked:
        with errors_of_tasks():
            told: Any = one_task_each(session, list(enumerate(asked)), work, _DIVIDED).toArrow()
        whole |= {asked[number].file for number in told.column("split").to_pylist()}
    return whole
