"""The nodes of the store, as others go to them: the connections, and a loader that stores rows where they belong."""

from http.client import HTTPConnection, HTTPException
from typing import Self
from urllib.parse import quote, urlsplit

import msgspec

from topolog.events.errors import Unreachable
from topolog.streams.local.demo.serving import AGREED

TIMEOUT_S = 10.0
REDIRECTIONS_MAX = 3

_STORED, _IS_THERE, _ELSEWHERE = 204, 412, 307


class Response(msgspec.Struct, frozen=True):
    """`location`: where to go instead, without the path that was asked for; "" if nowhere."""

    status: int
    location: str
    body: bytes


class Connections:
    """One connection to each endpoint, kept. For one thread."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._connections: dict[str, HTTPConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for endpoint in list(self._connections):
            self._close(endpoint)

    def ask(self, endpoint: str, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        """What the endpoint answers. Raises Unreachable if that is nothing: it may have heard all the same."""
        connection = self._connections.get(endpoint)
        if connection is None:
            netloc = urlsplit(endpoint).netloc
            connection = self._connections[endpoint] = HTTPConnection(netloc, timeout=self._timeout_s)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            response = connection.getresponse()
            found = response.read()
        except (OSError, HTTPException) as error:
            self._close(endpoint)
            raise Unreachable(f"{endpoint} does not answer: {error}.", hint="Ask again.") from error
        return Response(response.status, response.headers.get("Location", "").removesuffix(path), found)

    def _close(self, endpoint: str) -> None:
        self._connections.pop(endpoint).close()


class Others(Connections):
    """The other nodes, for a loader."""

    def put_if_absent(self, endpoint: str, type_name: str, key: str, row: bytes) -> None:
        """Store a row whose values are as agreed, unless there is one; goes on to wherever it is sent.

        Raises Unreachable if it may not have been stored: the same again does no harm.
        """
        path = path_of(type_name, key)
        for _ in range(REDIRECTIONS_MAX):
            response = self.ask(endpoint, "PUT", path, row, Content_Type=AGREED, If_None_Match="*")
            if response.status in (_STORED, _IS_THERE):
                return
            if response.status != _ELSEWHERE:
                raise Unreachable(
                    f"{endpoint} answers {response.status} to a row of {type_name}.", hint="It is sent again."
                )
            endpoint = response.location
        raise Unreachable(f"Row {key} of {type_name} is sent from one node to the next.", hint="It is sent again.")


def path_of(type_name: str, key: str) -> str:
    return f"/rows/{quote(type_name, safe='')}/{quote(key, safe='')}"
