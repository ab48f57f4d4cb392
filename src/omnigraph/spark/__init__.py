"""Spark as the second engine."""
