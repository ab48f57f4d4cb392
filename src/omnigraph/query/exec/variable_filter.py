"""Evaluates the conditions on one variable: for the whole table, or only for the keys that a caller has.

A condition has up to three parts: a pushed-down filter, text searches, and the rest, which DuckDB evaluates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.kernels.arrays import distinct
from omnigraph.query.exec.bindings import Bindings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.language.ir.query import Variable
    from omnigraph.query.columns.table_columns import Int64Array
    from omnigraph.query.exec.bindings import VariableTables
    from omnigraph.query.exec.scope import Scope
    from omnigraph.query.plan.operators import Conditions

    Mask = NDArray[np.bool_]

# A mask over the whole table is built when at least one of so many of its rows is checked.
_SHARE = 4


@dataclass
class VariableFilter:
    """The rows of a variable that satisfy its own conditions."""

    scope: Scope
    variable: Variable
    conditions: Conditions
    _mask: Mask | None = None

    @property
    def is_everything(self) -> bool:
        """Whether every row satisfies them."""
        return not self.conditions and self.variable.name not in self.scope.read.chosen

    @property
    def bound(self) -> VariableTables:
        """The tables of the variable."""
        return self.scope.read.bound(self.variable)

    def keys(self) -> Int64Array:
        """All keys that satisfy the conditions, ascending."""
        chosen = self.scope.read.chosen.get(self.variable.name)
        if chosen is not None:
            return chosen[self._evaluate(chosen, chosen >= 0)] if self.conditions else chosen
        keys_by_table = [np.zeros(0, np.int64)]
        for table in self.bound.tables:
            pushed = self.conditions.pushed
            rows = table.all_rows() if pushed is None else table.matching(pushed)
            keys_by_table.append(self.bound.keys_of(table.name, rows))
        return self._by_text_and_rest(np.concatenate(keys_by_table))

    def allows(self, keys: Int64Array) -> Mask:
        """For each key whether it satisfies the conditions; an unbound key (-1) never does."""
        valid: Mask = keys >= 0
        if self.is_everything:
            return valid
        if self._mask is None and self.bound.is_plain and len(keys) * _SHARE >= self.bound.size:
            self._mask = self.mask()
        if self._mask is not None:
            allowed = np.zeros(len(keys), np.bool_)
            allowed[valid] = self._mask[keys[valid]]
            return allowed
        return self._evaluate(keys, valid)

    def mask(self) -> Mask:
        """For each row of the variable's only table whether it satisfies the conditions."""
        mask = np.zeros(self.bound.size, np.bool_)
        mask[self.keys()] = True
        return mask

    def _evaluate(self, keys: Int64Array, valid: Mask) -> Mask:
        different, inverse = distinct(keys[valid])
        satisfied = np.ones(len(different), np.bool_)
        chosen = self.scope.read.chosen.get(self.variable.name)
        if chosen is not None:
            satisfied &= np.isin(different, chosen)
        if self.conditions.pushed is not None:
            for table in self.bound.tables:
                rows = self.bound.rows_in(table.name, different)
                own = np.flatnonzero(rows >= 0)
                if len(own):
                    satisfied[own] &= table.truth(self.conditions.pushed, rows[own])
        if self.conditions.texts or self.conditions.rest:
            left = different[satisfied]
            satisfied[np.flatnonzero(satisfied)] = np.isin(left, self._by_text_and_rest(left))
        allowed = np.zeros(len(keys), np.bool_)
        allowed[valid] = satisfied[inverse]
        return allowed

    def _by_text_and_rest(self, keys: Int64Array) -> Int64Array:
        for text in self.conditions.texts:
            keys = keys[self.scope.searches.matches(text, self.bound, keys)]
        if self.conditions.rest and len(keys):
            rows = Bindings(len(keys), {self.variable.name: keys})
            inside = self.scope.inside([self.variable])
            keys = keys[inside.satisfies(self.conditions.rest, rows)]
        return keys
