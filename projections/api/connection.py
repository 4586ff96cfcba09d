"""One connection of the API: uvicorn's, but its client has so long to send a request, and it has a place among others.

uvicorn waits for ever for the first byte of a connection, for the end of a head and for that of a body; its time for
idle connections counts behind an answer only, and each byte ends it. So here a deadline runs whenever it is the
client's turn: from the connection, or the first byte of a further request, until the head is whole, and from there anew
until the body is. A head has a bound of bytes as well, which uvicorn's parser has not, and so has what frames a body.

It is the client's turn, too, while it takes nothing of what it is answered: its place is another's who comes, and after
a minute it is ended. Few requests may wait behind the one that is being answered.

With https the client's turn begins with the handshake, of which uvicorn does not know either.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from topolog.projections.api.connections import Connections, Reason, Slot

_HEAD_BYTES_MAX = 64 * 1024
"""How much may come that is neither a whole head nor of a body: lines of a head, of a trailer, sizes of chunks."""
UNREAD_S = 60.0
"""How long a client may take nothing; what is sent in parts is given up after as long (export.py, watch/feed.py)."""

PIPELINED_MAX = 16
_GOODBYE_S = 2.0
"""How long the other side of a TLS connection may take to close it, too."""


class Connection(HttpToolsProtocol):
    """One connection, with or without TLS."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._connections = connections
        self._slot: Slot | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._last_look: asyncio.TimerHandle | None = None
        self._asked: Sequence[RequestResponseCycle] = ()
        self._is_in_head = False
        self._is_in_body = False
        self._has_got_on = False
        self._framing_bytes = 0
        self._closes_behind_body = False

    def take(self, slot: Slot) -> None:
        """The place that somebody has found for it."""
        self._slot = slot

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._slot = self._slot or self._connections.enter(_host(transport), transport.abort)
        if self._slot is None:
            transport.abort()
            return
        self._slot.end = transport.abort
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_looking()
        if self._slot is not None:
            self._slot.leave()
        super().connection_lost(exc)
        # uvicorn tells the last request only; whoever answers another would write to what is closed.
        self.pipeline.clear()
        for cycle in self._asked:
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None and self._is_free:
            self._wait()
        self._has_got_on = False
        super().data_received(data)
        self._framing_bytes = 0 if self._has_got_on else self._framing_bytes + len(data)
        if self._framing_bytes > _HEAD_BYTES_MAX:
            self._refuse(Reason.MALFORMED, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of a head; uvicorn adds the trailer behind a body to the headers, where it says who asks."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            raise ValueError("too many requests wait")  # the parser takes it for its own error, and reads no further
        super().on_headers_complete()
        self._asked = [*(each for each in self._asked if not each.response_complete), self.cycle]
        self._is_in_head, self._is_in_body, self._has_got_on = False, True, True
        self._wait()
        # Whoever is answered before their body has come is heard to its end, or the answer would be lost with it.
        self._closes_behind_body, self.cycle.keep_alive = not self.cycle.keep_alive, True

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._has_got_on = True

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_body = False
        self._stop_waiting()
        if self._closes_behind_body:
            self.cycle.keep_alive = False
        if self.cycle.response_complete and self._closes_behind_body:
            self.transport.close()
        self._take_turns()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._take_turns()
        if self._is_in_head and self._deadline is None:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        if self._slot is not None:
            self._slot.refused(Reason.MALFORMED)
        if self.pipeline or (not self._is_free and self.cycle.response_started):
            self.transport.abort()  # it would stand within another answer, and wait until that is taken
        else:
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._take_turns()
        self._look_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_looking()
        self._take_turns()

    @property
    def _is_free(self) -> bool:
        """Whether nothing is to be answered that has been asked."""
        return getattr(self.cycle, "response_complete", True)

    def _take_turns(self) -> None:
        """Keep the place while a whole request is to be answered, and offer it while it is the client's turn: to send
        more, or to take what there is."""
        if self._slot is None:
            return
        is_whole = bool(self.pipeline) or not self._is_in_body  # what others wait behind has come to its end
        if is_whole and not self._is_free and not self.flow.write_paused:
            self._slot.works()
        else:
            self._slot.waits()

    def _look_later(self) -> None:
        """End it after a while in which nothing is taken."""
        self._stop_looking()
        unsent = self.transport.get_write_buffer_size()
        self._last_look = self.loop.call_later(UNREAD_S, self._look, unsent)

    def _look(self, unsent_before: int) -> None:
        if self.transport.get_write_buffer_size() < unsent_before:
            self._look_later()
            return
        if self._slot is not None:
            self._slot.refused(Reason.UNREAD)
        self.transport.abort()

    def _stop_looking(self) -> None:
        if self._last_look is not None:
            self._last_look.cancel()
            self._last_look = None

    def _wait(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(self._connections.bounds.request_timeout_ms / 1000, self._is_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _is_late(self) -> None:
        self._deadline = None
        self._refuse(Reason.LATE, HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, reason: Reason, status: HTTPStatus) -> None:
        """End the connection, with an answer where one is awaited and none has begun."""
        if self.transport.is_closing():
            return
        if self._slot is not None:
            self._slot.refused(reason)
        if (self._is_in_head and self._is_free) or (self._is_in_body and not self.cycle.response_started):
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode())
            self.transport.close()
        else:
            self.transport.abort()


class Secured(SSLProtocol):
    """TLS between a connection's bytes and `inner`, whose `connection_made` is called once it is agreed upon.

    The loop would do as much for a server that it is told the certificate of, but waits a minute for a handshake, and
    shows no connection before: no place could be counted for it, and none taken from it.
    """

    def __init__(self, inner: Connection, connections: Connections, context: ssl.SSLContext) -> None:
        super().__init__(
            inner.loop,
            inner,
            context,
            None,  # type: ignore[arg-type]  # nobody waits for it
            server_side=True,
            ssl_handshake_timeout=connections.bounds.request_timeout_ms / 1000,  # type: ignore[arg-type]  # any number
            ssl_shutdown_timeout=_GOODBYE_S,
        )
        self._inner = inner
        self._connections = connections
        self._slot: Slot | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # it is one
        self._slot = self._connections.enter(_host(transport), transport.abort)
        if self._slot is None:
            transport.abort()
            return
        self._inner.take(self._slot)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._slot is not None:
            if isinstance(exc, ssl.SSLError):
                self._slot.refused(Reason.MALFORMED)
            elif isinstance(exc, ConnectionAbortedError):  # as the handshake's time is up
                self._slot.refused(Reason.LATE)
            self._slot.leave()
        super().connection_lost(exc)


def _host(transport: asyncio.Transport) -> str:
    found = get_remote_addr(transport)
    return found[0] if found else ""
