"""A coordinator's core at its log, record by record, for the tests of the core."""

from collections.abc import Iterable

import msgspec
from tests.unit.streams.rules.cluster import joiner, secret

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events import terms
from topolog.events.asked import Request, RequestId
from topolog.events.codec import CODEC, Record
from topolog.events.fold import Ignored
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position
from topolog.events.leases import FENCING
from topolog.events.levels import FIRST_LEVEL
from topolog.events.log import Entry, InMemoryLog
from topolog.events.requesters import highest_of, joining, requester_of
from topolog.events.stamp import HEADER_NAME
from topolog.events.topics import Topic
from topolog.streams.coordinator.core import Core, Outgoing, Role

LOG_ID = bytes(range(16))
STARTED = terms.LogStarted(LOG_ID, "demo", 2_000, 500, 200, FIRST_LEVEL)


class Desk:
    """One core at its log: what it appends lands when a test says so."""

    def __init__(self, log: InMemoryLog | None = None, instance: str = "c1", life: int = 1) -> None:
        self.log = log or InMemoryLog(lambda: 1_000)
        self.core = Core(instance, life)
        self.read = 0
        self.sequence = 0

    @classmethod
    def leading(cls) -> "Desk":
        desk = cls()
        desk.core.found(STARTED)
        desk.land()
        desk.core.claim()
        desk.land()
        assert desk.role() is Role.LEADING
        return desk

    def send(self, sends: Iterable[Outgoing]) -> None:
        for each in sends:
            self.log.put(Topic.DECISIONS, "demo", each.value, [(HEADER_NAME, each.stamp)])

    def follow(self) -> list[Ignored]:
        """Read what is in the log; gives why records did not count."""
        found = []
        for entry in self.log.entries(Topic.DECISIONS)[self.read :]:
            self.read += 1
            found.append(self.core.read(entry))
        return [each for each in found if isinstance(each, Ignored)]

    def take(self) -> list[Outgoing]:
        """What the core wants appended."""
        taken, self.core.outbox = self.core.outbox, []
        return taken

    def land(self) -> None:
        self.send(self.take())
        self.follow()

    def hear(self, heartbeat: m.Heartbeat, appended_at_ms: int = 2_000) -> None:
        entry = self.log.put(Topic.HEARTBEATS, heartbeat.node, CODEC.encode(heartbeat))
        self.core.hear(msgspec.structs.replace(entry, appended_at_ms=appended_at_ms))
        self.core.settle()

    def ask(self, request: Request, topic: Topic = Topic.OPERATIONS) -> Entry:
        """As an operator asks, unless the topic is another."""
        entry = self.log.put(topic, "t", CODEC.encode(request))
        self.core.ask(entry)
        return entry

    def join(self, node: str, incarnation: int = 1) -> m.JoinRequested:
        """As a process asks for it, for the first time in this life of its own or once more behind an outcome."""
        requester = joining(requester_of(node, incarnation))
        id_ = RequestId(requester, highest_of(self.core.state, requester) + 1)
        request = m.JoinRequested(id_, LOG_ID, node, "", joiner(node, incarnation))
        self.ask(request, Topic.REQUESTS)
        return request

    def update(self, name: str, **fields: str) -> md.UpdateRequested:
        return md.UpdateRequested(self.new_id(), LOG_ID, "ada", "why not", md.ObjectType(name, fields), 0)

    def new_id(self) -> RequestId:
        self.sequence += 1
        return RequestId("t", self.sequence)

    def beat(
        self,
        sequence: int,
        at: Position | None = None,
        *,
        node: str = "n1",
        life: int = 1,
        applied: m.Applied | None = None,
        fenced: bool = False,
        release: bool = False,
    ) -> m.Heartbeat:
        """A heartbeat of a node that has applied everything up to `at`, or up to the start of the term, unless
        `applied` says it."""
        header, began = self.core.confirmed, terms.cluster(self.core.state).led_since
        chains = {**self.core.reports.known_chains(), header.position: header.chain}
        at = began if at is None else at
        report = applied or m.Applied(LOG_ID, at, chains.get(at, b""))
        capabilities = (FENCING,)
        return m.Heartbeat(
            *(NodeId(node), Incarnation(life), sequence, report, NOWHERE, None, capabilities, fenced),
            secret=secret(life) if release else b"",
        )

    def role(self) -> Role:
        return self.core.role

    def decided(self) -> list[Record]:
        return [CODEC.decode(each.value) for each in self.core.outbox]

    def outcome(self, request: Request) -> q.OutcomeRow | None:
        return q.outcome_of(self.core.state, request.id)
