"""The auditor: reads all that a cluster writes, past every proxy, and notes when it saw it.

It folds `decisions` twice: with the fold that every process runs, and with the simulation's second reading of rule K3,
which shares no judgement with it. If the two part, one of them is wrong.
"""

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Self

from tests.soak.history import Decided, Rule, Violation

from topolog.events import metadata as md
from topolog.events.asked import Request
from topolog.events.asking import digest_of
from topolog.events.codec import CODEC
from topolog.events.errors import TopologError, Undecodable
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.kafka import KafkaReader
from topolog.events.leases import members
from topolog.events.log import Entry
from topolog.events.membership import Heartbeat, NodeDied, WaitingJoinRow
from topolog.events.stamp import decode_stamp
from topolog.events.state import State
from topolog.events.terms import ClusterRow
from topolog.events.topics import PARTITIONS, REQUEST_TOPICS, Topic
from topolog.streams.simulation.ledger import Ledger

READ = (Topic.DECISIONS, *REQUEST_TOPICS, Topic.HEARTBEATS)
KEPT_FOR_REPLAY = 400


class Audit:
    """One cluster's auditor, in a thread of its own while it is entered. `lock` is held while it notes."""

    def __init__(self, kafka: Mapping[str, str], cluster: str) -> None:
        self.lock = threading.Lock()
        self.decided: list[Decided] = []
        self.requests: dict[str, Request] = {}
        self.digests: dict[str, bytes] = {}
        self.released_ms: dict[int, int] = {}
        self.certified_ms: dict[int, int] = {}
        self.state_hashes: dict[int, str] = {}
        self.violations: list[Violation] = []
        self.recent: list[Entry] = []
        self.seen_ns = 0
        self._fold = Fold()
        self._ledger = Ledger()
        self._reader = KafkaReader(kafka, cluster)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit")

    def __enter__(self) -> Self:
        self._reader.assign({(topic, number): None for topic in READ for number in range(PARTITIONS[topic])})
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        self._reader.close()

    @property
    def state(self) -> State:
        """The cluster's rows; to be looked at under `lock`."""
        return self._fold.state

    def leader(self) -> str:
        """The instance that leads as far as the log says, "" while none does."""
        with self.lock:
            row = self._fold.state.get(ClusterRow, "")
            return row.coordinator if row and not self._fold.header.closed else ""

    def position(self) -> int:
        with self.lock:
            return self._fold.header.position

    def unrest(self, nodes: set[str]) -> str:
        """Why the log does not show a cluster at rest; "" if it does."""
        with self.lock:
            state = self._fold.state
            if self._fold.header.log_id is None or self._fold.header.closed:
                return "nobody leads"
            if absent := {row.node for row in members(state)} ^ nodes:
                return f"the membership is wrong about {', '.join(sorted(absent))}"
            for kind in (md.ProposalRow, md.RemovalRow, WaitingJoinRow):
                if count := state.count(kind):
                    return f"{count} rows of {kind.KIND} wait"
            outcomes = {str(ref) for each in self.decided if (ref := getattr(each.event, "request", None))}
            if unanswered := self.requests.keys() - outcomes:
                return f"no outcome yet for {', '.join(sorted(unanswered)[:3])}"
            return ""

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                entries = self._reader.poll(0.05)
                seen_ns = time.monotonic_ns()
                with self.lock:
                    for entry in entries:
                        self._note(entry, seen_ns)
            except TopologError as error:
                self.violations.append(Violation(Rule.ONE_LOG, f"{error.code}: {error}"))
                return

    def _note(self, entry: Entry, seen_ns: int) -> None:
        self.recent = [*self.recent[-KEPT_FOR_REPLAY:], entry]
        match entry.topic:
            case Topic.DECISIONS:
                self._note_decision(entry, seen_ns)
            case Topic.REQUESTS | Topic.OPERATIONS:
                self._note_request(entry)
            case Topic.HEARTBEATS:
                self._note_heartbeat(entry)

    def _note_request(self, entry: Entry) -> None:
        with contextlib.suppress(Undecodable):
            request = CODEC.decode(entry.value)
            if isinstance(request, Request) and str(request.id) not in self.requests:
                self.requests[str(request.id)] = request
                self.digests[str(request.id)] = digest_of(entry.value)

    def _note_heartbeat(self, entry: Entry) -> None:
        """The first of each: what stands there again was there before."""
        with contextlib.suppress(Undecodable):
            match CODEC.decode(entry.value):
                case Heartbeat(incarnation=incarnation, is_release=True):
                    self.released_ms.setdefault(incarnation, entry.appended_at_ms)
                case NodeDied(incarnation=incarnation):
                    self.certified_ms.setdefault(incarnation, entry.appended_at_ms)

    def _note_decision(self, entry: Entry, seen_ns: int) -> None:
        found = self._fold.read(entry.stamp, entry.value)
        again = self._read_again(entry, seen_ns)
        decisions: list[Folded] = [] if isinstance(found, Ignored) else found
        if [each.place for each in decisions] != again:
            what = f"at offset {entry.offset} the fold accepts {decisions}, the second reading {again}"
            self.violations.append(Violation(Rule.ONE_LOG, what))
        for each in decisions:
            self.decided.append(Decided(each.place.position, seen_ns, entry.appended_at_ms, each.event))
        if decisions:
            self.seen_ns = seen_ns
            self._compare(decisions[-1].place.position)

    def _read_again(self, entry: Entry, seen_ns: int) -> list[object]:
        try:
            decode_stamp(entry.stamp or b"")
        except Undecodable:
            return []
        return [each.place for each in self._ledger.read(entry, "", seen_ns)]

    def _compare(self, position: int) -> None:
        ours, theirs = self._fold.state.hash(), self._ledger.state.hash()
        self.state_hashes[position] = ours.hex()
        if ours != theirs:
            self.violations.append(Violation(Rule.ONE_LOG, f"two readings hold two states at {position}"))
