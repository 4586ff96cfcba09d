"""The single partition map: what copies a node holds, as it says itself on the topic `maps` (EX30).

Threats. A map that was sent before a decision is read after it and speaks of copies that are no longer what they were;
a group that a map leaves out is taken for one without copies; a map is too large for a record, and half of it is taken
for the whole; parts of two maps are put together.

Invariant. A map is of one incarnation at one moment, tells of every group that its sender knew then, and counts as a
whole or not at all. Of two maps of an incarnation the one with the higher update sequence tells more.

Argument. A node numbers its maps and says in each how far it had applied the log. A map is all that the node has to
say, so the newest replaces the others and no reader needs to know them. A copy that has loaded or was cleared is named
with the position at which the log had asked for that, and a load with the token of its primary; so a reader sees
whether the map is about the copy as the log has it now, or about an earlier life of it. Parts carry the number of their
map and are put together only with others of the same number; whatever else arrives meanwhile, only one map of a node is
in the making.

Which map is kept and why others are not is `streams/rules/single_maps.py`.
"""

import operator
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from topolog.events.errors import BadInput, OutOfRange, Undecodable
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.membership import Applied
from topolog.events.topics import RECORD_BYTES_MAX

PARTS_MAX = 100
"""Most parts of a map: one of a million partitions has half of that if every number in it is of full length."""

_ENTRY_BYTES = 60
"""More than what Avro adds to the name and the bytes of one entry."""

_HEAD_BYTES = 200
"""More than what a part holds besides its entries and the node's id."""

_PIECE_BYTES_MIN = 1_000
"""A group goes on in the next part rather than leave less than this behind in one that is nearly full."""


class GroupMap(msgspec.Struct, frozen=True):
    """The copies of one group, or the next bytes of the group before; `states` are empty where `same_as` is given."""

    group: str
    states: bytes
    same_as: int | None
    counters: bytes
    finished: bytes


class SinglePartitionMap(msgspec.Struct, frozen=True):
    """Part `part` of `parts` of one map; all but `part` and `groups` is the same in each.

    `exchange` is the position of the ExchangeStarted that is open as of `applied`, None if none is.
    """

    node: NodeId
    incarnation: Incarnation
    exchange: Position | None
    update_sequence: int
    applied: Applied
    part: int
    parts: int
    groups: tuple[GroupMap, ...]


class Copies(msgspec.Struct, frozen=True):
    """A node's copies of one group, packed: by `partitions.encode_codes`, `pack_counters`, `pack_finished`."""

    states: bytes
    counters: bytes = b""
    finished: bytes = b""


class NodeMap(msgspec.Struct, frozen=True):
    """A whole map, in whatever number of records it travels. Its bytes stay packed: most are never looked at."""

    node: NodeId
    incarnation: Incarnation
    exchange: Position | None
    update_sequence: int
    applied: Applied
    groups: Mapping[str, Copies]


class UpdateCounter(msgspec.Struct, frozen=True, gc=False):
    """How many updates a copy has, without gaps: now, and at its checkpoint or at the start of MOVING (EX30)."""

    initial: int
    current: int


class Finished(msgspec.Struct, frozen=True, gc=False):
    """What a node has done with a copy since the log made it MOVING or RENTING, at position `since`.

    If it is OWNING now, it has loaded it from the primary of `token`; if it is EVICTED, it has cleared it (token 0).
    """

    since: Position
    token: Position


class Assembly(msgspec.Struct, frozen=True):
    """The newest map of one node of which a part has come: its parts so far, none once it was whole."""

    incarnation: Incarnation
    update_sequence: int
    parts: Mapping[int, SinglePartitionMap]
    is_done: bool = False


# Parts.


def split_map(whole: NodeMap, bytes_max: int = RECORD_BYTES_MAX) -> list[SinglePartitionMap]:
    """The map as records of at most `bytes_max` bytes; equal states of several groups are in it once (EX30).

    Raises BadInput for a map of more than PARTS_MAX parts.
    """
    parts = list(_filled(_entries(whole.groups), bytes_max - _HEAD_BYTES - len(whole.node.encode())))
    if len(parts) > PARTS_MAX:
        raise BadInput(f"The map of node {whole.node!r} has {len(parts)} parts, at most {PARTS_MAX} can be sent.")
    return [
        SinglePartitionMap(
            node=whole.node,
            incarnation=whole.incarnation,
            exchange=whole.exchange,
            update_sequence=whole.update_sequence,
            applied=whole.applied,
            part=number,
            parts=len(parts),
            groups=groups,
        )
        for number, groups in enumerate(parts)
    ]


def assemble(
    before: Assembly | None, part: SinglePartitionMap
) -> tuple[Assembly, tuple[SinglePartitionMap, ...] | None]:
    """What has come of the node's newest map with this part, and all its parts in order, once, when the last has come.

    Parts may come in any order and again. Those of an older map, and any that contradict one that is here, change
    nothing; the parts of a newer map or of another incarnation put an end to this one.
    """
    assert 0 <= part.part < part.parts <= PARTS_MAX, "a part that contradicts itself is refused before"
    if before is None or before.incarnation != part.incarnation or before.update_sequence < part.update_sequence:
        before = Assembly(part.incarnation, part.update_sequence, {})
    is_of_it = before.update_sequence == part.update_sequence and not before.is_done
    other = next(iter(before.parts.values()), part)
    if not is_of_it or part.part in before.parts or _head(part) != _head(other):
        return before, None
    parts = {**before.parts, part.part: part}
    if len(parts) < part.parts:
        return msgspec.structs.replace(before, parts=parts), None
    return msgspec.structs.replace(before, parts={}, is_done=True), tuple(parts[number] for number in sorted(parts))


def joined(parts: tuple[SinglePartitionMap, ...]) -> NodeMap:
    """The map that all its parts, in order, make; raises Undecodable if its entries contradict each other."""
    pieces: list[_Pieces] = []
    names: set[str] = set()
    for entry in (entry for part in parts for entry in part.groups):
        if pieces and pieces[-1].group == entry.group and entry.same_as is None:
            pieces[-1].go_on(entry)
        elif entry.group in names:
            raise Undecodable(f"A map tells twice of group {entry.group!r}.")
        else:
            names.add(entry.group)
            pieces.append(_Pieces(entry, pieces))
    first = parts[0]
    groups = {each.group: each.copies() for each in pieces}
    return NodeMap(first.node, first.incarnation, first.exchange, first.update_sequence, first.applied, groups)


class _Pieces:
    """One group of a map that is being put together."""

    def __init__(self, entry: GroupMap, before: Sequence["_Pieces"]) -> None:
        self.group = entry.group
        self._shared: bytes | None = None
        self._states: list[bytes] = []
        self._counters: list[bytes] = []
        self._finished: list[bytes] = []
        if entry.same_as is not None:
            if not 0 <= entry.same_as < len(before):
                raise Undecodable(f"A map refers for group {entry.group!r} to a group that does not stand before it.")
            self._shared = before[entry.same_as].states()
        self.go_on(entry)

    def go_on(self, entry: GroupMap) -> None:
        if self._shared is not None and entry.states:
            raise Undecodable(f"A map has states for group {entry.group!r} and refers to another's.")
        self._states.append(entry.states)
        self._counters.append(entry.counters)
        self._finished.append(entry.finished)

    def states(self) -> bytes:
        """Called when the group is complete, by each that refers to it: the pieces are joined but once."""
        if self._shared is None:
            self._shared = b"".join(self._states)
        return self._shared

    def copies(self) -> Copies:
        return Copies(self.states(), b"".join(self._counters), b"".join(self._finished))


def _head(part: SinglePartitionMap) -> SinglePartitionMap:
    """What all parts of a map have in common."""
    return msgspec.structs.replace(part, part=0, groups=())


def _entries(groups: Mapping[str, Copies]) -> Iterator[GroupMap]:
    """One entry a group, those with the states of an earlier one by reference."""
    first: dict[bytes, int] = {}
    for number, (name, copies) in enumerate(groups.items()):
        same_as = first.setdefault(copies.states, number)
        if same_as == number:
            yield GroupMap(name, copies.states, None, copies.counters, copies.finished)
        else:
            yield GroupMap(name, b"", same_as, copies.counters, copies.finished)


def _filled(entries: Iterable[GroupMap], bytes_max: int) -> Iterator[tuple[GroupMap, ...]]:
    """The entries of part after part, those that are cut because they are too large included."""
    filling: list[GroupMap] = []
    room = bytes_max
    for entry in entries:
        rest: GroupMap | None = entry
        while rest is not None:
            overhead = _ENTRY_BYTES + len(rest.group.encode())
            if filling and room < overhead + min(_PIECE_BYTES_MIN, _body_bytes(rest)):
                yield tuple(filling)
                filling, room = [], bytes_max
            piece, rest = _cut(rest, room - overhead)
            filling.append(piece)
            room -= overhead + _body_bytes(piece)
    yield tuple(filling)


def _body_bytes(entry: GroupMap) -> int:
    return len(entry.states) + len(entry.counters) + len(entry.finished)


def _cut(entry: GroupMap, room: int) -> tuple[GroupMap, GroupMap | None]:
    """The first `room` bytes of an entry, and what goes on after them."""
    assert room > 0, "no byte of a group fits a part"
    if _body_bytes(entry) <= room:
        return entry, None
    states = min(room, len(entry.states))
    counters = min(room - states, len(entry.counters))
    finished = room - states - counters
    piece = GroupMap(
        entry.group, entry.states[:states], entry.same_as, entry.counters[:counters], entry.finished[:finished]
    )
    rest = GroupMap(entry.group, entry.states[states:], None, entry.counters[counters:], entry.finished[finished:])
    return piece, rest


# Numbers by partition.

NUMBER_MAX = (1 << 63) - 1
"""The largest counter or position, as in Avro's long."""

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_WIDTHS = 3  # one byte for each column

_Columns = tuple[Sequence[int], Sequence[int], Sequence[int]]


def pack_counters(counters: Mapping[int, UpdateCounter]) -> bytes:
    """The counters of a persistent group (EX30); raises BadInput for one that is below its initial value."""
    if any(counter.current > NUMBER_MAX for counter in counters.values()):
        raise BadInput("An update counter is above 2^63 - 1.")
    partitions = sorted(counters)
    initial = [counters[partition].initial for partition in partitions]
    growth = [counters[partition].current - counters[partition].initial for partition in partitions]
    return _packed((partitions, initial, growth))


def unpack_counters(packed: bytes, partitions: int) -> dict[int, UpdateCounter]:
    """The counters, partitions ascending; raises Undecodable, OutOfRange for partitions that the group has not."""
    numbers, initial, growth = _unpacked_counters(packed, partitions)
    return {
        partition: UpdateCounter(start, start + grown)
        for partition, start, grown in zip(numbers, initial, growth, strict=True)
    }


def pack_finished(finished: Mapping[int, Finished]) -> bytes:
    """DS6: what is finished, by partition."""
    partitions = sorted(finished)
    return _packed(
        (partitions, [finished[each].since for each in partitions], [finished[each].token for each in partitions])
    )


def unpack_finished(packed: bytes, partitions: int) -> dict[int, Finished]:
    """What is finished, partitions ascending; raises as `unpack_counters` does."""
    numbers, since, token = _unpacked(packed, partitions)
    return {
        partition: Finished(Position(at), Position(of)) for partition, at, of in zip(numbers, since, token, strict=True)
    }


def check_numbers(copies: Copies, partitions: int) -> None:
    """Raise what `unpack_counters` and `unpack_finished` would, which cost ten times as much."""
    _unpacked_counters(copies.counters, partitions)
    _unpacked(copies.finished, partitions)


def _packed(columns: _Columns) -> bytes:
    """Columns of one width each, for they are read at once, and hundreds of nodes send theirs to one coordinator."""
    if not columns[0]:
        return b""
    for column in columns:
        if min(column) < 0 or max(column) > NUMBER_MAX:
            raise BadInput(f"Numbers by partition must be from 0 to 2^63 - 1, not {min(column)} to {max(column)}.")
    widths = [next(width for width in _FORMATS if max(column) < 1 << 8 * width) for column in columns]
    packed = (
        struct.pack(f"<{len(column)}{_FORMATS[width]}", *column) for column, width in zip(columns, widths, strict=True)
    )
    return bytes(widths) + b"".join(packed)


def _unpacked_counters(packed: bytes, partitions: int) -> _Columns:
    numbers, initial, growth = _unpacked(packed, partitions)
    if max(map(operator.add, initial, growth), default=0) > NUMBER_MAX:
        raise Undecodable("There are update counters above 2^63 - 1.")
    return numbers, initial, growth


def _unpacked(packed: bytes, partitions: int) -> _Columns:
    if not packed:
        return (), (), ()
    widths, body = packed[:_WIDTHS], packed[_WIDTHS:]
    if len(widths) < _WIDTHS or not set(widths) <= set(_FORMATS) or len(body) % sum(widths):
        raise Undecodable(f"{len(packed)} bytes are no three columns of numbers by partition.")
    count = len(body) // sum(widths)
    if count > partitions:
        raise OutOfRange(f"There are numbers for {count} partitions of a group of {partitions}.")
    columns = struct.unpack("<" + "".join(f"{count}{_FORMATS[width]}" for width in widths), body)
    numbers, first, second = columns[:count], columns[count : 2 * count], columns[2 * count :]
    if not all(map(operator.lt, numbers, numbers[1:])):
        raise Undecodable("There are numbers for partitions that do not ascend.")
    if numbers and numbers[-1] >= partitions:
        raise OutOfRange(f"There are numbers for partition {numbers[-1]} of a group of {partitions} partitions.")
    if max(first, default=0) > NUMBER_MAX or max(second, default=0) > NUMBER_MAX:
        raise Undecodable("There are numbers by partition above 2^63 - 1.")
    return numbers, first, second
