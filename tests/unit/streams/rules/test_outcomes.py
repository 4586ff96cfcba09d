"""Many partitions at once: the columns say what the rule says of one partition after the other (EX34).

The plain forms stand here, a change at a time; the product's must give the same bytes for any rows, wishes and maps.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events import ownership as o
from topolog.events.changes import Changes, apply, pack_changes, unpacked
from topolog.events.ids import Incarnation, NodeId, Place, Position, Slot, Term
from topolog.events.leases import NodeKind, NodeRow, Standing
from topolog.events.ownership import (
    Change,
    Copy,
    NodeNumber,
    Ownership,
    Wanted,
)
from topolog.events.ownership_columns import NOBODY, PARTITIONS_PER_ROW, WANTED, Columns, OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.state import State
from topolog.streams.rules.outcome import Ask, Present, as_change, outcome, waits
from topolog.streams.rules.outcomes import Server, Servers, outcomes

NODES = 4
PLACE = Place(Position(1_000), b"", Term(1))


class Told(msgspec.Struct, frozen=True):
    """A map: update counters of the whole copies."""

    counted: Mapping[int, int]

    def whole(self, _: str) -> Collection[int]:
        return self.counted.keys()

    def counters(self, _: str) -> Mapping[int, int]:
        return self.counted


states = st.sampled_from([each for each in PartitionState if each is not PartitionState.EVICTED])
nodes = st.integers(0, NODES - 1)
copies = st.builds(Copy, nodes, states, st.booleans())


@st.composite
def held(draw: st.DrawFn) -> tuple[tuple[Copy, ...], NodeNumber | None, bool]:
    """What the log has of a partition: mostly what may be, for anything must be decided alike."""
    found = draw(st.lists(copies, max_size=NODES, unique_by=lambda copy: copy.node))
    acting = draw(st.none() | st.sampled_from([copy.node for copy in found])) if found else None
    return tuple(found), acting, acting is None and draw(st.booleans())


@st.composite
def servers(draw: st.DrawFn, partitions: int) -> dict[NodeNumber, Server]:
    found = {}
    for node in draw(st.sets(nodes)):
        told = draw(st.none() | st.dictionaries(st.integers(0, partitions - 1), st.integers(0, 3)).map(Told))
        found[node] = Server(draw(st.sampled_from([0, 10, 20])), told, is_heard=told is not None or draw(st.booleans()))
    return found


@st.composite
def cases(
    draw: st.DrawFn,
) -> tuple[State, list[tuple[int, ...]], dict[NodeNumber, Server], Ask]:
    """Partitions of a few kinds, so that many are alike in all but what one column says."""
    partitions = draw(st.integers(1, 12))
    state = State()
    o.enrol(state, [f"n{number}" for number in range(NODES)])
    for row in o.empty_rows("g", partitions):
        state.put(o.row_key("g", row.first), row)
    here = draw(servers(partitions))
    wishes = st.lists(st.sampled_from(sorted(here)), max_size=3, unique=True).map(tuple) if here else st.just(())
    kinds = draw(st.lists(st.tuples(held(), wishes), min_size=1, max_size=3))
    wanted: list[tuple[int, ...]] = []
    for partition in range(partitions):
        (found, acting, lost), wish = draw(st.sampled_from(kinds))
        at = Place(Position(draw(st.sampled_from([5, 15]))), b"", Term(1))
        apply(state, "g", pack_changes([Change(partition, found, acting, lost ^ draw(st.booleans()))]), at)
        wanted.append(wish)
    for node in draw(st.sets(nodes, max_size=2)):
        leave(state, node)
    return (
        state,
        wanted,
        here,
        draw(st.builds(Ask, st.booleans(), st.sampled_from([None, Position(1), Position(10), Position(31)]))),
    )


Asked = tuple[Ownership, Sequence[NodeNumber], Mapping[NodeNumber, Present], Ask]


def each_in_question(
    rows: Sequence[OwnershipRow], wanted: Sequence[Sequence[int]], here: Mapping[NodeNumber, Server], ask: Ask
) -> Iterator[Asked]:
    for row in rows:
        for before in o.ownerships(row, range(row.first, row.first + row.count)):
            concerned = {*wanted[before.partition], *(copy.node for copy in before.copies)}
            present = {node: _present(here[node], before.partition) for node in concerned if node in here}
            if _is_in_question(before, wanted[before.partition]):
                yield before, wanted[before.partition], present, ask


def one_by_one(
    rows: Sequence[OwnershipRow], wanted: Sequence[Sequence[int]], here: Mapping[NodeNumber, Server], ask: Ask
) -> Iterator[Change]:
    for asked in each_in_question(rows, wanted, here, ask):
        after = outcome(*asked)
        if after != as_change(asked[0]):
            yield after


def _present(server: Server, partition: int) -> Present:
    if not isinstance(server.told, Told):
        return Present(server.joined_at, has_answered=False, is_heard=server.is_heard)
    counters = server.told.counted
    return Present(server.joined_at, partition in counters, counters.get(partition, 0), is_heard=server.is_heard)


def _is_in_question(before: Ownership, wanted: Sequence[NodeNumber]) -> bool:
    """Somebody acts, and those that are wanted are held as such in their order: there an outcome changes nothing."""
    serving = (PartitionState.OWNING, PartitionState.MOVING)
    first = before.copies[: len(wanted)]
    is_alike = [copy.node for copy in first if copy.wanted and copy.state in serving] == list(wanted)
    return before.acting is None or not is_alike or any(copy.wanted for copy in before.copies[len(wanted) :])


def leave(state: State, node: NodeNumber) -> None:
    """Leaves empty places between the copies."""
    for key, row in list(state.rows(OwnershipRow)):
        state.put(key, o.without([row], node, Place(Position(30), b"", Term(1)))[0] or row)


def rows_of(state: State) -> list[OwnershipRow]:
    return [row for _, row in state.rows(OwnershipRow)]


def as_wanted(wanted: Sequence[Sequence[int]]) -> Wanted:
    width = max(1, *map(len, wanted)) if wanted else 1
    return np.array([[*each, *[NOBODY] * (width - len(each))] for each in wanted], dtype="<u2")


@given(cases())
def test_many_outcomes_are_those_of_each(
    case: tuple[State, list[tuple[int, ...]], dict[NodeNumber, Server], Ask],
) -> None:
    """Whatever the rows, wishes, maps and counters are; and they travel as the same bytes. Whom partitions wait for is
    whom one of them waits for (DS10)."""
    state, wanted, here, ask = case
    expected = list(one_by_one(rows_of(state), wanted, here, ask))
    every = outcomes(rows_of(state), as_wanted(wanted), Servers(here), ask, outcome)
    found = every.changes
    waited = [waits(*each) for each in each_in_question(rows_of(state), wanted, here, ask)]
    assert every.waits_for == {node for each in waited for node in each.servers}
    assert every.maps == {node for each in waited for node in each.maps}
    assert list(found) == expected
    assert found.pack() == pack_changes(expected)
    assert [change.partition for change in found.where_lost()] == [each.partition for each in expected if each.is_lost]


@pytest.mark.parametrize(
    ("told", "since"),
    [
        (({0: 1, 1: 2}, {0: 2, 1: 1}), (15, 15)),
        (({}, {}), (5, 15)),
        (({1: 1}, {}), (5, 5)),
    ],
    ids=["counters", "lives of copies", "maps"],
)
def test_partitions_that_differ_in_one_thing_are_told_apart(
    told: tuple[Mapping[int, int], Mapping[int, int]], since: tuple[int, int]
) -> None:
    """Two owners, of whom neither is wanted first: who acts is told by counters, by lives, by maps."""
    state = State()
    o.enrol(state, ["n0", "n1", "n2"])
    for row in o.empty_rows("g", 2):
        state.put(o.row_key("g", row.first), row)
    owners = tuple(Copy(node, PartitionState.OWNING, wanted=False) for node in (0, 1))
    for partition, position in enumerate(since):
        change = pack_changes([Change(partition, owners, None)])
        apply(state, "g", change, Place(Position(position), b"", Term(1)))
    here = {0: Server(10, Told(told[0])), 1: Server(10, Told(told[1])), 2: Server(10, Told({}))}
    wanted = [(2,), (2,)]
    found = list(outcomes(rows_of(state), as_wanted(wanted), Servers(here), Ask(), outcome).changes)
    assert found == list(one_by_one(rows_of(state), wanted, here, Ask()))
    assert len({(each.copies, each.acting) for each in found}) == len(found) == 2


@pytest.mark.parametrize("begins_empty", [False, True], ids=["kept", "given up"])
def test_a_copy_that_may_be_coming_back_is_told_apart_from_one_that_is_gone(begins_empty: bool) -> None:
    """DS12: both owners are of a former life and heard. n0 has not said yet what it has, n1 has: nothing. The partition
    of n1 is lost, or begins empty; that of n0 waits for its map and stays as it is."""
    state = State()
    o.enrol(state, ["n0", "n1", "n2"])
    for row in o.empty_rows("g", 2):
        state.put(o.row_key("g", row.first), row)
    alone = [Change(node, (Copy(node, PartitionState.OWNING, wanted=True),), None) for node in (0, 1)]
    apply(state, "g", pack_changes(alone), Place(Position(5), b"", Term(1)))
    here = {0: Server(10, told=None), 1: Server(10, Told({})), 2: Server(10, Told({}))}
    ask, wanted = Ask(begins_empty), as_wanted([(2,), (2,)])
    every = outcomes(rows_of(state), wanted, Servers(here), ask, outcome)
    assert list(every.changes) == list(one_by_one(rows_of(state), [(2,), (2,)], here, ask))
    assert [each.partition for each in every.changes] == [1]
    assert every.waits_for == every.maps == {0}


def changed(
    row: OwnershipRow, changes: Sequence[Change], place: Place, joined: Callable[[NodeNumber], int]
) -> OwnershipRow:
    """The row with these partitions as the decision at `place` makes them, one after the other."""
    columns = Columns(row, width=max(len(change.copies) for change in changes), writable=True)
    for change, before in zip(changes, o.ownerships(row, [change.partition for change in changes]), strict=True):
        at = change.partition - row.first
        kept = {(copy.node, copy.state): copy.since for copy in before.copies}
        columns.holders[at], columns.states[at], columns.since[at] = NOBODY, 0, 0
        for number, copy in enumerate(change.copies):
            columns.holders[at, number] = copy.node
            columns.states[at, number] = copy.state.code | (WANTED if copy.wanted else 0)
            since = kept.get((copy.node, copy.state), place.position)
            is_confirmed = change.acting is not None and since <= joined(copy.node)
            columns.since[at, number] = place.position if is_confirmed else since
        if change.acting != before.acting:
            columns.acting[at] = NOBODY if change.acting is None else change.acting
            columns.tokens[at] = place.position
        columns.lost[at] = change.is_lost
    return columns.row(row)


@st.composite
def changes_of(draw: st.DrawFn, partitions: int) -> list[Change]:
    found = draw(st.sets(st.integers(0, partitions - 1), min_size=1, max_size=6))
    return [Change(partition, *draw(held())) for partition in sorted(found)]


@given(st.data(), st.lists(st.integers(0, 40), min_size=NODES, max_size=NODES))
def test_changes_make_of_rows_what_one_after_the_other_makes(data: st.DataObject, joined_at: list[int]) -> None:
    """Every byte: who holds, since when, who acts under which token; over the borders of rows, of any width."""
    partitions = 2 * PARTITIONS_PER_ROW + 3
    state = State()
    o.enrol(state, [f"n{number}" for number in range(NODES)])
    for number, position in enumerate(joined_at):
        state.put(f"n{number}", member(f"n{number}", position))
    for row in o.empty_rows("g", partitions):
        state.put(o.row_key("g", row.first), row)
    for position in (10, 20, 50):
        place = Place(Position(position), b"", Term(1))
        changes = data.draw(changes_of(partitions))
        expected = {row.first: row for row in rows_of(state)}
        for first, row in expected.items():
            if some := [each for each in changes if first <= each.partition < first + row.count]:
                expected[first] = changed(row, some, place, joined_at.__getitem__)
        packed = pack_changes(changes)
        assert list(unpacked(packed)) == changes
        assert Changes.of(changes).pack() == packed
        apply(state, "g", packed, place)
        assert {row.first: row for row in rows_of(state)} == expected
        leave(state, data.draw(nodes))


@pytest.mark.parametrize(
    "packed",
    [
        pack_changes([Change(3, (), None)])[:-1],
        pack_changes([Change(3, (Copy(1, PartitionState.OWNING, wanted=True),), 1)])[:-1],
        pack_changes([Change(3, (), None)]) * 2,
        pack_changes([Change(3, (), None)]) + pack_changes([Change(2, (), None)]),
        pack_changes([Change(8, (), None)]),
        pack_changes([Change(3, (Copy(NODES, PartitionState.OWNING, wanted=True),), None)]),
        pack_changes([Change(3, (Copy(1, PartitionState.OWNING, wanted=True),), None)])[:-1] + b"\x47",
    ],
    ids=["a head cut off", "a copy cut off", "twice", "descending", "no such partition", "no such node", "no state"],
)
def test_what_is_no_change_is_poison(packed: bytes) -> None:
    """K8: a fold that would guess would part from the others."""
    state = State()
    o.enrol(state, [f"n{number}" for number in range(NODES)])
    for row in o.empty_rows("g", 8):
        state.put(o.row_key("g", row.first), row)
    with pytest.raises((AssertionError, IndexError)):
        apply(state, "g", packed, PLACE)


def test_a_full_map_is_cut_where_it_is_full() -> None:
    """Of 65,000 partitions, two records; together all of it."""
    every = [Change(each, (Copy(1, PartitionState.OWNING, wanted=True),) * 3, 1) for each in range(65_000)]
    records = list(Changes.of(every).records())
    assert [len(unpacked(record)) for record in records] == [50_000, 15_000]
    assert b"".join(records) == pack_changes(every)


def member(node: str, joined_at: int) -> NodeRow:
    kind, standing, joined = NodeKind.SERVER, Standing.MEMBER, Position(joined_at)
    return NodeRow(NodeId(node), Incarnation(1), kind, standing, Slot(0), "", {}, (), "", b"", joined)
