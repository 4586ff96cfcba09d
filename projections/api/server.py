"""Runs the read side of clusters in one process: a projector in a thread for each, the API in the main one."""

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import uvicorn
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from topolog.events.errors import BadInput
from topolog.events.log import LogReader, LogWriter
from topolog.events.requesters import requester_of_api
from topolog.projections.api.access.access import Access
from topolog.projections.api.app import make_app
from topolog.projections.api.connection import Connection, Secured
from topolog.projections.api.connections import BOUNDS, Bounds, Connections
from topolog.projections.api.quiet import quiet
from topolog.projections.api.served import Served
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.tracing import traced
from topolog.projections.upkeep.keeper import TERMS, Terms
from topolog.projections.upkeep.workshop import Workshop

_LOGGER = logging.getLogger(__name__)
_BACKLOG = 512
_DRAIN_S = 3
"""How long answers under way may take when the process is told to stop; patient waiters are cut off then."""


class Server(uvicorn.Server):
    """uvicorn, but a signal that stops it is a normal end: it is not raised again once everything is closed. Watches
    are told at once, for they would not end by themselves."""

    def __init__(self, config: uvicorn.Config, served: Sequence[Served]) -> None:
        super().__init__(config)
        self._served = served

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        for each in self._served:
            each.commits.soon(each.feeds.end)
        super().handle_exit(sig, frame)

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
    """One cluster to serve: its log, a writer of requests to it, the folder of its store, and how that is kept."""

    cluster: str
    reader: LogReader
    writer: LogWriter
    folder: Path
    workshop: Workshop | None = None
    terms: Terms = TERMS


class Tls(NamedTuple):
    """The files with the API's certificate (and what signed it), and its key, as PEM."""

    certificate: Path
    key: Path


class Front(NamedTuple):
    """How the process meets its callers: whom it lets in, by which certificate, under which name on its pages."""

    access: Access | None = None
    tls: Tls | None = None
    environment: str = ""
    bounds: Bounds = BOUNDS


OPEN = Front()
"""To whoever reaches it, which is allowed on loopback only."""


def serve(
    sources: Sequence[Source],
    host: str,
    port: int,
    *,
    address: str,
    front: Front = OPEN,
    at_port: Callable[[CollectorRegistry], AbstractContextManager[None]] = lambda _: contextlib.nullcontext(),
    on_ready: Callable[[str], None] = lambda url: _LOGGER.info("The API answers at %s", url),
) -> None:
    """Project each cluster into its folder and answer at host:port (0: any free one) until SIGTERM or SIGINT.

    `address` is the broker's, for messages; `at_port` has metrics answered at a port of their own, too; `on_ready` is
    called with the API's URL once it answers. Readers and writers are closed at the end. Raises BadInput if the port is
    taken, a folder cannot be used, or others could reach an API that asks nobody who they are.
    """
    access, tls = front.access or Access(), front.tls
    with contextlib.ExitStack() as stack:
        stack.callback(access.close)
        for source in sources:
            stack.callback(source.writer.close)
        listener = stack.enter_context(contextlib.closing(_listen(host, port)))
        access.check_address(listener.getsockname()[0])
        served = [stack.enter_context(_serving(source, address)) for source in sources]
        app = make_app(served, access, front.environment)
        connections = Connections(front.bounds, access.authentication.is_proxy)
        app.state.registry.register(connections)
        stack.enter_context(at_port(app.state.registry))
        stack.enter_context(quiet("uvicorn.error", connections.logger))
        config = config_of(app, connections, tls)
        on_ready(f"{'https' if tls else 'http'}://{_url_host(host)}:{listener.getsockname()[1]}")
        Server(config, served).run([listener])


def config_of(app: ASGIApp, connections: Connections, tls: Tls | None = None) -> uvicorn.Config:
    """How uvicorn answers for this app; TLS is ours, so that it does not have to be told of the certificate."""
    context = _tls_context(tls) if tls else None

    def protocol(**given: Any) -> asyncio.BaseProtocol:
        connection = Connection(**given, connections=connections)
        return Secured(connection, connections, context) if context else connection

    return uvicorn.Config(
        app,
        http=protocol,  # type: ignore[arg-type]  # uvicorn calls it, and asks no more of it
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # who asks is told by the connection; whom to believe besides, the settings say
        timeout_graceful_shutdown=_DRAIN_S,
        backlog=_BACKLOG,
    )


def _tls_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    context.set_alpn_protocols(["http/1.1"])
    return context


@contextlib.contextmanager
def _serving(source: Source, address: str) -> Iterator[Served]:
    reader = traced(source.reader, source.cluster)
    projector = Projector(reader, source.folder, source.cluster, workshop=source.workshop, terms=source.terms)
    with contextlib.closing(projector), _projecting(projector):
        yield Served(
            projector, Requester(source.writer, requester_of_api(secrets.randbits(40)), address, source.cluster)
        )


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
