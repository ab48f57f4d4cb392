"""Which accepted declaration each desired one continues: by its name, otherwise by `@rename_from`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from omnigraph.language.record import record
from omnigraph.language.schema.evolution.steps import unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.language.schema.catalog import Annotation
    from omnigraph.language.schema.evolution.steps import Step


class Declared(Protocol):
    """A type or a property."""

    @property
    def name(self) -> str:
        """As declared."""

    @property
    def annotations(self) -> tuple[Annotation, ...]:
        """In canonical order."""


Kind = TypeVar("Kind", bound=Declared)


@record
class Matches(Generic[Kind]):
    """Pairs of accepted and desired in desired order, what is new, what is gone, and hints that lead nowhere."""

    pairs: tuple[tuple[Kind, Kind], ...]
    added: tuple[Kind, ...]
    dropped: tuple[Kind, ...]
    faults: tuple[Step, ...]

    @property
    def renames(self) -> dict[str, str]:
        """Accepted name to desired name, for those that differ."""
        return {old.name: new.name for old, new in self.pairs if old.name != new.name}


def match(accepted: Mapping[str, Kind], desired: Mapping[str, Kind], entity: str) -> Matches[Kind]:
    """Pair declarations of one kind; `entity` is the prefix of their names in messages, as `node:` or `node:T.`."""
    partner = {name: name for name in desired if name in accepted}
    claimed = set(partner)
    faults: list[Step] = []
    for name in desired:
        hint = rename_hint(desired[name]) if name not in accepted else None
        if hint is None:
            continue
        if hint not in accepted:
            reason = f"@rename_from names `{hint}`, and the accepted schema has no such thing"
            faults.append(unsupported(f"{entity}{name}", "OG-NM-101", reason))
        elif hint in claimed:
            faults.append(unsupported(f"{entity}{name}", "OG-NM-102", f"`{hint}` is already continued by another"))
        else:
            partner[name] = hint
            claimed.add(hint)
    return Matches(
        pairs=tuple((accepted[partner[name]], desired[name]) for name in desired if name in partner),
        added=tuple(each for name, each in desired.items() if name not in partner and not _faulty(each)),
        dropped=tuple(each for name, each in accepted.items() if name not in claimed),
        faults=tuple(faults),
    )


def rename_hint(each: Declared) -> str | None:
    """The name in `@rename_from`, if there is one."""
    return next((held.value for held in each.annotations if held.name == "rename_from"), None)


def _faulty(each: Declared) -> bool:
    """Unpaired although it has a hint: the fault says so, and it is not an addition."""
    return rename_hint(each) is not None
