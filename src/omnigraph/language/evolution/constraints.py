"""Steps for the constraints of one type that is in both schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.catalog.canonical import range_text
from omnigraph.catalog.catalog import Range
from omnigraph.language.evolution.steps import DataCheck, Step, TypeKind, unsupported
from omnigraph.language.stored.ir import check_json, range_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.catalog.canonical import Json
    from omnigraph.catalog.catalog import Cardinality, EdgeType, NodeType, TypeRules

ConstraintKind = Literal["index", "unique", "range", "check"]
# Kind and canonical text identify a constraint; the stored form goes into the step.
Constraints = dict[tuple[ConstraintKind, str], "Json"]


def rule_steps(
    kind: TypeKind, old: NodeType | EdgeType, new: NodeType | EdgeType, renames: Mapping[str, str]
) -> Iterator[Step]:
    """Removals first, so that a changed range reads as one going and one coming."""
    yield from _key_steps(kind, old, new, renames)
    before, after = _constraints(old.rules, renames), _constraints(new.rules, {})
    details: dict[str, Json] = {"type_kind": kind, "type_name": new.name}
    for identity, stored in before.items():
        if identity not in after:
            rewrite: Literal["drop_index", "none"] = "drop_index" if identity[0] == "index" else "none"
            yield Step("remove_constraint", {**details, "constraint": stored}, rewrite, code="OG-CD-101")
    for identity, stored in after.items():
        if identity not in before:
            yield _addition(identity[0], stored, details, new.table_key)


def _addition(kind: ConstraintKind, stored: Json, details: dict[str, Json], table_key: str) -> Step:
    step_details = {**details, "constraint": stored}
    if kind == "index":
        return Step("add_constraint", step_details, "build_index")
    code = "OG-MF-101" if kind == "unique" else "OG-MF-102"
    return Step("add_constraint", step_details, check=DataCheck(kind, table_key, stored), code=code)


def _constraints(rules: TypeRules, renames: Mapping[str, str]) -> Constraints:
    """What a type demands, with accepted names turned into desired ones."""
    found: Constraints = {}
    for columns in rules.indexes:
        named = sorted(renames.get(each, each) for each in columns)
        found["index", ",".join(named)] = {"Index": named}
    for columns in rules.unique:
        named = sorted(renames.get(each, each) for each in columns)
        found["unique", ",".join(named)] = {"Unique": named}
    for each in rules.ranges:
        moved = Range(renames.get(each.property, each.property), each.minimum, each.maximum)
        found["range", range_text(moved)] = range_json(moved)
    for check in rules.checks:
        name = renames.get(check.property, check.property)
        found["check", f"{name}:{check.pattern}"] = check_json(name, check.pattern)
    return found


def _key_steps(
    kind: TypeKind, old: NodeType | EdgeType, new: NodeType | EdgeType, renames: Mapping[str, str]
) -> Iterator[Step]:
    """Ids are made of the key in name order: another key, another order or another number text is another id."""
    entity = f"{kind}:{new.name}"
    moved = tuple(renames.get(each, each) for each in old.rules.key)
    if set(moved) != set(new.rules.key):
        yield unsupported(entity, "OG-MF-107", f"the key changes from {_key(old.rules.key)} to {_key(new.rules.key)}")
    elif moved != new.rules.key:
        yield unsupported(
            entity, "OG-MF-107", f"the rename reorders the key from {_key(moved)} to {_key(new.rules.key)}"
        )
    else:
        for before, after in zip(old.rules.key, moved, strict=True):
            if before in old.properties and _text_changes(old, before, new, after):
                yield unsupported(f"{entity}.{after}", "OG-MF-107", "as F64 the numbers of this key have another text")


def _text_changes(old: NodeType | EdgeType, before: str, new: NodeType | EdgeType, after: str) -> bool:
    return (old.properties[before].type.scalar, new.properties[after].type.scalar) == ("F32", "F64")


def _key(columns: tuple[str, ...]) -> str:
    return f"({', '.join(columns)})" if columns else "none"


def cardinality_steps(old: EdgeType, new: EdgeType) -> Iterator[Step]:
    """Looser is free, tighter depends on the edges that are there."""
    if old.cardinality == new.cardinality:
        return
    wanted = _cardinality(new.cardinality)
    details: dict[str, Json] = {"type_kind": "edge", "type_name": new.name}
    details |= {"from": _cardinality(old.cardinality), "to": wanted}
    if _is_tighter(old.cardinality, new.cardinality):
        check = DataCheck("cardinality", new.table_key, wanted)
        yield Step("change_cardinality", details, check=check, code="OG-MF-105")
    else:
        yield Step("change_cardinality", details, code="OG-CD-102")


def _is_tighter(old: Cardinality, new: Cardinality) -> bool:
    if new.minimum > old.minimum:
        return True
    return new.maximum is not None and (old.maximum is None or new.maximum < old.maximum)


def _cardinality(each: Cardinality) -> Json:
    return {"min": each.minimum, "max": each.maximum}
