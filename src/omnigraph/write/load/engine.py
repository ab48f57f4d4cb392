"""Who runs a load: this process, or Spark."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from omnigraph.engines import require_engine
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from omnigraph.write.load.error_policy import ErrorPolicy
    from omnigraph.write.load.sources import LoadPlan

Engine = Literal["auto", "local", "spark"]


def runs_on_spark(plan: LoadPlan, engine: Engine, policy: ErrorPolicy) -> bool:
    """Whether Spark runs this load. `auto`: for what only Spark can do, and for much data where it is installed."""
    require_engine(engine)
    if engine == "local" and not policy.fails:
        raise InvalidInput("rows are set aside by Spark: use engine='spark' or 'auto' with quarantine.")
    if engine != "auto":
        return engine == "spark"
    if not policy.fails or any(each.form == "spark" for each in plan.inputs):
        return True
    return plan.engine == "spark" and find_spec("pyspark") is not None
