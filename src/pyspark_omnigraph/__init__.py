"""Found by Spark, which imports every top-level module named `pyspark_*` when a Python data source is first used."""

from omnigraph.pipeline.datasource.source import OmniGraphSource as DefaultSource

__all__ = ["DefaultSource"]
