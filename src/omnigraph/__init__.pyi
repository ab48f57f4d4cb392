"""The public names, for type checkers."""

from omnigraph import errors as errors
from omnigraph import types as types
from omnigraph.graph.backends import Loaded as Loaded
from omnigraph.graph.graph import Graph as Graph
from omnigraph.graph.open import init as init
from omnigraph.graph.open import open_graph as open  # noqa: A004, F401 - the name that it has here
from omnigraph.load.plan import quarantine as quarantine
from omnigraph.mutation.run import Mutated as Mutated
from omnigraph.pipeline.datasource.sink import stream_into as stream_into
from omnigraph.pipeline.datasource.source import register_spark as register_spark
from omnigraph.pipeline.pipeline import Pipeline as Pipeline
from omnigraph.spark.runtime.session import spark_session as spark_session

__version__: str
