"""Parse tables of a grammar, made beforehand and kept beside it: making them takes a tenth of a second at every start.

    python tools/build_tables.py        writes them again, after a grammar has changed

Tables that are not of this grammar and of this release of the parser generator are not used: they are made anew.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from lark import Lark

# Parts of a parser that are objects of ours: they are handed over when it is loaded.
_LIVE = ("transformer", "postlex")
_PAIRS = "#pairs"


@record
class Grammar:
    """A grammar file of a package, and what its parser is made with. `live` are objects: a transformer, a postlex."""

    package: str
    options: Mapping[str, object] = field(default_factory=dict)
    live: Mapping[str, object] = field(default_factory=dict)

    def parser(self) -> Lark:
        """The parser, from the kept tables if they are the right ones."""
        from lark import Lark

        source, stored = self.source(), self._stored()
        if stored.get("digest") != self.digest(source):
            return self.made(source)
        loaded: Lark = Lark.__new__(Lark)
        # The public way in takes a pickle; these are the same tables as plain JSON.
        loaded._load(stored["tables"], **self.live)
        return loaded

    def made(self, source: str) -> Lark:
        """The parser, from the grammar itself."""
        from lark import Lark

        return Lark(source, parser="lalr", maybe_placeholders=False, **self.options, **self.live)

    def source(self) -> str:
        """The text of the grammar."""
        return self._file("grammar.lark").read_text(encoding="utf-8")

    def digest(self, source: str) -> str:
        """What tables must be of: this text, these options, this parser generator."""
        from lark import __version__

        whole = json.dumps([source, dict(self.options), __version__], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()

    def tables(self) -> str:
        """The tables as they are kept."""
        from lark.grammar import Rule
        from lark.lexer import TerminalDef

        source = self.source()
        data, memo = self.made(source).memo_serialize([TerminalDef, Rule])
        data["options"] = {name: value for name, value in data["options"].items() if name not in _LIVE}
        tables = encoded({"data": data, "memo": memo})
        return json.dumps({"digest": self.digest(source), "tables": tables}, separators=(",", ":")) + "\n"

    def _stored(self) -> dict[str, Any]:
        file = self._file("grammar.json")
        return decoded(file.read_text(encoding="utf-8")) if file.is_file() else {}

    def _file(self, name: str) -> Traversable:
        return files(self.package).joinpath(name)


def encoded(value: Any) -> Any:
    """Plain data as JSON can keep it: its objects have texts for keys, so others become pairs."""
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: encoded(each) for key, each in value.items()}
        return {_PAIRS: [[encoded(key), encoded(each)] for key, each in value.items()]}
    if isinstance(value, list | tuple | set | frozenset):
        return [encoded(each) for each in value]
    return value


def decoded(text: str) -> dict[str, Any]:
    """The data of a JSON text again; tuples come back as lists."""
    data: dict[str, Any] = json.loads(text, object_hook=_paired)
    return data


def _paired(each: dict[str, Any]) -> dict[Any, Any]:
    return dict(each[_PAIRS]) if _PAIRS in each else each
