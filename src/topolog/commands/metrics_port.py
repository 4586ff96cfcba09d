"""The port at which a role tells Prometheus what it counts, if the settings name one."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from topolog.events.errors import BadInput
from topolog.projections.cli.loading import needs_extra
from topolog.settings.model import Metrics


@needs_extra("metrics")
def served(metrics: Metrics, *makers: Callable[[], Any]) -> AbstractContextManager[None]:
    """Answer what these make, which are collectors, tell, and how much memory and time this process takes.

    Nothing is made without a port: collectors need a library that not every installation has.

    Raises BadInput if the port is taken, MissingExtra without prometheus_client.
    """
    if metrics.port is None:
        return contextlib.nullcontext()
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    for make in makers:
        registry.register(make())
    ProcessCollector(registry=registry)
    return _answering(metrics.host, metrics.port, registry)


@needs_extra("metrics")
def registry_served(metrics: Metrics, registry: Any) -> AbstractContextManager[None]:
    """As `served`, for somebody who has a registry already."""
    return contextlib.nullcontext() if metrics.port is None else _answering(metrics.host, metrics.port, registry)


@contextlib.contextmanager
def _answering(host: str, port: int, registry: Any) -> Iterator[None]:
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise BadInput(
            f"Metrics cannot be served on port {port} of {host}: {error.strerror}.",
            hint="Give each process of this machine a metrics.port of its own.",
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
