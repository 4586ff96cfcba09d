"""Any bytes on any topic: no reader raises what is not ours, no refused stamp moves a fold, no coordinator dies.

The records are arbitrary bytes, and records of a real history that were damaged: cut, lengthened, flipped, spliced
with another one's stamp or value, sent to another topic.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.projections.chronicle import Chronicle
from tests.unit.streams.node.test_client import CUSTOMER

from topolog.events.codec import CODEC
from topolog.events.errors import LogDiverged, Poisoned, TopologError, Undecodable
from topolog.events.fold import Fold, Ignored, Judge
from topolog.events.ids import NodeId, Offset
from topolog.events.log import Entry, InMemoryLog
from topolog.events.stamp import HEADER_NAME, Stamp, decode_stamp
from topolog.events.topics import Topic
from topolog.streams.clock import ManualClock
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver
from topolog.streams.node.core import NodeCore
from topolog.streams.node.testing import TERMS, LocalCluster

Raw = tuple[bytes | None, bytes]
"""The stamp of a record, if it has one, and its value."""


def _history() -> list[Raw]:
    chronicle = Chronicle().start()
    for name in ("n1", "n2"):
        chronicle.join(name)
    for number in range(3):
        chronicle.propose("Customer", {f"f{number}": "long"})
        chronicle.accept("Customer", "n1", "n2")
        chronicle.renew("n1", "n2")
    return [(entry.stamp, entry.value) for entry in chronicle.entries]


def _inputs() -> list[bytes]:
    """Valid requests and heartbeats, as nodes of a cluster in memory have sent them."""
    with LocalCluster() as cluster, cluster.node("n1") as node:
        node.propose(CUSTOMER)
        cluster.advance(1)
        topics = ((Topic.REQUESTS, 1), (Topic.HEARTBEATS, 4))
        return [
            entry.value
            for topic, count in topics
            for number in range(count)
            for entry in cluster.log.entries(topic, number)
        ]


HISTORY = _history()
INPUTS = _inputs()


@st.composite
def damaged(draw: st.DrawFn, sound: bytes) -> bytes:
    """The bytes after a few cuts, flips and insertions."""
    value = bytearray(sound)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(value) - 1)))
        match draw(st.sampled_from(("flip", "cut", "insert", "end"))):
            case "flip" if value:
                value[at] ^= draw(st.integers(1, 255))
            case "cut":
                del value[at : at + draw(st.integers(1, 20))]
            case "insert":
                value[at:at] = draw(st.binary(min_size=1, max_size=20))
            case "end":
                del value[at:]
    return bytes(value)


anything = st.binary(max_size=300)
stamps = st.none() | anything | st.sampled_from(HISTORY).flatmap(lambda raw: damaged(raw[0] or b""))
values = anything | st.sampled_from(HISTORY).flatmap(lambda raw: damaged(raw[1])) | st.sampled_from(INPUTS)
spliced = st.tuples(st.sampled_from([stamp for stamp, _ in HISTORY]), values)
records: st.SearchStrategy[Raw] = st.tuples(stamps, values) | spliced | st.sampled_from(HISTORY)
inputs = anything | st.sampled_from(INPUTS).flatmap(damaged) | st.sampled_from(INPUTS) | values


def entry(raw: Raw, offset: int) -> Entry:
    stamp, value = raw
    headers = () if stamp is None else ((HEADER_NAME, stamp),)
    return Entry(Topic.DECISIONS, 0, Offset(offset), "k", value, headers, 0)


def is_stamp(stamp: bytes | None) -> bool:
    try:
        return isinstance(decode_stamp(stamp or b""), Stamp)
    except Undecodable:
        return False


@given(st.lists(records, max_size=8), st.integers(0, len(HISTORY)))
def test_a_fold_moves_by_what_its_stamp_allows_and_ends_with_an_error_of_ours(noise: Sequence[Raw], start: int) -> None:
    """K3, K8: unstamped bytes change nothing; an accepted record that cannot be decoded is Poisoned, never skipped."""
    fold, judge = Fold(), Judge()
    for stamp, value in HISTORY[:start]:
        fold.read(stamp, value)
        judge.judge(stamp, value)
    for stamp, value in noise:
        before = fold.header, fold.state.hash()
        try:
            found = fold.read(stamp, value)
        except (Poisoned, LogDiverged):
            return
        assert isinstance(found, Ignored) == isinstance(judge.judge(stamp, value), Ignored)
        if not is_stamp(stamp):
            assert isinstance(found, Ignored)
            assert (fold.header, fold.state.hash()) == before


@given(st.lists(records, max_size=8), st.integers(0, len(HISTORY)))
def test_every_reader_takes_any_record_in_the_same_way(noise: Sequence[Raw], start: int) -> None:
    """K3: node and plain fold keep and ignore the same records, stop at the same one, and have the same hash."""
    fold, node = Fold(), NodeCore(NodeId("n1"), ())
    for offset, raw in enumerate([*HISTORY[:start], *noise]):
        try:
            found = fold.read(*raw)
        except TopologError as error:
            with pytest.raises(type(error)):
                node.read(entry(raw, offset))
            return
        assert node.read(entry(raw, offset)) == found
        assert node.state.hash() == fold.state.hash()


@given(values)
def test_any_bytes_are_a_record_or_undecodable(value: bytes) -> None:
    """The codec's promise to everybody else; what it accepts, it can write again."""
    try:
        record = CODEC.decode(value)
    except Undecodable:
        return
    assert CODEC.decode(CODEC.encode(record)) == record


noise_on_topics = st.tuples(
    st.sampled_from((Topic.REQUESTS, Topic.HEARTBEATS, Topic.DECISIONS)), inputs, stamps, st.sampled_from(("n1", "x"))
)


@settings(max_examples=60)
@given(st.lists(noise_on_topics, max_size=6))
def test_no_coordinator_dies_of_what_it_reads(noise: Sequence[tuple[Topic, bytes, bytes | None, str]]) -> None:
    """K7, K8: whatever lies on its topics, it leads, and decides what is asked in order after it."""
    clock = ManualClock()
    log = InMemoryLog(clock.wall_ms)
    driver = Driver(log.reader(), log.writer(), clock, "demo", "c1", terms=TERMS, takeover_ms=1)
    for _ in range(10):
        driver.step(0)
    assert driver.role is Role.LEADING
    for topic, value, stamp, key in noise:
        log.put(topic, key, value, () if stamp is None else ((HEADER_NAME, stamp),))
    for _ in range(20):
        driver.step(0)
        clock.advance(TERMS.heartbeat_ms)
    assert driver.role is Role.LEADING
    assert not driver.core.unread
