"""What an exchange makes of many partitions: each situation is decided once, by the rule of `outcome.py`.

When one of three hundred nodes dies, ten thousand of a million partitions are in question, and most of them are in one
of a few situations: the primary is gone, the first backup owns and is wanted, a third node is wanted and has nothing.
The rule does not ask which nodes these are. So nodes are named by their part (the first that is wanted, the second …,
then whoever else holds a copy, in the order of their numbers), partitions whose situations read the same are found by
their bytes, and what the rule says of one holds for all.

Nothing of the rule is repeated here. What it may look at must be in the situation: that is what a test of this file is
about, which compares with the rule asked partition by partition.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from topolog.events.changes import Changes
from topolog.events.ids import Position
from topolog.events.ownership import (
    STATES,
    Change,
    Copy,
    NodeNumber,
    Ownership,
    Wanted,
    in_question,
)
from topolog.events.ownership_columns import (
    NOBODY,
    WANTED,
    Columns,
    OwnershipRow,
    any_copy,
    compact,
    pieces,
)
from topolog.events.partitions import PartitionState
from topolog.streams.rules.outcome import Ask, Present, as_change, waits

Outcome = Callable[[Ownership, Sequence[NodeNumber], Mapping[NodeNumber, Present], Ask], Change]
Together = Callable[[Sequence[OwnershipRow]], Columns]
"""The columns of these rows, one after the other, not to be changed."""


def side_by_side(rows: Sequence[OwnershipRow]) -> Columns:
    return Columns(*rows)


Marks = NDArray[np.bool_]
Places = NDArray[np.int64]
"""Which part, by line; NO_PART where there is none."""

NO_PART = -1
_FORMER, _JOINED, _PRESENT = Position(0), Position(1), Position(2)
"""All that a situation says of positions: whether a copy is of the present life of its node; whether nobody had acted
any more when the reset was asked for."""


class Holdings(Protocol):
    """What the single map of a server says."""

    def whole(self, group: str) -> Collection[int]:
        """The partitions of which the node says that it has a whole copy."""

    def counters(self, group: str) -> Mapping[int, int]:
        """Update counters by partition."""


class Server(msgspec.Struct, frozen=True):
    """A member, and its map if it has sent one that counts. `joined_at`: the position of its joining; `is_heard`: it
    has answered, or has applied the question."""

    joined_at: int
    told: Holdings | None = None
    is_heard: bool = True


class Servers:
    """All members, by number."""

    def __init__(self, servers: Mapping[NodeNumber, Server]) -> None:
        self._servers = servers
        count = max(servers, default=NO_PART) + 2  # the last one is nobody
        self._joined_at = np.full(count, np.iinfo(np.int64).max)
        self._is_member, self._is_heard, self._has_answered = (np.zeros(count, np.bool_) for _ in range(3))
        for number, server in servers.items():
            self._joined_at[number], self._is_member[number] = server.joined_at, True
            self._is_heard[number], self._has_answered[number] = server.is_heard, server.told is not None

    def told(self, number: NodeNumber) -> Holdings:
        told = self._servers[number].told
        assert told is not None, "it has answered"
        return told

    def joined_at(self, numbers: NDArray[np.uint16]) -> NDArray[np.int64]:
        return self._joined_at[self._at(numbers)]

    def is_member(self, numbers: NDArray[np.uint16]) -> Marks:
        return self._is_member[self._at(numbers)]

    def is_heard(self, numbers: NDArray[np.uint16]) -> Marks:
        return self._is_heard[self._at(numbers)]

    def has_answered(self, numbers: NDArray[np.uint16]) -> Marks:
        return self._has_answered[self._at(numbers)]

    def _at(self, numbers: NDArray[np.uint16]) -> NDArray[np.int64]:
        return np.minimum(numbers, len(self._joined_at) - 1).astype(np.int64)


class Outcomes(msgspec.Struct, frozen=True):
    """What changes, and whom partitions still wait for; `maps` are those of them whose maps are needed."""

    changes: Changes
    waits_for: frozenset[NodeNumber]
    maps: frozenset[NodeNumber]


def outcomes(
    rows: Sequence[OwnershipRow],
    wanted: Wanted,
    servers: Servers,
    ask: Ask,
    rule: Outcome,
    together: Together = side_by_side,
) -> Outcomes:
    """What `rule` changes of the partitions of a group, all of whose rows these are; `wanted` is by partition."""
    columns = together(rows)
    lines = in_question(columns, wanted)
    parts_each = columns.holders.shape[1] + wanted.shape[1]
    found = [
        _Situations(rows[0].group, columns, some, wanted[some], servers, ask).decided(rule)
        for some in (lines[piece] for piece in pieces(len(lines), parts_each))
    ]
    return Outcomes(
        found[0].changes if len(found) == 1 else Changes.joined([each.changes for each in found]),
        frozenset().union(*(each.waits_for for each in found)),
        frozenset().union(*(each.maps for each in found)),
    )


class _Situations:
    """The partitions in question, a line each.

    `parts`: node numbers, first those that are wanted, last whoever acts without a copy. `copies`: by place the part
    that holds one; `is_present`: whether the log lists it of the present life of its node. By part: who is a member,
    who is heard, who has answered and says that it has a whole copy, and the order of counters where that may matter.
    """

    def __init__(
        self, group: str, columns: Columns, lines: NDArray[np.intp], wanted: Wanted, servers: Servers, ask: Ask
    ) -> None:
        self._group, self._lines, self._servers = group, lines, servers
        self._ask = ask if ask.reset_at is None else msgspec.structs.replace(ask, reset_at=_JOINED)
        self._is_given_up = columns.tokens[lines].astype(np.int64) < (ask.reset_at or 0)
        holders, states, since = compact(columns.holders[lines], columns.states[lines], columns.since[lines])
        self._wanted = (wanted != NOBODY).sum(axis=1)
        self._states, self._lost = states, columns.lost[lines]
        self._parts = _parts(wanted, holders, columns.acting[lines])
        self._copies = _places(self._parts, holders)
        self._acting = _places(self._parts, columns.acting[lines][:, np.newaxis])[:, 0]
        self._is_present = since.astype(np.int64) > servers.joined_at(holders)
        self._is_member, self._is_heard = servers.is_member(self._parts), servers.is_heard(self._parts)
        self._has_answered = servers.has_answered(self._parts)
        self._has_whole = self._told_whole()
        self._ranks = self._told_ranks()

    def decided(self, rule: Outcome) -> Outcomes:
        """What the rule makes of each, and whom they wait for."""
        situation, firsts = self._alike()
        asked = [self._asked(line) for line in firsts]
        waiting = [waits(*each) for each in asked]
        changes = self._changes(situation, [self._decide(each, rule) for each in asked])
        return Outcomes(
            changes,
            self._waited_for(situation, [each.servers for each in waiting]),
            self._waited_for(situation, [each.maps for each in waiting]),
        )

    def _waited_for(self, situation: NDArray[np.intp], parts: Sequence[Sequence[int]]) -> frozenset[NodeNumber]:
        """The nodes of these parts, by situation."""
        found: set[NodeNumber] = set()
        for number, some in enumerate(parts):
            if some:
                found.update(np.unique(self._parts[situation == number][:, list(some)]).tolist())
        return frozenset(found)

    def _changes(self, situation: NDArray[np.intp], after: Sequence[Change | None]) -> Changes:
        """Without those that stay as they are."""
        changes = [each for each in after if each is not None]
        width = max((len(each.copies) for each in changes), default=0)
        places, states = np.full((len(after), width), NO_PART), np.zeros((len(after), width), np.uint8)
        acting, lost = np.full(len(after), NO_PART), np.zeros(len(after), np.bool_)
        for number, each in enumerate(after):
            if each is not None:
                places[number, : len(each.copies)] = [copy.node for copy in each.copies]
                states[number, : len(each.copies)] = [_code(copy) for copy in each.copies]
                acting[number], lost[number] = NO_PART if each.acting is None else each.acting, each.is_lost
        is_changed = np.array([each is not None for each in after], np.bool_)
        lines = np.flatnonzero(is_changed[situation]) if len(situation) else np.zeros(0, np.intp)
        which, parts = situation[lines], self._parts[lines]
        return Changes(
            self._lines[lines].astype(np.int64),
            _numbers(parts, places[which]),
            states[which],
            _numbers(parts, acting[which][:, np.newaxis])[:, 0],
            lost[which],
        )

    def _may_matter(self) -> Marks:
        """Whose word about a copy the rule may look at: a copy that the log lists of a former life (DS10)."""
        matters = np.zeros(self._parts.shape, np.bool_)
        lines, places = np.nonzero((self._copies != NO_PART) & ~self._is_present)
        matters[lines, self._copies[lines, places]] = True
        return matters

    def _told_whole(self) -> Marks:
        has_whole = np.zeros(self._parts.shape, np.bool_)
        for line, part in np.argwhere(self._may_matter() & self._has_answered).tolist():
            told = self._servers.told(int(self._parts[line, part]))
            has_whole[line, part] = int(self._lines[line]) in told.whole(self._group)
        return has_whole

    def _told_ranks(self) -> NDArray[np.uint16]:
        """Counters matter where nobody acts and the first that is wanted is no owner that is heard: their order."""
        ranks = np.zeros(self._parts.shape, np.uint16)
        has = self._is_present | np.take_along_axis(self._has_whole, np.maximum(self._copies, 0), axis=1)
        first_owns = ((self._copies == 0) & has & (self._states & ~np.uint8(WANTED) == _OWNING)).any(axis=1)
        first_owns &= self._is_heard[:, 0]
        holds = any_copy(self._copies != NO_PART) & any_copy(self._has_answered)
        for line in np.flatnonzero((self._acting == NO_PART) & ~first_owns & holds).tolist():
            partition, heard = int(self._lines[line]), np.flatnonzero(self._has_answered[line]).tolist()
            numbers = [int(self._parts[line, part]) for part in heard]
            counters = [self._servers.told(number).counters(self._group).get(partition, 0) for number in numbers]
            order = sorted({0, *counters})
            ranks[line, heard] = [order.index(counter) for counter in counters]
        return ranks

    def _alike(self) -> tuple[NDArray[np.intp], list[int]]:
        """By line the number of its situation; of each situation the first line."""
        flags = self._is_member | self._is_heard << 1 | self._has_whole << 2 | self._has_answered << 3
        by_line = (self._wanted, self._lost, self._acting, self._is_given_up)
        by_place = (self._copies, self._states, self._is_present, flags, self._ranks)
        table = np.hstack(
            [
                *(each[:, np.newaxis].astype(np.uint16) for each in by_line),
                *(each.astype(np.uint16) for each in by_place),
            ]
        )
        written, size = table.tobytes(), table.itemsize * table.shape[1]
        numbers: dict[bytes, int] = {}
        found = [numbers.setdefault(written[at : at + size], len(numbers)) for at in range(0, len(written), size)]
        firsts: dict[int, int] = {}
        for line, number in enumerate(found):
            firsts.setdefault(number, line)
        return np.array(found, np.intp), list(firsts.values())

    def _asked(self, line: int) -> tuple[Ownership, list[int], dict[int, Present], Ask]:
        """What the rule is asked of this situation, in which parts are nodes."""
        acting = int(self._acting[line])
        before = Ownership(
            0,
            tuple(self._copies_of(line)),
            None if acting == NO_PART else acting,
            _FORMER if self._is_given_up[line] else _PRESENT,
            bool(self._lost[line]),
        )
        by_part = (self._is_member, self._has_whole, self._ranks, self._has_answered, self._is_heard)
        present = {
            part: Present(_JOINED, bool(whole), int(rank), has_answered=bool(answered), is_heard=bool(heard))
            for part, (member, whole, rank, answered, heard) in enumerate(
                zip(*(each[line] for each in by_part), strict=True)
            )
            if member
        }
        return before, list(range(int(self._wanted[line]))), present, self._ask

    def _decide(self, asked: tuple[Ownership, list[int], dict[int, Present], Ask], rule: Outcome) -> Change | None:
        """What the rule makes of it; None if nothing."""
        after = rule(*asked)
        return None if after == as_change(asked[0]) else after

    def _copies_of(self, line: int) -> Iterator[Copy]:
        columns = (each[line].tolist() for each in (self._copies, self._states, self._is_present))
        for part, code, is_present in zip(*columns, strict=True):
            if part != NO_PART:
                yield Copy(part, STATES[code & ~WANTED], bool(code & WANTED), _PRESENT if is_present else _FORMER)


_OWNING = PartitionState.OWNING.code


def _code(copy: Copy) -> int:
    return copy.state.code | (WANTED if copy.wanted else 0)


def _parts(wanted: Wanted, holders: NDArray[np.uint16], acting: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Whoever has a part in each line: the wanted nodes in order, then who else holds a copy, by number, then who acts
    without one."""
    is_wanted = (holders[:, :, np.newaxis] == wanted[:, np.newaxis, :]).any(axis=2)
    others = np.sort(np.where(is_wanted, NOBODY, holders), axis=1)
    parts = np.hstack((wanted, others))
    acts_besides = ~any_copy(parts == acting[:, np.newaxis])
    return np.hstack((parts, np.where(acts_besides, acting, NOBODY)[:, np.newaxis])).astype(np.uint16)


def _places(parts: NDArray[np.uint16], nodes: NDArray[np.uint16]) -> Places:
    """The part of each node."""
    found = (nodes[:, :, np.newaxis] == parts[:, np.newaxis, :]).argmax(axis=2)
    return np.where(nodes == NOBODY, NO_PART, found)


def _numbers(parts: NDArray[np.uint16], places: Places) -> NDArray[np.uint16]:
    """The node of each part."""
    found = np.take_along_axis(parts, np.maximum(places, 0), axis=1)
    return np.where(places == NO_PART, NOBODY, found).astype(np.uint16)
