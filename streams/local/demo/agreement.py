"""How the store agrees with its peers on what its rows are, before it stores the first row of a kind.

Documents with the same fields have one shape, and a shape is agreed on once: to propose what the cluster knows already
costs nothing, but to look it up for every row would. When somebody else was first and sees a field differently, the
cluster's word counts: the store reads both sides of the conflict and converts its own values.
"""

from collections.abc import Callable, Mapping

import msgspec

from topolog.events.errors import BadInput, MergeConflict, OutcomeUnknown
from topolog.events.object_types import ObjectType
from topolog.streams.local.demo.types_of_rows import Convert, Document, conversion
from topolog.streams.node.client import Metadata, Node

Say = Callable[[str], None]

TIMEOUT_S = 1.0  # so that the loader hears soon that it should stop; whoever waits longer just asks again


class Shape(msgspec.Struct, frozen=True):
    """Documents of one type with the same fields; `fields` are (name, type) in the order of writing."""

    name: str
    key: str
    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, name: str, key: str, types: Mapping[str, str], document: Document) -> "Shape":
        return cls(name, key, tuple((field, types[field]) for field in document))

    @property
    def definition(self) -> ObjectType:
        return ObjectType(self.name, dict(self.fields), affinity_key=self.key)


class Agreement:
    """What this process knows to be agreed. Make it before its node is entered; then one thread asks."""

    def __init__(self, node: Node, say: Say) -> None:
        self._node = node
        self._say = say
        self._agreed: dict[Shape, Mapping[str, Convert]] = {}
        self._said: set[str] = set()
        self._unsettled: dict[Shape, tuple[str, ObjectType]] = {}
        self._refused: dict[Shape, MergeConflict] = {}
        node.on_type(self._on_type)

    def conversions(self, shape: Shape) -> Mapping[str, Convert]:
        """How a document of this shape becomes what the cluster has agreed on, field by field.

        The first time it asks what there is, and proposes what is new in the words of that. Raises what Node.propose
        raises: ask again after a Retriable, also after OutcomeUnknown. A Refused stands until the type changes, and is
        not proposed again: the shape contradicts the cluster in a way that no conversion can mend.
        """
        agreed = self._agreed.get(shape)
        if agreed is None:
            agreed = self._agreed[shape] = self._agree(shape)
        return agreed

    def key_of(self, type_name: str) -> str | None:
        """The field by which rows of this type are known, None for a type that nobody has agreed on."""
        metadata = self._node.metadata(type_name, timeout_s=TIMEOUT_S)
        return metadata.definition.affinity_key if metadata else None

    def _agree(self, shape: Shape) -> Mapping[str, Convert]:
        self._node.lease.require()
        if shape in self._refused:
            raise self._refused[shape]
        if shape in self._unsettled:
            request_id, definition = self._unsettled.pop(shape)
        else:
            request_id, definition = "", self._adopted(shape)
        while True:
            try:
                self._settle(shape, definition, request_id)
            except MergeConflict as conflict:
                request_id, definition = "", self._learn(shape, definition, conflict)
            else:
                return _conversions(shape, definition)

    def _adopted(self, shape: Shape) -> ObjectType:
        """The shape's definition as far as the cluster has one: what contradicts that need not be proposed."""
        metadata = self._node.metadata(shape.name, timeout_s=TIMEOUT_S)
        own = shape.definition
        if metadata is None:
            return own
        adopted = _adapted(own, metadata.definition)
        for field in sorted(field for field in own.fields if own.fields[field] != adopted.fields[field]):
            self._say_adopted(shape.name, f"field {field}", adopted.fields[field], own.fields[field])
        return adopted

    def _settle(self, shape: Shape, definition: ObjectType, request_id: str) -> None:
        """Propose, or ask what became of a proposal whose outcome was not read in time: never propose that anew."""
        try:
            if request_id:
                self._node.outcome(request_id, timeout_s=TIMEOUT_S)
            else:
                self._node.propose(definition, timeout_s=TIMEOUT_S, reason="new fields in our rows")
        except OutcomeUnknown as unknown:
            self._unsettled[shape] = unknown.request_id, definition
            raise

    def _learn(self, shape: Shape, definition: ObjectType, conflict: MergeConflict) -> ObjectType:
        """The definition with the types of the cluster, which has agreed on others meanwhile; raises the conflict if it
        is about something else."""
        metadata = self._node.metadata(definition.name, timeout_s=TIMEOUT_S)
        if metadata is None:  # it was removed meanwhile, and the conflict with it
            return definition
        adapted = _adapted(definition, metadata.definition)
        if adapted == definition:
            self._refused[shape] = conflict
            raise conflict
        self._say_adopted(definition.name, *(conflict.facts[side] for side in ("what", "current", "proposed")))
        return adapted

    def _say_adopted(self, name: str, what: str, theirs: str, ours: str) -> None:
        """Once, however many shapes have it."""
        said = f"{name}: {what} is {theirs} in the cluster, {ours} in our rows; we store what is agreed"
        if said not in self._said:
            self._said.add(said)
            self._say(said)

    def _on_type(self, name: str, metadata: Metadata | None) -> None:
        """A hook runs while the log waits: it takes note and returns. A type that was removed is proposed again, and
        what was refused may fit the one that has changed."""
        for shape in [shape for shape in list(self._refused) if shape.name == name]:
            self._refused.pop(shape, None)
        if metadata is None:
            for shape in [shape for shape in list(self._agreed) if shape.name == name]:
                self._agreed.pop(shape, None)


def _adapted(definition: ObjectType, agreed: ObjectType | None) -> ObjectType:
    if agreed is None:
        return definition
    fields = {name: agreed.fields.get(name, own) for name, own in definition.fields.items()}
    return msgspec.structs.replace(definition, fields=fields, affinity_key=agreed.affinity_key)


def _conversions(shape: Shape, definition: ObjectType) -> Mapping[str, Convert]:
    try:
        return {field: conversion(own, definition.fields[field]) for field, own in shape.fields}
    except ValueError as error:
        raise BadInput(f"{shape.name}: {error}.", hint="These rows cannot be stored as agreed.") from error
