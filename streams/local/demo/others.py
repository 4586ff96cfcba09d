"""The nodes of the store, as others go to them: the connections, and a loader that stores rows where they belong."""

from http.client import HTTPConnection, HTTPException
from typing import Self
from urllib.parse import quote, urlsplit

import msgspec

from topolog.events.errors import BadInput, NotFound, Unreachable

TIMEOUT_S = 10.0
REDIRECTIONS_MAX = 3

_STORED, _IS_THERE, _ELSEWHERE = 204, 412, 307
_REFUSALS = {400: BadInput, 404: NotFound, 409: BadInput}


class Response(msgspec.Struct, frozen=True):
    """`location`: where to go instead, without the path that was asked for; "" if nowhere."""

    status: int
    location: str
    body: bytes

    @property
    def detail(self) -> str:
        """Why it is not done, in words."""
        return self.body.decode(errors="replace").strip()


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

    def follow(self, endpoint: str, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        """What is answered by whoever the others send us to. Raises Unreachable also if nobody knows who that is."""
        for _ in range(REDIRECTIONS_MAX):
            if not endpoint:
                break
            response = self.ask(endpoint, method, path, body, **headers)
            if response.status != _ELSEWHERE:
                return response
            endpoint = response.location
        raise Unreachable(f"Nobody says where {path} is.", hint="Ask again.")

    def _close(self, endpoint: str) -> None:
        self._connections.pop(endpoint).close()


class Others(Connections):
    """The other nodes, for a loader."""

    def put_if_absent(self, endpoint: str, name: str, key: str, row: bytes) -> None:
        """Store a row unless there is one.

        Raises Unreachable if it may not have been stored: the same again does no harm; NotFound without such a table,
        BadInput for a row that makes no sense there.
        """
        response = self.follow(endpoint, "PUT", path_of(name, key), row, If_None_Match="*")
        if response.status in _REFUSALS:
            raise _REFUSALS[response.status](f"{endpoint} answers to a row of {name}: {response.detail}")
        if response.status not in (_STORED, _IS_THERE):
            raise Unreachable(f"{endpoint} answers {response.status} to a row of {name}.", hint="It is sent again.")


def path_of(name: str, key: str) -> str:
    """Of a row of this table or type."""
    return f"/rows/{quote(name, safe='')}/{quote(key, safe='')}"
