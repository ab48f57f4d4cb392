"""One operation at work: its read view, its buffered writes, and the commit protocol."""
