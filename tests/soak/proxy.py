"""A TCP proxy that can be cut, held up and slowed down: one client's network, without touching anybody else's.

What is held is not lost: as with a network that is mended, it arrives when the hold ends, in order. So a coordinator
whose sends are held while another takes over becomes a zombie whose sends land late.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from enum import Enum
from typing import Any, Self, TypeVar

T = TypeVar("T")
CHUNK_BYTES = 1 << 16
LIMIT_S = 60.0  # nothing here takes long, but on a machine that is busy with other things
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER for no time: the peer gets a reset, not an end


class Way(Enum):
    TO_BROKER = "to the broker"
    TO_CLIENT = "to the client"


class Proxy:
    """Listens at `port` and forwards to `target`, both on the loopback address. Of the loop's thread alone."""

    def __init__(self, port: int, target: int) -> None:
        self._port = port
        self._target = target
        self._server: asyncio.Server | None = None
        self._open = {way: asyncio.Event() for way in Way}
        self._delay_s = 0.0
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def cut(self) -> None:
        """Drop every connection, and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            _reset(writer)
        for each in self._connections:
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def hold(self, *ways: Way) -> None:
        """Take connections and data, and forward nothing that goes these ways."""
        for way in ways:
            self._open[way].clear()

    async def delay(self, ms: float) -> None:
        """Forward what comes from now on so much later."""
        self._delay_s = ms / 1000

    async def restore(self) -> None:
        """A network as it should be; what was held goes on its way."""
        self._delay_s = 0.0
        for gate in self._open.values():
            gate.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port, reuse_address=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writers.add(writer)
        broker: asyncio.StreamWriter | None = None
        try:
            answers, broker = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(broker)
            await asyncio.gather(self._pump(reader, broker, Way.TO_BROKER), self._pump(answers, writer, Way.TO_CLIENT))
        except OSError:
            pass  # the broker is gone: so is this connection
        except asyncio.CancelledError:
            pass  # cut
        finally:
            self._connections.discard(task)
            for each in (writer, broker):
                if each is not None:
                    self._writers.discard(each)
                    each.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Way) -> None:
        """Forward until the source ends; what was read of a source that broke still goes out."""
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._open[way].wait()
                sink.write(data)
                await sink.drain()
        await self._open[way].wait()
        with contextlib.suppress(OSError, RuntimeError):
            sink.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()


class Network:
    """Proxies in one thread; `proxies` is by the name of the client and the number of the broker's node."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._proxies: dict[tuple[str, int], Proxy] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            for client in {client for client, _ in self._proxies}:
                self.cut(client)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()  # or the unix sockets with which it wakes itself are found by another test

    def add(self, client: str, node: int, port: int, target: int) -> None:
        proxy = self._proxies[client, node] = Proxy(port, target)
        self._run(proxy.restore())

    def cut(self, client: str) -> None:
        for proxy in self._of(client):
            self._run(proxy.cut())

    def hold(self, client: str, *ways: Way) -> None:
        for proxy in self._of(client):
            self._run(proxy.hold(*ways))

    def delay(self, client: str, ms: float) -> None:
        for proxy in self._of(client):
            self._run(proxy.delay(ms))

    def restore(self, client: str) -> None:
        for proxy in self._of(client):
            self._run(proxy.restore())

    def _of(self, client: str) -> list[Proxy]:
        found = [proxy for (name, _), proxy in self._proxies.items() if name == client]
        assert found, f"nobody called {client} has a proxy"
        return found

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)
