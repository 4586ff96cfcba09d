"""Single maps as records: numbers by partition, equal maps once (EX30), parts and how they become a map again."""

import itertools
import random
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.events.examples import LOG_ID

from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, OutOfRange, Undecodable
from topolog.events.group_definition import PARTITIONS_MAX
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.membership import Applied
from topolog.events.partitions import encode_codes
from topolog.events.single_maps import (
    NUMBER_MAX,
    PARTS_MAX,
    Assembly,
    Copies,
    Finished,
    GroupMap,
    NodeMap,
    SinglePartitionMap,
    UpdateCounter,
    assemble,
    check_numbers,
    joined,
    pack_counters,
    pack_finished,
    split_map,
    unpack_counters,
    unpack_finished,
)
from topolog.events.topics import RECORD_BYTES_MAX

SMALL_BYTES = 1_500
"""Room for one piece of a group in each part, so that few bytes make many parts."""


def node_map(groups: dict[str, Copies], sequence: int = 1, incarnation: int = 7) -> NodeMap:
    applied = Applied(LOG_ID, Position(99), bytes(16))
    return NodeMap(NodeId("n1"), Incarnation(incarnation), Position(90), sequence, applied, groups)


def many_parts(sequence: int = 1, incarnation: int = 7) -> list[SinglePartitionMap]:
    """A map in four parts."""
    return split_map(node_map({"g": Copies(b"\0", bytes(range(250)) * 18)}, sequence, incarnation), SMALL_BYTES)


def put_in(
    parts: Iterable[SinglePartitionMap], before: Assembly | None = None
) -> tuple[Assembly | None, list[NodeMap]]:
    """What is under way after these parts, and the maps that became whole."""
    whole = []
    for part in parts:
        before, found = assemble(before, part)
        if found is not None:
            whole.append(joined(found))
    return before, whole


# Numbers by partition.

numbers = st.integers(0, 300) | st.integers(0, NUMBER_MAX)
counters = st.dictionaries(
    st.integers(0, 400) | st.integers(0, PARTITIONS_MAX - 1),
    st.tuples(numbers, numbers).map(lambda pair: UpdateCounter(min(pair), max(pair))),
    max_size=30,
)


@given(counters)
@example({PARTITIONS_MAX - 1: UpdateCounter(0, NUMBER_MAX), 255: UpdateCounter(NUMBER_MAX, NUMBER_MAX)})
def test_h4_counters_are_read_back(given_counters: dict[int, UpdateCounter]) -> None:
    """EX30: partition, initial and current counter, sorted; none is no byte."""
    packed = pack_counters(given_counters)
    assert list(unpack_counters(packed, PARTITIONS_MAX).items()) == sorted(given_counters.items(), key=lambda it: it[0])
    assert (packed == b"") == (not given_counters)


@given(st.dictionaries(st.integers(0, 70_000), st.tuples(numbers, numbers), max_size=30))
def test_what_is_finished_is_read_back(pairs: dict[int, tuple[int, int]]) -> None:
    """DS6: a report names the position that made the copy MOVING or RENTING, and the token."""
    finished = {each: Finished(Position(at), Position(token)) for each, (at, token) in pairs.items()}
    assert unpack_finished(pack_finished(finished), 70_001) == finished


@pytest.mark.parametrize(
    ("initial", "current"), [(-1, 5), (6, 5), (0, NUMBER_MAX + 1), (NUMBER_MAX, NUMBER_MAX + 1), (-1, -1)]
)
def test_a_counter_that_cannot_be_is_not_packed(initial: int, current: int) -> None:
    """EX30: never negative, never below its initial value, never beyond a long."""
    with pytest.raises(BadInput):
        pack_counters({3: UpdateCounter(initial, current)})


@pytest.mark.parametrize("partition", [-1, 1 << 64])
def test_a_partition_that_cannot_be_is_not_packed(partition: int) -> None:
    """BadInput instead of an error of the library that packs."""
    with pytest.raises(BadInput):
        pack_finished({partition: Finished(Position(1), Position(2))})


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda body: b"\1\2\1" + body), st.integers(1, 300))
@example(b"\1\1\1\3\4\5\1\1", 300)
@example(b"\3\1\1\1\1\1", 300)
@example(b"\1\1\1" + bytes(3_000), 300)
@example(b"\1\x08\1\0" + b"\xff" * 9, 300)
def test_any_bytes_are_numbers_or_undecodable(data: bytes, size: int) -> None:
    """What comes from the network is packed anew into what says the same, or raises Undecodable."""
    try:
        found = unpack_counters(data, size)
        check_numbers(Copies(b"", data, data), size)
    except Undecodable:
        with pytest.raises(Undecodable):
            check_numbers(Copies(b"", data, data), size)
        return
    assert unpack_counters(pack_counters(found), size) == found
    assert all(partition < size for partition in found)


def test_numbers_of_partitions_outside_of_the_group_are_told_from_damage() -> None:
    """OutOfRange, so that a verdict can name it; also where there are more numbers than partitions."""
    finished = pack_finished({300: Finished(Position(1), Position(2))})
    assert unpack_finished(finished, 301)
    for packed in (finished, b"\1\1\1" + bytes(3 * 301)):
        with pytest.raises(OutOfRange):
            unpack_finished(packed, 300)
    with pytest.raises(Undecodable, match="do not ascend"):
        unpack_finished(b"\1\1\1" + bytes((5, 5, 1, 1, 1, 1)), 300)
    with pytest.raises(Undecodable, match="numbers by partition above"):
        unpack_finished(b"\1\x08\1\0" + bytes(7) + b"\x80\1", 300)
    with pytest.raises(Undecodable, match="counters above"):
        check_numbers(Copies(b"", b"\1\x08\1\0" + NUMBER_MAX.to_bytes(8, "little") + b"\1"), 300)


# Equal maps.


def test_h3_equal_maps_of_groups_are_sent_once() -> None:
    """EX30: of a hundred groups with equal states one has them, the others name it; counters are each group's own."""
    states = encode_codes(b"\2\0\5" * 300)
    groups = {f"g{number}": Copies(states, pack_counters({number: UpdateCounter(1, 2)})) for number in range(100)}
    (part,) = split_map(node_map({"other": Copies(b"\0"), **groups}))
    assert [entry.same_as for entry in part.groups] == [None, None, *[1] * 99]
    assert sum(len(entry.states) for entry in part.groups) == len(states) + 1
    assert joined((part,)).groups == {"other": Copies(b"\0"), **groups}


# Parts.

copies = st.builds(
    Copies,
    st.sampled_from((b"\0", b"\0\1", b"\1\2\3")) | st.binary(max_size=4_000),
    st.binary(max_size=4_000),
    st.just(b"") | st.binary(max_size=4_000),
)


@given(st.dictionaries(st.text(max_size=12), copies, max_size=6), st.integers(SMALL_BYTES, 9_000), st.randoms())
def test_any_map_is_put_together_from_its_parts_in_any_order_with_repeats(
    groups: dict[str, Copies], bytes_max: int, chance: random.Random
) -> None:
    """However it was cut and in whatever order its parts come and come again, it is whole once and as it was."""
    told = node_map(groups)
    parts = split_map(told, bytes_max)
    assert all(len(CODEC.encode(part)) <= bytes_max for part in parts)
    arriving = parts + chance.choices(parts, k=len(parts))
    chance.shuffle(arriving)
    _, whole = put_in(arriving)
    assert whole == [told]
    assert list(whole[0].groups) == list(groups)


def test_the_largest_group_of_all_fits_its_records() -> None:
    """65,000 partitions, each in another state than its neighbour, every number at its longest: two records of at most
    900 kB; nine such groups are a set of many, and the last byte of all is still there."""
    most = dict.fromkeys(range(PARTITIONS_MAX), UpdateCounter(1 << 62, NUMBER_MAX))
    finished = dict.fromkeys(range(PARTITIONS_MAX), Finished(Position(NUMBER_MAX), Position(NUMBER_MAX)))
    states = encode_codes(b"\1\2\3\4\5" * (PARTITIONS_MAX // 5))
    groups = {f"group {number}": Copies(states, pack_counters(most), pack_finished(finished)) for number in range(9)}
    parts = split_map(node_map(groups))
    sizes = [len(CODEC.encode(part)) for part in parts]
    assert max(sizes) <= RECORD_BYTES_MAX
    assert len(sizes) == -(-sum(sizes) // RECORD_BYTES_MAX), "no part is left half empty"
    _, (whole,) = put_in(reversed(parts))
    assert whole.groups == groups


def test_many_small_groups_and_the_longest_numbers_fit_their_records() -> None:
    """What Avro adds to each entry and to the head is less than what is set aside for it."""
    many = node_map({f"{number:02x}": Copies(b"\0", b"\1") for number in range(9_000)})
    longest = msgspec.structs.replace(
        node_map({"g": Copies(b"\0", bytes(5_000))}),
        node=NodeId("ü" * 100),
        incarnation=Incarnation(-(1 << 63)),
        exchange=Position(NUMBER_MAX),
        update_sequence=NUMBER_MAX,
        applied=Applied(LOG_ID, Position(NUMBER_MAX), bytes(16)),
    )
    for told in (many, longest):
        parts = split_map(told, 10_000 if told is many else SMALL_BYTES)
        assert len(parts) > 3
        assert max(len(CODEC.encode(part)) for part in parts) <= (10_000 if told is many else SMALL_BYTES)


def test_a_million_partitions_are_few_enough_parts() -> None:
    """PARTS_MAX bounds what a reader keeps; sixteen of the largest groups, 1,040,000 partitions, are half of it."""
    column = bytes(18 * PARTITIONS_MAX + 3)
    groups = {f"g{number}": Copies(bytes(24_376), column, column) for number in range(16)}
    assert PARTS_MAX * 0.4 < len(split_map(node_map(groups))) < PARTS_MAX * 0.6


def test_a_map_of_too_many_parts_is_not_sent() -> None:
    """No reader would take it, so its sender is told."""
    with pytest.raises(BadInput, match="at most 100"):
        split_map(node_map({"g": Copies(bytes(200_000))}), SMALL_BYTES)


def test_a_map_without_groups_is_one_empty_part() -> None:
    """A cluster without groups has exchanges too, and waits for their answers."""
    (part,) = split_map(node_map({}))
    assert (part.part, part.parts, part.groups) == (0, 1, ())


def test_every_order_of_the_parts_makes_the_map_once() -> None:
    """All 24 orders, each with every part twice."""
    parts = many_parts()
    assert len(parts) == 4
    for order in itertools.permutations(parts):
        _, whole = put_in((*order, *order))
        assert len(whole) == 1


def test_parts_of_an_older_map_are_dropped() -> None:
    """The newest map is the one that is under way: what has come of an older one goes, what comes is ignored."""
    older, newer = many_parts(1), many_parts(2)
    under_way, whole = put_in([*older[:3], newer[0], older[3], *older])
    assert under_way is not None
    assert (under_way.update_sequence, list(under_way.parts), whole) == (2, [0], [])
    _, whole = put_in(newer, under_way)
    assert [each.update_sequence for each in whole] == [2]


def test_parts_of_two_lives_are_never_one_map() -> None:
    """Another incarnation numbers its maps anew: its parts begin anew."""
    before, after = many_parts(incarnation=7), many_parts(incarnation=8)
    _, whole = put_in([*before[:3], after[3], *after[:3]])
    assert [each.incarnation for each in whole] == [8]


def test_a_part_that_contradicts_another_changes_nothing() -> None:
    """Same number, other head, or other content at the same place: what came first stays."""
    first, second, *rest = many_parts()
    others = (
        msgspec.structs.replace(second, exchange=None),
        msgspec.structs.replace(second, parts=9),
        msgspec.structs.replace(first, groups=()),
    )
    before, _ = assemble(None, first)
    assert all(assemble(before, other) == (before, None) for other in others)
    _, whole = put_in([first, *others, second, *rest])
    assert whole == [joined((first, second, *rest))]


def test_memory_is_bounded_by_one_map_of_each_node() -> None:
    """However many maps begin, the parts of one are kept; of a map that was whole, none."""
    begun, _ = put_in(many_parts(sequence)[0] for sequence in range(1, 200))
    assert begun is not None
    assert len(begun.parts) == 1
    done, whole = put_in(many_parts())
    assert done is not None
    assert (len(whole), dict(done.parts), done.is_done) == (1, {}, True)


def entry(group: str, states: bytes = b"\0", same_as: int | None = None) -> GroupMap:
    return GroupMap(group, states, same_as, b"", b"")


@pytest.mark.parametrize(
    "entries",
    [
        (entry("a"), entry("b"), entry("a")),
        (entry("a", b"", 0),),
        (entry("a"), entry("b", b"", 1)),
        (entry("a"), entry("b", b"", -1)),
        (entry("a"), entry("b", b"\0", 0)),
        (entry("a"), entry("b", b"", 0), entry("b", b"\0")),
        (entry("a"), entry("b"), entry("b", b"", 0)),
    ],
    ids=["group twice", "itself", "not yet", "before the first", "both", "both in pieces", "both, states first"],
)
def test_entries_that_contradict_each_other_are_no_map(entries: tuple[GroupMap, ...]) -> None:
    """Undecodable, never a map with one of the two in it."""
    (part,) = split_map(node_map({}))
    with pytest.raises(Undecodable):
        joined((msgspec.structs.replace(part, groups=entries),))
