"""What the log says, by a reading of its own: rule K3 written a second time, straight from its words.

The fold of `events/fold.py` is what every process runs; if it were wrong, all of them would be wrong alike. This
reading shares with it the layout of a stamp, the hash and the effect of an event, not how records are judged. It also
knows the true time at which each decision came to stand in the log, which nobody inside can know.
"""

import msgspec

from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.fold import evolve
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Place, Position, Term
from topolog.events.leases import LeaseRow
from topolog.events.log import Entry
from topolog.events.membership import LeasesRenewed, NodeJoined, unpack_renewals
from topolog.events.stamp import NO_CHAIN, Stamp, chain_after, decode_stamp
from topolog.events.state import State
from topolog.events.terms import LogStarted, TermEnded

Life = tuple[NodeId, Incarnation]


class Standing(msgspec.Struct, frozen=True):
    """A decision that stands in the log since `at_ns`, and the process that wrote it."""

    place: Place
    stamp: Stamp
    event: Decision
    author: str
    at_ns: int


class _Record(msgspec.Struct, frozen=True):
    stamp: Stamp
    stamp_bytes: bytes
    value: bytes
    author: str


class Ledger:
    """All accepted decisions so far.

    `marks`: chain hash and state hash at the end of each set. `echoed`: which heartbeats of each life are echoed, and
    where. `renewed_at`: where the last renewal of each life, or its joining, stands in the log.
    """

    def __init__(self) -> None:
        self.state = State()
        self.position = NOWHERE
        self.marks: dict[Position, tuple[bytes, bytes]] = {NOWHERE: (NO_CHAIN, State().hash())}
        self.echoed: dict[Life, list[tuple[Position, int]]] = {}
        self.renewed_at: dict[Life, Position] = {}
        self._log_id: bytes | None = None
        self._term = Term(0)
        self._ended = False
        self._expected = 0
        self._set: list[_Record] = []
        self._chain = NO_CHAIN

    def read(self, entry: Entry, author: str, now_ns: int) -> list[Standing]:
        """One record that has landed on `decisions`; the decisions that stand in the log because of it."""
        assert entry.stamp is not None, "nobody in the simulation writes without a stamp"
        record = _Record(decode_stamp(entry.stamp), entry.stamp, entry.value, author)
        if not self._counts(record.stamp):
            return []
        self._expected += 1
        self._set.append(record)
        if record.stamp.index + 1 < record.stamp.size:
            return []
        whole, self._set = self._set, []
        standing = [self._accept(each, now_ns) for each in whole]
        self.marks[self.position] = (self._chain, self.state.hash())
        return standing

    def _counts(self, stamp: Stamp) -> bool:
        """K3: a term's records count in the order 0, 1, 2 …, each once, until a gap, its end, or a later term."""
        if self._log_id is None:
            self._log_id = stamp.log_id if (stamp.term, stamp.sequence) == (0, 0) else None
            return self._log_id is not None
        if stamp.log_id != self._log_id or stamp.term < self._term:
            return False
        if stamp.term > self._term and stamp.sequence == 0:
            self._term, self._expected, self._ended, self._set = stamp.term, 0, False, []
        if stamp.term == self._term and stamp.sequence > self._expected:
            self._ended, self._set = True, []
        return stamp.term == self._term and stamp.sequence == self._expected and not self._ended

    def _accept(self, record: _Record, now_ns: int) -> Standing:
        self.position = Position(self.position + 1)
        self._chain = chain_after(self._chain, record.stamp_bytes, record.value)
        place = Place(self.position, self._chain, record.stamp.term)
        event = CODEC.decode(record.value)
        evolve(self.state, event, place)  # type: ignore[arg-type]  # only decisions are written to `decisions`
        if isinstance(event, LogStarted | TermEnded):
            self._ended = True
        self._note_lease(event, place)  # type: ignore[arg-type]
        return Standing(place, record.stamp, event, record.author, now_ns)  # type: ignore[arg-type]

    def _note_lease(self, event: Decision, place: Place) -> None:
        match event:
            case NodeJoined():
                self.renewed_at[NodeId(event.joiner.node), Incarnation(event.joiner.incarnation)] = place.position
            case LeasesRenewed():
                for slot, _ in unpack_renewals(event.renewals):
                    lease = self.state.get(LeaseRow, str(slot))
                    assert lease is not None
                    life = (lease.node, lease.incarnation)
                    self.echoed.setdefault(life, []).append((place.position, lease.sequence))
                    self.renewed_at[life] = place.position
