"""What comes behind a chunked body is no header: a proxy replaces those of the head, and passes trailers on."""

import socket
from collections.abc import Iterator

import pytest
from httpx import Client
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served

from topolog.projections.api.access.access import Access
from topolog.projections.api.access.authn import Authentication
from topolog.projections.api.access.grants import parse_all
from topolog.projections.api.access.proxies import Proxies, networks
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

PROXIES = Proxies(
    networks(["127.0.0.1"]), "X-Forwarded-User", "X-Forwarded-Groups", {"topolog-admins": parse_all("admin")}
)
ANN = b"X-Forwarded-User: ann\r\n"
ADMIN = b"X-Forwarded-Groups: topolog-admins\r\n"


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    """Behind a proxy on this machine."""
    chronicle.join("n1")
    projector.step()
    requester = Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")
    with served(projector, requester, Access(Authentication(proxies=PROXIES))) as client:
        yield client


def whoami(client: Client, head: bytes, trailer: bytes = b"", *, pieces: bool = False) -> bytes:
    """What is answered to the same question with this head and trailer, in one piece or byte by byte."""
    sent = b"GET /v1/whoami HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + head
    sent += b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + trailer + b"\r\n"
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=10) as sock:
        for part in [sent[at : at + 1] for at in range(len(sent))] if pieces else [sent]:
            sock.sendall(part)
        with sock.makefile("rb") as answer:
            return answer.read()


@pytest.mark.parametrize("pieces", [False, True])
def test_a_trailer_makes_nobody_more_than_they_are(client: Client, pieces: bool) -> None:
    """Behind the proxy that it trusts anybody was an admin by a group in the trailer."""
    assert b'"admin"' in whoami(client, ANN + ADMIN, pieces=pieces)
    told = whoami(client, ANN, ADMIN, pieces=pieces)
    assert told.startswith(b"HTTP/1.1 200")
    assert b'"ann"' in told
    assert b'"admin"' not in told


@pytest.mark.parametrize("trailer", [ANN + ADMIN, b"Authorization: Bearer x\r\n"])
def test_a_trailer_makes_nobody_known(client: Client, trailer: bytes) -> None:
    told = whoami(client, b"", trailer)
    assert told.startswith(b"HTTP/1.1 401")
    assert told.splitlines()[-1] == whoami(client, b"").splitlines()[-1]
