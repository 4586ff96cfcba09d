"""HEAD, of whatever can be got: the same answer without its body (RFC 9110, 9.3.2), for `curl -I` and uptime checks.

What would answer without an end, as a watch does, hears that nobody listens any more once its headers are out.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Heads:
    """Asks what stands behind it for the same by GET, and keeps the body back."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        is_answered = False

        async def bodiless(message: Message) -> None:
            nonlocal is_answered
            if is_answered:
                return
            await send(message)
            if message["type"] == "http.response.start":
                is_answered = True
                await send({"type": "http.response.body", "body": b""})

        async def heard() -> Message:
            return {"type": "http.disconnect"} if is_answered else await receive()

        await self._app({**scope, "method": "GET"}, heard, bodiless)
