"""The execution of one operation: its read view, its write buffer, and the commit protocol."""
