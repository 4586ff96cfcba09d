"""The store over HTTP: GET /rows/<type>/<key> and GET /counts; 503 with Retry-After while the node is fenced.

    curl -i http://127.0.0.1:40123/rows/Customer/17

The address is in the node's row: `topolog get nodes -o wide`.
"""

import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

import msgspec

from topolog.events.errors import Fenced, TopologError
from topolog.streams.local.demo.store import Store


class Answer(msgspec.Struct, frozen=True):
    status: HTTPStatus
    body: Any
    headers: Mapping[str, str] = {}


def answer(store: Store, path: str) -> Answer:
    """The answer to a GET, with the reason in words where there is no row."""
    try:
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["rows", type_name, key]:
                row = store.get(type_name, key)
                return (
                    Answer(HTTPStatus.OK, row) if row else _problem(HTTPStatus.NOT_FOUND, "This node has no such row.")
                )
            case ["counts"]:
                return Answer(HTTPStatus.OK, store.counts())
            case _:
                return _problem(HTTPStatus.NOT_FOUND, "There are /counts and /rows/<type>/<key>.")
    except Fenced as fenced:
        retry_after_s = max(1, -(-fenced.retry_after_ms // 1000))
        return _problem(HTTPStatus.SERVICE_UNAVAILABLE, str(fenced), {"Retry-After": str(retry_after_s)})
    except TopologError as error:
        return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))


def _problem(status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, {"status": status.value, "detail": detail}, headers or {})


class Listener:
    """A port of this machine, taken before the node joins so that the join can name it; who connects early waits."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
        self._server.daemon_threads = True
        self._thread: threading.Thread | None = None
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def serve(self, store: Store) -> None:
        self._server.RequestHandlerClass = _handler(store)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="demo http", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _handler(store: Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answer(store, self.path.partition("?")[0])
            body = msgspec.json.encode(found.body) + b"\n"
            self.send_response(found.status)
            for name, value in {**found.headers, "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """One line per request would drown what the store has to say."""

    return Handler
