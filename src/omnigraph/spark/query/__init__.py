"""Read queries as Spark data frames."""
