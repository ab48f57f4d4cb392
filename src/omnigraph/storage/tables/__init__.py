"""Lance tables: reading, staging, committing, indexes, compaction."""
