"""What Lance stores but its API does not expose: deletion vectors, row ids, version metadata, error texts."""
