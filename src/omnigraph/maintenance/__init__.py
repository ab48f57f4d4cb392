"""Index builds, compaction, garbage collection and repair."""
