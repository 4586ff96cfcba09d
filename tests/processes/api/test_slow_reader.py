"""A watcher that reads more slowly than the kernel's buffers fill: it takes megabytes to see it."""

import json
import socket

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_watch import TYPES, serving, watching

from topolog.projections.api.watch import feed
from topolog.projections.projector import Projector


def test_a_slow_reader_is_cut_off_with_a_token(
    chronicle: Chronicle, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told ERROR overflow; behind the last token it was given everything comes that it has missed."""
    monkeypatch.setattr(feed, "KEPT_MAX", 5)
    chronicle.join("n1")
    projector.step()
    with serving(chronicle, projector) as client:
        host, port = str(client.base_url.host), int(client.base_url.port or 0)
        with socket.socket() as slow:
            slow.settimeout(20)
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            slow.connect((host, port))
            asked = f"GET {TYPES}?watch=true HTTP/1.1\r\nHost: {host}\r\nAccept: application/jsonl\r\n\r\n"
            slow.sendall(asked.encode())
            fields = {f"field_{number}": "String" for number in range(1_500)}
            with watching(client) as brisk:
                brisk.until("SYNCED")
                for number in range(150):
                    chronicle.propose(f"T{number}", fields)
                    projector.step()
                    assert brisk.until("ADDED")[-1]["name"] == f"T{number}"
            received = b""
            while b"overflow" not in received and (part := slow.recv(1 << 16)):
                received += part
        events = [json.loads(line) for line in received.splitlines() if line.startswith(b'{"type"')]
        assert (events[-1]["type"], events[-1]["code"]) == ("ERROR", "overflow")
        heard = [each["name"] for each in events if each["type"] == "ADDED"]
        with watching(client, since=events[-1]["token"]) as told:
            rest = [told.until("ADDED")[-1]["name"] for _ in range(150 - len(heard))]
    assert heard + rest == [f"T{number}" for number in range(150)]
