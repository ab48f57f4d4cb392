"""Reads files in object stores as a Spark frame, in our own tasks: Spark from PyPI has no client for object stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.load.files import InputFile, list_files, open_input, resolved_options
from omnigraph.spark.runner import one_task_each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.pipeline.file import PipelineSource
    from omnigraph.world import World

Opened = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def read_bucket_files(session: SparkSession, paths: Sequence[str], source: PipelineSource, world: World) -> DataFrame:
    """Read one file per task with the storage options of this process. The schema of the first file applies to all;
    CSV supports the options `sep` and `header`.
    """
    _refuse_options(source)
    files = list_files(paths, world=world)
    reading = _BucketRead(source.format, dict(source.options), resolved_options(files, world=world))
    with reading.opened(files[0]) as (schema, _):
        first_schema = schema
    return one_task_each(session, files, partial(_rows, reading=reading, first_schema=first_schema), first_schema)


def _refuse_options(source: PipelineSource) -> None:
    supported = {"sep", "header"} if source.format == "csv" else set()
    refused = [*({"schema"} if source.schema else ()), *(each for each in source.options if each not in supported)]
    if refused:
        raise InvalidInput(
            f"{refused[0]!r} is not understood for {source.format} files that are read from a bucket directly; with an "
            "s3a:// path Spark reads them itself, if it has the client."
        )


def _rows(file: InputFile, *, reading: _BucketRead, first_schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with reading.opened(file) as (schema, batches):
        missing = [name for name in first_schema.names if name not in schema.names]
        if missing:
            raise InvalidInput(f"{file.where} has no column {missing[0]!r}, which the first file of the source has.")
        for batch in batches:
            columns = [batch.column(name).cast(first_schema.field(name).type) for name in first_schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=first_schema)


@dataclass(frozen=True)
class _BucketRead:
    """How files are read: format, reader options and storage options."""

    form: str
    options: dict[str, str]
    storage: dict[str, str]

    @contextmanager
    def opened(self, file: InputFile) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """Open a file: its Arrow schema and batches."""
        try:
            yield _OPENERS[self.form](open_input(file, self.storage), self.options)
        except (pa.ArrowException, OSError) as error:
            raise InvalidInput(f"{file.where} cannot be read as {self.form}: {error}") from error


def _open_parquet(stream: Any, options: dict[str, str]) -> Opened:
    from pyarrow import parquet

    del options
    file = parquet.ParquetFile(stream)
    return file.schema_arrow, file.iter_batches()


def _open_orc(stream: Any, options: dict[str, str]) -> Opened:
    from pyarrow import orc

    del options
    file: Any = orc.ORCFile(stream)
    return file.schema, (file.read_stripe(each) for each in range(file.nstripes))


def _open_csv(stream: Any, options: dict[str, str]) -> Opened:
    from pyarrow import csv

    named = options.get("header", "true") == "true"
    reader = csv.open_csv(
        stream,
        read_options=csv.ReadOptions(use_threads=False, autogenerate_column_names=not named),
        parse_options=csv.ParseOptions(delimiter=options.get("sep", ","), newlines_in_values=True),
    )
    return reader.schema, iter(reader)


def _open_json(stream: Any, options: dict[str, str]) -> Opened:
    from pyarrow import json

    del options
    table = json.read_json(stream)
    return table.schema, iter(table.to_batches())


_OPENERS: dict[str, Callable[[Any, dict[str, str]], Opened]] = {
    "parquet": _open_parquet,
    "orc": _open_orc,
    "csv": _open_csv,
    "json": _open_json,
}
