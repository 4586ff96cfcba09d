"""A node's own copies, in a cluster that is shared out: maps, finished loads, drains (docs/design/partitions.md)."""

from collections.abc import Iterator, Sequence

import pytest
from tests.unit.streams.rules.exchanging import Shared

from topolog.events import exchange as x
from topolog.events import ownership
from topolog.events.ids import Incarnation, NodeId, Position, Term
from topolog.events.membership import Applied
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState, decode_codes, states_of
from topolog.events.single_maps import NodeMap, UpdateCounter, unpack_finished
from topolog.streams.node.copies import Disk, NodeCopies


def joining(partitions: int = 16) -> Shared:
    """Two nodes share a group, a third one has joined and is to load."""
    found = Shared()
    found.join("n1", "n2")
    found.create("orders", partitions, 1)
    found.rest()
    found.join("n3")
    found.exchange()
    return found


def copies_of(node: str) -> NodeCopies:
    found = NodeCopies(NodeId(node))
    found.begin(Incarnation(1), {})
    return found


def map_of(of: Shared, copies: NodeCopies, incarnation: int = 1, counters: Disk | None = None) -> NodeMap:
    applied = Applied(bytes(16), of.position, bytes(16))
    return copies.next_map(of.state, Incarnation(incarnation), applied, counters or {}, Term(1))


def states(told: NodeMap, partitions: int = 16) -> dict[int, PartitionState]:
    return states_of(decode_codes(told.groups["orders"].states, partitions))


def test_a_finished_load_is_told_with_the_life_of_the_copy_and_the_token() -> None:
    """DS5: and no longer once the token is another, for then it is to load again."""
    found = joining()
    copies = copies_of("n3")
    held = next(each for each in copies.held(found.state) if each.state is PartitionState.MOVING)
    assert copies.finish(found.state, held.group, held.partition, held.since, held.token)
    assert not copies.finish(found.state, held.group, held.partition, Position(held.since - 1), held.token)
    told = map_of(found, copies)
    assert states(told)[held.partition] is PartitionState.OWNING
    finished = unpack_finished(told.groups["orders"].finished, 16)
    assert (finished[held.partition].since, finished[held.partition].token) == (held.since, held.token)
    found.leave(found.acting(held.partition) or "")
    found.exchange()
    assert states(map_of(found, copies))[held.partition] is PartitionState.MOVING


def test_a_late_report_does_not_undo_the_one_that_counts() -> None:
    """DS5: of a load under a former token, of a clearing that nobody has asked for, of a load that is to be cleared."""
    found = joining()
    copies = copies_of("n3")
    held = next(each for each in copies.held(found.state) if each.state is PartitionState.MOVING)
    place = held.group, held.partition
    assert copies.finish(found.state, *place, held.since, held.token)
    assert not copies.finish(found.state, *place, held.since, Position(held.token - 1))
    assert not copies.finish(found.state, *place, held.since, Position(0))
    assert states(map_of(found, copies))[held.partition] is PartitionState.OWNING
    found.load("n3")
    while found.hand_over("n1", "n2"):
        pass
    found.rent()
    node, renting = next(
        (node, each)
        for node in ("n1", "n2")
        for each in copies_of(node).held(found.state)
        if each.state is PartitionState.RENTING
    )
    surplus = copies_of(node)
    assert not surplus.finish(found.state, renting.group, renting.partition, renting.since, renting.token)
    assert states(map_of(found, surplus))[renting.partition] is PartitionState.RENTING
    assert surplus.finish(found.state, renting.group, renting.partition, renting.since, Position(0))


def test_a_map_of_many_groups_looks_at_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """EX29: it is made on the thread that applies the log, while guards wait."""
    found = joining()
    for number in range(8):
        found.create(f"g{number}", 4, 1)
    found.rest()
    held, looked_at = ownership.held, list[str]()

    def counted(rows: Sequence[OwnershipRow], node: ownership.NodeNumber) -> Iterator[ownership.Ownership]:
        looked_at.extend(row.group for row in rows)
        return held(rows, node)

    monkeypatch.setattr(ownership, "held", counted)
    assert len(map_of(found, copies_of("n1")).groups) == 9
    assert len(looked_at) == len(set(looked_at)) == 9


def test_maps_are_numbered_and_name_the_open_exchange() -> None:
    """EX28."""
    found = joining()
    copies = copies_of("n1")
    assert map_of(found, copies).exchange is None
    found.join("n4")
    found.settle_exchange()
    row = x.open_exchange(found.state)
    assert row is not None
    told = map_of(found, copies)
    assert (told.exchange, told.update_sequence) == (row.started_at, 2)


def test_a_map_is_owed_once_for_each_question_and_each_term() -> None:
    """EX31, K4: a new coordinator may not have it, another process life is not asked."""
    found = joining()
    copies = copies_of("n1")
    assert not copies.owes_map(found.state, Incarnation(1), Term(1))
    found.create("items")
    found.settle_exchange()
    assert copies.owes_map(found.state, Incarnation(1), Term(1))
    assert not copies.owes_map(found.state, Incarnation(2), Term(1))
    map_of(found, copies)
    assert not copies.owes_map(found.state, Incarnation(1), Term(1))
    assert copies.owes_map(found.state, Incarnation(1), Term(2))
    copies.unsay()
    assert copies.owes_map(found.state, Incarnation(1), Term(1)), "it did not reach the log"


def test_what_is_finished_is_told_until_the_log_shows_it() -> None:
    """DS6: while an exchange is open nothing changes, and a coordinator may die with what it has read."""
    found = joining()
    copies = copies_of("n3")
    for held in list(copies.held(found.state)):
        copies.finish(found.state, held.group, held.partition, held.since, held.token)
    assert copies.owes_map(found.state, Incarnation(1), Term(1))
    map_of(found, copies)
    assert not copies.owes_map(found.state, Incarnation(1), Term(1))
    assert copies.owes_map(found.state, Incarnation(1), Term(2))
    found.load("n3")
    assert not copies.owes_map(found.state, Incarnation(1), Term(2))


def test_after_a_restart_only_the_disk_says_what_is_there() -> None:
    """DS2: the log still lists its copies where nobody acts, but a wiped disk has none of them."""
    found = Shared()
    found.join("n1")
    found.create("orders", 4, 0)
    found.rest()
    found.leave("n1")
    found.join("n1")
    found.settle_exchange()
    assert states(map_of(found, copies_of("n1"), 2), 4) == {}
    kept = {1: {2: UpdateCounter(0, 7)}}
    copies = copies_of("n1")
    copies.begin(Incarnation(2), kept)
    assert states(map_of(found, copies, 2), 4) == {2: PartitionState.OWNING}
    copies.begin(Incarnation(2), {7: kept[1]})
    assert states(map_of(found, copies, 2), 4) == {}, "copies of a group that had the name before"


def test_what_was_cleared_is_no_longer_said_to_be_on_the_disk() -> None:
    """DS2: a reset must not begin from a copy that was whole when its process joined, and is gone since."""
    found = joining()
    copies = copies_of("n1")
    copies.begin(Incarnation(1), {1: {partition: UpdateCounter(0, 7) for partition in range(16)}})
    found.load("n3")
    while found.hand_over("n1", "n2"):
        pass
    found.rent()
    renting = [each for each in copies.held(found.state) if each.state is PartitionState.RENTING]
    assert all(copies.finish(found.state, each.group, each.partition, each.since, Position(0)) for each in renting)
    found.clear("n1")
    cleared = {each.partition for each in renting}
    assert cleared
    assert states(map_of(found, copies)).keys() == set(range(16)) - cleared


def test_a_hand_over_has_drained_when_nothing_of_it_runs() -> None:
    """EX14: until then the heartbeat names a position before its HandOverPrepared."""
    found = joining(64)
    found.load("n3")
    prepared = next(each for each in found.hand_over() if isinstance(each, x.HandOverPrepared))
    former = copies_of(prepared.node)
    assert former.undrained(found.state) == {("orders", each) for move in prepared.moves for each in move.partitions}
    position = found.position
    assert former.drained(found.state, position) < position
    former.drain(found.state, former.undrained(found.state))
    assert former.drained(found.state, position) == position
