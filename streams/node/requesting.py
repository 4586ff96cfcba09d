"""The requests of one process: sent until they are decided, and what became of each (K7)."""

import threading
from typing import TypeVar

import msgspec

from topolog.events import telemetry
from topolog.events.asked import Request, RequestId, RequestRef
from topolog.events.asking import OpenRequests, digest_of, encode_request, refusal_of
from topolog.events.errors import BadInput, NotAllowed, Refused, TopologError
from topolog.events.failpoints import reach
from topolog.events.levels import FIRST_LEVEL
from topolog.events.log import Headers, LogWriter
from topolog.events.operations import HINT, is_operation, topic_of
from topolog.events.requesters import highest_of, operating
from topolog.events.requests import OutcomeRow, Status, is_forgotten, outcome_of
from topolog.events.terms import ClusterRow
from topolog.events.topics import Topic
from topolog.streams.clock import Clock
from topolog.streams.node.core import NodeCore
from topolog.streams.node.measures import NodeMeasures

T = TypeVar("T")

OWN_OUTCOMES_KEPT = 4096
"""Outcomes of own requests that this process remembers."""


class _Sent(msgspec.Struct, frozen=True):
    """A request as it was appended, and is again until it is decided."""

    topic: Topic
    value: bytes
    headers: Headers


class OwnRequests:
    """Any thread may send and ask; the thread that applies the log notes outcomes. `name` is unique to this process.

    `denials`: how many the broker has not let it write, so that whoever waits for one is told, whatever else happens.
    """

    def __init__(self, name: str, core: NodeCore, writer: LogWriter, clock: Clock, measures: NodeMeasures) -> None:
        self._core = core
        self._writer = writer
        self._clock = clock
        self._measures = measures
        self._ids = OpenRequests(name, self._highest)
        self._operations = OpenRequests(operating(name))
        self._asking = threading.Lock()
        self._unanswered: dict[RequestId, _Sent] = {}
        self._outcomes: dict[RequestId, OutcomeRow] = {}
        self._denied: dict[RequestId, NotAllowed] = {}
        self.denials = 0

    def ask(self, request: Request) -> RequestId:
        """Number a request and append it to the topic of its kind; raises Overloaded, and as `send` does."""
        ids = self._operations if is_operation(request) else self._ids
        with self._asking:
            name = ids.next_id()
        self.send(msgspec.structs.replace(request, id=name))
        return name

    def next_id(self) -> RequestId:
        """An id for one request to `requests`; raises Overloaded if too many of this process are under way."""
        with self._asking:
            return self._ids.next_id()

    def send(self, request: Request) -> None:
        """Append a request; it is kept until its outcome is read. Raises BadInput if it is too big, or says what the
        cluster's feature level has no words for."""
        try:
            value = encode_request(request, self._level, self._core.codec)
        except BadInput:
            self._close(request.id)
            raise
        self._measures.asked(request.id, self._clock.monotonic_ns())
        row, topic = self._cluster_row, topic_of(request)
        with telemetry.messaging(
            "send",
            topic,
            row.name if row else "",
            request=str(request.id),
            key=request.id.requester,
            size=len(value),
        ):
            self._unanswered[request.id] = _Sent(topic, value, telemetry.headers())
            self.send_again(request.id)
        reach("node.request-sent")

    def send_again(self, request: RequestId) -> None:
        """Append a request that has no outcome yet once more: the log gives it one outcome however often it comes."""
        sent = self._unanswered.get(request)
        if sent is not None:
            self._writer.append(
                sent.topic,
                request.requester,
                sent.value,
                sent.headers,
                lambda error, _: None if error is None else self._not_taken(request, error),
            )

    def _not_taken(self, request: RequestId, error: TopologError) -> None:
        """The broker has not taken it: it is sent again, unless that is in vain."""
        sent = self._unanswered.get(request)
        if sent is None or sent.topic is not Topic.OPERATIONS or not isinstance(error, NotAllowed):
            self.send_again(request)  # what every node may write is written once the broker has heard of its rights
        elif self._unanswered.pop(request, None):
            self._denied[request] = NotAllowed(error.message, hint=HINT)
            _keep_newest(self._denied)
            self.denials += 1
            self._close(request)

    def outcome(self, request: RequestId) -> OutcomeRow | None:
        """The outcome of a request, if it has been applied here."""
        return self._outcomes.get(request) or outcome_of(self._core.state, request)

    def decided(self, request: RequestId) -> OutcomeRow | None:
        """The outcome of a request, None before it is applied here; raises what it stands for if it is a refusal, and
        NotAllowed if the broker has not let this process write it."""
        row = self.outcome(request)
        if row is None and request in self._denied:
            raise self._denied[request]
        if row is None and is_forgotten(self._core.state, request):
            self._close(request)
            raise Refused("OUTCOME_FORGOTTEN", "K19", f"The outcome of request {request} is no longer kept.")
        if row is not None and row.status is Status.REFUSED:
            raise refusal_of(row)
        return row

    def note_outcome(self, ref: RequestRef | None) -> None:
        """Keep the outcome of an own request: the log's rows keep only the last few, however many were under way."""
        request = RequestId(ref.requester, ref.sequence) if ref else None
        sent = self._unanswered.pop(request, None) if request else None
        if ref is None or request is None or sent is None:
            return
        reach("node.outcome-read")
        self._close(request)
        row = outcome_of(self._core.state, request)
        self._measures.decided(request, row, self._clock.monotonic_ns())
        if row is not None:
            self._outcomes[request] = row if ref.digest == digest_of(sent.value) else _of_another(row)
        _keep_newest(self._outcomes)

    @property
    def _cluster_row(self) -> ClusterRow | None:
        return self._core.state.get(ClusterRow, "")

    @property
    def _level(self) -> int:
        row = self._cluster_row
        return row.feature_level if row else FIRST_LEVEL

    def _highest(self, requester: str) -> int:
        return highest_of(self._core.state, requester)

    def _close(self, request: RequestId) -> None:
        with self._asking:
            self._ids.close(request)
            self._operations.close(request)


def _keep_newest(known: dict[RequestId, T]) -> None:
    if len(known) > OWN_OUTCOMES_KEPT:
        del known[next(iter(known))]


def _of_another(row: OutcomeRow) -> OutcomeRow:
    """Somebody else has used the id of our request: the outcome is that of theirs, ours was never decided."""
    message = f"The id {row.requester}/{row.sequence} was used for another request; this one was not decided."
    return msgspec.structs.replace(row, status=Status.REFUSED, code="REQUEST_ID_REUSED", rule="K7", message=message)
