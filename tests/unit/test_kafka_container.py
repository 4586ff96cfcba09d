"""The choice of a broker for the tests, against an engine that we ship: it speaks just enough of Docker's HTTP API."""

import contextlib
import gc
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests import kafka_container
from tests.kafka_container import BROKER, IMAGE, IMAGES, Choice, Impossible, choose

APACHES, OURS = IMAGES


class Engine(ThreadingHTTPServer):
    """Has `images`; a pull fails with `failure` or goes on for ever if it is `endless`; a mute one never answers."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *images: str, failure: str = "", endless: bool = False, is_mute: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.images, self.failure, self.endless, self.is_mute = images, failure, endless, is_mute
        self.over = threading.Event()
        self.pulls = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def do_GET(self) -> None:
        if self.server.is_mute:
            self.server.over.wait()
        elif "/images/" not in self.path:
            self._answer(200, {"ApiVersion": "1.41", "Version": "20.10"})
        elif any(f"/images/{image}/json" in self.path for image in self.server.images):
            self._answer(200, {"Id": "sha256:1"})
        else:
            self._answer(404, {"message": "No such image"})

    def do_POST(self) -> None:
        self.server.pulls += 1
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        line = json.dumps({"error": self.server.failure} if self.server.failure else {"status": "Pulling"}).encode()
        with contextlib.suppress(OSError):  # whoever asked has gone
            self._chunk(line)
            while self.server.endless and not self.server.over.wait(0.01):
                self._chunk(line)
            self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _answer(self, status: int, body: dict[str, str]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=["tcp://127.0.0.1:1", "unix:///nobody/listens.sock"])
def no_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody listens; and no socket is left open, which a later test would be blamed for."""
    monkeypatch.setenv("DOCKER_HOST", request.param)
    yield
    gc.collect()


@contextlib.contextmanager
def answering(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{engine.server_port}")
    thread = threading.Thread(target=engine.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield engine
    engine.over.set()
    engine.shutdown()
    thread.join()
    engine.server_close()


def test_without_an_engine_the_local_broker_is_taken_and_the_run_says_why(no_engine: None) -> None:
    """Most machines have no engine, and need none."""
    choice = choose({})
    assert choice.image == ""
    assert "local broker" in str(choice)
    assert "no container engine answers" in str(choice)


def test_a_container_that_was_asked_for_and_cannot_be_had_fails_the_run(no_engine: None) -> None:
    """A CI step that means to test the container must not pass on the local broker."""
    with pytest.raises(Impossible, match="no container engine answers"):
        choose({BROKER: "container"})


def test_the_local_broker_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is not even asked."""
    with answering(Engine(APACHES), monkeypatch):
        assert choose({BROKER: "local"}) == Choice("", f"{BROKER}=local")


def test_a_wish_that_does_not_exist_is_named() -> None:
    """A misspelt wish must not pass for none."""
    with pytest.raises(Impossible, match="'lokal'"):
        choose({BROKER: "lokal"})


@pytest.mark.parametrize(
    ("there", "named", "taken"),
    [((APACHES, OURS), "", APACHES), ((OURS,), "", OURS), (("mine:1", APACHES), "mine:1", "mine:1")],
)
def test_an_image_that_is_there_is_taken(
    there: tuple[str, ...], named: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache's before the one made here, one that is named before both; nothing is pulled."""
    with answering(Engine(*there), monkeypatch) as engine:
        assert choose({IMAGE: named}).image == taken
        assert engine.pulls == 0


def test_what_is_not_there_is_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the two only Apache's can be had elsewhere."""
    with answering(Engine(), monkeypatch) as engine:
        assert choose({}).image == APACHES
        assert engine.pulls == 1


def test_an_image_that_cannot_be_pulled_leaves_the_local_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own words say why."""
    with answering(Engine(failure="no route to the registry"), monkeypatch):
        assert "no route to the registry" in str(choose({}))


def test_a_pull_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow registry costs a limited time, however much progress it reports."""
    with answering(Engine(endless=True), monkeypatch):
        assert "took more than 0.2 s" in str(choose({}, pull_limit_s=0.2))


def test_an_engine_that_never_answers_costs_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something may listen at DOCKER_HOST and be no engine, or hang."""
    monkeypatch.setattr(kafka_container, "ANSWER_LIMIT_S", 0.2)
    started_s = time.monotonic()
    with answering(Engine(is_mute=True), monkeypatch):
        assert choose({}).image == ""
    assert time.monotonic() - started_s < 10
