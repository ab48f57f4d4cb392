"""Mutations: statements run against a write buffer and become one commit."""
