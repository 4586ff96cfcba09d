"""A running API for tests: the real server on a free loopback port, spoken to over HTTP; as a process, if run."""

import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.unit.projections.chronicle import Chronicle

from topolog.projections.api.access.access import Access
from topolog.projections.api.app import make_app
from topolog.projections.api.connections import BOUNDS, Bounds, Connections
from topolog.projections.api.served import Served
from topolog.projections.api.server import Server, Source, config_of, serve
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester


@contextmanager
def served(
    projector: Projector, requester: Requester, access: Access | None = None, bounds: Bounds = BOUNDS
) -> Iterator[httpx.Client]:
    """A client of an API over this projector, which the test steps itself."""
    with serving([Served(projector, requester)], access, bounds) as client:
        yield client


@contextmanager
def serving(
    clusters: Sequence[Served], access: Access | None = None, bounds: Bounds = BOUNDS
) -> Iterator[httpx.Client]:
    """A client of an API over these clusters."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))  # with its protocol said, or asyncio leaves Nagle's delay of 40 ms on
        listener.listen()
        app, connections = make_app(clusters, access), Connections(bounds)
        app.state.registry.register(connections)
        config = config_of(app, connections)
        config.timeout_graceful_shutdown = 1
        server = Server(config, clusters)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
                timeout=30,
                trust_env=False,
                follow_redirects=True,
            ) as client:
                yield client
        finally:
            server.handle_exit(signal.SIGTERM, None)
            thread.join()


def main(folder: Path) -> None:
    """Serve a small cluster until told to stop."""
    chronicle = Chronicle().start()
    chronicle.join("n1")

    def on_ready(url: str) -> None:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()

    log = chronicle.log
    source = Source("main", log.reader(), log.writer(), folder)
    serve([source], "127.0.0.1", 0, address="broker:9092", on_ready=on_ready)
    sys.stdout.write("closed\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
