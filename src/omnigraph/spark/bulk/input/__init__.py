"""The input: cut into units, read once, and its bad rows told or set aside."""
