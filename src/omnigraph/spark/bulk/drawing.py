"""Which numbers of a row the rules compare, and how they are drawn from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.language.schema.catalog import EdgeType
from omnigraph.spark.bulk.hashing import numbers_of, tuple_numbers
from omnigraph.store.tables import ID
from omnigraph.write.constraints.rules import count_rule, endpoint_rules, type_of, unique_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def draw(rows: pa.Table, wanted: Iterable[Drawn]) -> Iterator[tuple[Drawn, Numbers]]:
    """The numbers of rows, in their order; with another beside it, one row of two for each."""
    made: dict[tuple[str, ...], tuple[Numbers, NDArray[np.bool_]]] = {}
    for each in wanted:
        if each.columns not in made:
            made[each.columns] = tuple_numbers([rows.column(name) for name in each.columns])
        numbers, valid = made[each.columns]
        if each.beside is None:
            yield each, numbers
        else:
            others = numbers_of(rows.column(each.beside))
            yield each, np.column_stack([numbers, others if valid.all() else others[valid]])
