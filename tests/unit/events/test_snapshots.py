"""A snapshot and the tail of the log are the whole log (K10); what is no snapshot of ours is found out."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.events.examples import JOINER, LOG_ID, REF, Leader, proposed
from tests.unit.events.test_fold import Record, logs, read_all

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import terms
from topolog.events.errors import Poisoned, Undecodable
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.ids import NOWHERE, Offset, Place, Position, Slot, Term, TopologyVersion
from topolog.events.leases import LeaseRow
from topolog.events.rows import ROWS, row_format, shape_of
from topolog.events.snapshot_content import Content, Cut, Loader
from topolog.events.snapshots import SnapshotAnchor, SnapshotTaken, evolve, last_snapshot
from topolog.events.state import Row, State
from topolog.events.topics import Topic
from topolog.streams.simulation.world import World

PIECES = (7, 100, 1 << 20)
Verdict = list[Folded] | Ignored


def content_of(fold: Fold, piece_bytes: int = 100) -> tuple[list[bytes], Content]:
    """The pieces of a snapshot of this fold, and what is announced of them."""
    content = Content(Cut(fold.header, fold.state.copies()), piece_bytes)
    return [piece for piece in content.pieces() if piece], content


def restored(fold: Fold, piece_bytes: int = 100) -> Fold:
    pieces, content = content_of(fold, piece_bytes)
    loader = Loader()
    for piece in pieces:
        loader.feed(piece)
    header, state = loader.finish(content.digest, content.state_hash)
    return Fold(state, header)


def rows_of(state: State) -> dict[str, list[tuple[str, Row]]]:
    """Every row, volatile ones too, in the order in which the keys first appeared."""
    return {kind: list(rows.items()) for kind, rows in state.copies().items() if rows}


def assert_same(one: Fold, other: Fold) -> None:
    assert one.header == other.header
    assert rows_of(one.state) == rows_of(other.state)
    assert one.state.hash() == other.state.hash()


def assert_equivalent_at_every_border(log: list[Record], piece_bytes: int) -> None:
    """At every border of a set: a snapshot there and the tail give the same verdicts, header and rows."""
    whole = Fold()
    snapshots: list[Fold] = []
    for stamp, value in log:
        before = whole.header.position
        verdict = whole.read(stamp, value)
        for fold in snapshots:
            assert fold.read(stamp, value) == verdict
            assert fold.header == whole.header
        if whole.header.position != before:
            snapshots.append(restored(whole, piece_bytes))
    assert snapshots
    for fold in snapshots:
        assert_same(fold, whole)


@given(logs(), st.sampled_from(PIECES))
def test_a_snapshot_and_the_tail_are_the_whole_log(log: list[Record], piece_bytes: int) -> None:
    """K10, at every border of a set, with open sets, gaps, take-overs, repeats and late records behind it."""
    assert_equivalent_at_every_border(log, piece_bytes)


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_a_snapshot_and_the_tail_of_a_simulated_log_are_the_whole_log(seed: int) -> None:
    """K10 on a log that real coordinators have written, with members, leases, outcomes and snapshots in it."""
    world = World(seed)
    chance = random.Random(seed)
    while world.timeline.now_ms < 3_000:
        world.step()
        if chance.random() < 0.001:
            world.usurp(chance.choice(world.coordinators))
    log = [(each.stamp or b"", each.value) for each in world.broker.log.entries(Topic.DECISIONS)]
    whole = read_all(log)
    assert whole.state.count(LeaseRow)
    assert whole.header.inputs
    assert_equivalent_at_every_border(log, 1_000)


def test_a_term_that_has_ended_is_closed_behind_a_snapshot_too() -> None:
    """K3: that the term is over is a part of the header."""
    leader, records = Leader.start()
    ended = read_all(records + leader.set(terms.TermEnded(1)))
    (late,) = leader.set(proposed("A"))
    assert restored(ended).read(*late) is Ignored.CLOSED_TERM


def test_a_row_may_be_larger_than_a_piece() -> None:
    """A type's row holds two definitions, each as large as a request may be."""
    fold = some_fold()
    large = md.ObjectType("Large", {f"field{number}": "long" for number in range(500)})
    row = md.type_row(fold.state, "A")
    assert row is not None
    fold.state.put(str(row.type_id), msgspec.structs.replace(row, pending=large, accepted=large))
    pieces, content = content_of(fold, 1_000)
    assert {len(piece) for piece in pieces[:-1]} == {1_000}
    assert len(pieces) > 10
    assert content.size == sum(map(len, pieces))
    assert_same(restored(fold, 1_000), fold)


def some_fold() -> Fold:
    leader, records = Leader.start()
    return read_all(records + leader.set(proposed("A"), proposed("B", sequence=2)))


@given(st.data())
def test_damaged_content_is_found_out(data: st.DataObject) -> None:
    """One byte changed, cut off or added anywhere: the digest, or a row before it, says so."""
    pieces, content = content_of(some_fold(), 100)
    whole = b"".join(pieces)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    damaged = data.draw(st.sampled_from([changed, whole[:at], whole + b"\0", whole[:at] + whole[at + 1 :], b""]))
    loader = Loader()
    with pytest.raises(Undecodable):
        feed_and_finish(loader, damaged, content)


def feed_and_finish(loader: Loader, damaged: bytes, content: Content) -> None:
    loader.feed(damaged)
    loader.finish(content.digest, content.state_hash)


def test_rows_that_do_not_give_the_announced_state_are_found_out() -> None:
    """A digest over bytes says nothing of how they are read."""
    pieces, content = content_of(some_fold(), 1 << 20)
    loader = Loader()
    loader.feed(pieces[0])
    with pytest.raises(Undecodable, match="state hash"):
        loader.finish(content.digest, bytes(16))


@pytest.mark.parametrize("part", ["header", "lease"])
def test_what_the_state_hash_leaves_out_is_bound_by_the_digest(part: str) -> None:
    """The fold's header and the volatile rows have no part in the state hash: a content that is whole, of the right
    state and of other inputs or later leases is found out all the same."""
    leader, records = Leader.start()
    joined = m.NodeJoined(REF, JOINER, Slot(0), TopologyVersion(1, 0))
    fold = read_all(records + leader.set(joined) + leader.set(m.LeasesRenewed(m.pack_renewals([(Slot(0), 1)]))))
    _, announced = content_of(fold)
    header, rows = fold.header, fold.state.copies()
    assert rows[LeaseRow.KIND]
    if part == "header":
        header = msgspec.structs.replace(header, next_sequence=header.next_sequence + 1)
    else:
        later = {key: msgspec.structs.replace(row, sequence=99) for key, row in rows[LeaseRow.KIND].items()}
        rows = {**rows, LeaseRow.KIND: later}
    forged = Content(Cut(header, rows))
    content = b"".join(forged.pieces())
    assert forged.state_hash == announced.state_hash
    loader = Loader()
    loader.feed(content)
    with pytest.raises(Undecodable):
        loader.finish(announced.digest, announced.state_hash)


def test_a_snapshot_is_a_copy() -> None:
    """What is decided while it is encoded is not in it."""
    fold = some_fold()
    content = Content(Cut(fold.header, fold.state.copies()), 100)
    pieces = content.pieces()
    first = next(pieces)
    before = fold.state.hash()
    fold.state.drop(md.ProposalRow, next(key for key, _ in fold.state.rows(md.ProposalRow)))
    loader = Loader()
    for piece in (first, *pieces):
        loader.feed(piece)
    assert content.state_hash == before != fold.state.hash()
    assert loader.finish(content.digest, before)[1].hash() == before


def test_every_kind_of_row_is_kept_and_a_new_field_is_another_format() -> None:
    """Rows of another version are not read by guessing."""
    before = msgspec.defstruct("SomeRow", [("node", str)])
    after = msgspec.defstruct("SomeRow", [("node", str), ("since", int)])
    assert {row for row in Row.__subclasses__() if row.__module__.startswith("topolog.")} == set(ROWS)
    assert shape_of([before]) != shape_of([after])
    assert row_format() == shape_of(ROWS)


TAKEN = SnapshotTaken(
    log_id=LOG_ID,
    term=Term(1),
    position=Position(2),
    chain=bytes(16),
    state_hash=bytes(16),
    row_format=row_format(),
    digest=bytes(32),
    rows=3,
    content_bytes=300,
    chunks=1,
    first_offset=Offset(0),
    anchor=SnapshotAnchor(Offset(2), 1, Position(2), bytes(16)),
)


def test_the_newest_snapshot_is_a_row() -> None:
    """What operators see of it, and what the next leader counts from."""
    state = State()
    assert last_snapshot(state) is None
    evolve(state, TAKEN, Place(Position(5), bytes(16), Term(1)))
    row = last_snapshot(state)
    assert row is not None
    assert (row.position, row.said_at, row.rows, row.content_bytes) == (2, 5, 3, 300)


@pytest.mark.parametrize("change", [{"term": 2}, {"position": 9}, {"position": 1}])
def test_a_snapshot_of_another_term_or_of_the_future_poisons_the_log(change: dict[str, int]) -> None:
    """No leader announces such a one (K8): whoever reads it stops, and nobody starts from it."""
    leader, records = Leader.start()
    fold = read_all(records + leader.set(proposed("A")))
    assert fold.header.position != NOWHERE
    (record,) = leader.set(msgspec.structs.replace(TAKEN, **change))
    with pytest.raises(Poisoned):
        fold.read(*record)
