"""The stamp's bytes and the chain hash: judged before anything is decoded, so they must never surprise."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.errors import Undecodable
from topolog.events.ids import Offset, Term
from topolog.events.stamp import (
    NO_CHAIN,
    TEXT_BYTES_MAX,
    InputOffset,
    Stamp,
    chain_after,
    decode_stamp,
    encode_stamp,
)
from topolog.events.topics import RECORD_BYTES_MAX

STAMP = Stamp(
    log_id=bytes(range(16)),
    term=Term(7),
    sequence=1_000_000,
    index=1,
    size=3,
    chain=bytes(range(16, 32)),
    recorded_at_ms=1_700_000_000_000,
    inputs=(InputOffset(1, 0, Offset(18)), InputOffset(2, 3, Offset(2_000_000))),
    cause="requests@17 cli-4f/3",
    actor="ada",
    reason="größer",
)

KAFKA_RECORD_BYTES_MAX = 1_000_000
numbers = st.integers(0, (1 << 63) - 1)
inputs = st.builds(InputOffset, st.integers(0, 255), st.integers(0, 65_535), numbers, st.binary(min_size=8, max_size=8))


@given(
    st.builds(
        Stamp,
        log_id=st.binary(min_size=16, max_size=16),
        term=numbers,
        sequence=numbers,
        index=st.integers(0, 99),
        size=st.integers(100, 65_535),
        chain=st.binary(min_size=16, max_size=16),
        recorded_at_ms=numbers,
        inputs=st.lists(inputs, max_size=6).map(tuple),
        cause=st.text(),
        actor=st.text(),
        reason=st.text(),
    )
)
def test_a_stamp_is_read_back_as_it_was_written(stamp: Stamp) -> None:
    """K2: round trip of every field."""
    assert decode_stamp(encode_stamp(stamp)) == stamp


def test_the_layout_is_fixed_for_ever() -> None:
    """The bytes of layout 1: a new layout takes a new first byte."""
    small = Stamp(bytes(16), Term(1), 2, 0, 1, NO_CHAIN, 3, (InputOffset(1, 0, Offset(4), b"digestof"),), "c", "a", "r")
    head = "01" + "00" * 16 + f"{1:016x}{2:016x}{0:04x}{1:04x}" + "00" * 16 + f"{3:016x}01{1:04x}{1:04x}{1:04x}"
    assert encode_stamp(small).hex() == head + f"01{0:04x}{4:016x}" + b"digestofcar".hex()


@pytest.mark.parametrize("length", range(len(encode_stamp(STAMP))))
def test_a_stamp_that_ends_early_is_refused(length: int) -> None:
    """Cut at any byte it is Undecodable."""
    with pytest.raises(Undecodable):
        decode_stamp(encode_stamp(STAMP)[:length])


def test_a_stamp_that_goes_on_is_refused() -> None:
    """Exactly one stamp, or none."""
    with pytest.raises(Undecodable, match="do not agree"):
        decode_stamp(encode_stamp(STAMP) + b"\x00")


@given(st.binary(max_size=200))
def test_garbage_is_no_stamp(garbage: bytes) -> None:
    """Whatever a foreign program writes into the header, it is Undecodable or a stamp that says so itself."""
    try:
        stamp = decode_stamp(garbage)
    except Undecodable:
        return
    assert decode_stamp(encode_stamp(stamp)) == stamp


@pytest.mark.parametrize(
    "wrong", [{"index": 3}, {"size": 0, "index": 0}, {"term": Term(-1)}, {"sequence": -1}], ids=str
)
def test_a_stamp_that_contradicts_itself_is_refused(wrong: dict[str, int]) -> None:
    """An index outside of its set, an empty set, a number below nought."""
    with pytest.raises(Undecodable):
        decode_stamp(encode_stamp(msgspec.structs.replace(STAMP, **wrong)))


def test_another_layout_is_not_guessed_at() -> None:
    """A later layout has another first byte; this version refuses it."""
    with pytest.raises(Undecodable, match="layout 1"):
        decode_stamp(b"\x02" + encode_stamp(STAMP)[1:])


def test_long_texts_are_cut_so_that_the_largest_record_fits_kafka() -> None:
    """A reason of a megabyte in a request must not make a decision that no broker takes."""
    long = "ü" * 1_000_000
    stamp = encode_stamp(msgspec.structs.replace(STAMP, cause=long, actor=long, reason=long))
    assert decode_stamp(stamp).reason == "ü" * (TEXT_BYTES_MAX // 2)
    assert len(stamp) + RECORD_BYTES_MAX < KAFKA_RECORD_BYTES_MAX


def test_the_chain_hash_covers_what_came_before_the_stamp_and_the_value() -> None:
    """K3: a change of any of the three, or of the border between them, is another history."""
    chain = chain_after(NO_CHAIN, b"stamp", b"value")
    others = {
        chain_after(chain, b"stamp", b"value"),
        chain_after(NO_CHAIN, b"stamq", b"value"),
        chain_after(NO_CHAIN, b"stamp", b"valuf"),
        chain_after(NO_CHAIN, b"stampv", b"alue"),
    }
    assert len(others | {chain}) == 5
    assert len(chain) == 16


def test_the_chain_hash_is_the_one_that_logs_contain() -> None:
    """A log outlives every version: blake2b-16 over hash, length of the stamp, stamp and value."""
    assert chain_after(NO_CHAIN, b"stamp", b"value").hex() == "11f4f00464fcfe970f87dcce4a608560"
