"""Which nodes should hold a partition's copies: rendezvous hashing, exactly as Apache Ignite computes it (EX5-EX7).

Threat. Coordinator, node and projector each work the ideal assignment out for themselves, a later coordinator does it
anew, and clients send keys where it says. Two answers would be two primaries, or a key looked for where it is not.

Invariant. The ids chosen are a function of the *set* of candidates and the placement alone: neither order nor history
counts. Where no rule keeps nodes apart, a node that joins moves no copy between others, nor does one that leaves (EX6).

Argument. Each node has, for each partition, a 64-bit hash of its id and the partition's number; the smallest one is the
primary, the next ones are backups. A node changes no hash but its own, so all others keep their order. Thomas Wang's
mix is one-to-one, hence two nodes tie only where the Java hashes of their ids are equal, as those of «Aa» and «BB»: in
every partition, then. Ignite lets the random id of the process life decide, which no log knows; here the node id does.

A partition's hashes know neither group nor backups: groups of one placement have one ideal assignment, and with fewer
partitions it is the beginning of the one with more.

Speed. All hashes of some hundred partitions fit the processor's cache and are made by a dozen passes over it. The few
smallest are then found one after the other: cheaper than sorting, equal hashes keep the order of ids, and whoever may
not stand beside the one just chosen is struck out before the next is looked for. `ideal_after` goes on from the
assignment before a join or a loss, and computes only the partitions that it may touch.
"""

import functools
import struct
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from topolog.events.errors import BadInput
from topolog.events.group_definition import PARTITIONS_MAX, GroupDefinition
from topolog.events.ids import NodeId

CANDIDATES_MAX = 32_767
"""What an index of 16 bits can name."""

NOBODY = -1
"""The index that stands where there is no copy."""

KeyType = Literal["long", "int"]
Indexes = npt.NDArray[np.int16]
Partitions = npt.NDArray[np.uint64]
Hashes = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

_HASHES_AT_ONCE = 40_000
"""320 kB, and as much again for a step's result: measured best with 2 MB of cache to a processor."""

_STRUCK_OUT = np.iinfo(np.int64).max
"""No candidate's hash: the mix gives it only to partition 1,224,901,242."""

_MASK = 0xFFFFFFFF
_STEP = np.uint64((1 << 21) - 1)
_STEP_OF_PARTITION = np.uint64(((1 << 21) - 1 << 32) & (1 << 64) - 1)


class Candidate(msgspec.Struct, frozen=True):
    """A node that may hold copies; `attributes` as it gave them when it joined."""

    node: NodeId
    attributes: Mapping[str, str] = {}


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """What a group says of where its copies may lie; hashable, so that equal ones are computed once.

    `node_filter`: (attribute, value) pairs, all of which a node must have. `exclude_neighbours_by`: an attribute, such
    as `host`; nodes of one value are neighbours, and hold a copy of one partition each only where there are too few
    others (EX7). `backup_filter`: attributes, such as `rack`; nodes that agree in all of them never hold copies of one
    partition, rather there are fewer backups; ignored with neighbours, as in Ignite (EX7). A node that lacks an
    attribute is like no other. Raises BadInput for numbers of partitions or backups that cannot be.
    """

    partitions: int
    backups: int
    node_filter: tuple[tuple[str, str], ...] = ()
    exclude_neighbours_by: str = ""
    backup_filter: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_partitions(self.partitions)
        if self.backups < 0:
            raise BadInput(f"A group cannot have {self.backups} backups.", hint="0 or more.")

    @classmethod
    def of(cls, group: GroupDefinition) -> "Placement":
        affinity = group.affinity
        return cls(
            partitions=group.partitions,
            backups=group.backups,
            node_filter=tuple(sorted(affinity.node_filter.items())),
            exclude_neighbours_by=affinity.exclude_neighbours_by,
            backup_filter=(affinity.backup_filter,) if affinity.backup_filter else (),
        )


class _Field(NamedTuple):
    """The candidates that pass the node filter, in the order of their ids; all arrays are as long as they are many.

    `indexes` says where each was given. Of those with one label only one may hold a copy of a partition in the first
    pass; `distinct` if there are no two such.
    """

    indexes: Indexes
    java_hashes: Partitions
    labels: Indexes
    distinct: bool


def assign(node_ids: Sequence[str], partitions: int, backups: int) -> list[list[int]]:
    """For each partition the indexes of its nodes, primary first; min(backups + 1, nodes) of them (EX6).

    Raises BadInput for 0 or more than 65,000 partitions, for negative backups and for an id that is given twice.
    """
    candidates = [Candidate(NodeId(node)) for node in node_ids]
    assignment: list[list[int]] = ideal(candidates, Placement(partitions=partitions, backups=backups)).tolist()
    return assignment


def partition_of(key: str | int | None, partitions: int, key_type: KeyType = "long") -> int:
    """The partition that a key lies in (EX5); an int counts as a Java long, or as a Java int if `key_type` says so.

    Raises BadInput for no key, one that is neither str nor int, an int out of range, and a wrong count of partitions.
    """
    _check_partitions(partitions)
    java_hash = _hash_of_key(key, key_type)
    if partitions & (partitions - 1) == 0:
        return (java_hash ^ java_hash >> 16) & (partitions - 1)
    signed = java_hash - (1 << 32) if java_hash >> 31 else java_hash
    return abs(signed) % partitions


def ideal(candidates: Sequence[Candidate], placement: Placement) -> Indexes:
    """Indexes into `candidates`, shape (partitions, min(backups + 1, candidates)): primary first, NOBODY at the end.

    NOBODY stands where filters leave fewer nodes than copies; a partition without any node has it in the first place
    too. Read-only, for groups share it. Raises BadInput if a node is given twice, or more than 32,767 are.
    """
    field = _field(candidates, placement)
    partitions = np.arange(placement.partitions, dtype=np.uint64)
    assignment = _choose(field, partitions, min(placement.backups + 1, len(candidates)), placement)
    assignment.flags.writeable = False
    return assignment


def ideal_after(
    previous: Indexes, before: Sequence[Candidate], now: Sequence[Candidate], placement: Placement
) -> Indexes:
    """`ideal(now, placement)`, the cheaper the less has changed since `previous == ideal(before, placement)`.

    A partition keeps its nodes if all of them are still there, with the attributes they had, and whoever came would
    have been looked at only after the last of them had been found.
    """
    width = min(placement.backups + 1, len(now))
    if previous.shape != (placement.partitions, width) or width == 0:
        return ideal(now, placement)
    field = _field(now, placement)
    known = {candidate.node: candidate for candidate in before}
    came = np.array([known.get(now[index].node) != now[index] for index in field.indexes], dtype=bool)
    moved_to = _moved_to(before, now)
    assignment = moved_to[previous]
    partitions = np.arange(placement.partitions, dtype=np.uint64)
    stale = ((assignment == NOBODY) & (previous != NOBODY)).any(axis=1)
    if came.any():
        stale |= _may_be_joined_by(came, field, assignment, partitions, len(now))
    changed = np.flatnonzero(stale)
    assignment[changed] = _choose(field, partitions[changed], width, placement)
    assignment.flags.writeable = False
    return assignment


def _moved_to(before: Sequence[Candidate], now: Sequence[Candidate]) -> Indexes:
    """Index now of each candidate before, NOBODY if it is gone or another; so is the last, for what was NOBODY."""
    index_now = {candidate.node: index for index, candidate in enumerate(now)}
    moved_to = np.full(len(before) + 1, NOBODY, np.int16)
    for index, candidate in enumerate(before):
        place = index_now.get(candidate.node)
        if place is not None and now[place] == candidate:
            moved_to[index] = place
    return moved_to


def _may_be_joined_by(
    came: Marks, field: _Field, assignment: Indexes, partitions: Partitions, candidates: int
) -> Marks:
    """Which partitions newcomers may concern: a place is free, neighbours share it, or one comes before its last."""
    place = np.zeros(candidates + 1, np.intp)  # in the field, of each index into the candidates; the last is NOBODY's
    place[field.indexes] = np.arange(len(field.indexes))
    chosen = place[assignment]
    labels = np.sort(field.labels[chosen], axis=1)
    concerned: Marks = np.any(assignment == NOBODY, axis=1) | np.any(labels[:, 1:] == labels[:, :-1], axis=1)
    last = _mixed(field.java_hashes[chosen[:, -1]], partitions)
    for java_hash in field.java_hashes[came]:
        concerned |= _mixed(java_hash, partitions) <= last
    return concerned


def _field(candidates: Sequence[Candidate], placement: Placement) -> _Field:
    if len(candidates) > CANDIDATES_MAX:
        raise BadInput(f"{len(candidates)} nodes are more than the {CANDIDATES_MAX} that can share partitions.")
    ids = [candidate.node for candidate in candidates]
    if len(set(ids)) < len(ids):
        twice = next(node for node in ids if ids.count(node) > 1)
        raise BadInput(f"Node {twice!r} is given twice.")
    order = sorted(range(len(candidates)), key=ids.__getitem__)
    passing = [index for index in order if set(placement.node_filter) <= candidates[index].attributes.items()]
    apart_by = (placement.exclude_neighbours_by,) if placement.exclude_neighbours_by else placement.backup_filter
    number_of: dict[Hashable, int] = {}
    labels = [number_of.setdefault(_likeness(candidates[index], apart_by), len(number_of)) for index in passing]
    return _Field(
        np.array(passing, dtype=np.int16),
        np.array([_hash_of_id(ids[index]) for index in passing], dtype=np.uint64),
        np.array(labels, dtype=np.int16),
        len(number_of) == len(passing),
    )


def _likeness(candidate: Candidate, attributes: tuple[str, ...]) -> Hashable:
    """What candidates that must stand apart have in common: the values, or its own id if it lacks any of them."""
    values = tuple(candidate.attributes.get(attribute) for attribute in attributes)
    return values if values and None not in values else candidate.node


def _choose(field: _Field, partitions: Partitions, width: int, placement: Placement) -> Indexes:
    """The nodes of each of these partitions, as `ideal` gives them; some partitions at a time."""
    chosen = np.full((len(partitions), width), NOBODY, np.int16)
    if len(field.indexes) == 0:
        return chosen
    rows = max(1, _HASHES_AT_ONCE // len(field.indexes))
    for start in range(0, len(partitions), rows):
        some = slice(start, start + rows)
        _pick(_mixed(field.java_hashes, partitions[some, np.newaxis]), None if field.distinct else field, chosen[some])
        if placement.exclude_neighbours_by and not field.distinct:
            _fill_up(field, partitions[some], chosen[some])
    return np.append(field.indexes, np.int16(NOBODY))[chosen]


def _pick(hashes: Hashes, apart: _Field | None, chosen: Indexes) -> None:
    """Fill each row with places in the field, smallest hash first; each strikes itself out, or all of its label."""
    row = np.arange(len(hashes))
    for rank in range(chosen.shape[1]):
        best = hashes.argmin(axis=1)
        chosen[:, rank] = np.where(hashes[row, best] == _STRUCK_OUT, NOBODY, best)
        if apart is None:
            hashes[row, best] = _STRUCK_OUT
        else:
            hashes[apart.labels == apart.labels[best][:, np.newaxis]] = _STRUCK_OUT


def _fill_up(field: _Field, partitions: Partitions, chosen: Indexes) -> None:
    """Where too few candidates are apart, put neighbours behind them, in place: the second pass of EX7."""
    short = np.flatnonzero(chosen[:, -1] == NOBODY)
    first = chosen[short]
    hashes = _mixed(field.java_hashes, partitions[short, np.newaxis])
    row, rank = np.nonzero(first != NOBODY)
    hashes[row, first[row, rank]] = _STRUCK_OUT
    second = np.empty_like(first)
    _pick(hashes, None, second)
    both = np.hstack((first, second))
    order = np.argsort(both == NOBODY, axis=1, kind="stable")
    chosen[short] = np.take_along_axis(both, order, axis=1)[:, : first.shape[1]]


def _mixed(java_hashes: Partitions | np.uint64, partitions: Partitions) -> Hashes:
    """Thomas Wang's 64-bit mix of k = (partition, Java hash of the node's id), for arguments that broadcast (EX6).

    Its shifts and sums are products; the first, ~k + (k << 21), is the sum of a node's part and a partition's.
    """
    mixed = java_hashes * _STEP + (partitions * _STEP_OF_PARTITION - 1)
    mixed ^= mixed >> 24
    mixed *= 265
    mixed ^= mixed >> 14
    mixed *= 21
    mixed ^= mixed >> 28
    mixed *= (1 << 31) + 1
    return mixed.view(np.int64)


def _hash_of_text(text: str) -> int:
    """Java's String.hashCode, as an unsigned number: over UTF-16 units, so that a surrogate pair counts twice."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        value = (31 * value + unit) & _MASK
    return value


_hash_of_id = functools.lru_cache(CANDIDATES_MAX)(_hash_of_text)


def _hash_of_key(key: str | int | None, key_type: KeyType) -> int:
    """Java's hashCode of a String, Integer or Long, as an unsigned number."""
    if key_type not in ("long", "int"):
        raise BadInput(f"There is no type of key {key_type!r}.", hint='"long" or "int".')
    if isinstance(key, str):
        return _hash_of_text(key)
    if not isinstance(key, int) or isinstance(key, bool):
        raise BadInput(f"A key is a text or a whole number, not {key!r}.", hint="Without a key there is no partition.")
    bits = 64 if key_type == "long" else 32
    if not -(1 << bits - 1) <= key < 1 << bits - 1:
        raise BadInput(f"The key {key} does not fit a Java {key_type}.", hint=f"It has {bits} bits, one for the sign.")
    return (key ^ key >> 32) & _MASK if key_type == "long" else key & _MASK


def _check_partitions(partitions: int) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise BadInput(f"A group cannot have {partitions} partitions.", hint=f"From 1 to {PARTITIONS_MAX}.")
