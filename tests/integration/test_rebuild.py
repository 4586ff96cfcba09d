"""`topolog spark rebuild` on a real broker: what it makes is taken over by a running API, and no answer fails."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.integration.conftest import PATIENCE_S, Site, eventually
from tests.integration.test_self_check import position, started
from tests.projections.archive.landed import land

from topolog.events.metadata import ObjectType
from topolog.events.topics import Topic
from topolog.projections.generations import generation_path

Json = dict[str, Any]


def rebuild(site: Site, folder: Path, *args: str) -> tuple[int, Json, str]:
    """Exit code, what is said of the one cluster, and stderr."""
    settings = {"cluster.name": site.cluster, "kafka.bootstrap.servers": site.bootstrap, "projector.data": str(folder)}
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "topolog", "spark", "rebuild", "-o", "json", *args, *sets]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    (item,) = json.loads(done.stdout)["items"] if done.stdout else ({},)
    return done.returncode, item, done.stderr


class Asking:
    """Asks the API all the time for lists and single rows; what was not 200, or older than an answer before."""

    def __init__(self, site: Site, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/clusters/{site.cluster}"
        self._stop = threading.Event()
        self.wrong: list[str] = []
        self.count = 0

    @contextmanager
    def all_the_time(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._ask, args=(path,)) for path in ("cluster", "types", "decisions")]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _ask(self, path: str) -> None:
        seen = -1
        with httpx.Client(trust_env=False, timeout=30) as client:
            while not self._stop.is_set():
                answer = client.get(f"{self._url}/{path}")
                reached = int(answer.json()["asOf"]["position"]) if answer.status_code == 200 else -1
                if reached < seen:
                    self.wrong.append(f"{path}: {answer.status_code} {answer.text[:200]}")
                seen = max(seen, reached)
                self.count += 1


def test_a_rebuild_is_taken_over_without_a_failed_read(
    site: Site, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """Issue 9.2: from an archive and, behind it, the topic; the live store is found equal and replaced all the same."""
    port, folder = unused_port(), tmp_path / "store"
    site.coordinator("c1")
    with site.node("n1") as node:
        for number in range(20):
            reached = node.propose(ObjectType(f"T{number}", {"id": "long"})).position
        archive = tmp_path / "archive"
        land(archive, site.cluster, site.entries(Topic.DECISIONS))
        node.propose(ObjectType("Late", {"id": "long"}))
        started(site, port, folder, reached)
        former = generation_path(folder)
        asking = Asking(site, port)
        with asking.all_the_time():
            for source in (["--from", str(archive)], ["--from-topic"]):
                before = asking.count
                code, item, complaint = rebuild(site, folder, *source, "--check", "--wait", "30s")
                assert (code, item.get("standing"), complaint) == (0, "TAKEN", "")
                assert item["verdict"]["state"] == "EQUAL"
                assert item["position"] > reached
                assert position(site, port) >= item["position"]
                eventually(lambda: asking.count > before + 30, "more answers")  # noqa: B023 (called at once)
        assert not asking.wrong
    assert not former.exists()
    assert int(generation_path(folder).name.rpartition("-")[2]) == 3
