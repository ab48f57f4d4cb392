"""`python -m omnigraph.cli`."""

from __future__ import annotations

from omnigraph.cli.main import main

main()
