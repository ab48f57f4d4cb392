"""Bytes: small control objects through obstore, tables through Lance. Staged writes only."""
