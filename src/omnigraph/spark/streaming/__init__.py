"""Structured Streaming: micro-batches into the graph as commits, and commits out of it as micro-batches."""
