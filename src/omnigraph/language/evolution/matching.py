"""Matches declarations of the desired schema to accepted ones: by name, otherwise by `@rename_from`.

Also plans the steps for annotations: which may change freely, and which this release does not understand well enough to
change.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from omnigraph.language.evolution.steps import Step, unsupported
from omnigraph.language.stored.ir import annotation_json
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.catalog.canonical import Json
    from omnigraph.catalog.catalog import Annotation
    from omnigraph.language.evolution.steps import StepKind


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
class DeclarationMatches(Generic[Kind]):
    """Pairs of accepted and desired declarations in desired order, additions, removals, and unusable rename hints."""

    pairs: tuple[tuple[Kind, Kind], ...]
    added: tuple[Kind, ...]
    dropped: tuple[Kind, ...]
    faults: tuple[Step, ...]

    @property
    def renames(self) -> dict[str, str]:
        """Renames: accepted name to desired name."""
        return {old.name: new.name for old, new in self.pairs if old.name != new.name}


def match(accepted: Mapping[str, Kind], desired: Mapping[str, Kind], entity: str) -> DeclarationMatches[Kind]:
    """Pair declarations of one kind. `entity` prefixes their names in messages, such as `node:` or `node:T.`."""
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
    return DeclarationMatches(
        pairs=tuple((accepted[partner[name]], desired[name]) for name in desired if name in partner),
        added=tuple(each for name, each in desired.items() if name not in partner and not _faulty(each)),
        dropped=tuple(each for name, each in accepted.items() if name not in claimed),
        faults=tuple(faults),
    )


def rename_hint(each: Declared) -> str | None:
    """The name in `@rename_from`, or None."""
    return next((held.value for held in each.annotations if held.name == "rename_from"), None)


def _faulty(each: Declared) -> bool:
    """Whether an unpaired declaration has a rename hint: then it is a fault and not an addition."""
    return rename_hint(each) is not None


FREE = frozenset({"description", "instruction", "rename_from"})
# Compared elsewhere by their meaning: as constraints, and as embedding source and default of a property.
SHORTHAND = frozenset({"key", "unique", "index"})
_MEANING = SHORTHAND | {"embed", "default"}


def annotation_steps(
    kind: StepKind, entity: str, old: Declared, new: Declared, details: dict[str, Json]
) -> Iterator[Step]:
    """A metadata step if free annotations differ, a refusal if unknown ones do."""
    if _unknown(old) != _unknown(new):
        yield unsupported(entity, "OG-BC-104", "an annotation other than @description and @instruction changes")
    renamed = old.name != new.name
    if _free(old, renamed=renamed) != _free(new, renamed=renamed):
        annotations = [annotation_json(each) for each in new.annotations]
        yield Step(kind, {**details, "annotations": annotations})


def _free(each: Declared, *, renamed: bool) -> Counter[Annotation]:
    """The annotations that may change freely, without a rename hint in use, which the rename step reports."""
    free = FREE - {"rename_from"} if renamed else FREE
    return Counter(held for held in each.annotations if held.name in free)


def _unknown(each: Declared) -> Counter[Annotation]:
    return Counter(held for held in each.annotations if held.name not in FREE | _MEANING)
