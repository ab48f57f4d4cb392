"""Real servers for tests, on loopback: an S3 store, one that breaks rules on purpose, and a proxy that counts."""
