"""Which numbers of a row the rules compare, and how they are drawn from rows."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.language.schema.catalog import EdgeType
from omnigraph.spark.bulk.numbers.hashing import column_numbers, is_there, joined
from omnigraph.store.comparable_values import comparable
from omnigraph.store.tables import ID
from omnigraph.write.constraints.rules import count_rule, endpoint_rules, type_of, unique_rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.write.load.load import Mode

    Numbers = NDArray[np.uint64]


@dataclass(frozen=True)
class Drawn:
    """One number of a tuple of columns for each row that has the whole tuple; `beside`: with that of another column."""

    columns: tuple[str, ...]
    beside: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read for it."""
        return self.columns if self.beside is None else (*self.columns, self.beside)


IDS = Drawn((ID,))


def draws_of(catalog: Catalog, key: str, mode: Mode) -> tuple[Drawn, ...]:
    """What may be asked of the rows that are put into a table."""
    kind = type_of(catalog, key)
    found = [IDS, *(Drawn(rule.columns, ID) for rule in unique_rules(catalog, key) if not rule.is_key)]
    if isinstance(kind, EdgeType):
        found += [Drawn((rule.end,)) for rule in endpoint_rules(kind)]
        rule = count_rule(kind)
        if rule is not None and mode != "overwrite":
            found.append(Drawn(("src",), ID))
        if rule is not None and mode == "merge" and rule.minimum:
            found.append(Drawn((ID,), "src"))
    return tuple(dict.fromkeys(found))


def draw(rows: pa.Table, wanted: Sequence[Drawn]) -> Iterator[tuple[Drawn, Numbers]]:
    """The numbers of rows, in their order; with another beside it, one row of two for each."""
    names = list(dict.fromkeys(name for each in wanted for name in each.names))
    plain = [comparable(rows.column(name)) for name in names]
    numbers = dict(zip(names, column_numbers(plain), strict=True)) if names else {}
    nulls = {name: is_there(each) for name, each in zip(names, plain, strict=True) if each.null_count}
    for each in wanted:
        found = functools.reduce(joined, [numbers[name] for name in each.columns])
        if each.beside is not None:
            found = np.column_stack([found, numbers[each.beside]])
        whole = [nulls[name] for name in each.columns if name in nulls]
        yield each, found[np.logical_and.reduce(whole)] if whole else found
