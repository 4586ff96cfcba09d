"""A request that nobody could read, on a real broker: listed, replayed, dead again or decided."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.broker.conftest import Site, eventually

from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.kafka import KafkaWriter
from topolog.events.metadata import ObjectType, UpdateRequested
from topolog.events.topics import Topic

KEY = b"\xffkey".decode("utf-8", "surrogateescape")


def test_a_letter_is_replayed_and_dies_again_or_is_decided(
    site: Site, unused_port: Callable[[], int], tmp_path: Path
) -> None:
    """K7: garbage dies again and says which letter it replays; what this version reads gets its outcome."""
    port = unused_port()
    site.coordinator("c1")
    site.projector(port, tmp_path)
    writer = KafkaWriter(site.kafka, site.cluster)
    writer.append(Topic.REQUESTS, KEY, b"\xffgarbage", (("trace", b"\x00\xff"),))
    writer.flush(10)
    assert eventually(lambda: _items(site, port, 1), "the letter")[0]["id"] == "0"
    assert _topolog(site, port, "replay", "dead-letter", "0").returncode == 0
    again, first = eventually(lambda: _items(site, port, 2), "its second death")
    assert (again["replays"], first["replays"]) == ("0", None)
    second, original = site.entries(Topic.DEAD)[1], site.entries(Topic.DEAD)[0]
    assert (second.key, second.value) == (original.key, original.value) == (KEY, b"\xffgarbage")
    assert dict(second.headers)["trace"] == b"\x00\xff"
    request = UpdateRequested(
        RequestId("op", 1), site.told().header.log_id or b"", "ada", "", ObjectType("T", {"id": "long"}), 0
    )
    why = (("__dlq.errors.topic", b"operations"), ("__dlq.errors.message", b"an older coordinator could not read it"))
    writer.append(Topic.DEAD, "type T", CODEC.encode(request), why)
    writer.flush(10)
    eventually(lambda: _items(site, port, 3), "the third letter")
    assert "op/1" in _topolog(site, port, "replay", "dead-letter", "2", "-o", "json").stdout
    shown = eventually(lambda: _decided(site, port, "2"), "its outcome")
    assert (shown["readable"], shown["request_status"]) == ("UpdateRequested", "GRANTED")


def _topolog(site: Site, port: int, *args: str) -> subprocess.CompletedProcess[str]:
    target = ["--api", f"http://127.0.0.1:{port}", "--cluster", site.cluster]
    return subprocess.run(
        [sys.executable, "-m", "topolog", *args, *target], capture_output=True, text=True, timeout=60, check=False
    )


def _items(site: Site, port: int, count: int) -> list[Any] | None:
    ended = _topolog(site, port, "get", "dead-letters", "-o", "json")
    items: list[Any] = json.loads(ended.stdout)["items"] if ended.returncode == 0 else []
    return items if len(items) == count else None


def _decided(site: Site, port: int, letter: str) -> Any:
    ended = _topolog(site, port, "describe", "dead-letter", letter, "-o", "json")
    item = json.loads(ended.stdout)["item"]
    return item if item["request_status"] else None
