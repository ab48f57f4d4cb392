"""Writes the prebuilt parse tables of both grammars beside them: `python tools/build_tables.py`."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from omnigraph.language.gq.syntax.parse import grammar_file as queries
from omnigraph.language.schema.parse import grammar_file as schemas


def write_tables() -> list[str]:
    """Write the tables, and return the names of the files."""
    written = []
    for grammar in (queries(), schemas()):
        target = Path(str(files(grammar.package))) / "grammar.json"
        target.write_text(grammar.tables(), encoding="utf-8")
        written.append(str(target))
    return written


if __name__ == "__main__":
    sys.stdout.write("\n".join([*write_tables(), ""]))
