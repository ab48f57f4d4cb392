"""A Spark session that starts quickly and quietly, with or without a Java on the machine."""
