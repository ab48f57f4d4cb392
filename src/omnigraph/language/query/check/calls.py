"""Functions by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.query.check import aggregates, search
from omnigraph.language.query.expressions import Now
from omnigraph.language.query.types import DATETIME
from omnigraph.language.suggestion import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.language.query import expression_syntax as written
    from omnigraph.language.query.check.environment import Env
    from omnigraph.language.query.expressions import Expression


def call(env: Env, node: written.Call) -> Expression | None:
    """A function call, by the rules of that function."""
    if (check := _FUNCTIONS.get(node.function)) is None:
        hint = suggestion(node.function, _FUNCTIONS) or f": there are {', '.join(sorted(_FUNCTIONS))}"
        env.fail(node.span, "T0", f"there is no function {node.function}(){hint}")
        return None
    if node.distinct and node.function not in aggregates.FUNCTIONS:
        env.fail(node.span, "T9", f"distinct belongs in an aggregate, not into {node.function}()")
        return None
    return check(env, node)


def _now(env: Env, node: written.Call) -> Expression | None:
    if node.arguments:
        env.fail(node.span, "T7", "now() takes no arguments")
        return None
    env.session.uses_now = True
    return Now(DATETIME)


_FUNCTIONS: dict[str, Callable[[Env, written.Call], Expression | None]] = {
    "now": _now,
    "search": search.text_match,
    "match_text": search.text_match,
    "fuzzy": search.text_match,
    "nearest": search.nearest,
    "bm25": search.bm25,
    "rrf": search.rrf,
    **dict.fromkeys(aggregates.FUNCTIONS, aggregates.aggregate),
}
