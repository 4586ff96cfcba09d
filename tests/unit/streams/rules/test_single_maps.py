"""Which single map is kept: what Apache Ignite's rules for maps have become (docs/partitions.md has
the table), and what becomes of bad input. No map, however wrong, changes what is kept of others."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position
from topolog.events.membership import Applied
from topolog.events.partitions import PartitionState, codes_of, encode_codes
from topolog.events.single_maps import (
    PARTS_MAX,
    Copies,
    Finished,
    GroupMap,
    NodeMap,
    SinglePartitionMap,
    UpdateCounter,
    pack_counters,
    pack_finished,
    split_map,
)
from topolog.streams.rules.single_maps import (
    Inbox,
    Known,
    KnownGroup,
    MapVerdict,
    Receipt,
    answers,
    finished_in,
    judge_map,
    receive,
)

MOVING, OWNING, RENTING, EVICTED, LOST = PartitionState
N1, N2 = NodeId("n1"), NodeId("n2")
LIFE, FORMER_LIFE = Incarnation(7), Incarnation(6)
LOG_ID = bytes(16)
HASH = b"h" * 16
EXCHANGE = Position(50)
KNOWN = Known(
    log_id=LOG_ID,
    position=Position(60),
    members={N1: LIFE, N2: LIFE},
    groups={"a": KnownGroup(8, Position(10)), "b": KnownGroup(1024, Position(20))},
    exchange=EXCHANGE,
    counts_from=EXCHANGE,
    chains={Position(55): HASH},
)
OWNED = encode_codes(codes_of({0: OWNING, 5: OWNING}, 8))
NONE = encode_codes(b"")
BOTH = {"a": Copies(OWNED), "b": Copies(NONE)}


def at(position: int, chain: bytes = HASH, log_id: bytes = LOG_ID) -> Applied:
    return Applied(log_id, Position(position), chain)


def told(sequence: int = 1, **changes: Any) -> NodeMap:
    """A map of n1 that answers the open exchange, but for the changes."""
    usual = NodeMap(N1, LIFE, EXCHANGE, sequence, at(55), BOTH)
    return msgspec.structs.replace(usual, **changes)


def record(sequence: int = 1, **changes: Any) -> SinglePartitionMap:
    (part,) = split_map(told(sequence, **changes))
    return part


def in_parts(sequence: int) -> list[SinglePartitionMap]:
    """A map in three parts."""
    counters = pack_counters({number: UpdateCounter(1, 1 << 62) for number in range(300)})
    parts = split_map(told(sequence, groups={**BOTH, "b": Copies(NONE, counters)}), 1_500)
    assert len(parts) == 3
    return parts


def after(*records: SinglePartitionMap, known: Known = KNOWN, inbox: Inbox | None = None) -> Inbox:
    inbox = inbox or Inbox()
    for each in records:
        inbox, _ = receive(inbox, known, each)
    return inbox


def receipt(arrived: SinglePartitionMap, inbox: Inbox | None = None, known: Known = KNOWN) -> Receipt:
    """What becomes of the record; if it is not kept, all that is kept stays as it was, and its verdict is counted."""
    before = inbox or Inbox()
    behind, found = receive(before, known, arrived)
    if found.map is None:
        assert behind.kept == before.kept
    assert behind.counts[found.verdict] == before.counts.get(found.verdict, 0) + 1
    return found


def verdict(arrived: SinglePartitionMap, inbox: Inbox | None = None, known: Known = KNOWN) -> MapVerdict:
    return receipt(arrived, inbox, known).verdict


# The rules by their numbers.


def test_t1_maps_of_one_life_are_ordered_by_their_sequence() -> None:
    """EX28: the newest counts, in whatever order they come; an exchange's own numbers play no part in it."""
    for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1), (1, 3, 2)):
        inbox = after(*(record(number, exchange=None if number == 3 else EXCHANGE) for number in order))
        assert inbox.kept == {N1: told(3, exchange=None)}


def test_t1_a_new_life_begins_anew() -> None:
    """EX28: each life numbers its own maps, so the first map of a new one counts after the hundredth of another."""
    earlier = msgspec.structs.replace(KNOWN, members={N1: FORMER_LIFE})
    inbox = after(record(100, incarnation=FORMER_LIFE), known=earlier)
    assert after(record(1), inbox=inbox).kept == {N1: told(1)}
    assert judge_map(KNOWN, told(100, incarnation=FORMER_LIFE), record(1)) is MapVerdict.KEPT


@pytest.mark.parametrize("node", ["n3", ""])
def test_t2_a_map_of_a_node_that_is_no_member_is_ignored(node: str) -> None:
    """EX28: the sender is dead, a client, or nobody."""
    assert verdict(record(node=NodeId(node))) is MapVerdict.NOT_A_MEMBER


def test_t2_a_map_of_another_life_is_ignored() -> None:
    """EX28: the sender of that life is dead, though the node is a member."""
    assert verdict(record(incarnation=FORMER_LIFE)) is MapVerdict.STALE_INCARNATION


def test_t2_a_map_that_answers_an_older_exchange_is_no_answer() -> None:
    """EX28: of a node that had not applied the question. What it tells of loads is no less true, so it is kept: the
    node would not send that again."""
    inbox = after(record(1, applied=at(49), exchange=Position(49)))
    assert inbox.kept[N1].exchange == 49
    assert answers(inbox, KNOWN) == {}


def test_t2_an_equal_map_is_ignored_in_silence_and_an_older_one_is_told_apart() -> None:
    """EX28: not strictly newer than the stored one: EQUAL or OLD_SEQUENCE, neither of them a fault."""
    inbox = after(record(2))
    assert verdict(record(2), inbox) is MapVerdict.EQUAL
    assert verdict(record(1), inbox) is MapVerdict.OLD_SEQUENCE
    assert not MapVerdict.EQUAL.is_fault
    assert not MapVerdict.OLD_SEQUENCE.is_fault


def test_t4_what_is_of_nodes_that_left_goes() -> None:
    """EX28: maps of others stay as they are; those of nodes that are members no more go, parts under way included."""
    inbox = after(record(1), record(1, node=N2), *in_parts(2)[:1])
    assert (set(inbox.kept), set(inbox.arriving)) == ({N1, N2}, {N1, N2})
    without_n1 = msgspec.structs.replace(KNOWN, members={N2: LIFE})
    assert set(answers(inbox, without_n1)) == {N2}
    inbox = after(record(2, node=N2), known=without_n1, inbox=inbox)
    assert (set(inbox.kept), set(inbox.arriving)) == ({N2}, {N2})


def test_t7_a_map_from_before_a_group_began_says_nothing_of_that_group() -> None:
    """EX29: the group was dropped and made anew at 58, unknown to a node at 55; the other group counts."""
    anew = msgspec.structs.replace(KNOWN, groups={**KNOWN.groups, "a": KnownGroup(8, Position(58))})
    found = receipt(record(), known=anew)
    assert (found.verdict, dict(found.left_out)) == (MapVerdict.KEPT, {"a": MapVerdict.OLD_GROUP})
    assert found.map is not None
    assert set(found.map.groups) == {"b"}


LOADED, CLEARED = Finished(Position(40), Position(30)), Finished(Position(41), Position(0))


def test_t11_what_is_finished_names_the_life_of_its_copy() -> None:
    """DS5, DS6: of a load its listing and its token, of a clearing the position of its RENTING, so that who
    decides sees whether the log has moved on since; and only of copies that are what such work makes of them."""
    work = {0: LOADED, 1: CLEARED, 2: LOADED, 3: CLEARED, 5: LOADED}
    codes = codes_of({0: MOVING, 1: EVICTED, 3: RENTING, 5: OWNING}, 8)
    kept = receipt(record(groups={**BOTH, "a": Copies(encode_codes(codes), finished=pack_finished(work))})).map
    assert kept is not None
    assert list(finished_in(kept, "a", 8)) == [(1, EVICTED, CLEARED), (5, OWNING, LOADED)]
    assert list(finished_in(kept, "b", 1024)) == []


def test_pi6_a_map_applied_twice_or_late_changes_nothing() -> None:
    """EX28: each record again, and those before it, leave what is kept as it was."""
    records = [record(1), *in_parts(2), record(3, node=N2), *in_parts(4)]
    inbox = Inbox()
    for number, each in enumerate(records):
        inbox = after(each, inbox=inbox)
        assert after(*records[: number + 1], inbox=inbox).kept == inbox.kept


# Bad input.


def test_a_map_of_another_log_is_ignored() -> None:
    """A node of a cluster that once had the same name, or of a log that was made again."""
    assert verdict(record(applied=at(55, log_id=b"x" * 16))) is MapVerdict.FOREIGN_LOG


def test_a_map_of_a_fork_of_the_log_is_ignored() -> None:
    """K9: a report whose hash differs from the log's does not count; where the log's is not remembered, it does."""
    assert verdict(record(applied=at(55, b"x" * 16))) is MapVerdict.DIVERGED
    assert verdict(record(applied=at(54, b"x" * 16))) is MapVerdict.KEPT


def test_a_map_from_ahead_of_its_reader_can_be_asked_about_again() -> None:
    """A reader of maps that has not read the log so far cannot judge it, not even whether its node is a member."""
    arrived = record(node=NodeId("n9"), applied=at(61))
    assert verdict(arrived) is MapVerdict.AHEAD
    later = msgspec.structs.replace(KNOWN, position=Position(61), members={NodeId("n9"): LIFE})
    assert verdict(arrived, known=later) is MapVerdict.KEPT


def test_a_map_that_answers_what_never_began_is_ignored() -> None:
    """A position at which no exchange begins, though the log has come so far."""
    assert verdict(record(exchange=Position(53))) is MapVerdict.UNKNOWN_EXCHANGE
    assert verdict(record(), known=msgspec.structs.replace(KNOWN, exchange=NOWHERE)) is MapVerdict.UNKNOWN_EXCHANGE


@pytest.mark.parametrize("sequence", [0, -1, -(1 << 63)])
def test_a_sequence_that_no_map_has_is_impossible(sequence: int) -> None:
    """They count from 1."""
    assert verdict(record(sequence)) is MapVerdict.IMPOSSIBLE_SEQUENCE
    assert verdict(record(sequence), after(record(1))) is MapVerdict.IMPOSSIBLE_SEQUENCE


def test_a_newer_map_that_has_applied_less_is_impossible() -> None:
    """What a process has applied never falls: one of its numbers is wrong."""
    inbox = after(record(1))
    assert verdict(record(2, applied=at(54)), inbox) is MapVerdict.IMPOSSIBLE_SEQUENCE
    assert verdict(record(2, applied=at(55)), inbox) is MapVerdict.KEPT


def test_another_part_under_a_number_that_is_taken_is_impossible() -> None:
    """Two maps of one number, told apart while the first is under way; a repeat is EQUAL."""
    first, second, third = in_parts(2)
    inbox = after(first, second)
    assert verdict(second, inbox) is MapVerdict.EQUAL
    assert verdict(msgspec.structs.replace(second, groups=()), inbox) is MapVerdict.IMPOSSIBLE_SEQUENCE
    assert verdict(msgspec.structs.replace(third, exchange=None), inbox) is MapVerdict.IMPOSSIBLE_SEQUENCE
    assert verdict(third, inbox) is MapVerdict.KEPT


@pytest.mark.parametrize(
    ("part", "parts"), [(1, 1), (-1, 1), (0, 0), (0, -1), (PARTS_MAX, PARTS_MAX + 1), (0, PARTS_MAX + 1)]
)
def test_a_part_that_its_map_cannot_have_is_malformed(part: int, parts: int) -> None:
    """A reader never waits for what cannot come, nor for more than it would keep."""
    assert verdict(msgspec.structs.replace(record(), part=part, parts=parts)) is MapVerdict.MALFORMED


@pytest.mark.parametrize(("exchange", "applied"), [(50, 49), (-1, 55), (None, -1)])
def test_a_map_that_answers_what_it_has_not_read_is_malformed(exchange: int | None, applied: int) -> None:
    """An exchange is answered by who has applied its start; nobody sends a map who has applied nothing."""
    assert verdict(record(exchange=exchange, applied=at(applied))) is MapVerdict.MALFORMED


def test_entries_that_contradict_each_other_are_malformed() -> None:
    """A reference to a group that is not there; the same map again is EQUAL, for its number is taken."""
    broken = msgspec.structs.replace(record(2), groups=(GroupMap("a", b"", 4, b"", b""),))
    inbox = after(record(1))
    found = receipt(broken, inbox)
    assert found.verdict is MapVerdict.MALFORMED
    assert "does not stand before" in found.detail
    assert verdict(broken, after(broken, inbox=inbox)) is MapVerdict.EQUAL
    assert verdict(record(3), after(broken, inbox=inbox)) is MapVerdict.KEPT


def test_a_map_that_leaves_out_a_group_its_node_knows_is_incomplete() -> None:
    """A group that is not there would read as one without copies, and be given to others."""
    found = receipt(record(groups={"a": Copies(OWNED)}))
    assert (found.verdict, found.detail) == (MapVerdict.INCOMPLETE, "It does not tell of b.")


def test_a_map_need_not_tell_of_a_group_that_came_later() -> None:
    """Its node had applied 19, the group was made at 20."""
    early = record(groups={"a": Copies(OWNED)}, exchange=None, applied=at(19))
    assert verdict(early) is MapVerdict.KEPT


def test_a_group_that_is_not_known_is_left_out_and_the_others_count() -> None:
    """It was dropped a moment ago: no fault of the node's, and no reason to ask it again."""
    found = receipt(record(groups={**BOTH, "gone": Copies(OWNED)}))
    assert (found.verdict, dict(found.left_out)) == (MapVerdict.KEPT, {"gone": MapVerdict.UNKNOWN_GROUP})
    assert found.map == told()
    assert after(record(groups={**BOTH, "gone": Copies(OWNED)})).counts == {
        MapVerdict.KEPT: 1,
        MapVerdict.UNKNOWN_GROUP: 1,
    }


@pytest.mark.parametrize(
    "copies",
    [
        Copies(encode_codes(b"\2" * 9)),
        Copies(OWNED, pack_counters({8: UpdateCounter(1, 2)})),
        Copies(OWNED, finished=pack_finished({8: LOADED})),
    ],
    ids=["states", "counters", "finished"],
)
def test_partitions_outside_of_the_group_spoil_the_map(copies: Copies) -> None:
    """Group a has eight; the exchange waits for a better answer rather than to take half of this one."""
    found = receipt(record(groups={**BOTH, "a": copies}))
    assert found.verdict is MapVerdict.OUT_OF_RANGE
    assert found.detail.startswith("Group a: ")


def test_states_that_are_fine_for_one_group_may_be_too_many_for_another() -> None:
    """Equal states are sent once and looked at for each size of group."""
    same = Copies(encode_codes(codes_of({900: OWNING}, 1024)))
    assert verdict(record(groups={"b": same, "a": same})) is MapVerdict.OUT_OF_RANGE


@pytest.mark.parametrize(
    "copies",
    [Copies(b""), Copies(b"\0\xff"), Copies(b"\1\6"), Copies(OWNED, b"\1\1"), Copies(OWNED, finished=b"\1\1\1\0")],
    ids=["no form", "no state", "no run", "no columns", "half a column"],
)
def test_bytes_that_say_nothing_spoil_the_map(copies: Copies) -> None:
    """DAMAGED names the group."""
    found = receipt(record(groups={**BOTH, "a": copies}))
    assert found.verdict is MapVerdict.DAMAGED
    assert found.detail.startswith("Group a: ")


def test_groups_that_nobody_knows_are_not_looked_at() -> None:
    """A record full of them costs no more than its bytes."""
    assert verdict(record(groups={**BOTH, "gone": Copies(b"garbage", b"garbage")})) is MapVerdict.KEPT


# Answers and parts.


def test_an_exchange_is_answered_by_maps_that_name_it() -> None:
    """EX28: received; a background update, or a map that is not whole, is no answer."""
    inbox = after(record(1, exchange=None, applied=at(40)), in_parts(2)[0], record(1, node=N2))
    assert set(answers(inbox, KNOWN)) == {N2}
    assert set(answers(after(*in_parts(2)[1:], inbox=inbox), KNOWN)) == {N1, N2}


def test_an_answer_that_comes_after_its_exchange_still_counts() -> None:
    """Apache Ignite ignores answers to exchanges before the *latest*: one that was completed without this node lets the
    partitions that need its map go on (DS17)."""
    later = msgspec.structs.replace(KNOWN, position=Position(90))
    assert verdict(record(), known=later) is MapVerdict.KEPT


def test_a_later_map_of_the_same_exchange_answers_it_too() -> None:
    """While an exchange is open every map names it, so that no map takes an answer back."""
    assert set(answers(after(record(1), record(2)), KNOWN)) == {N1}


def test_the_parts_of_a_map_that_is_not_whole_are_partial() -> None:
    """The last of them is KEPT, and every repeat EQUAL."""
    parts = in_parts(1)
    assert [verdict(part, after(*parts[:number])) for number, part in enumerate(parts)] == [
        MapVerdict.PARTIAL,
        MapVerdict.PARTIAL,
        MapVerdict.KEPT,
    ]
    assert {verdict(part, after(*parts)) for part in parts} == {MapVerdict.EQUAL}


def test_parts_of_a_map_that_was_overtaken_on_its_way_are_old() -> None:
    """The newer one has begun to come."""
    inbox = after(in_parts(2)[0])
    assert verdict(in_parts(1)[0], inbox) is MapVerdict.OLD_SEQUENCE


def test_an_answer_counts_also_in_the_exchanges_behind_the_one_that_first_missed_it() -> None:
    """DS17: and so does a map that answers none, if its node has applied the question."""
    later = msgspec.structs.replace(KNOWN, position=Position(80), exchange=Position(70))
    inbox = after(record(), known=later)
    assert set(answers(inbox, later)) == {N1}
    unasked = after(record(exchange=None), known=later)
    assert set(answers(unasked, later)) == {N1}
    assert answers(after(record(exchange=None, applied=at(49)), known=later), later) == {}


def test_a_map_is_known_by_the_exchange_of_the_moment_it_is_whole() -> None:
    """An exchange that begins between two of its parts makes the map no answer to it."""
    *first, last = in_parts(2)
    later = msgspec.structs.replace(KNOWN, position=Position(80), exchange=Position(70), counts_from=Position(70))
    inbox, kept = receive(after(*first), later, last)
    assert kept.verdict is MapVerdict.KEPT
    assert answers(inbox, later) == {}


def test_every_verdict_is_a_sentence() -> None:
    """People read them."""
    assert all(each.sentence.endswith(".") and each.value == each.sentence for each in MapVerdict)


# Anything at all.

integers = st.integers(-2, 60) | st.integers(-(1 << 63), (1 << 63) - 1)
entries = st.builds(
    GroupMap,
    st.sampled_from(("a", "b", "c")),
    st.sampled_from((b"", NONE, OWNED)) | st.binary(max_size=6),
    st.none() | st.integers(-1, 3),
    st.just(b"") | st.binary(max_size=8),
    st.just(b"") | st.binary(max_size=8),
)
records = st.builds(
    SinglePartitionMap,
    st.sampled_from((N1, N2, NodeId("n3"))),
    st.sampled_from((LIFE, FORMER_LIFE)),
    st.none() | st.just(EXCHANGE) | integers.map(Position),
    st.integers(-1, 4),
    st.builds(Applied, st.just(LOG_ID), st.just(Position(55)) | integers.map(Position), st.just(HASH)),
    st.integers(0, 2),
    st.integers(1, 3),
    st.lists(entries, max_size=4).map(tuple) | st.just(record().groups),
)


@given(st.lists(records | st.sampled_from([record(1), record(2, node=N2), *in_parts(2)]), max_size=12))
def test_no_record_is_an_error_and_each_is_counted(arriving: list[SinglePartitionMap]) -> None:
    """Whatever comes: a verdict, memory for members only, and nothing kept that a rule would not keep."""
    inbox = Inbox()
    for number, each in enumerate(arriving):
        inbox, found = receive(inbox, KNOWN, each)
        left_out = {MapVerdict.UNKNOWN_GROUP, MapVerdict.OLD_GROUP}
        assert sum(count for why, count in inbox.counts.items() if why not in left_out) == number + 1
        assert (found.map is not None) == (found.verdict is MapVerdict.KEPT)
    assert set(inbox.kept) | set(inbox.arriving) <= set(KNOWN.members)
    for node, kept in inbox.kept.items():
        assert (kept.node, kept.incarnation) == (node, LIFE)
        assert kept.exchange in (None, EXCHANGE)
        assert {name for name, group in KNOWN.groups.items() if group.since <= kept.applied.position} <= set(
            kept.groups
        )
