"""Messages between the stores of two nodes, over HTTP: POST /replication to the endpoint in the other node's row.

Each other node has a lane: a queue and one thread, so that one which does not answer holds up no other. What is lost is
lost: the replicas say again what they miss. What the other has to say at once rides on its response.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import msgspec

from topolog.events.ids import NodeId
from topolog.streams.local.demo.replication.messages import AnyMessage, weight
from topolog.streams.node.client import Node

PATH = "/replication"
TIMEOUT_S = 2.0
PAUSE_S = 0.1
"""Behind a failure, so that a node that is gone is not called all the time."""

QUEUE_MAX = 4_096
PARCEL_BYTES = 1_000_000
"""A parcel ends with the message that exceeds this."""


class Parcel(msgspec.Struct, frozen=True):
    """Messages of one node to another. It says to which: a port may be another node's by the time it is called, and
    one copy's word must never count for another's."""

    sender: NodeId
    to: NodeId
    messages: list[AnyMessage]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Parcel)


def pack(parcel: Parcel) -> bytes:
    return _ENCODER.encode(parcel)


def unpack(data: bytes) -> Parcel:
    """Raises msgspec.DecodeError."""
    return _DECODER.decode(data)


def batch_of(queue: deque[AnyMessage]) -> list[AnyMessage]:
    """The first messages of the queue, as many as a parcel holds, taken out of it."""
    batch: list[AnyMessage] = []
    size = 0
    while queue and size < PARCEL_BYTES:
        batch.append(queue.popleft())
        size += weight(batch[-1])
    return batch


Take = Callable[[NodeId, Sequence[AnyMessage]], bool]
"""Takes what another node has answered; False if it cannot now, and then what was sent is sent again."""


class Courier:
    """Lanes to the other nodes, made when there is something to send."""

    def __init__(self, node: Node, take: Take) -> None:
        self._node = node
        self._take = take
        self._lanes: dict[NodeId, Lane] = {}
        self._is_started = False
        self._is_stopped = False

    def post(self, to: NodeId, message: AnyMessage) -> None:
        """Send it soon, unless all is over; never waits. One caller at a time."""
        if self._is_stopped:
            return
        lane = self._lanes.get(to)
        if lane is None:
            lane = self._lanes[to] = Lane(self._node, to, self._take)
            if self._is_started:
                lane.start()
        lane.post(message)

    def start(self) -> None:
        """From here on what was posted travels."""
        self._is_started = True
        for lane in list(self._lanes.values()):
            lane.start()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be sent."""
        return not any(lane.is_busy for lane in list(self._lanes.values()))

    def stop(self) -> None:
        self._is_stopped = True
        for lane in list(self._lanes.values()):
            lane.stop()


class Lane:
    """What one node sends to one other, in order, many at a time. If the queue is full the oldest are forgotten."""

    def __init__(self, node: Node, to: NodeId, take: Take) -> None:
        self._node = node
        self._own = NodeId(node.name)
        self._to = to
        self._take = take
        self._queue: deque[AnyMessage] = deque(maxlen=QUEUE_MAX)
        self._is_due = threading.Event()
        self._stopping = threading.Event()
        self._connection: HTTPConnection | None = None
        self._endpoint = ""
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"{node.name} to {to}", daemon=True)
        self._is_started = False

    def post(self, message: AnyMessage) -> None:
        self._queue.append(message)
        self._is_due.set()

    @property
    def is_busy(self) -> bool:
        return bool(self._queue)

    def start(self) -> None:
        with self._starting:
            if not self._is_started:
                self._is_started = True
                self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._is_due.set()
        if self._is_started:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._is_due.wait()
            self._is_due.clear()
            while self._queue and not self._stopping.is_set():
                if not self._deliver(batch_of(self._queue)):
                    self._close()
                    self._stopping.wait(PAUSE_S)
        self._close()

    def _deliver(self, batch: list[AnyMessage]) -> bool:
        """False if the other does not answer as it should."""
        connection = self._connected()
        if connection is None:
            return False
        try:
            connection.request("POST", PATH, pack(Parcel(self._own, self._to, batch)))
            response = connection.getresponse()
            body = response.read()
            parcel = unpack(body) if response.status == 200 else None
        except (OSError, HTTPException, msgspec.DecodeError):
            return False
        if parcel is None or (parcel.sender, parcel.to) != (self._to, self._own):
            return False
        return not parcel.messages or self._take(self._to, parcel.messages)

    def _connected(self) -> HTTPConnection | None:
        """A connection to where the other is now: behind a restart that is elsewhere. None if it is no member."""
        endpoint = next((row.endpoint for row in self._node.members() if row.node == self._to), "")
        if endpoint != self._endpoint:
            self._close()
            self._endpoint = endpoint
        if self._connection is None and endpoint:
            self._connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=TIMEOUT_S)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._endpoint = None, ""
