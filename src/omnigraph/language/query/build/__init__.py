"""From what the parser reduces to the nodes of the syntax tree, one function a rule of the grammar.

The parser calls these while it reads, so that no tree is walked and no text is too deep for the stack.
"""

from __future__ import annotations

from types import SimpleNamespace

from omnigraph.language.query.build.expressions import RULES as EXPRESSION_RULES
from omnigraph.language.query.build.patterns import RULES as PATTERN_RULES
from omnigraph.language.query.build.queries import RULES as QUERY_RULES

BUILDER = SimpleNamespace(**EXPRESSION_RULES, **PATTERN_RULES, **QUERY_RULES)
