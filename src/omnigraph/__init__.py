"""OmniGraph: a lakehouse graph database on Lance and Spark."""
