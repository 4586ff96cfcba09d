"""Records that somebody has forged for a log, with its own id and a stamp that is one: what must hold even then (K3).

Whoever may write `decisions` can write anything there. Its readers cannot tell who wrote a record, but they must take
it in the same way, wherever they have started, and end with an error of ours or not at all.
"""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.streams.coordinator.desk import LOG_ID as DESK_LOG_ID
from tests.unit.streams.coordinator.desk import Desk

from topolog.events.codec import CODEC
from topolog.events.errors import LogDiverged, TopologError
from topolog.events.fold import Fold, Header, Ignored, Judge
from topolog.events.ids import NodeId, Offset, Term
from topolog.events.log import Entry, InMemoryLog
from topolog.events.membership import LeasesRenewed
from topolog.events.snapshot_content import Content, Cut, Loader
from topolog.events.stamp import HEADER_NAME, NO_CHAIN, TERM_MAX, InputOffset, Stamp, decode_stamp, encode_stamp
from topolog.events.terms import TermEnded, TermStarted
from topolog.events.topics import Topic
from topolog.streams.clock import ManualClock
from topolog.streams.coordinator.core import Core, Role
from topolog.streams.coordinator.driver import Driver
from topolog.streams.node.core import NodeCore
from topolog.streams.node.testing import TERMS

Raw = tuple[bytes, bytes]


def _history() -> list[Raw]:
    chronicle = Chronicle().start()
    for name in ("n1", "n2"):
        chronicle.join(name)
    chronicle.propose("Customer", {"id": "long"})
    chronicle.accept("Customer", "n1", "n2")
    chronicle.replace_in_one_set("n2", "n3")
    chronicle.lead("c2")
    chronicle.renew("n1", "n3")
    return [(entry.stamp or b"", entry.value) for entry in chronicle.entries]


HISTORY = _history()
ANY = st.integers(0, TERM_MAX)


def near(number: int) -> st.SearchStrategy[int]:
    """Mostly what is next, or what a slip of one would make of it."""
    return st.integers(max(0, number - 1), number + 1) | st.just(number) | st.sampled_from((0, TERM_MAX)) | ANY


@st.composite
def stamps(draw: st.DrawFn, header: Header, chain: bytes) -> Stamp:
    size = draw(st.sampled_from((1, 1, 1, 2, 3)) | st.integers(1, 0xFFFF))
    return Stamp(
        log_id=header.log_id or LOG_ID,
        term=Term(draw(near(header.term))),
        sequence=draw(near(header.next_sequence)),
        index=draw(st.just(0) | st.integers(0, size - 1)),
        size=size,
        chain=draw(st.just(chain) | st.just(NO_CHAIN) | st.binary(min_size=16, max_size=16)),
        recorded_at_ms=draw(st.integers(-TERM_MAX - 1, TERM_MAX)),
        inputs=draw(input_offsets),
        actor=draw(st.text(max_size=5)),
    )


input_offsets = st.lists(
    st.builds(InputOffset, st.integers(0, 9), st.integers(0, 5), st.integers(-9, 9).map(Offset) | ANY.map(Offset)),
    max_size=3,
).map(tuple)


@st.composite
def values(draw: st.DrawFn, term: int) -> bytes:
    """What could stand there, mostly a decision; of a term's start and end those of this term."""
    own = (TermStarted(Term(term), "forger", 3), TermEnded(Term(term)), LeasesRenewed(b""))
    return draw(
        st.sampled_from([CODEC.encode(event) for event in own])
        | st.sampled_from([value for _, value in HISTORY])
        | st.binary(max_size=30)
    )


def forge(data: st.DataObject, judge: Judge) -> Raw:
    """A record for the place where this judge stands."""
    header, whole = judge.standing
    stamp = data.draw(stamps(header, whole[-1].place.chain if whole else header.chain))
    return encode_stamp(stamp), data.draw(values(stamp.term))


def entry(raw: Raw, offset: int = 0) -> Entry:
    return Entry(Topic.DECISIONS, 0, Offset(offset), "k", raw[1], ((HEADER_NAME, raw[0]),), 0)


def restored(fold: Fold) -> Fold:
    """The fold of a reader that has started from a snapshot of this one."""
    content, loader = Content(Cut(fold.header, fold.state.copies())), Loader()
    for piece in content.pieces():
        if piece:
            loader.feed(piece)
    header, state = loader.finish(content.digest, content.state_hash)
    return Fold(state, header)


def outcome(read: Callable[..., object], *record: object) -> object:
    """What a reader says of a record: why it does not count, the positions it completes, or the error that ends it."""
    try:
        found = read(*record)
    except TopologError as error:
        return type(error)
    return found if isinstance(found, Ignored) else [each.place for each in found]  # type: ignore[attr-defined]


@settings(max_examples=150)
@given(st.data(), st.integers(2, len(HISTORY)), st.integers(0, 8))
def test_all_readers_take_a_forged_record_alike_wherever_they_started(
    data: st.DataObject, start: int, count: int
) -> None:
    """K3, K10: plain fold, node, following coordinator and one who came from a snapshot; a bare judge judges so too."""
    fold, node, core = Fold(), NodeCore(NodeId("n1"), ()), Core("c9", 9)
    late = data.draw(st.integers(1, start), label="the late reader starts at the first border from here on")
    came: Fold | None = None
    for number, raw in enumerate(HISTORY[:start]):
        fold.read(*raw)
        node.read(entry(raw))
        core.read(entry(raw))
        if came:
            came.read(*raw)
        elif number + 1 >= late and not fold.judge().standing[1]:
            came = restored(fold)
    judge = fold.judge()
    for _ in range(count):
        raw = forge(data, judge)
        judged = outcome(judge.judge, *raw)
        told = outcome(fold.read, *raw)
        readers = [node.read, core.read]
        assert [outcome(read, entry(raw)) for read in readers] == [told] * 2
        if came:
            assert outcome(came.read, *raw) == told
            assert (came.header, came.state.hash()) == (fold.header, fold.state.hash())
        assert node.state.hash() == core.state.hash() == fold.state.hash()
        if isinstance(told, type):
            return
        assert judged == told
        judge.stand(fold.judge().standing)  # the end of a term is folded, not judged


@settings(max_examples=150)
@given(st.data(), st.integers(1, 5))
def test_a_leader_that_reads_a_forged_record_goes_on_or_is_deposed(data: st.DataObject, count: int) -> None:
    """K6: it believes what it has read back; what it does not expect deposes it, nothing else happens to it."""
    desk = Desk.leading()
    judge = Judge(desk.core.confirmed)  # one for all, for a forged record may leave a set open
    for _ in range(count):
        raw = forge(data, judge)
        assert decode_stamp(raw[0]).log_id == DESK_LOG_ID
        expected = outcome(judge.judge, *raw)
        found = outcome(desk.core.read, entry(raw))
        if isinstance(expected, type):
            assert found is expected
            return
        if isinstance(expected, Ignored):
            assert found is expected
        else:
            assert desk.role() is Role.DEPOSED or not expected
        if desk.role() is Role.DEPOSED:
            return
    desk.core.renew()
    desk.core.settle()


def test_behind_the_last_term_that_fits_a_coordinator_says_why_it_cannot_lead() -> None:
    """Counting up to it takes for ever; a forged record is there at once, and every claim would overflow its stamp."""
    clock = ManualClock()
    log = InMemoryLog(clock.wall_ms)
    driver = Driver(log.reader(), log.writer(), clock, "demo", "c1", terms=TERMS, takeover_ms=1)
    while driver.role is not Role.LEADING:
        driver.step(0)
    log_id = driver.core.confirmed.log_id
    assert log_id is not None
    stamp = encode_stamp(Stamp(log_id, Term(TERM_MAX), 0, 0, 1, NO_CHAIN, 0))
    log.put(Topic.DECISIONS, "demo", CODEC.encode(TermStarted(Term(TERM_MAX), "forger", 3)), ((HEADER_NAME, stamp),))

    def lead_again() -> None:
        for _ in range(30):
            driver.step(0)
            clock.advance(TERMS.heartbeat_ms)

    with pytest.raises(LogDiverged, match="nobody can lead"):
        lead_again()


@settings(max_examples=100)
@given(st.data(), st.integers(1, 6))
def test_a_coordinator_ends_with_an_error_of_ours_or_decides_again(data: st.DataObject, count: int) -> None:
    """The whole loop: deposed by what it reads it starts again from the log, and leads or stops in order."""
    clock = ManualClock()
    log = InMemoryLog(clock.wall_ms)
    driver = Driver(log.reader(), log.writer(), clock, "demo", "c1", terms=TERMS, takeover_ms=1)
    for _ in range(10):
        driver.step(0)
    assert driver.role is Role.LEADING
    judge = Judge(driver.core.confirmed)
    for _ in range(count):
        raw = forge(data, judge)
        log.put(Topic.DECISIONS, "demo", raw[1], ((HEADER_NAME, raw[0]),))
        if isinstance(outcome(judge.judge, *raw), type):
            break
    for _ in range(30):
        try:
            driver.step(0)
        except TopologError:
            return
        clock.advance(TERMS.heartbeat_ms)
