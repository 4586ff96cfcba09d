"""The life of a copy, EX8, and maps in bytes, EX30: by the table, by Apache Ignite's own
bits, and by anything at all."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from topolog.events.errors import BadInput, OutOfRange, Undecodable
from topolog.events.group_definition import PARTITIONS_MAX
from topolog.events.partitions import (
    TRANSITIONS,
    PartitionState,
    When,
    Why,
    codes_of,
    decode_codes,
    encode_codes,
    is_legal,
    pack_states,
    states_of,
    unpack_states,
)

MOVING, OWNING, RENTING, EVICTED, LOST = PartitionState
ANY = (None, *PartitionState)
GOLDEN = Path(__file__).parents[2] / "golden" / "ignite" / "state_maps.jsonl"


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


def between(source: PartitionState | None, target: PartitionState | None) -> dict[When, set[Why]]:
    """What leads from one state to the other, by when it may."""
    found: dict[When, set[Why]] = {}
    for each in TRANSITIONS:
        if (each.source, each.target) == (source, target):
            found.setdefault(each.when, set()).add(each.why)
    return found


def reached(start: PartitionState | None, *, without: tuple[PartitionState | None, ...] = ()) -> set[object]:
    """The states to which some road leads from `start`, none of it through one of `without`."""
    found: set[object] = set()
    to_visit: list[PartitionState | None] = [start]
    while to_visit:
        state = to_visit.pop()
        nexts = {each.target for each in TRANSITIONS if each.source is state} - found - set(without)
        found |= nexts
        to_visit += nexts
    return found


# States.


def test_h1_ordinals_are_those_of_ignite() -> None:
    """EX30: MOVING 0, OWNING 1, RENTING 2, EVICTED 3, LOST 4; what is stored is one more."""
    assert [(each.name, each.value, each.ordinal, each.code) for each in PartitionState] == [
        ("MOVING", "MOVING", 0, 1),
        ("OWNING", "OWNING", 1, 2),
        ("RENTING", "RENTING", 2, 3),
        ("EVICTED", "EVICTED", 3, 4),
        ("LOST", "LOST", 4, 5),
    ]


def test_b12_only_an_owning_copy_serves_and_counts_as_an_owner() -> None:
    """EX9: MOVING takes backup writes only, RENTING no new operations, LOST is not trusted."""
    assert [each for each in PartitionState if each.serves] == [OWNING]
    assert [each for each in PartitionState if each.is_owner] == [OWNING]


def test_t10_who_is_written_to_goes_by_the_state_alone() -> None:
    """EX9, DS3: a surplus copy gets every write as long as it is OWNING or MOVING, whatever the assignment says."""
    assert [each for each in PartitionState if each.is_written] == [MOVING, OWNING]


# Transitions.


def test_b12_a_new_copy_loads_unless_there_is_nothing_to_load() -> None:
    """EX8, (none) to MOVING and (none) to OWNING."""
    without_loading = {Why.NEVER_OWNED, Why.OWNER_BACK, Why.GIVEN_UP, Why.RESET}
    assert between(None, MOVING) == {When.EXCHANGE: {Why.ASSIGNED}}
    assert between(None, OWNING) == {When.EXCHANGE: without_loading}


def test_pi8_moving_becomes_owning_outside_an_exchange_only_by_its_own_load() -> None:
    """EX8, EX10: a load that is finished, while no exchange is open; at the end of one, where there is no owner."""
    assert between(MOVING, OWNING) == {
        When.BETWEEN: {Why.LOADED},
        When.EXCHANGE: {Why.NEVER_OWNED, Why.GIVEN_UP, Why.RESET},
    }


def test_pi8_an_owner_is_demoted_only_by_an_exchange() -> None:
    """EX8, EX10: OWNING to MOVING."""
    assert between(OWNING, MOVING) == {When.EXCHANGE: {Why.BEHIND}}


def test_b12_only_copies_with_something_in_them_are_moved_back() -> None:
    """EX8: OWNING and RENTING may become MOVING; LOST too, in one step with the reset that chooses another copy."""
    assert {each.source for each in TRANSITIONS if each.target is MOVING} == {None, OWNING, RENTING, LOST}


def test_b12_surplus_copies_are_given_up_only_between_exchanges() -> None:
    """EX8: OWNING, MOVING and LOST to RENTING; the check never runs inside an exchange."""
    for source in (OWNING, MOVING, LOST):
        assert between(source, RENTING) == {When.BETWEEN: {Why.SURPLUS}}
    assert {each.source for each in TRANSITIONS if each.target is RENTING} == {OWNING, MOVING, LOST}


def test_b12_evicted_is_the_end_of_a_copy() -> None:
    """EX8: only a RENTING copy is evicted, and what comes later is a new one."""
    assert {each.source for each in TRANSITIONS if each.target is EVICTED} == {RENTING}
    assert {each.target for each in TRANSITIONS if each.source is EVICTED} == {None}


def test_ds2_a_copy_that_is_being_cleared_never_owns_without_loading_anew() -> None:
    """DS2: neither loss nor reset leads from RENTING to OWNING; every road goes through MOVING, or a new copy."""
    assert OWNING in reached(RENTING)
    assert reached(RENTING, without=(MOVING, None)) == {EVICTED}


def test_pi9_what_is_lost_stays_lost_until_somebody_says_or_brings_otherwise() -> None:
    """DS2: a reset, the policy IGNORE, an owner of the row with its disk; else the copy can only go."""
    assert between(LOST, OWNING) == {When.EXCHANGE: {Why.RESET, Why.GIVEN_UP}}
    assert between(LOST, MOVING) == {When.EXCHANGE: {Why.RESET, Why.GIVEN_UP, Why.OWNER_BACK}}


def test_every_state_begins_and_ends() -> None:
    """No state is unheard of, none is a trap, and any copy can go with its node or its group."""
    assert reached(None) == set(ANY)
    for state in PartitionState:
        assert between(state, None)[When.ANY_TIME] >= {Why.NODE_LEFT, Why.GROUP_DROPPED}


def test_the_table_has_each_line_once_and_no_reason_for_nothing() -> None:
    """One line per (from, to, why), and every why is one sentence."""
    assert len({(each.source, each.target, each.why) for each in TRANSITIONS}) == len(TRANSITIONS)
    assert {each.why for each in TRANSITIONS} == set(Why)
    assert all(each.value[0].isupper() and each.value.endswith(".") for each in Why)


@pytest.mark.parametrize("when", [When.EXCHANGE, When.BETWEEN])
def test_only_what_the_table_has_is_legal(when: When) -> None:
    """Every combination there is: legal if a line of the table allows it then."""
    allowed = {(each.source, each.target) for each in TRANSITIONS if each.when in (when, When.ANY_TIME)}
    assert {pair for pair in itertools.product(ANY, ANY) if is_legal(*pair, when)} == allowed


# Maps in bytes.


def test_h1_every_map_has_the_bits_that_ignite_gives_it() -> None:
    """EX30: all lines, both ways, and in the form that is sent; every state occurs."""
    golden = lines()
    assert len(golden) == 60
    assert {name for line in golden for name in line["states"].values()} == set(PartitionState.__members__)
    for line in golden:
        states = {int(key): PartitionState[name] for key, name in line["states"].items()}
        size, bits = line["partitions"], bytes.fromhex(line["bits"])
        assert pack_states(states, size) == bits
        assert unpack_states(bits, size) == states
        assert states_of(decode_codes(encode_codes(codes_of(states, size)), size)) == states


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9, 1024, PARTITIONS_MAX])
def test_each_state_is_found_at_either_end_of_a_group(size: int) -> None:
    """Bits 3p to 3p+2 cross the borders of bytes; the last partition is a partition too."""
    for state, partition in itertools.product(PartitionState, {0, size - 1}):
        bits = pack_states({partition: state}, size)
        assert int.from_bytes(bits, "little") == state.code << 3 * partition
        assert unpack_states(bits, size) == {partition: state}
        assert unpack_states(bits + bytes(3), size) == {partition: state}
    assert pack_states({}, size) == b""
    assert unpack_states(b"", size) == {}


maps = st.integers(1, 200).flatmap(
    lambda size: st.lists(st.sampled_from(range(6)), min_size=size, max_size=size).map(bytes)
)
stretches = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9_000)), min_size=1, max_size=7).map(
    lambda runs: b"".join(bytes((code,)) * length for code, length in runs)
)


@given(maps | stretches)
@example(bytes(PARTITIONS_MAX))
@example(b"\2" * PARTITIONS_MAX)
@example(b"\2\5" * (PARTITIONS_MAX // 2))
def test_any_map_is_read_back_and_never_much_larger_than_its_bits(codes: bytes) -> None:
    """The form that is sent is at most one byte longer than the bits, whatever the map; its states are its codes."""
    bits = pack_states(states_of(codes), len(codes))
    data = encode_codes(codes)
    assert len(data) <= len(bits) + 1
    assert decode_codes(data, len(codes)) == codes
    assert unpack_states(bits, len(codes)) == states_of(codes)
    assert codes_of(states_of(codes), len(codes)) == codes


def test_few_copies_of_many_are_sent_as_runs() -> None:
    """EX30: run-length coded where sparse; a node of 300 sends 2 KB for 65,000 partitions, not 24."""
    sparse = codes_of(dict.fromkeys(range(0, PARTITIONS_MAX, 100), OWNING), PARTITIONS_MAX)
    dense = codes_of({each: (OWNING, MOVING)[each % 2] for each in range(1024)}, 1024)
    assert encode_codes(sparse)[:1] == b"\1"
    assert len(encode_codes(sparse)) < 2_000
    assert encode_codes(dense) == b"\0" + pack_states(states_of(dense), 1024)


def test_equal_maps_have_equal_bytes() -> None:
    """EX30 finds equal maps by their bytes, also of groups of different sizes."""
    assert encode_codes(b"\2\0\0\5") == encode_codes(b"\2\0\0\5" + bytes(900))


@given(st.builds(bytes.__add__, st.sampled_from((b"", b"\0", b"\1")), st.binary(max_size=40)), st.integers(1, 70))
@example(b"\1" + b"\xfa\xff\xff\x7f", 70)
@example(b"\1" + b"\x8a", 70)
@example(b"\1" + b"\xff" * 30 + b"\1", 70)
@example(b"\1\6", 70)
@example(b"\0" + b"\7", 70)
@example(b"\0" + b"\1" * 30_000, 70)
@example(b"\7", 70)
@example(b"", 70)
def test_any_bytes_are_a_map_or_undecodable(data: bytes, size: int) -> None:
    """What comes from the network is a map of that group or raises Undecodable; few bytes never become many."""
    try:
        codes = decode_codes(data, size)
    except Undecodable:
        codes = bytes(size)
    assert len(codes) == size
    assert decode_codes(encode_codes(codes), size) == codes
    try:
        states = unpack_states(data, size)
    except Undecodable:
        states = {}
    assert pack_states(states, size) in (data.rstrip(b"\0"), b"")


@pytest.mark.parametrize(
    "data",
    [b"", b"\2", b"\1\x8a", b"\1" + b"\x80" * 9 + b"\0", b"\1\6", b"\0\7", b"\0\1" + bytes(25_000)],
    ids=["no form", "other form", "cut off", "overlong number", "no state", "no bits", "bytes for nothing"],
)
def test_bytes_that_no_writer_makes_are_damage(data: bytes) -> None:
    """Read generously they would be a map, and not the one that was meant."""
    with pytest.raises(Undecodable):
        decode_codes(data, PARTITIONS_MAX)


@pytest.mark.parametrize("data", [b"\0\0\2", b"\1\x1a\x3a\2", b"\1\xfa\x7f"])
def test_copies_outside_of_the_group_are_told_from_damage(data: bytes) -> None:
    """A map that is sound in itself and too large for its group; a group without an end is damage."""
    with pytest.raises(OutOfRange):
        decode_codes(data, 3)
    with pytest.raises(OutOfRange, match="partition 3, its group has 3"):
        unpack_states(pack_states({3: LOST}, 4), 3)
    with pytest.raises(Undecodable, match="larger than any group") as raised:
        decode_codes(b"\1\xfa\xff\xff\x7f", PARTITIONS_MAX)
    assert not isinstance(raised.value, OutOfRange)


@pytest.mark.parametrize("partition", [-1, 14])
def test_a_partition_that_a_group_has_not_is_not_packed(partition: int) -> None:
    """BadInput: it would be another partition's bits, or a map that no reader takes."""
    with pytest.raises(BadInput, match=f"no partition {partition} in a group of 14"):
        pack_states({partition: OWNING}, 14)


@pytest.mark.parametrize("code", [6, 7, 8, 255])
def test_a_code_that_is_no_state_is_not_packed(code: int) -> None:
    """BadInput, in either form."""
    with pytest.raises(BadInput, match="no state"):
        encode_codes(bytes((0, code)))
