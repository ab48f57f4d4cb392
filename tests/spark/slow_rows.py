"""Frames whose tasks take their time, as a program's text: each waits for a mark, and somebody can be killed meanwhile.

The program has `place`, a directory with `started/` in it, `spark` and `time`; it gets `people` and `knows`.
"""

from __future__ import annotations

SLOW_ROWS = """
def slowly(batches):
    from pyspark import TaskContext
    (place / "started" / f"{TaskContext.get().partitionId()}-{time.time_ns()}").touch()
    for batch in batches:
        deadline = time.monotonic() + 120
        while not (place / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield batch

people = spark.range(0, 20_000, 1, 4).selectExpr("concat('p', id) as name", "cast(id % 90 as int) as age")
people = people.mapInArrow(slowly, "name string, age int")
knows = spark.range(0, 20_000, 1, 4).selectExpr("concat('p', id) as `from`", "concat('p', (id * 7) % 20000) as `to`")
"""
