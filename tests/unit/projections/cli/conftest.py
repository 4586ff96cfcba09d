"""A tiny query API on loopback for the command line to talk to, and a way to run commands as `main` runs them."""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import yaml

from topolog.commands.tree import root
from topolog.projections.cli import connecting, credentials
from topolog.projections.cli.app import run
from topolog.projections.cli.contexts import Defaults
from topolog.projections.cli.session_tokens import NoTokens

Json = dict[str, Any]
WRITES = os.environ.pop("TOPOLOG_WRITE_GOLDEN", "")
"""Taken out of the environment, in which the command line would look for a setting of that name."""
ANSWERS: dict[str, Json] = yaml.safe_load((Path(__file__).parent / "answers.yaml").read_text())


@dataclass(frozen=True)
class Asked:
    """One request as the API got it."""

    method: str
    path: str
    params: dict[str, str]
    body: Json | None
    request_id: str | None = None
    authorization: str | None = None


@dataclass
class FakeApi:
    """Answers by path; `reply` replaces the answer of a path, a status and a body, for one test."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    replies: dict[str, Callable[[Asked], tuple[int, Any]]] = field(default_factory=dict)
    streams: dict[str, Callable[[Asked], Iterable[Json]]] = field(default_factory=dict)
    """By path what a watch of it sends, one connection after the other: each ends where its events do."""

    def reply(self, path: str, status: int, body: Any) -> None:
        self.replies[path] = lambda _: (status, body)

    def decide(self, name: str, status: int = 200) -> None:
        """Requests that are made get the answer of this name."""
        self.reply("/v1/clusters/demo/requests", status, ANSWERS[name])

    def answer(self, asked: Asked) -> tuple[int, Any]:
        self.asked.append(asked)
        if asked.path in self.replies and (asked.method == "POST" or not asked.path.endswith("/requests")):
            return self.replies[asked.path](asked)
        if asked.path in ANSWERS:
            return 200, ANSWERS[asked.path]
        name = asked.path.rsplit("/", 1)[-1]
        return 404, {"title": "Not Found", "status": 404, "code": "not_found", "detail": f"There is no {name!r} here."}


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def shown(self) -> str:
        """All of it as a golden file has it: stdout first, then stderr and the exit code."""
        return f"{self.out}--- stderr, exit code {self.code}\n{self.err}"


def check_golden(file: Path, shown: str) -> None:
    """Compare what was written with the golden file.

    `TOPOLOG_WRITE_GOLDEN=1 pytest tests/unit/projections/cli` writes them anew; the difference is there to be judged.
    """
    if WRITES:
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown)
    assert shown == file.read_text()


Cli = Callable[..., Ended]


@pytest.fixture
def api() -> Iterator[FakeApi]:
    fake = FakeApi()

    class Handler(BaseHTTPRequestHandler):
        # HTTP/1.0: a stream ends with its connection

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Json | None) -> None:
            split = urlsplit(self.path)
            asked = Asked(
                self.command,
                unquote(split.path),
                dict(parse_qsl(split.query)),
                body,
                self.headers["Idempotency-Key"],
                self.headers["Authorization"],
            )
            if "watch" in asked.params and asked.path in fake.streams:
                self._stream(asked)
                return
            status, answer = fake.answer(asked)
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, asked: Asked) -> None:
            fake.asked.append(asked)
            self.send_response(200)
            self.send_header("Content-Type", "application/jsonl")
            self.end_headers()
            for event in fake.streams[asked.path](asked):
                self.wfile.write(json.dumps(event).encode() + b"\n")
                self.wfile.flush()
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name the parent gives it
            """Nothing: a test's output is its own."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield fake
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings, contexts, colours, time zone of whoever runs the tests, and nothing that he has seen."""
    for name in ("API__URL", "API__TOKEN_FILE", "CLUSTER__NAME", "CONTEXT", "DEBUG"):
        monkeypatch.delenv(f"TOPOLOG_{name}", raising=False)
    for name in ("FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    credentials.of_settings.cache_clear()
    monkeypatch.setattr(connecting, "FileTokens", lambda *_: NoTokens())  # test_session_tokens.py has the real ones
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def cli(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `topolog ARGS` against the API of the test."""

    def call(*args: str) -> Ended:
        code = run(root, args, Defaults(lambda: api.url, lambda: None))
        written = capsys.readouterr()
        return Ended(int(code), written.out, written.err.replace(api.url, "http://api"))

    return call


@pytest.fixture
def customer(tmp_path: Path) -> Path:
    """A file with a definition that is well-formed."""
    file = tmp_path / "customer.json"
    file.write_text('{"name": "Customer", "fields": {"id": "long", "name": "String"}, "affinity_key": "id"}')
    return file
