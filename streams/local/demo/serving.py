"""The store over HTTP, for clients and for the other nodes.

    curl -i -L http://127.0.0.1:40123/rows/shop.customer/17
    curl -i -L -X PUT --data '{"name": "Ada"}' http://127.0.0.1:40123/rows/shop.customer/17
    curl -i -L -X DELETE http://127.0.0.1:40123/rows/shop.customer/17
    curl http://127.0.0.1:40123/counts
    curl http://127.0.0.1:40123/copies/shop.customer?role=backup

Any node may be asked: 307 names the node that acts for the row's partition (curl follows it with -L). 503 with
Retry-After: the node is fenced, nobody acts just now, an operation was not done in time, or a change of the table is in
the way; a write may be sent again.
The address is in the node's row: `topolog get nodes -o wide`.

`/copies` is for who compares copies: this node's own, never those of others, and corrections of them (`copies.py`).
"""

import sys
import threading
from collections.abc import Callable, Mapping
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote

import msgspec

from topolog.events.errors import BadInput, Changing, Fenced, NotFound, NotPrimary, Refused, Retriable, TopologError
from topolog.streams.local.demo import courier
from topolog.streams.local.demo.copies import Copies
from topolog.streams.local.demo.shards import Shards
from topolog.streams.local.demo.store import Store

BODY_BYTES_MAX = 16_000_000


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    body: bytes = b""
    if_absent: bool = False
    query: str = ""


class Answer(msgspec.Struct, frozen=True):
    """`body` is bytes that are sent as they are, or what is sent as JSON."""

    status: HTTPStatus
    body: Any
    headers: Mapping[str, str] = {}


def answer(store: Store, request: Request) -> Answer:
    """The answer to a client, with the reason in words where there is no row."""
    parts = [unquote(part) for part in request.path.strip("/").split("/")]
    try:
        match (request.method, parts):
            case ("GET", ["rows", name, key]):
                row = store.get(name, key)
                return Answer(HTTPStatus.OK, row) if row else _problem(HTTPStatus.NOT_FOUND, "There is no such row.")
            case ("PUT", ["rows", name, key]):
                if store.put(name, key, request.body, if_absent=request.if_absent):
                    return Answer(HTTPStatus.NO_CONTENT, b"")
                return _problem(HTTPStatus.PRECONDITION_FAILED, "There is such a row.")
            case ("DELETE", ["rows", name, key]):
                store.delete(name, key)
                return Answer(HTTPStatus.NO_CONTENT, b"")
            case ("GET", ["counts"]):
                return Answer(HTTPStatus.OK, store.counts())
            case _:
                return _problem(HTTPStatus.NOT_FOUND, "There are /counts and /rows/<table or type>/<key>.")
    except TopologError as error:
        return _trouble(error, request.path)


def answer_about_copies(copies: Copies, request: Request) -> Answer:
    """The answer to who compares."""
    parts = [unquote(part) for part in request.path.strip("/").split("/")]
    try:
        match (request.method, parts):
            case ("GET", ["copies", name]):
                role = parse_qs(request.query).get("role", [""])[0]
                return Answer(HTTPStatus.OK, copies.tell(name, role), {"Content-Type": "application/x-ndjson"})
            case ("POST", ["copies", name]):
                return Answer(HTTPStatus.OK, copies.correct(name, request.body))
            case ("POST", ["rot", name, key]):
                return Answer(HTTPStatus.OK, copies.rot(name, key))
            case _:
                return _problem(HTTPStatus.NOT_FOUND, "There is /copies/<table>?role=<acting or backup>.")
    except TopologError as error:
        return _trouble(error, request.path)


def _trouble(error: TopologError, path: str) -> Answer:
    match error:
        case NotPrimary(endpoint=endpoint) if endpoint:
            location = {"Location": f"{endpoint}{quote(path, safe='/%')}"}
            return _problem(HTTPStatus.TEMPORARY_REDIRECT, str(error), location)
        case Fenced(retry_after_ms=retry_after_ms) | Changing(retry_after_ms=retry_after_ms):
            return _later(error, max(1, -(-retry_after_ms // 1000)))
        case Retriable():
            return _later(error, 1)
        case NotFound():
            return _problem(HTTPStatus.NOT_FOUND, str(error))
        case BadInput():
            return _problem(HTTPStatus.BAD_REQUEST, str(error))
        case Refused():
            return _problem(HTTPStatus.CONFLICT, str(error))
        case _:
            return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))


def _later(error: TopologError, retry_after_s: int) -> Answer:
    return _problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": str(retry_after_s)})


def _problem(status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, {"status": status.value, "detail": detail}, headers or {})


def exchange(shards: Shards, body: bytes) -> Answer:
    """Take the messages of another node, and answer with those for it."""
    try:
        parcel = courier.unpack(body)
    except msgspec.DecodeError as error:
        return _problem(HTTPStatus.BAD_REQUEST, f"This is no parcel of messages: {error}.")
    if parcel.to != shards.node:
        return _problem(HTTPStatus.MISDIRECTED_REQUEST, f"This is node {shards.node}, not {parcel.to}.")
    try:
        back = shards.receive(parcel.sender, parcel.messages)
    except TopologError as error:
        return _trouble(error, courier.PATH)
    return Answer(HTTPStatus.OK, courier.pack(courier.Parcel(shards.node, parcel.sender, back)))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked has gone before the answer, as after a kill: no error of this node."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Listener:
    """A port of this machine, taken before the node joins so that the join can name it; who connects early waits.

    Raises BadInput if this machine is not `host`.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        try:
            self._server = _Server((host, 0), BaseHTTPRequestHandler)
        except OSError as error:
            raise BadInput(
                f"Nobody can listen at {host!r} here: {error}.", hint="--host names this machine."
            ) from error
        self._thread: threading.Thread | None = None
        self.endpoint = f"http://{host}:{self._server.server_port}"

    def serve(self, store: Store, shards: Shards, *, may_rot: bool = False) -> None:
        """Answer from now on. With `may_rot` somebody may ask that a row be damaged on this node."""
        copies = Copies(shards, may_rot=may_rot)

        def respond(request: Request) -> Answer:
            if (request.method, request.path) == ("POST", courier.PATH):
                return exchange(shards, request.body)
            if request.path.startswith(("/copies/", "/rot/")):
                return answer_about_copies(copies, request)
            return answer(store, request)

        self._server.RequestHandlerClass = _handler(respond)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="demo http", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _handler(respond: Callable[[Request], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # the other nodes keep their connections
        disable_nagle_algorithm = True

        def respond(self) -> None:
            length = _length(self.headers)
            if length is None:
                self.close_connection = True
                found = _problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A body has at most {BODY_BYTES_MAX} bytes.")
            else:
                found = respond(_request(self.command, self.path, self.headers, self.rfile.read(length)))
            body = found.body if isinstance(found.body, bytes) else msgspec.json.encode(found.body) + b"\n"
            of_body = {"Content-Type": "application/json", "Content-Length": str(len(body))}
            self.send_response(found.status)
            for name, value in {**({} if found.status is HTTPStatus.NO_CONTENT else of_body), **found.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_DELETE = do_POST = respond  # noqa: N815 (names that the standard library wants)

        def log_message(self, *_: object) -> None:
            """One line per request would drown what the store has to say."""

    return Handler


def _request(method: str, path: str, headers: "Message[str, str]", body: bytes) -> Request:
    is_conditional = headers.get("If-None-Match", "").strip() == "*"
    path, _, query = path.partition("?")
    return Request(method, path, body, is_conditional, query)


def _length(headers: "Message[str, str]") -> int | None:
    """Of the body; None if that is nothing to read."""
    text = headers.get("Content-Length", "0")
    length = int(text) if text.isdecimal() else BODY_BYTES_MAX + 1
    return length if length <= BODY_BYTES_MAX else None
