"""A schema registry in memory, with as much of Confluent's HTTP API as topolog uses."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

FIRST_ID = 100_001


class RegistryServer(ThreadingHTTPServer):
    """`schemas`: (subject, text) in the order of their ids. It refuses subjects in `refused`; while `is_down`, 503."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.schemas: list[tuple[str, str]] = []
        self.refused: set[str] = set()
        self.is_down = False
        self.asked: list[str] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def register(self, subject: str, text: str) -> int:
        with self.lock:
            if (subject, text) not in self.schemas:
                self.schemas.append((subject, text))
            return FIRST_ID + self.schemas.index((subject, text))


class _Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        subject = unquote(self.path.split("/")[2])
        if subject in self.server.refused:
            self._answer(409, {"error_code": 409, "message": "incompatible"})
        else:
            self._answer(200, {"id": self.server.register(subject, body["schema"])})

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        index = int(self.path.rpartition("/")[2]) - FIRST_ID
        if 0 <= index < len(self.server.schemas):
            self._answer(200, {"schema": self.server.schemas[index][1]})
        else:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def _answer(self, status: int, body: Any) -> None:
        if self.server.is_down:
            status, body = 503, {}
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def running(port: int = 0) -> Iterator[RegistryServer]:
    with RegistryServer(port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
