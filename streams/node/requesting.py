"""The requests of one process: sent until they are decided, and what became of each (K7)."""

import threading

import msgspec

from topolog.events import telemetry
from topolog.events.asked import RequestId, RequestRef
from topolog.events.asking import OpenRequests, digest_of, encode_request, refusal_of
from topolog.events.errors import BadInput, Refused
from topolog.events.failpoints import reach
from topolog.events.levels import FIRST_LEVEL
from topolog.events.log import Headers, LogWriter
from topolog.events.requests import AnyRequest, OutcomeRow, Status, is_forgotten, outcome_of
from topolog.events.terms import ClusterRow
from topolog.events.topics import Topic
from topolog.streams.clock import Clock
from topolog.streams.node.core import NodeCore
from topolog.streams.node.measures import NodeMeasures

OWN_OUTCOMES_KEPT = 4096
"""Outcomes of own requests that this process remembers."""


class OwnRequests:
    """Any thread may send and ask; the thread that applies the log notes outcomes. `name` is unique to this process."""

    def __init__(self, name: str, core: NodeCore, writer: LogWriter, clock: Clock, measures: NodeMeasures) -> None:
        self._core = core
        self._writer = writer
        self._clock = clock
        self._measures = measures
        self._ids = OpenRequests(name)
        self._asking = threading.Lock()
        self._unanswered: dict[RequestId, bytes] = {}
        self._headers: dict[RequestId, Headers] = {}
        self._outcomes: dict[RequestId, OutcomeRow] = {}

    def next_id(self) -> RequestId:
        """An id for one request; raises Overloaded if too many of this process are under way."""
        with self._asking:
            return self._ids.next_id()

    def send(self, request: AnyRequest) -> None:
        """Append a request; it is kept until its outcome is read. Raises BadInput if it is too big, or says what the
        cluster's feature level has no words for."""
        try:
            self._unanswered[request.id] = encode_request(request, self._level, self._core.codec)
        except BadInput:
            self._close(request.id)
            raise
        self._measures.asked(request.id, self._clock.monotonic_ns())
        row, size = self._cluster_row, len(self._unanswered[request.id])
        with telemetry.messaging(
            "send",
            Topic.REQUESTS,
            row.name if row else "",
            request=str(request.id),
            key=request.id.requester,
            size=size,
        ):
            if traced := telemetry.headers():
                self._headers[request.id] = traced
            self.send_again(request.id)
        reach("node.request-sent")

    def send_again(self, request: RequestId) -> None:
        """Append a request that has no outcome yet once more: the log gives it one outcome however often it comes."""
        value = self._unanswered.get(request)
        if value is not None:
            self._writer.append(
                Topic.REQUESTS,
                request.requester,
                value,
                self._headers.get(request, ()),
                lambda error, _: None if error is None else self.send_again(request),
            )

    def outcome(self, request: RequestId) -> OutcomeRow | None:
        """The outcome of a request, if it has been applied here."""
        return self._outcomes.get(request) or outcome_of(self._core.state, request)

    def decided(self, request: RequestId) -> OutcomeRow | None:
        """The outcome of a request, None before it is applied here; raises what it stands for if it is a refusal."""
        row = self.outcome(request)
        if row is None and is_forgotten(self._core.state, request):
            raise Refused("OUTCOME_FORGOTTEN", "K7", f"The outcome of request {request} is no longer kept.")
        if row is not None and row.status is Status.REFUSED:
            raise refusal_of(row)
        return row

    def note_outcome(self, ref: RequestRef | None) -> None:
        """Keep the outcome of an own request: the log's rows keep only the last few, however many were under way."""
        request = RequestId(ref.requester, ref.sequence) if ref else None
        value = self._unanswered.pop(request, None) if request else None
        if request:
            self._headers.pop(request, None)
        if ref is None or request is None or value is None:
            return
        reach("node.outcome-read")
        self._close(request)
        row = outcome_of(self._core.state, request)
        self._measures.decided(request, row, self._clock.monotonic_ns())
        if row is not None:
            self._outcomes[request] = row if ref.digest == digest_of(value) else _of_another(row)
        if len(self._outcomes) > OWN_OUTCOMES_KEPT:
            del self._outcomes[next(iter(self._outcomes))]

    @property
    def _cluster_row(self) -> ClusterRow | None:
        return self._core.state.get(ClusterRow, "")

    @property
    def _level(self) -> int:
        row = self._cluster_row
        return row.feature_level if row else FIRST_LEVEL

    def _close(self, request: RequestId) -> None:
        with self._asking:
            self._ids.close(request)


def _of_another(row: OutcomeRow) -> OutcomeRow:
    """Somebody else has used the id of our request: the outcome is that of theirs, ours was never decided."""
    message = f"The id {row.requester}/{row.sequence} was used for another request; this one was not decided."
    return msgspec.structs.replace(row, status=Status.REFUSED, code="REQUEST_ID_REUSED", rule="K7", message=message)
