"""`topolog spark archive` as a process on a real broker, told to stop; `test_pipeline.py` kills it at random."""

import re
import signal
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.broker.archiving import START_S, archiver, children, landings, lives
from tests.broker.conftest import Site, eventually
from tests.unit.projections.chronicle import Chronicle

from topolog.events.kafka import KafkaWriter
from topolog.events.topics import Topic
from topolog.projections.archive.landings import Archive


class Growing:
    """A log and its other topics that grow while a test runs."""

    def __init__(self, site: Site) -> None:
        self.chronicle = Chronicle(site.cluster).start()
        self._site = site
        self._writer = KafkaWriter(site.kafka, site.cluster)
        self._sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._grow)

    def __enter__(self) -> "Growing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._writer.close()

    def _grow(self) -> None:
        for number in range(1_000_000):
            self.chronicle.join(f"n{number}")
            for entry in self.chronicle.entries[self._sent :]:
                self._writer.append(Topic.DECISIONS, self._site.cluster, entry.value, entry.headers)
                self._sent += 1
            self._writer.append(Topic.REQUESTS, "k", f"request {number}".encode())
            self._writer.append(Topic.LEASE_HEALTH, f"n{number}", f"health {number}".encode())
            self._writer.flush(30)
            if self._stop.wait(0.02):
                return


def test_told_to_stop_it_ends_in_order_and_the_next_one_lands_the_rest(
    site: Site, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """SIGTERM: exit code 0 within seconds; the JVM ends with it. Metrics are of this moment. The next job lands the
    rest, though a file of the archive is missing: that is said by name, and by exit code 8."""
    folder, port = tmp_path / "archive", unused_port()
    with Growing(site):
        process = archiver(site, folder, "--every", "500ms", "--metrics-port", str(port))
        eventually(lambda: landings(folder) > 1, "two landings", START_S)
        found = eventually(lambda: scraped(port).get("landed_offset"), "metrics")
        assert found > 0
        jvm = children(process.pid)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert jvm
    assert not any(map(lives, jvm))
    assert any(re.search(r"records in \d+ landings", line) for line in process.complaints)
    stood, (lost, *_) = landings(folder), Archive(folder).files("records")
    lost.unlink()
    once = archiver(site, folder, "--once")
    assert eventually(once.ended, "the rest", START_S) == (8,), once.complaints
    assert landings(folder) == stood + 1
    assert any(lost.name in line for line in once.complaints)


def scraped(port: int) -> dict[str, float]:
    """The sum of each metric over its partitions; nothing while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    found: dict[str, float] = {}
    for line in lines:
        if match := re.fullmatch(r"topolog_archive_(\w+)\{.*\} (\S+)", line):
            found[match[1]] = found.get(match[1], 0.0) + float(match[2])
    return found
