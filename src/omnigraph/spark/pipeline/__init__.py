"""Declarative pipelines: a YAML file that says what to read, how to map it to types, and where the commit goes."""
