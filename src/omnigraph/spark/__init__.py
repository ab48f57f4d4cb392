"""The data pipeline on Spark. The only part of the house that imports pyspark at module level."""
