"""What Lance stores but does not expose: deletion vectors, row ids, version metadata, error texts."""
