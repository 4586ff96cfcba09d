"""Runs the read side of clusters in one process: a projector in a thread for each, the API in the main one."""

import contextlib
import logging
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import uvicorn

from topolog.events.errors import BadInput
from topolog.events.log import LogReader, LogWriter
from topolog.projections.api.app import make_app
from topolog.projections.api.served import Served
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

_LOGGER = logging.getLogger(__name__)
_BACKLOG = 512
_DRAIN_S = 3
"""How long answers under way may take when the process is told to stop; patient waiters are cut off then."""


class Server(uvicorn.Server):
    """uvicorn, but a signal that stops it is a normal end: it is not raised again once everything is closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


class Source(NamedTuple):
    """One cluster to serve: its log, a writer of requests to it, and the folder of its store."""

    cluster: str
    reader: LogReader
    writer: LogWriter
    folder: Path


def serve(
    sources: Sequence[Source],
    host: str,
    port: int,
    *,
    address: str,
    on_ready: Callable[[str], None] = lambda url: _LOGGER.info("The API answers at %s", url),
) -> None:
    """Project each cluster into its folder and answer at host:port (0: any free one) until SIGTERM or SIGINT.

    `address` is the broker's, for messages; `on_ready` is called with the API's URL once it answers. Readers and
    writers are closed at the end. Raises BadInput if the port is taken or a folder cannot be used.
    """
    with contextlib.ExitStack() as stack:
        for source in sources:
            stack.callback(source.writer.close)
        listener = stack.enter_context(contextlib.closing(_listen(host, port)))
        served = [stack.enter_context(_serving(source, address)) for source in sources]
        config = uvicorn.Config(
            make_app(served),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_DRAIN_S,
            backlog=_BACKLOG,
        )
        on_ready(f"http://{_url_host(host)}:{listener.getsockname()[1]}")
        Server(config).run([listener])


@contextlib.contextmanager
def _serving(source: Source, address: str) -> Iterator[Served]:
    projector = Projector(source.reader, source.folder, source.cluster)
    with contextlib.closing(projector), _projecting(projector):
        yield Served(projector, Requester(source.writer, f"api-{secrets.token_hex(4)}", address))


@contextlib.contextmanager
def _projecting(projector: Projector) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=projector.run, args=(stop,), name=f"projector {projector.cluster}")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; raises BadInput if the address cannot be had."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BadInput(f"{host!r} is no address to listen at: {error.strerror}.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise BadInput(
            f"The API cannot listen at {host}:{port}: {error.strerror}.",
            hint="Another process has the port, or it is not this machine's; choose another one.",
        ) from error
    return listener


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
