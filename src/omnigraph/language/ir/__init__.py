"""Checked queries: typed expressions and statements that every engine executes."""
