"""Starts a Spark session quickly and without log output, with or without a Java on the machine."""
