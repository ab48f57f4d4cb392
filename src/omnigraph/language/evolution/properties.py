"""Steps for the properties of one type that is in both schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.language.evolution.matching import annotation_steps
from omnigraph.language.evolution.steps import DropMode, Step, TypeKind, unsupported
from omnigraph.language.stored.ir import type_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.catalog.canonical import Json
    from omnigraph.catalog.catalog import Property, PropertyType
    from omnigraph.language.evolution.matching import DeclarationMatches
    from omnigraph.language.evolution.steps import Rewrite

WIDENINGS = frozenset({("I32", "I64"), ("U32", "U64"), ("F32", "F64")})


def property_steps(
    kind: TypeKind, type_name: str, matches: DeclarationMatches[Property], mode: DropMode
) -> Iterator[Step]:
    """In the order of the desired names, then what is dropped."""
    yield from matches.faults
    previous = {new.name: old for old, new in matches.pairs}
    changed = [new for _, new in matches.pairs]
    for each in sorted([*changed, *matches.added], key=lambda held: held.name):
        if each.name in previous:
            yield from _changes(kind, type_name, previous[each.name], each, matches.renames)
        else:
            yield _addition(kind, type_name, each)
    for each in matches.dropped:
        details = _details(kind, type_name, each.name, mode=mode)
        yield Step("drop_property", details, _rewrite(kind, "drop_column"), code="OG-DS-103")


def _addition(kind: TypeKind, type_name: str, each: Property) -> Step:
    if not each.type.nullable and each.default is None:
        reason = f"`{each.name}` is required and existing rows have no value for it"
        return unsupported(f"{kind}:{type_name}.{each.name}", "OG-MF-103", reason)
    details = _details(kind, type_name, each.name, property_type=type_json(each.type))
    if each.default is not None:
        details["default"] = default_text(each)
    return Step("add_property", details, _rewrite(kind, "add_column"))


def _changes(kind: TypeKind, type_name: str, old: Property, new: Property, renames: dict[str, str]) -> Iterator[Step]:
    if old.name != new.name:
        rename: dict[str, Json] = {"type_kind": kind, "type_name": type_name, "from": old.name, "to": new.name}
        yield Step("rename_property", rename, _rewrite(kind, "rename_column"), code="OG-BC-102")
    yield from _type_changes(kind, type_name, old, new)
    if default_text(old) != default_text(new):
        yield Step("set_default", _details(kind, type_name, new.name, default=default_text(new)))
    source = renames.get(old.embed_source, old.embed_source) if old.embed_source else None
    if (source, old.embed_model) != (new.embed_source, new.embed_model):
        reason = "its values were embedded from another source or with another model"
        yield unsupported(f"{kind}:{type_name}.{new.name}", "OG-VE-101", reason)
    entity, details = f"{kind}:{type_name}.{new.name}", _details(kind, type_name, new.name)
    yield from annotation_steps("update_property_metadata", entity, old, new, details)


def _type_changes(kind: TypeKind, type_name: str, old: Property, new: Property) -> Iterator[Step]:
    fault = _type_fault(old.type, new.type)
    if fault:
        yield unsupported(
            f"{kind}:{type_name}.{new.name}", "OG-MF-106", f"{old.type} cannot become {new.type}: {fault}"
        )
        return
    added = sorted(set(new.type.enum_values or ()) - set(old.type.enum_values or ()))
    if added:
        yield Step("extend_enum", _details(kind, type_name, new.name, added_values=added))
    if old.type.scalar != new.type.scalar:
        details = {**_details(kind, type_name, new.name), "from": str(_bare(old.type)), "to": str(_bare(new.type))}
        yield Step("widen_property", details, _rewrite(kind, "cast_column"))
    if new.type.nullable and not old.type.nullable:
        yield Step("make_nullable", _details(kind, type_name, new.name), _rewrite(kind, "relax_column"))


def _type_fault(old: PropertyType, new: PropertyType) -> str | None:
    """Why the values that are there might not fit, or None."""
    if old.nullable and not new.nullable:
        return "it may hold nulls"
    if (old.enum_values is None) != (new.enum_values is None):
        return "an enum and a free String are different types"
    if set(old.enum_values or ()) - set(new.enum_values or ()):
        return "rows may hold the values that are taken away"
    if old.is_list != new.is_list or old.dimensions != new.dimensions:
        return "the shape of its values changes"
    if old.scalar != new.scalar and (old.scalar, new.scalar) not in WIDENINGS:
        return "only I32 to I64, U32 to U64 and F32 to F64 keep every value"
    return None


def default_text(each: Property) -> str | None:
    """The default as it was written."""
    return next((held.value for held in each.annotations if held.name == "default"), None)


def _bare(declared: PropertyType) -> PropertyType:
    return replace(declared, nullable=False)


def _details(kind: TypeKind, type_name: str, property_name: str, **more: Json) -> dict[str, Json]:
    return {"type_kind": kind, "type_name": type_name, "property_name": property_name, **more}


def _rewrite(kind: TypeKind, rewrite: Rewrite) -> Rewrite:
    """An interface has no table of its own."""
    return "none" if kind == "interface" else rewrite
