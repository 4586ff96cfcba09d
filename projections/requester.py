"""Sends requests to the cluster: an id before the first send, the same bytes at every repeat (K7).

The sender never learns the outcome from the broker, only that the request is in the log; the outcome is read from the
projection like everything else. So an error here says exactly what is known: `Unreachable` that nothing left this
process, `OutcomeUnknown` that the request was handed to the producer, which may still deliver it.
"""

from collections.abc import Sequence
from concurrent.futures import Future

from topolog.events import telemetry
from topolog.events.asked import Request, RequestId
from topolog.events.asking import OpenRequests
from topolog.events.errors import NotAllowed, OutcomeUnknown, TopologError, Unreachable
from topolog.events.failpoints import reach
from topolog.events.ids import Offset
from topolog.events.log import Headers, LogWriter
from topolog.events.topics import Topic


class Requester:
    """One sender: `name` is unique to one process life, `cluster` for what is told of it. Everything belongs to one
    thread. What is sent takes along the trace under way.

    An id that was given out is open until `close` says that its outcome is known, or until no copy of its request can
    be in the log: what was never sent, or lost for good, must not stand in the way of others.
    """

    def __init__(self, writer: LogWriter, name: str, address: str, cluster: str = "") -> None:
        self.name = name
        self.in_flight = 0
        self._writer = writer
        self._address = address
        self._cluster = cluster
        self._ids = OpenRequests(name)
        self._copies: dict[RequestId, int] = {}
        self._issued: dict[str, int] = {}

    @property
    def open(self) -> Sequence[RequestId]:
        return tuple(self._copies)

    def next_id(self) -> RequestId:
        """A new id, open from now on; raises Overloaded if too many are."""
        request = self._ids.next_id()
        self._copies[request] = 0
        self._issued[request.requester] = request.sequence
        return request

    def close(self, request: RequestId) -> None:
        """Nothing more is to be learned about this id; one that a caller has chosen is not ours to close."""
        self._copies.pop(request, None)
        self._ids.close(request)

    def close_unsent(self, request: RequestId) -> None:
        """Close the id if no copy of its request is in the log or on its way there."""
        if self._copies.get(request) == 0:
            self.close(request)

    def may_issue(self, request: RequestId) -> bool:
        """Whether `next_id` could still give out this id, so that nobody else may use it."""
        is_own = request.requester == self.name or request.requester.startswith(f"{self.name}.")
        return is_own and request.sequence > self._issued.get(request.requester, 0)

    def has_issued(self, request: RequestId) -> bool:
        """Whether `next_id` gave this id out: its number is used, and a repeat of it uses up no other."""
        return 0 < request.sequence <= self._issued.get(request.requester, 0)

    def send(self, request: Request, value: bytes) -> Future[None]:
        """Append the request; the future ends when the log has it, with NotAllowed if the broker does not let
        this process write it, with OutcomeUnknown if the producer gives it up.

        Raises Unreachable if the producer does not take it, for then nothing has left this process.
        """
        delivered: Future[None] = Future()

        def on_delivery(error: TopologError | None, _: Offset | None) -> None:
            self.in_flight -= 1
            if error is None:
                delivered.set_result(None)
            else:
                self._count(request.id, -1)
                self.close_unsent(request.id)
                is_denied = isinstance(error, NotAllowed)
                delivered.set_exception(error if is_denied else self.outcome_unknown(request.id, error.message))

        subject, cluster = request.subject, self._cluster
        try:
            with telemetry.messaging(
                "send", Topic.OPERATIONS, cluster, key=subject, request=str(request.id), size=len(value)
            ):
                self._writer.append(Topic.OPERATIONS, subject, value, telemetry.headers(), on_delivery)
        except Unreachable as error:
            raise Unreachable(
                f"Request {request.id} cannot be sent to the Kafka broker at {self._address}: {error.message}",
                hint="Nothing was sent: try again.",
            ) from error
        reach("projector.request-sent")
        self.in_flight += 1
        self._count(request.id, 1)
        return delivered

    def send_again(self, topic: Topic, key: str, value: bytes, headers: Headers) -> Future[Offset | None]:
        """Append a record as it was; the future ends when the log has it, with Unreachable if the producer gives it up,
        with NotAllowed if the broker does not let this process write it.

        Raises Unreachable if the producer does not take it.
        """
        delivered: Future[Offset | None] = Future()

        def on_delivery(error: TopologError | None, offset: Offset | None) -> None:
            self.in_flight -= 1
            if error is None:
                delivered.set_result(offset)
            else:
                delivered.set_exception(error)

        self._writer.append(topic, key, value, headers, on_delivery)
        self.in_flight += 1
        return delivered

    def serve(self) -> None:
        """End the futures of what has been answered."""
        self._writer.serve()

    def outcome_unknown(self, request: RequestId, why: str) -> OutcomeUnknown:
        """What to say, with the sentence `why`, when the broker has not confirmed a request that the producer has."""
        return OutcomeUnknown(
            f"The Kafka broker at {self._address} did not confirm request {request}: {why}",
            request_id=str(request),
            hint=f"It may still arrive. Repeat it as it is, with the header Idempotency-Key: {request}.",
        )

    def _count(self, request: RequestId, copies: int) -> None:
        if request in self._copies:
            self._copies[request] += copies
