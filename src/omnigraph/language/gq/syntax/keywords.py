"""Which words are keywords, and where.

No word of the language is reserved: `optional` may be an edge, `limit` an alias, `set` a property. The lexer reads
every word as WORD; this pass looks at the neighbours and decides, in one sweep, before the parser sees the tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.language.core.diagnostics import Span, SyntaxFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BRACKET_LIMIT = 64

_OPENERS = {"LPAR", "LSQB", "LBRACE"}
_CLOSERS = {"RPAR", "RSQB", "RBRACE"}
_BLOCKS = {
    "MATCH": "pattern",
    "NOT": "pattern",
    "OPTIONAL": "pattern",
    "RETURN": "return",
    "DISTINCT": "return",
    "HAVING": "having",
    "ORDER": "order",
    "SET": "fields",
    "TYPE": "fields",
    "EDGE": "hops",
    "CLOSE_ANGLE": "hops",
}
_STATEMENTS = {"insert": "INSERT", "upsert": "UPSERT", "update": "UPDATE", "delete": "DELETE"}
_SECTIONS = _STATEMENTS | {
    word: word.upper() for word in ("match", "return", "having", "order", "limit", "offset", "distinct", "set", "where")
}
_OPERATORS = {
    "and": "AND",
    "or": "OR",
    "is": "IS",
    "in": "IN",
    "contains": "COMPARE",
    "starts_with": "COMPARE",
}
_CALLED = {"date": "DATE", "datetime": "DATETIME", "not": "NOT"}
_OPERAND_ENDS = {"VARIABLE", "NAME", "STRING", "INTEGER", "FLOAT", "BOOLEAN", "NULL", "TYPE", *_CLOSERS}
_OPERAND_STARTS = {"VARIABLE", "WORD", "STRING", "INTEGER", "FLOAT", "MINUS", "LPAR", "LSQB"}


class KeywordPass:
    """The pass, in the shape that the parser generator calls."""

    always_accept = ("WORD", "UNCLOSED")

    def process(self, stream: Iterable[Any]) -> Iterator[Any]:
        """The same tokens, each word with its meaning."""
        tokens = []
        for token in stream:
            _refuse_unclosed(token)
            tokens.append(token)
        return _Sweep(tokens).run()


def _refuse_unclosed(token: Any) -> None:
    if token.type != "UNCLOSED":
        return
    what = "comment" if token.startswith("/*") else "string"
    raise SyntaxFault(Span(token.start_pos, token.start_pos + 1), f"this {what} is never closed")


class _Sweep:
    """One walk from left to right. `before` is the meaning of the last token, `blocks` the open braces."""

    def __init__(self, tokens: list[Any]) -> None:
        self.tokens = tokens
        self.before = ""
        self.before_that = ""
        self.blocks: list[str] = []
        self.open: list[str] = []
        self.in_where = False

    def run(self) -> Iterator[Any]:
        for index, token in enumerate(self.tokens):
            if token.type == "WORD":
                token.type = self._word(index)
            elif token.type == "VARIABLE" and self._opens_clause():
                self._mark_traversal(index)
            self._advance(token)
            yield token

    def _advance(self, token: Any) -> None:
        kind = token.type
        closed = ""
        if kind in _OPENERS:
            self._open(token)
        elif kind in _CLOSERS and self.open:
            closed = self._close(self.open.pop())
        elif kind in _STATEMENTS.values() or kind == "WHERE":
            self.in_where = kind == "WHERE"
        self.before_that, self.before = self.before, closed or kind

    def _open(self, token: Any) -> None:
        self.open.append(token.type)
        if len(self.open) > BRACKET_LIMIT:
            raise SyntaxFault(
                Span(token.start_pos, token.end_pos), f"brackets are nested deeper than {BRACKET_LIMIT} levels"
            )
        if token.type == "LBRACE":
            self.blocks.append(_BLOCKS.get(self.before, "other") if self.blocks else "body")

    def _close(self, opener: str) -> str:
        """Bounds of hops end like the edge they belong to: the next variable is the other end, not a new clause."""
        if opener != "LBRACE":
            return ""
        block = self.blocks.pop()
        if block == "body":
            self.in_where = False
        return "EDGE" if block == "hops" else ""

    # -- traversals ----------------------------------------------------------------------------------------------------

    def _opens_clause(self) -> bool:
        if self._block() != "pattern":
            return False
        inside_shortest = self.before == "LPAR" and self.before_that == "SHORTEST"
        return inside_shortest or self.before == "LBRACE" or self.before in _OPERAND_ENDS

    def _mark_traversal(self, index: int) -> None:
        """`$a knows $b`, `$a $e: knows $b`, `$a <knows> $b`: decide the tokens between the two ends."""
        at = index + 1
        bound = self._type(at) == "VARIABLE" and self._type(at + 1) == "COLON" and self._is_edge(at + 2, bound=True)
        if bound:
            self.tokens[at].type = "EDGE_VARIABLE"
            at += 2
        if not self._is_edge(at, bound=bound):
            return
        if self._type(at) == "WORD":
            self.tokens[at].type = "EDGE"
            return
        for offset, kind in enumerate(("OPEN_ANGLE", "EDGE", "CLOSE_ANGLE")):
            self.tokens[at + offset].type = kind

    def _is_edge(self, at: int, *, bound: bool) -> bool:
        if self._type(at) == "COMPARE":
            angles = self._text(at) == "<" and self._type(at + 1) == "WORD" and self._text(at + 2) == ">"
            return angles and self._text(at + 1) != "not"
        if self._type(at) != "WORD" or self._text(at) == "not":
            return False
        if bound:
            return self._text(at)[:1].islower() or self._text(at)[:1] == "_"
        return self._has_far_end(at + 1, operator=self._text(at) in _OPERATORS)

    def _has_far_end(self, at: int, *, operator: bool) -> bool:
        if self._type(at) == "LBRACE":
            return self._type(at + 1) == "INTEGER" or not operator
        if self._type(at) == "VARIABLE":
            return not (operator and self._type(at + 1) == "DOT")
        return False

    # -- words ---------------------------------------------------------------------------------------------------------

    def _word(self, index: int) -> str:
        text, following = self._text(index), self._type(index + 1)
        if self.before in {"DOT", "AT"}:
            return "NAME"
        if text[0].isupper():
            return "TYPE"
        if self.before in {"AS", "QUERY"}:
            return "NAME"
        block = self._block()
        if block == "fields" and following == "COLON":
            return "FIELD"
        if block == "":
            return "QUERY" if text == "query" else "WORD"
        if block == "body" and not self._continues_where(index):
            return self._conflict_word(index) or _SECTIONS.get(text, "WORD")
        return self._expression_word(index, block)

    def _conflict_word(self, index: int) -> str | None:
        """`on conflict update` after the fields of an insert."""
        if self.before == "RBRACE" and self._text(index) == "on" and self._text(index + 1) == "conflict":
            return "ON"
        return {"ON": "CONFLICT", "CONFLICT": "CONFLICT_ACTION"}.get(self.before)

    def _continues_where(self, index: int) -> bool:
        if not self.in_where:
            return False
        next_statement = self.before in _OPERAND_ENDS and self._text(index) in _STATEMENTS
        return not (next_statement and self._text(index + 1)[:1].isupper())

    def _expression_word(self, index: int, block: str) -> str:
        if self.before in _OPERAND_ENDS:
            return self._operator(index, block) or self._operand(index, block)
        return self._operand(index, block)

    def _operator(self, index: int, block: str) -> str | None:
        text = self._text(index)
        if text == "not" and self._text(index + 1) == "in":
            return "NOT_IN"
        if block == "return" and text == "as" and self._type(index + 1) == "WORD":
            return "AS"
        if block == "order" and text in {"asc", "desc"}:
            return text.upper()
        return _OPERATORS.get(text)

    def _operand(self, index: int, block: str) -> str:
        text, following = self._text(index), self._type(index + 1)
        if block == "pattern" and text == "optional" and following == "LBRACE":
            return "OPTIONAL"
        if text == "shortest" and self.before == "COLON" and following == "LPAR":
            return "SHORTEST"
        if self._is_distinct(index):
            return "DISTINCT"
        if self.before == "NOT_IN":
            return "IN"
        if following == "LPAR":
            return _CALLED.get(text, "FUNCTION")
        return self._bare(index, block)

    def _bare(self, index: int, block: str) -> str:
        text = self._text(index)
        if text in {"true", "false"}:
            return "BOOLEAN"
        compared = self._type(index + 1) == "COMPARE"
        if text == "not" and not compared:
            return "NOT"
        if text == "null" and not compared and not (block == "order" and self._ends_key(index)):
            return "NULL"
        return "NAME"

    def _is_distinct(self, index: int) -> bool:
        in_call = self.before == "LPAR" and self.before_that == "FUNCTION"
        return in_call and self._text(index) == "distinct" and self._type(index + 1) in _OPERAND_STARTS

    def _ends_key(self, index: int) -> bool:
        """An ordering by the word alone: an alias called `null`, as nobody orders by a constant."""
        key_before = self.before in {"LBRACE", "COMMA"}
        return key_before and (self._type(index + 1) in {"COMMA", "RBRACE"} or self._text(index + 1) in {"asc", "desc"})

    # -- looking around ------------------------------------------------------------------------------------------------

    def _block(self) -> str:
        return self.blocks[-1] if self.blocks else ""

    def _type(self, index: int) -> str:
        return str(self.tokens[index].type) if index < len(self.tokens) else ""

    def _text(self, index: int) -> str:
        return str(self.tokens[index]) if index < len(self.tokens) else ""
