"""The coordinator without I/O and without a clock: what it has read goes in, records to append come out.

Threats. The broker's answer to an append may be late, lost or wrong; another coordinator may have taken over without
our knowing; we may die between any two records. The log alone says what happened.

How it works (K4-K7). A follower folds what it reads. To lead, it appends TermStarted and leads if the first record of
that term it reads back is its own. A leader decides ahead: each set is stamped, folded into its own state at once and
put into `outbox`, but nothing is believed before it is read back. What is read back is compared byte for byte with what
was appended, in order; the first accepted record that is another one deposes this coordinator, which is then of no
further use: drop it and start a new one from the log. Two leaders at a time are slow, never wrong, for the fold accepts
only one of them.

Order of use: `read` every record of `decisions` first, then `hear` heartbeats and `ask` requests in the order of their
offsets, then `settle` once; then send `dead` away and wait for its delivery, append `outbox` in order, and look at the
deadlines again.
"""

from collections import deque
from collections.abc import Callable, Collection
from enum import Enum
from typing import TypeVar

import msgspec

from topolog.events import membership as m
from topolog.events import requests as q
from topolog.events.asked import Request, RequestRef
from topolog.events.asking import digest_of
from topolog.events.codec import CODEC, Codec, Record
from topolog.events.decision import Decision
from topolog.events.errors import Refused, TopologError, Undecodable
from topolog.events.exchange import ExchangeRow, QueueRow
from topolog.events.fold import Accepted, Fold, Folded, Header, Ignored, Judge, evolve, next_term
from topolog.events.groups import GroupRow
from topolog.events.ids import NodeId, Offset, Place, Position, Term
from topolog.events.leases import LeaseRow
from topolog.events.log import Entry
from topolog.events.proof import Life
from topolog.events.snapshot_content import Cut
from topolog.events.snapshots import SnapshotTaken
from topolog.events.stamp import NO_CHAIN, Stamp, chain_after, encode_stamp
from topolog.events.state import State
from topolog.events.terms import LogStarted, TermEnded, TermStarted, cluster
from topolog.events.topics import PARTITIONS, RECORD_BYTES_MAX, REQUEST_TOPICS, Topic
from topolog.streams.coordinator.agenda import Agenda
from topolog.streams.coordinator.causes import cause_of
from topolog.streams.coordinator.exchanges import Exchanges, known_of, maps_from
from topolog.streams.coordinator.reports import Reports
from topolog.streams.coordinator.resuming import Inputs
from topolog.streams.rules import (
    baseline,
    cluster_state,
    drains,
    lease_terms,
    membership,
    metadata,
    objects,
    repair,
    requesters,
    requests,
    senders,
)
from topolog.streams.rules.exchange import Patience
from topolog.streams.rules.requests import Circumstances
from topolog.streams.rules.senders import DeadLetter
from topolog.streams.rules.single_maps import Known, MapVerdict

T = TypeVar("T")


class Role(Enum):
    """What this coordinator is. DEPOSED and RETIRED are ends: a new one must start from the log."""

    FOLLOWING = "following"
    CLAIMING = "claiming"
    LEADING = "leading"
    RETIRING = "retiring"
    RETIRED = "retired"
    DEPOSED = "deposed"


class Outgoing(msgspec.Struct, frozen=True):
    """One record to append to `decisions`."""

    stamp: bytes
    value: bytes


class Dead(msgspec.Struct, frozen=True):
    """An input record that cannot be decoded, or used, and why."""

    entry: Entry
    reason: str


class Core:
    """One coordinator. `instance` is its name, `life` the random number of its process, which no other process has.

    `at_ms` is wall time for stamps, set by the driver; `decided` is what it takes to count what was decided; `codec` is
    that of its build.
    """

    def __init__(self, instance: str, life: int, patience: Patience | None = None, codec: Codec = CODEC) -> None:
        self.instance = instance
        self._life = life
        self.role = Role.FOLLOWING
        self.at_ms = 0
        self.outbox: list[Outgoing] = []
        self.decided: list[Decision] = []
        self.dead: list[Dead] = []
        self.agenda = Agenda(patience or Patience())
        self.reports = Reports()
        self.exchanges = Exchanges(self.agenda.overdue)
        self.codec = codec
        self._fold = Fold(codec=codec)
        self._confirmed: Judge | None = None
        self._ahead = Header()
        self._unread: deque[Outgoing] = deque()
        self._inputs = Inputs()
        self._claimed = Term(0)

    @property
    def fold(self) -> Fold:
        """That of a follower; a leader's is ahead of the log."""
        return self._fold

    @property
    def state(self) -> State:
        return self._fold.state

    @property
    def confirmed(self) -> Header:
        """The header of what has been read back."""
        return self._confirmed.header if self._confirmed else self._fold.header

    @property
    def ahead(self) -> Header:
        """The header of what a leader has decided."""
        return self._ahead

    @property
    def unread(self) -> int:
        """Own records appended and not yet read back."""
        return len(self._unread)

    def begin_from(self, fold: Fold) -> None:
        """Start from what a snapshot gave, instead of from the beginning of the log."""
        assert self.role is Role.FOLLOWING and self.confirmed.log_id is None, "the log is read already"
        self._fold = fold
        self.reports.extend(Place(fold.header.position, fold.header.chain, fold.header.term))

    def resume_at(self) -> dict[tuple[Topic, int], Offset | None]:
        """Where a leader starts to read each input: what the accepted sets have read through (K4)."""
        read = {(each.topic, each.partition): each.next_offset for each in self.confirmed.inputs}
        starts: dict[tuple[Topic, int], Offset | None] = {
            (topic, number): read.get((topic.code, number))
            for topic in (*REQUEST_TOPICS, Topic.HEARTBEATS)
            for number in range(PARTITIONS[topic])
        }
        starts[Topic.MAPS, 0] = maps_from(self.state)
        return starts

    def found(self, started: LogStarted) -> None:
        """Begin an empty log. If another coordinator was quicker, its log id wins and this record is ignored."""
        assert self.confirmed.log_id is None
        stamp = Stamp(started.log_id, Term(0), 0, 0, 1, NO_CHAIN, self.at_ms, cause=f"founded by {self.instance}")
        self.outbox.append(Outgoing(encode_stamp(stamp), self.codec.encode_decision(started, started.feature_level)))

    def claim(self) -> None:
        """Ask for the next term; the answer is read from the log."""
        assert self.role is Role.FOLLOWING
        header = self.confirmed
        assert header.log_id is not None
        self._claimed = term = next_term(header)
        stamp = Stamp(header.log_id, term, 0, 0, 1, NO_CHAIN, self.at_ms, header.inputs, f"claimed by {self.instance}")
        started = TermStarted(term, self.instance, self._life)
        claim = Outgoing(encode_stamp(stamp), self.encoded(started))
        self._unread.append(claim)
        self.outbox.append(claim)
        self.role = Role.CLAIMING

    def retire(self) -> None:
        """Give up the term on purpose, so that a stand-by leads at once."""
        assert self.role is Role.LEADING
        self._log([TermEnded(self._ahead.term)], f"{self.instance} stops")
        self.role = Role.RETIRING

    def depose(self) -> None:
        """An append failed for good, or another coordinator leads: nothing this one holds counts any more (K6)."""
        self.role = Role.DEPOSED
        self.outbox.clear()
        self.decided.clear()

    def read(self, entry: Entry) -> list[Folded] | Ignored:
        """One record of `decisions`. What a follower folds is returned; a leader has folded its own when deciding."""
        if self._confirmed:
            verdict = self._confirmed.judge(entry.stamp, entry.value)
            if isinstance(verdict, Ignored):
                if verdict in (Ignored.GAP, Ignored.CLOSED_TERM):
                    self.depose()
                return verdict
            self._read_back(verdict)
            return []
        folded = self._fold.read(entry.stamp, entry.value)
        if not isinstance(folded, Ignored):
            for each in folded:
                self.reports.extend(each.place)
            if folded and self.role is Role.CLAIMING:
                self._answer_claim(entry)
        return folded

    def hear(self, entry: Entry) -> None:
        """One record of `heartbeats`; decisions follow from `settle`."""
        self.reports.obituary.pass_over(entry)
        sign = self._required(entry, lambda record: senders.require_sign(self.state, record))
        if isinstance(sign, m.Heartbeat | m.NodeDied):  # stand-bys look for a CoordinatorDied, before any core reads it
            self.reports.take(self.state, sign, entry)

    def hear_map(self, entry: Entry) -> None:
        """One record of `maps`; decisions follow from `settle`. A map in which something is wrong is dead, for an
        exchange waits for its node, and somebody has to see why. One of a log that has diverged says nothing of the
        map: it may be we who are to be deposed."""
        self._inputs.count(entry)
        record = self._required(entry, senders.require_map)
        if record is None:
            return
        receipt = self.exchanges.hear(record, entry, self._known())
        if receipt.verdict.is_fault and receipt.verdict is not MapVerdict.DIVERGED:
            reason = f"a map that does not count ({receipt.verdict.name}): {receipt.verdict.sentence}"
            self.dead.append(Dead(entry, f"{reason} {receipt.detail}".strip()))

    def ask(self, entry: Entry) -> None:
        """One record of a topic of REQUEST_TOPICS, decided at once; a repeat has its outcome already (K7)."""
        self._inputs.count(entry)
        request = self._required(entry, lambda record: senders.require_request(self.state, record, entry.topic))
        if request is None:
            return
        ref = RequestRef(request.id.requester, request.id.sequence, digest_of(entry.value))
        if self._is_known(ref):
            return
        decided = self._decide(request, ref, entry)
        actor = senders.actor(request, entry.topic)
        self._log(decided, f"{entry.topic.short_name}@{entry.offset} {ref}", actor, request.reason)

    def settle(self) -> None:
        """Log all that follows from what was heard and from deadlines that passed, until nothing more does."""
        self.reports.check(self.confirmed)
        reports = self.reports
        if membership.is_urgent(
            self.state, reports.hearing, reports.take_news(), self.agenda.waited_through, self.agenda.lapsed
        ):
            self._renew_grown()
        while decided := self._due():
            self._log(decided, cause_of(decided[-1], self.state, reports, self.agenda, self.exchanges))
        # Not before: what follows from them must be logged, or they are read again.
        self._inputs.count_heard(reports.obituary)

    def renew(self) -> None:
        """The regular echo, written even if it is empty: it is also the leader's sign of life."""
        echo = membership.renew(self.state, self.reports.hearing, self.agenda.waited_through)
        self._log([echo], "the beat of the leader")

    def silent(self) -> list[NodeId]:
        """The servers that the open exchange still waits for."""
        return self.exchanges.silent(self.state, self._known(), self.reports)

    def cut(self) -> Cut:
        """The state as it is now, at the end of the last set that was decided."""
        assert self.role is Role.LEADING
        return Cut(self._ahead, self.state.copies())

    def announce(self, taken: SnapshotTaken) -> None:
        """Say that a snapshot stands in its topic, in the very term that took it (`events/snapshots.py`)."""
        assert self.role is Role.LEADING
        assert taken.term == self._ahead.term
        self._log([taken], f"snapshot of position {taken.position}")

    def pass_deadline(self, key: str) -> None:
        """A deadline has passed; it counts only while it is still due."""
        self.agenda.pass_deadline(key)

    def interrupt_hearing(self) -> None:
        """The coordinator was not reading heartbeats to their end: every silence starts again."""
        self.agenda.gaps += 1
        for slot, _ in self.state.rows(LeaseRow):
            self.agenda.revise(self.state, (LeaseRow.KIND, slot))

    def interrupt_maps(self) -> None:
        """The coordinator was not reading maps to their end: every wait for one starts again."""
        self.agenda.interrupt_maps(self.state)

    def encoded(self, decision: Decision) -> bytes:
        """The decision's bytes at the feature level in force; raises as `Codec.encode_decision` does."""
        return self.codec.encode_decision(decision, cluster(self.state).feature_level)

    def _answer_claim(self, entry: Entry) -> None:
        """Lead if the first record of the claimed term is our own; follow on if another was quicker."""
        if self._fold.header.term < self._claimed:
            return
        claim = self._unread.popleft()
        if (entry.stamp, entry.value) != (claim.stamp, claim.value):
            self.role = Role.FOLLOWING
            return
        self.role = Role.LEADING
        self._confirmed = Judge(self._fold.header)
        self._ahead = self._fold.header
        self._inputs = Inputs(self._ahead.inputs)
        self.state.drain()
        self.agenda.begin(self.state)
        self.exchanges.begin(self.state)

    def _read_back(self, whole: list[Accepted]) -> None:
        for accepted in whole:
            if not self._unread or self._unread.popleft() != Outgoing(accepted.stamp_bytes, accepted.value):
                self.depose()
                return
        if self.role is Role.RETIRING and not self._unread:
            self.role = Role.RETIRED

    def _required(self, entry: Entry, require: Callable[[Record], T]) -> T | None:
        """What is required of this record, which may raise DeadLetter; None if it is one."""
        try:
            return require(self.codec.decode(entry.value))
        except Undecodable as error:
            self.dead.append(Dead(entry, error.message))
        except DeadLetter as found:
            self.dead.append(Dead(entry, found.reason))
        return None

    def _is_known(self, ref: RequestRef) -> bool:
        """Whether the request has its outcome, waits for it as a row, or had one that is no longer kept."""
        if q.outcome_of(self.state, ref) or q.is_forgotten(self.state, ref):
            return True
        return any(
            (row.request.requester, row.request.sequence) == (ref.requester, ref.sequence)
            for _, row in self.state.rows(m.WaitingJoinRow)
        )

    def _decide(self, request: Request, ref: RequestRef, entry: Entry) -> list[Decision]:
        try:
            if len(entry.value) > q.REQUEST_BYTES_MAX:
                message = f"A request of {len(entry.value)} bytes is over the limit of {q.REQUEST_BYTES_MAX}."
                raise Refused("TOO_LARGE", "K23", message)
            if request.log_id != self._ahead.log_id:
                facts = {"log_id": request.log_id.hex(), "expected": (self._ahead.log_id or b"").hex()}
                raise Refused("FOREIGN_LOG", "K17", "The request is meant for another cluster's log.", facts)
            senders.require_allowed(self.state, request, entry.topic)
            given = Circumstances(entry.appended_at_ms, self._ahead.position, self._certified, self.codec.newest_level)
            return requests.decide(self.state, request, ref, given)
        except Refused as refusal:
            facts, message = q.told_of(refusal.facts, str(refusal))
            subject = q.shortened(request.subject)
            return [q.RequestRefused(ref, subject, refusal.code, refusal.rule, message, facts)]

    @property
    def _certified(self) -> Collection[Life]:
        return self.reports.obituary.dead.keys()

    def _due(self) -> list[Decision]:
        return (
            self._due_members()
            or self._due_baseline()
            or metadata.settle(self.state, self.reports.applied(), self.agenda.waited_through)
            or self._due_objects()
            or requesters.settle(self.agenda.idle)
            or lease_terms.settle(self.state, self.agenda.waited_through)
            or repair.settle(self.state, self.agenda.stalled, self._ahead.position, self.at_ms)
            or self._due_partitions()
        )

    def _due_members(self) -> list[Decision]:
        hearing, lapsed, end = self.reports.hearing, self.agenda.lapsed, self._ahead.position
        return membership.settle(self.state, hearing, lapsed, self._certified, end=end, joins=metadata.declare)

    def _due_objects(self) -> list[Decision]:
        reports, agenda = self.reports, self.agenda
        return objects.settle(self.state, reports.applied(), reports.blocks(), agenda.waited_through, agenda.late)

    def _due_baseline(self) -> list[Decision]:
        """Before exchanges: whether one may end is a matter of the cluster's state."""
        return (
            cluster_state.settle(self.state, self.reports.applied(), self.agenda.waited_through)
            or baseline.settle(self.state, self.agenda.adjusting)
            or drains.settle(self.state)
        )

    def _due_partitions(self) -> list[Decision]:
        if not any(self.state.count(kind) for kind in (GroupRow, ExchangeRow, QueueRow)):
            return []
        return self.exchanges.settle(self.state, self._known(), self.reports, self.agenda.waited_through, self.at_ms)

    def _known(self) -> Known:
        """Also what is decided and not read back yet: a node may read it before we do, and its map speaks of it."""
        return known_of(self.state, self._ahead.position, self.reports.known_chains())

    def _renew_grown(self) -> None:
        echo = membership.renew(self.state, self.reports.hearing, self.agenda.waited_through)
        if echo.renewals:
            self._log([echo], self.reports.newest)

    def _log(self, decided: list[Decision], cause: str, actor: str = "", reason: str = "") -> None:
        """Stamp one set, fold it ahead, and queue it for the log."""
        values = self._encoded(decided)
        self.decided += decided
        inputs = self._inputs.read_through
        for index, (event, value) in enumerate(zip(decided, values, strict=True)):
            ahead = self._ahead
            assert ahead.log_id is not None
            stamp = encode_stamp(
                Stamp(
                    ahead.log_id,
                    ahead.term,
                    ahead.next_sequence,
                    index,
                    len(decided),
                    ahead.chain,
                    self.at_ms,
                    inputs,
                    cause,
                    actor or self.instance,
                    reason,
                )
            )
            place = Place(Position(ahead.position + 1), chain_after(ahead.chain, stamp, value), ahead.term)
            evolve(self.state, event, place)
            self.reports.extend(place)
            self._ahead = msgspec.structs.replace(
                ahead,
                next_sequence=ahead.next_sequence + 1,
                position=place.position,
                chain=place.chain,
                inputs=inputs or ahead.inputs,
            )
            self._unread.append(Outgoing(stamp, value))
            self.outbox.append(self._unread[-1])
        for key in self.state.drain():
            self.agenda.revise(self.state, key)
            self.exchanges.revise(key)

    def _encoded(self, decided: list[Decision]) -> list[bytes]:
        """The set's bytes. One that readers could not read as it was decided ends this leader, and not the log."""
        try:
            values = [self.encoded(event) for event in decided]
        except TopologError:
            self.depose()
            raise
        assert all(len(value) <= RECORD_BYTES_MAX for value in values), "the rules keep decisions below the limit"
        return values
