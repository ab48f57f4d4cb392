"""A call of `Graph.export`: one state of the graph as files, written here or by Spark."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.snapshot import Snapshot

ExportFormat: TypeAlias = Literal["jsonl", "parquet", "csv"]


@dataclass(frozen=True)
class Export:
    """What goes where. `types` limits it; None is every type."""

    snapshot: Snapshot
    catalog: Catalog
    place: str | os.PathLike[str]
    form: ExportFormat
    types: Sequence[str] | None

    def write(self, manifest: GraphManifest) -> list[Path | str]:
        """Write graph records to one file, or each type to a file of its own."""
        from omnigraph.read.export import export_records
        from omnigraph.read.export_tables import export_tables

        tables, place = manifest.stores.tables, Path(self.place)
        if self.form != "jsonl":
            written = export_tables(self.snapshot, tables, self.catalog, place, form=self.form, types=self.types)
            return [*written.values()]
        with place.open("wb") as file:
            file.writelines(export_records(self.snapshot, tables, self.catalog, types=self.types))
        return [place]

    def write_on_spark(self, manifest: GraphManifest, spark: SparkSession | None) -> list[Path | str]:
        """Let many tasks write many files."""
        from omnigraph.spark.installed import require_spark

        require_spark("an export with engine='spark'")
        from omnigraph.spark.export import export_files
        from omnigraph.spark.session import spark_session

        session, where = spark_session(session=spark, world=manifest.world), os.fspath(self.place)
        files = export_files(session, manifest, self.catalog, self.snapshot, where, form=self.form, types=self.types)
        return [each.file if "://" in each.file else Path(each.file) for each in files]
