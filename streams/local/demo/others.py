"""The other nodes of the store, as a loader goes to them: rows are stored where they belong."""

from http.client import HTTPConnection, HTTPException
from typing import Self
from urllib.parse import quote, urlsplit

from topolog.events.errors import Unreachable
from topolog.streams.local.demo.serving import AGREED

TIMEOUT_S = 10.0
REDIRECTIONS_MAX = 3

_STORED, _IS_THERE, _ELSEWHERE = 204, 412, 307


class Others:
    """One connection to each endpoint, kept. For one thread."""

    def __init__(self) -> None:
        self._connections: dict[str, HTTPConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for endpoint in list(self._connections):
            self._close(endpoint)

    def put_if_absent(self, endpoint: str, type_name: str, key: str, row: bytes) -> None:
        """Store a row whose values are as agreed, unless there is one; goes on to wherever it is sent.

        Raises Unreachable if it may not have been stored: the same again does no harm.
        """
        path = f"/rows/{quote(type_name, safe='')}/{quote(key, safe='')}"
        for _ in range(REDIRECTIONS_MAX):
            status, location = self._put(endpoint, path, row)
            if status in (_STORED, _IS_THERE):
                return
            if status != _ELSEWHERE:
                raise Unreachable(f"{endpoint} answers {status} to a row of {type_name}.", hint="It is sent again.")
            endpoint = location.removesuffix(path)
        raise Unreachable(f"Row {key} of {type_name} is sent from one node to the next.", hint="It is sent again.")

    def _put(self, endpoint: str, path: str, row: bytes) -> tuple[int, str]:
        connection = self._connections.get(endpoint)
        if connection is None:
            connection = self._connections[endpoint] = HTTPConnection(urlsplit(endpoint).netloc, timeout=TIMEOUT_S)
        try:
            connection.request("PUT", path, row, {"Content-Type": AGREED, "If-None-Match": "*"})
            response = connection.getresponse()
            response.read()
        except (OSError, HTTPException) as error:
            self._close(endpoint)
            raise Unreachable(f"{endpoint} does not answer: {error}.", hint="Its rows are sent again.") from error
        return response.status, response.headers.get("Location", "")

    def _close(self, endpoint: str) -> None:
        self._connections.pop(endpoint).close()
