"""Which snapshots the log vouches for (K10): the anchor, the unbroken chain of its term, SnapshotTaken itself."""

from collections.abc import Iterable

import msgspec
import pytest
from tests.unit.events.examples import SNAPSHOT, STARTED, Leader, proposed

from topolog.events import terms
from topolog.events.codec import CODEC
from topolog.events.fold import Judge
from topolog.events.ids import Offset, Position, Term
from topolog.events.log import Entry
from topolog.events.snapshots import SnapshotAnchor, SnapshotTaken
from topolog.events.stamp import HEADER_NAME
from topolog.events.topics import Topic
from topolog.streams.restoring import Announced, Proof, Unproven

Record = tuple[bytes, bytes]


class Log:
    """The first term of a log: an anchor, a set of two that ends at the snapshot's position, one record behind it."""

    def __init__(self) -> None:
        founder = Leader()
        self.before = founder.set(STARTED)
        self.leader = Leader(term=1, chain=founder.chain)
        self.before += self.leader.set(terms.TermStarted(1, "c1", 7))
        self.anchor = self.leader.set(proposed("A"))
        self.anchor_chain = self.leader.chain
        self.cut = self.leader.set(proposed("B", sequence=2), proposed("C", sequence=3))
        self.taken = msgspec.structs.replace(
            SNAPSHOT,
            term=Term(1),
            position=Position(4),
            chain=self.leader.chain,
            anchor=SnapshotAnchor(Offset(2), 1, Position(2), self.anchor_chain),
        )
        self.between = self.leader.set(proposed("D", sequence=4))

    def named(self, taken: SnapshotTaken | None = None) -> list[Record]:
        """The decision that names the snapshot."""
        return self.leader.set(taken or self.taken)


def prove(taken: SnapshotTaken, *parts: Iterable[Record]) -> Proof | None:
    """The proof if these records prove the snapshot; raises Unproven if they never can."""
    proof = Proof(Announced(taken, Offset(0), CODEC.encode(taken)))
    for offset, (stamp, value) in enumerate(record for part in parts for record in part):
        if proof.read(Entry(Topic.DECISIONS, 0, Offset(offset), None, value, ((HEADER_NAME, stamp),), 0)):
            return proof
    return None


def test_an_unbroken_chain_from_the_anchor_proves_a_snapshot() -> None:
    """And the log is read on from behind the snapshot's position."""
    log = Log()
    proof = prove(log.taken, log.before, log.anchor, log.cut, log.between, log.named())
    assert proof is not None
    assert proof.resume_at == 5


def test_the_anchor_may_be_the_snapshots_own_position() -> None:
    """A leader that has read everything back cuts where it stands."""
    log = Log()
    judge = Judge()
    for record in (*log.before, *log.anchor, *log.cut):
        judge.judge(*record)
    anchor = SnapshotAnchor(Offset(4), 3, judge.header.position, judge.header.chain)
    taken = msgspec.structs.replace(log.taken, anchor=anchor)
    proof = prove(taken, log.before, log.anchor, log.cut, log.between, log.named(taken))
    assert proof is not None
    assert proof.resume_at == 5


def test_repeats_foreign_records_and_old_terms_in_between_do_not_matter() -> None:
    """The fold ignores them, and so does the proof."""
    log = Log()
    noise = [*log.before, *log.anchor, *Leader(bytes(16)).set(STARTED), (b"", b"rubbish")]
    assert prove(log.taken, noise, log.cut, noise, log.between, noise, log.named())


def test_without_its_two_ends_nothing_is_proven() -> None:
    """However far the log is read."""
    log = Log()
    assert prove(log.taken, log.before, log.cut, log.between, log.named()) is None
    log = Log()
    further = log.leader.set(proposed("E", sequence=5))
    assert prove(log.taken, log.before, log.anchor, log.cut, log.between, further) is None


def test_a_decision_that_names_another_content_proves_nothing() -> None:
    """The bytes must be those that close the chunks."""
    log = Log()
    other = msgspec.structs.replace(log.taken, digest=bytes(32))
    assert prove(log.taken, log.before, log.anchor, log.cut, log.between, log.named(other)) is None


def test_a_record_in_the_anchors_place_is_not_the_anchor() -> None:
    """Another one of that term and sequence, and what continues it, before the true one: only its hash tells them."""
    log = Log()
    impostor = Leader(term=1, chain=bytes(16), sequence=1)
    false = impostor.set(proposed("X")) + impostor.set(proposed("Y", sequence=2))
    assert prove(log.taken, log.before, false, log.anchor, log.cut, log.between, log.named())


def test_a_gap_behind_the_anchor_ends_the_proof() -> None:
    """K3: nothing of the term counts behind it, SnapshotTaken neither."""
    log = Log()
    with pytest.raises(Unproven):
        prove(log.taken, log.before, log.anchor, log.cut, log.named())


def test_a_later_term_behind_the_anchor_ends_the_proof() -> None:
    """The sends of a deposed leader land behind the term that deposed it."""
    log = Log()
    successor = Leader(term=2, chain=log.leader.chain).set(terms.TermStarted(2, "c2", 8))
    with pytest.raises(Unproven):
        prove(log.taken, log.before, log.anchor, successor, log.cut, log.between, log.named())


def test_the_terms_own_end_behind_the_anchor_ends_the_proof() -> None:
    """K3: nothing of a term counts behind its TermEnded."""
    log = Log()
    ended = log.leader.set(terms.TermEnded(1))
    with pytest.raises(Unproven):
        prove(log.taken, log.before, log.anchor, log.cut, log.between, ended, log.named())


def test_another_history_at_the_snapshots_position_ends_the_proof() -> None:
    """The chain hash at its position must be that of its content."""
    log = Log()
    other = msgspec.structs.replace(log.taken, chain=bytes(16))
    with pytest.raises(Unproven):
        prove(other, log.before, log.anchor, log.cut, log.between, log.named(other))


def test_another_history_behind_the_anchor_ends_the_proof() -> None:
    """Each stamp carries the chain hash before it."""
    log = Log()
    fork = Leader(term=1, chain=bytes(16), sequence=2).set(proposed("X"))
    with pytest.raises(Unproven):
        prove(log.taken, log.before, log.anchor, fork)
