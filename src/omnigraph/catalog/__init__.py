"""The compiled schema: node and edge types, their Arrow columns, row ids, declared indexes and constraints."""
