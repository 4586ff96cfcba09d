"""The trace that an HTTP request came with: what it asks for belongs to it.

In a process with an SDK FastAPI itself begins a span of that trace. Without one the trace is passed on as it came.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from topolog.events import telemetry


class Traced:
    """ASGI middleware. `traceparent` comes in by W3C's Trace Context."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parent = None
        if scope["type"] == "http" and not telemetry.is_on():
            parent = telemetry.carried((name.decode("latin-1"), value) for name, value in scope["headers"])
        with telemetry.within(parent):
            await self._app(scope, receive, send)
