"""One Spark session for all tests: two cores, retries, and the quick compiler, since every job here is small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.spark.runtime.session import spark_session, stop_session
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


PANDAS_WARNING = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pyspark warns of pandas 3 with every `mapInArrow`, which uses nothing of it."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(PANDAS_WARNING)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = spark_session(
        master="local[2,4]",
        memory="1g",
        tmp_dir=tmp_path_factory.mktemp("spark"),
        options={"spark.sql.shuffle.partitions": "2"},
        java_options=["-XX:TieredStopAtLevel=1"],
        # A test run uses a class archive that is there and leaves no process behind that builds one.
        world=World(environ={**REAL.environ, "OMNIGRAPH_SPARK_ARCHIVE": "use"}),
    )
    yield session
    stop_session(session)
