"""What whoever reaches the port can do without asking anything: connect, be slow, send what is no request."""

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served

from topolog.events.requests import REQUEST_BYTES_MAX
from topolog.projections.api.connections import Bounds, Connections, Reason, Slot
from topolog.projections.api.quiet import Quiet, quiet
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

SOON = Bounds(request_timeout_ms=500, connections=20, per_peer=10)
PATIENT = SOON._replace(request_timeout_ms=60_000)
ASK = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POST = b"POST /v1/clusters/main/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
WATCH = b"GET /v1/clusters/main/nodes?watch=true HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/jsonl\r\n\r\n"
DEADLINE_S = 10.0

Serve = Callable[[Bounds], httpx.Client]


@pytest.fixture
def serve(chronicle: Chronicle, projector: Projector) -> Iterator[Serve]:
    """An API within these bounds."""
    chronicle.join("n1")
    projector.step()
    requester = Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")
    with ExitStack() as stack:
        yield lambda bounds: stack.enter_context(served(projector, requester, bounds=bounds))


@contextmanager
def connected(client: httpx.Client) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=DEADLINE_S) as sock:
        yield sock


def heard(sock: socket.socket, until: bytes = b"") -> bytes:
    """What comes until this has come, or until the other side ends the connection."""
    found = b""
    try:
        while (part := sock.recv(65_536)) and not (until and until in found + part):
            found += part
        found += part
    except ConnectionResetError:
        pass
    return found


def is_ended(sock: socket.socket, while_sending: bytes) -> bool:
    """Whether the other side ends the connection, although this comes all the time."""
    ends_s = time.monotonic() + DEADLINE_S
    sock.settimeout(0.02)
    while time.monotonic() < ends_s:
        try:
            sock.sendall(while_sending)
            if sock.recv(100) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def is_open(sock: socket.socket) -> bool:
    """Whether the other side has not ended the connection, whatever it has said."""
    sock.setblocking(False)
    try:
        while sock.recv(65_536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def refused(client: httpx.Client) -> dict[str, int]:
    """By reason, those that are not 0."""
    lines = client.get("/metrics").text.splitlines()
    found = [line.split('"') for line in lines if line.startswith("topolog_api_connections_refused_total{")]
    return {reason: int(float(rest.lstrip("} "))) for _, reason, rest in found if float(rest.lstrip("} "))}


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"GET /livez HT", ASK[:-2], POST + b"Content-Length: 90\r\n\r\n{"])
def test_who_does_not_finish_a_request_is_ended(serve: Serve, sent: bytes) -> None:
    """OP12: at the first byte, in the head, in the body; with 408 where a request has begun."""
    client = serve(SOON)
    with connected(client) as sock:
        sock.sendall(sent)
        answer = heard(sock)
    assert answer[:12] == (b"HTTP/1.1 408" if sent.strip() else b"")
    assert refused(client) == {"late": 1}


def test_a_byte_now_and_then_buys_no_time(serve: Serve) -> None:
    """Each byte ends uvicorn's own time for idle connections, before a request and behind an answer."""
    client = serve(SOON)
    for before in (b"", ASK):
        with connected(client) as sock:
            sock.sendall(before)
            if before:
                assert heard(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
            assert is_ended(sock, while_sending=b"\r\n")


def test_who_watches_is_not_late(serve: Serve) -> None:
    """The deadline is for what a client sends; an answer may last."""
    client = serve(SOON)
    with connected(client) as sock:
        sock.sendall(WATCH)
        assert heard(sock, b"n1").startswith(b"HTTP/1.1 200")
        with connected(client) as other:
            assert heard(other) == b""
        assert is_open(sock)


def test_idle_connections_stop_nobody(serve: Serve) -> None:
    """OP12: 1,500 connections that say nothing, and every request failed for as long as they stayed."""
    client = serve(PATIENT)
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(client)) for _ in range(3 * PATIENT.per_peer)]
        for _ in range(3):
            with connected(client) as sock:
                sock.sendall(ASK)
                assert heard(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert heard(idle[0]) == b""
        assert refused(client)["too_many_of_peer"] >= 2 * PATIENT.per_peer


@pytest.mark.parametrize("before", [b"", ASK, 3 * ASK])
def test_a_request_that_came_behind_others_is_at_work_too(serve: Serve, before: bytes) -> None:
    """The last of several in one piece was taken for none, so that whoever came next ended it."""
    client = serve(PATIENT)
    with connected(client) as sock, ExitStack() as stack:
        sock.sendall(before + WATCH)
        heard(sock, b"n1")
        for _ in range(2 * PATIENT.per_peer):
            stack.enter_context(connected(client))
        assert refused(client)["too_many_of_peer"] >= PATIENT.per_peer
        assert is_open(sock)


def test_a_request_whose_body_has_not_come_makes_room(serve: Serve) -> None:
    """Behind another one, too: it is the client's turn."""
    client = serve(PATIENT)
    with connected(client) as sock, ExitStack() as stack:
        sock.sendall(ASK + POST + b"Content-Length: 90\r\n\r\n{")
        heard(sock, b"}")
        for _ in range(2 * PATIENT.per_peer):
            stack.enter_context(connected(client))
        assert heard(sock) == b""


class Crowd:
    """Connections, and the names of those that were ended to make room."""

    def __init__(self, bounds: Bounds, proxy: str = "") -> None:
        self.ended: list[str] = []
        self._connections = Connections(bounds, lambda address: address == proxy)

    def enter(self, address: str, name: str) -> Slot | None:
        return self._connections.enter(address, lambda: self.ended.append(name))

    def enters(self, address: str, name: str) -> Slot:
        slot = self.enter(address, name)
        assert slot is not None
        return slot


def test_who_is_at_work_makes_room_for_nobody() -> None:
    """The one that has waited longest goes: of the same address while it has too many, else of all."""
    crowd = Crowd(Bounds(connections=3, per_peer=2))
    first = crowd.enters("a", "1")
    crowd.enters("a", "2")
    first.works()
    crowd.enters("a", "3")
    assert crowd.ended == ["2"]
    crowd.enters("b", "4")
    crowd.enters("b", "5")
    assert crowd.ended == ["2", "3"]
    first.waits()
    crowd.enters("c", "6")
    assert crowd.ended == ["2", "3", "4"]


def test_all_at_work_turn_the_next_one_away() -> None:
    """Until one of them has left, for which it may be told twice."""
    crowd = Crowd(Bounds(connections=2, per_peer=2))
    first, second = crowd.enters("a", "1"), crowd.enters("b", "2")
    first.works()
    second.works()
    assert crowd.enter("c", "3") is None
    first.leave()
    first.leave()
    first.waits()
    crowd.enters("c", "4").works()
    assert crowd.enter("d", "5") is None
    assert crowd.ended == []


def test_a_proxy_has_as_many_as_there_are_and_a_site_of_ipv6_is_one_peer() -> None:
    crowd = Crowd(Bounds(connections=10, per_peer=1), "10.0.0.7")
    for number in range(5):
        crowd.enters("10.0.0.7", str(number))
    addresses = ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:192.0.2.1", "192.0.2.1")
    for address in addresses:
        crowd.enters(address, address)
    assert crowd.ended == ["2001:db8::1", "::ffff:192.0.2.1"]


@pytest.mark.parametrize("files", [64, 1_024, 4_096, 1 << 20])
def test_connections_leave_files_for_the_store(files: int) -> None:
    bounds = Bounds().within(files)
    assert bounds.connections <= max(files // 4, files - 2_048)
    assert 0 < bounds.per_peer <= bounds.connections / 2


def test_noise_is_a_line_a_minute(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """OP12: unauthenticated bytes wrote a warning each."""
    client = serve(PATIENT)
    with quiet("uvicorn.error", Connections(SOON).logger), caplog.at_level(logging.WARNING):
        for sent in [b"\x16\x03\x01 hello\r\n\r\n"] * 20 + [
            ASK[:-2] + b"Connection: upgrade\r\nUpgrade: x\r\n\r\n"
        ] * 20:
            with connected(client) as sock:
                sock.sendall(sent)
                heard(sock, b"\r\n\r\n")
        assert refused(client) == {"malformed": 20}
    assert len(caplog.records) <= 4
    assert len({each.getMessage() for each in caplog.records}) == len(caplog.records)


def test_garbage_behind_requests_is_no_error_of_the_server(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """123 bytes wrote two tracebacks: of the requests before it only the last heard that nobody is there any more."""
    client = serve(PATIENT)
    with caplog.at_level(logging.WARNING):
        for count in (1, 2, 5):
            with connected(client) as sock:
                sock.sendall(count * (ASK[:-2] + b"Authorization: Bearer topolog_x\r\n\r\n") + b"\0\r\n\r\n")
                heard(sock)
        assert refused(client) == {"malformed": 3}
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_what_was_kept_back_is_told_as_a_number() -> None:
    now_s = [0.0]
    kept = Quiet(lambda: now_s[0])

    def says(level: int, text: str, *args: object, error: Exception | None = None) -> str | None:
        record = logging.LogRecord("x", level, "", 0, text, args, (type(error), error, None) if error else None)
        return record.getMessage() if kept.filter(record) else None

    assert says(logging.WARNING, "from %s", "a") == "from a"
    assert [says(logging.WARNING, "from %s", "b"), says(logging.WARNING, "from %s", "c")] == [None, None]
    assert [says(logging.ERROR, "from %s", "d"), says(logging.ERROR, "from %s", "d")] == ["from d", None]
    assert says(logging.ERROR, "from %s", "d", error=KeyError("one")) == "from d"
    assert says(logging.ERROR, "from %s", "d", error=KeyError("another")) is None
    assert says(logging.ERROR, "from %s", "d", error=OSError()) == "from d"
    assert [says(logging.CRITICAL, "the end"), says(logging.CRITICAL, "the end")] == ["the end", "the end"]
    assert says(logging.WARNING, "another") == "another"
    now_s[0] = 61.0
    assert says(logging.WARNING, "from %s", "e") == "from e (2 more were not told.)"
    now_s[0] = 122.0
    assert says(logging.WARNING, "from %s", "f") == "from f"


def test_a_head_has_an_end(serve: Serve) -> None:
    client = serve(PATIENT)
    with connected(client) as sock, pytest.raises((ConnectionResetError, BrokenPipeError)):
        sock.sendall(ASK[:-2] + 1_000 * (b"X: " + b"y" * 10_000 + b"\r\n"))
    assert refused(client) == {"malformed": 1}


@pytest.mark.parametrize("piece", [b"X: y\r\n" * 1_000, b"X: " + b"y" * 10_000, b"1;x=" + b"y" * 10_000])
def test_what_frames_a_body_has_an_end(serve: Serve, piece: bytes) -> None:
    """Behind the last chunk a connection took gigabytes, by lines or by one that never ends; so might what a chunk's
    size is followed by."""
    client = serve(PATIENT)
    begun = POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"0\r\n" if piece[:1] == b"X" else b"")
    with connected(client) as sock, pytest.raises((ConnectionResetError, BrokenPipeError)):
        sock.sendall(begun + 1_000 * piece)
    assert refused(client) == {"malformed": 1}


def test_a_body_in_small_chunks_is_heard(serve: Serve) -> None:
    """What frames it is more than a head may be in all."""
    client = serve(PATIENT)
    with connected(client) as sock:
        sock.sendall(POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(200):
            sock.sendall(b"1\r\n \r\n" * 100)
        sock.sendall(b"0\r\nX: y\r\n\r\n")
        assert heard(sock).startswith(b"HTTP/1.1 400")
    assert refused(client) == {}


@pytest.mark.parametrize("head", [b"", b"Connection: close\r\n"])
def test_a_body_that_is_too_big_is_answered(serve: Serve, head: bytes) -> None:
    """OP12: the answer ended in a reset for a client that was still sending."""
    client = serve(PATIENT)
    size = 8 * REQUEST_BYTES_MAX
    with connected(client) as sock:
        sock.sendall(POST + head + b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(8):
            sock.sendall(b"x" * REQUEST_BYTES_MAX)
        assert heard(sock, b"}").startswith(b"HTTP/1.1 413")


def test_a_body_without_a_length_is_not_read_for_ever(serve: Serve) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(20):
            yield b" " * (REQUEST_BYTES_MAX // 10)

    answer = serve(PATIENT).post(
        "/v1/clusters/main/requests", content=parts(), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "bad_input")


def test_reasons_are_all_told() -> None:
    samples = [each for family in Connections(SOON).collect() for each in family.samples]
    assert {each.labels.get("reason") for each in samples} == {None, *Reason}
