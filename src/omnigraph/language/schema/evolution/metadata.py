"""Steps for annotations: what may change freely, and what this release does not understand well enough to change."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from omnigraph.language.schema.evolution.steps import Step, unsupported
from omnigraph.language.schema.ir import annotation_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.schema.catalog import Annotation
    from omnigraph.language.schema.evolution.matching import Declared
    from omnigraph.language.schema.evolution.steps import StepKind
    from omnigraph.language.schema.json_text import Json

FREE = frozenset({"description", "instruction", "rename_from"})
# Compared by what they mean: as constraints, and as the source and the default of a property.
SHORTHAND = frozenset({"key", "unique", "index"})
_MEANING = SHORTHAND | {"embed", "default"}


def annotation_steps(
    kind: StepKind, entity: str, old: Declared, new: Declared, details: dict[str, Json]
) -> Iterator[Step]:
    """A metadata step when free annotations differ, a refusal when unknown ones do."""
    if _unknown(old) != _unknown(new):
        yield unsupported(entity, "OG-BC-104", "an annotation other than @description and @instruction changes")
    renamed = old.name != new.name
    if _free(old, renamed=renamed) != _free(new, renamed=renamed):
        annotations = [annotation_json(each) for each in new.annotations]
        yield Step(kind, {**details, "annotations": annotations})


def _free(each: Declared, *, renamed: bool) -> Counter[Annotation]:
    """A hint that is being followed is told by the rename itself."""
    free = FREE - {"rename_from"} if renamed else FREE
    return Counter(held for held in each.annotations if held.name in free)


def _unknown(each: Declared) -> Counter[Annotation]:
    return Counter(held for held in each.annotations if held.name not in FREE | _MEANING)
