"""What a type is, its ids, and the merge of two definitions, exactly as Apache Ignite computes them.

The merge (ME3 to ME10) is the whole safety of metadata agreement: fields and schemas are only united, never renamed,
retyped or removed, and two definitions that contradict each other do not merge at all. It is commutative where it
succeeds (ME10), so every reader of the log reaches the same content.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from topolog.events.errors import BadInput, MergeConflict
from topolog.events.ids import TypeId
from topolog.events.names import is_name, is_printable

V = TypeVar("V")

_FNV_BASIS = 0x811C9DC5
_FNV_PRIME = 0x01000193
_MASK = 0xFFFFFFFF


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


def _lower_case_hash(text: str) -> int:
    """Java's String.hashCode of the text, each UTF-16 unit put in lower case on its own, as Ignite does."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        unit = high << 8 | low
        if not 0xD800 <= unit < 0xE000:
            unit = ord(chr(unit).lower()[0])
        value = (value * 31 + unit) & _MASK
    return _signed(value)


@functools.lru_cache(maxsize=10_000)
def type_id(name: str) -> TypeId:
    """Ignite's signed 32-bit id of a type name (ME1): `Type0` gives 110843958."""
    return TypeId(_lower_case_hash(name))


@functools.lru_cache(maxsize=10_000)
def field_id(name: str) -> int:
    """Ignite's signed 32-bit id of a field name (ME1): `fld` gives 101470."""
    return _lower_case_hash(name)


def schema_id(field_names: Sequence[str]) -> int:
    """Ignite's signed 32-bit id of fields in write order (ME1): FNV-1 over their ids, low byte first."""
    value = _FNV_BASIS
    for name in field_names:
        for byte in (field_id(name) & _MASK).to_bytes(4, "little"):
            value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return _signed(value)


class ObjectType(msgspec.Struct, frozen=True):
    """One definition of a type; an immutable value.

    `fields`: field name -> type name. `enum`: constant -> ordinal. `schemas`: schema id (decimal text) -> field names
    in the order in which they are written.
    """

    name: str
    fields: Mapping[str, str]
    affinity_key: str | None = None
    is_enum: bool = False
    enum: Mapping[str, int] = {}
    schemas: Mapping[str, tuple[str, ...]] = {}

    @property
    def type_id(self) -> TypeId:
        return type_id(self.name)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> "ObjectType":
        """The definition in the form of the golden files and of the CLI's input; raises BadInput with what is wrong."""
        stated_id = d.get("type_id")
        try:
            given = msgspec.convert({key: value for key, value in d.items() if key != "type_id"}, _Definition)
        except msgspec.ValidationError as error:
            raise BadInput(f"This is no definition of a type: {error}.", hint=_EXAMPLE) from error
        definition = cls(given.name, given.fields, given.affinity_key, given.is_enum, given.enum, given.schemas)
        validate(definition)
        if stated_id is not None and stated_id != definition.type_id:
            raise BadInput(f"type_id {stated_id} is not the id of {given.name!r}, which is {definition.type_id}.")
        return definition

    def to_dict(self) -> dict[str, Any]:
        """The form that `from_dict` reads."""
        return {
            "name": self.name,
            "type_id": self.type_id,
            "fields": dict(self.fields),
            "affinity_key": self.affinity_key,
            "is_enum": self.is_enum,
            "enum": dict(self.enum),
            "schemas": {key: list(names) for key, names in self.schemas.items()},
        }


class DeclaredType(msgspec.Struct, frozen=True):
    """A type a joining node already knows, and the version it knew it at; 0 when it defines the type anew."""

    definition: ObjectType
    version: int


class _Definition(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    fields: dict[str, str] = {}
    affinity_key: str | None = None
    is_enum: bool = False
    enum: dict[str, int] = {}
    schemas: dict[str, tuple[str, ...]] = {}


_EXAMPLE = 'One looks like {"name": "Customer", "fields": {"id": "long", "name": "String"}, "affinity_key": "id"}.'
_ORDINAL_MAX = (1 << 31) - 1
_OVERHEAD_BYTES = 20

DEFINITION_BYTES_MAX = 400_000
"""Largest definition: a rejection carries two of them and must stay below the limit of a record."""

NAME_BYTES_MAX = 1_000
"""Longest name of a type, field or constant: a rejection repeats it several times beside the two definitions."""


def validate(definition: ObjectType) -> None:
    """Raise BadInput unless the definition agrees with itself: names, known fields, schema ids, ordinals."""
    if not definition.name.strip():
        raise BadInput("A type needs a name.", hint=_EXAMPLE)
    _check_names(definition)
    for name, type_name in definition.fields.items():
        if not name.strip() or not type_name.strip():
            raise BadInput(f"Type {definition.name!r} has a field with an empty name or type: {name!r}: {type_name!r}.")
    if definition.is_enum and definition.fields:
        raise BadInput(f"Type {definition.name!r} is an enum, so it has constants and no fields.")
    for constant, ordinal in definition.enum.items():
        if not constant.strip() or not 0 <= ordinal <= _ORDINAL_MAX:
            raise BadInput(f"Enum {definition.name!r}: {constant!r} = {ordinal} is no constant with an ordinal >= 0.")
    for key, names in definition.schemas.items():
        if key != str(schema_id(names)):
            raise BadInput(f"Schema id {key} is not the id of {list(names)}, which is {schema_id(names)}.")
        for unknown in [name for name in names if name not in definition.fields]:
            raise BadInput(f"Schema {key} of type {definition.name!r} uses field {unknown!r}, which is not defined.")
    _unite_constants({}, definition.enum, definition.name)


def _check_names(definition: ObjectType) -> None:
    names = [definition.name, definition.affinity_key or "", *definition.fields, *definition.fields.values()]
    for name in [*names, *definition.enum]:
        if (length := len(name.encode("utf-8", "surrogatepass"))) > NAME_BYTES_MAX:
            raise BadInput(f"{name[:40]!r}... is a name of {length} bytes, the limit is {NAME_BYTES_MAX}.")
        if not is_printable(name):
            raise BadInput(f"{name!r} is no name: it has a character that nobody sees.")
    if not is_name(definition.name, NAME_BYTES_MAX):
        raise BadInput(f"{definition.name!r} is no name of a type: it has a blank.", hint=_EXAMPLE)


def size_bytes(definition: ObjectType) -> int:
    """An upper bound of the definition's encoded size."""
    names = [definition.name, definition.affinity_key or "", *definition.fields, *definition.fields.values()]
    names += definition.enum
    names += [name for schema in definition.schemas.values() for name in schema]
    return sum(len(name.encode()) + _OVERHEAD_BYTES for name in names) + _OVERHEAD_BYTES * len(definition.schemas)


def with_schema(definition: ObjectType) -> ObjectType:
    """The definition with the schema of all its fields in their order, unless it states schemas or is an enum."""
    if definition.schemas or definition.is_enum or not definition.fields:
        return definition
    names = tuple(definition.fields)
    return msgspec.structs.replace(definition, schemas={str(schema_id(names)): names})


def merge(current: ObjectType | None, proposed: ObjectType) -> ObjectType:
    """The two definitions united (ME3 to ME10).

    The very same object `current` when nothing changes; raises MergeConflict with both sides where they contradict
    each other (ME4 to ME8).
    """
    if current is None:
        return proposed
    _agree("ME4", current, proposed, "name", current.name, proposed.name)
    _agree("ME5", current, proposed, "affinity key", current.affinity_key, proposed.affinity_key)
    _agree("ME6", current, proposed, "enum flag", current.is_enum, proposed.is_enum)
    fields = _unite_fields(current, proposed)
    enum = _unite_constants(current.enum, proposed.enum, current.name)
    schemas = _unite(current.schemas, proposed.schemas)
    if fields is current.fields and enum is current.enum and schemas is current.schemas:
        return current
    return msgspec.structs.replace(current, fields=fields, enum=enum, schemas=schemas)


def _agree(rule: str, current: ObjectType, proposed: ObjectType, what: str, now: object, then: object) -> None:
    if now != then:
        raise MergeConflict(
            rule,
            f"Type {current.name!r}: the {what} is {now!r}, the proposal says {then!r}.",
            {"what": what, "current": str(now), "proposed": str(then), "proposed_type": proposed.name},
        )


def _unite_fields(current: ObjectType, proposed: ObjectType) -> Mapping[str, str]:
    for name, type_name in proposed.fields.items():
        known = current.fields.get(name, type_name)
        if known != type_name:
            raise MergeConflict(
                "ME8",
                f"Field {name!r} of type {current.name!r} is {known}, the proposal says {type_name}.",
                {"what": f"field {name}", "current": known, "proposed": type_name},
            )
    return _unite(current.fields, proposed.fields)


def _unite_constants(current: Mapping[str, int], proposed: Mapping[str, int], type_name: str) -> Mapping[str, int]:
    names = {ordinal: name for name, ordinal in current.items()}
    for name, ordinal in proposed.items():
        if current.get(name, ordinal) != ordinal:
            facts = {"what": f"constant {name}", "current": str(current[name]), "proposed": str(ordinal)}
            raise MergeConflict("ME7", f"Enum {type_name!r}: {name} has two ordinals.", facts)
        if names.setdefault(ordinal, name) != name:
            facts = {"what": f"ordinal {ordinal}", "current": names[ordinal], "proposed": name}
            raise MergeConflict("ME7", f"Enum {type_name!r}: ordinal {ordinal} has two names.", facts)
    return _unite(current, proposed)


def _unite(current: Mapping[str, V], proposed: Mapping[str, V]) -> Mapping[str, V]:
    """`current` itself if it has all keys of `proposed`, else a new mapping with what it lacks at its end."""
    missing = {key: value for key, value in proposed.items() if key not in current}
    return {**current, **missing} if missing else current
