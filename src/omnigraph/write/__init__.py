"""Changes become one commit: staging, constraints, the commit protocol."""
