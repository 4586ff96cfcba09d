"""Who asks for changes of definitions, and knows when a decision was to be read: beside the cluster, no member of it.

Requests go straight to their topic, the log is folded by a thread of its own, so nothing of what is tested stands
between the log and the moment at which a decision is noted here.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Self, TypeVar

import msgspec
from tests.broker.conftest import PATIENCE_S, eventually

from topolog.events.asked import Request, RequestId
from topolog.events.asking import encode_request
from topolog.events.claims import line
from topolog.events.evidence import Evidence
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.ids import Position
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.object_definition import Statement
from topolog.events.object_requests import ChangeCancellationRequested, SchemaChangeRequested
from topolog.events.objects import ChangeStatus, SchemaChangeCommitted, SchemaChangeRolledBack
from topolog.events.requests import OutcomeRow, Status, outcome_of
from topolog.events.state import State
from topolog.events.topics import Topic

T = TypeVar("T")
LOOK_S = 0.0005


class Known(msgspec.Struct, frozen=True):
    """A decision, and a moment at which it was to be read; ns of CLOCK_MONOTONIC."""

    ns: int
    folded: Folded


class Ended(msgspec.Struct, frozen=True):
    """How a change ended: `code` of a rollback, `evidence` of a commit. Its row may be forgotten by then."""

    number: Position
    status: ChangeStatus
    code: str = ""
    evidence: Evidence = Evidence()


class Operator:
    """One requester on one cluster. Only the thread that uses it as a context may ask; any may look.

    `known`: all decisions. `outcomes`: how often each request, anybody's, was decided. `commits`: changes committed.
    `asked_ns`: when each own request was about to be sent.
    """

    def __init__(self, kafka: dict[str, str], cluster: str, name: str = "operator") -> None:
        self._name = name
        self._reader = KafkaReader(kafka, cluster)
        self._writer = KafkaWriter(kafka, cluster, linger_ms=0)
        self._fold = Fold()
        self._outcomes: dict[int, OutcomeRow] = {}
        self._ended: dict[Position, Ended] = {}
        self._hashes: dict[Position, bytes] = {}
        self._next = 1
        self._folding = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.known: list[Known] = []
        self.outcomes = Counter[str]()
        self.commits = 0
        self.asked_ns: dict[int, int] = {}

    def __enter__(self) -> Self:
        self._reader.assign({(Topic.DECISIONS, 0): None})
        self._thread.start()
        self.eventually(lambda: self._fold.header.log_id is not None, "a log")
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._reader.close()
        self._writer.close()

    @contextlib.contextmanager
    def looking(self) -> Iterator[State]:
        with self._folding:
            yield self._fold.state

    def ask(self, *statements: Statement, deadline_ms: int | None = None) -> int:
        """Ask for a change and go on; gives the number of the request."""
        return self.send(SchemaChangeRequested(*self._head(), statements, deadline_ms))

    def cancel(self, number: Position) -> int:
        return self.send(ChangeCancellationRequested(*self._head(), number))

    def send(self, request: Request) -> int:
        assert isinstance(request, Request)
        self.asked_ns[request.id.sequence] = time.monotonic_ns()
        self._writer.append(Topic.OPERATIONS, self._name, encode_request(request))
        self._writer.serve()
        return request.id.sequence

    def flush(self) -> None:
        assert self._writer.flush(PATIENCE_S) == 0

    def outcome(self, request: int) -> OutcomeRow:
        """As soon as the request is decided."""
        return self.eventually(lambda: self._outcomes.get(request), f"the outcome of request {request}")

    def number(self, request: int) -> Position:
        """Of the change that the request has led to."""
        row = self.outcome(request)
        assert row.status is Status.GRANTED, row
        return Position(int(row.subject.removeprefix("change ")))

    def ended(self, number: Position) -> Ended:
        """The change, as soon as it is over."""
        return self.eventually(lambda: self._ended.get(number), f"the end of change {number}")

    def change(self, *statements: Statement, deadline_ms: int | None = None) -> Ended:
        """Ask for a change; gives it when it is over."""
        return self.ended(self.number(self.ask(*statements, deadline_ms=deadline_ms)))

    def open_changes(self) -> tuple[Position, ...]:
        with self.looking() as state:
            return line(state)

    def hash_at(self, position: Position) -> bytes:
        """The state's there, as soon as the log is read up to there."""
        return self.eventually(lambda: self._hashes.get(position), f"position {position}")

    def eventually(self, look: Callable[[], T | None], what: str) -> T:
        return eventually(look, what, every_s=LOOK_S)

    def _head(self) -> tuple[RequestId, bytes, str, str]:
        log_id, number = self._fold.header.log_id, self._next
        assert log_id is not None
        self._next += 1
        return RequestId(self._name, number), log_id, "ada", "why not"

    def _follow(self) -> None:
        while not self._stopping.is_set():
            for entry in self._reader.poll(0.05):
                with self._folding:
                    found = self._fold.read(entry.stamp, entry.value)
                    if not isinstance(found, Ignored):
                        self._note(found, time.monotonic_ns())
                        self._hashes[self._fold.header.position] = self._fold.state.hash()

    def _note(self, found: list[Folded], now_ns: int) -> None:
        for folded in found:
            self.known.append(Known(now_ns, folded))
            self.commits += len(commits_of(folded))
            ref = getattr(folded.event, "request", None)
            if ref is not None:
                self.outcomes[str(ref)] += 1
            if ref is not None and ref.requester == self._name and (row := outcome_of(self._fold.state, ref)):
                self._outcomes[ref.sequence] = row
            self._ended.update((each.number, each) for each in ended_by(folded))


def commits_of(folded: Folded) -> tuple[Position, ...]:
    """The changes that it commits, if it commits any."""
    return folded.event.changes if isinstance(folded.event, SchemaChangeCommitted) else ()


def ended_by(folded: Folded) -> list[Ended]:
    """The changes that are over with this decision."""
    match folded.event:
        case SchemaChangeCommitted(changes=changes, evidence=evidence):
            return [Ended(number, ChangeStatus.COMMITTED, evidence=evidence) for number in changes]
        case SchemaChangeRolledBack(change=change, code=code):
            return [Ended(change, ChangeStatus.ROLLED_BACK, code)]
    return []
