"""Sends requests to the cluster: an id before the first send, the same bytes at every repeat (K7).

The sender never learns the outcome from the broker, only that the request is in the log; the outcome is read from the
projection like everything else.
"""

import hashlib
import itertools
from concurrent.futures import Future

from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, Unreachable
from topolog.events.log import LogWriter
from topolog.events.requests import AnyRequest, RequestId, subject_of
from topolog.events.topics import RECORD_BYTES_MAX, Topic


def digest_of(value: bytes) -> bytes:
    """The digest by which decisions tell a repeat of a request from another one under its id."""
    return hashlib.blake2b(value, digest_size=8).digest()


def encoded(request: AnyRequest) -> bytes:
    """The request's record; raises BadInput if it is too big to be sent."""
    value = CODEC.encode(request)
    if len(value) > RECORD_BYTES_MAX:
        raise BadInput(
            f"The request about {subject_of(request)} takes {len(value)} bytes, the limit is {RECORD_BYTES_MAX}."
        )
    return value


class Requester:
    """One requester: `name` is unique to one process life. One thread sends and calls `serve`."""

    def __init__(self, writer: LogWriter, name: str, address: str) -> None:
        self.name = name
        self.issued = 0
        self._writer = writer
        self._address = address
        self._sequences = itertools.count(1)
        self.in_flight = 0

    def next_id(self) -> RequestId:
        self.issued = next(self._sequences)
        return RequestId(self.name, self.issued)

    def send(self, request: AnyRequest, value: bytes) -> Future[None]:
        """Append the request; the future ends when the log has it, with Unreachable if it will never have it."""
        delivered: Future[None] = Future()

        def on_delivery(error: str | None) -> None:
            self.in_flight -= 1
            if error is None:
                delivered.set_result(None)
            else:
                delivered.set_exception(self.unreachable(request.id, error))

        self._writer.append(Topic.REQUESTS, subject_of(request), value, on_delivery=on_delivery)
        self.in_flight += 1
        return delivered

    def serve(self) -> None:
        """End the futures of what has been answered."""
        self._writer.serve()

    def unreachable(self, request: RequestId, error: str) -> Unreachable:
        """What to say when the broker has not taken a request; it may still take one that was sent."""
        return Unreachable(
            f"The Kafka broker at {self._address} did not take request {request}: {error}.",
            hint=f"It may still arrive. Repeat it as it is, with the header Idempotency-Key: {request}.",
        )
