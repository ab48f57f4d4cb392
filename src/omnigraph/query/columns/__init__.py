"""Reads columns of tables by row number, caches them, and carries them over to newer versions."""
