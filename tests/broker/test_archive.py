"""`topolog spark archive` as a process on a real broker: killed at random, told to stop, asked for its metrics."""

import random
import re
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from tests.broker.archiving import START_S, archiver, children, judged, landed, landings
from tests.broker.conftest import Site, eventually
from tests.unit.projections.chronicle import Chronicle

from topolog.events.kafka import KafkaWriter
from topolog.events.topics import PARTITIONS, Topic
from topolog.projections.archive.landings import Archive
from topolog.projections.archive.topics import TOPICS

KILLS = 3


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


def test_killed_at_random_each_offset_lands_once_and_the_chain_holds(
    site: Site, tmp_path: Path, asked: Mapping[str, str]
) -> None:
    """Issue 9.1: SIGKILL while the topics grow; then every offset of every topic is in `records` exactly once."""
    seed = int(asked.get("TOPOLOG_TEST_SEED", time.time_ns() % 1_000_000))
    sys.stdout.write(f"TOPOLOG_TEST_SEED={seed}\n")
    chance, folder = random.Random(seed), tmp_path / "archive"
    with Growing(site) as growing:
        for _ in range(KILLS):
            before = landings(folder)
            process = archiver(site, folder, "--every", "200ms")
            eventually(lambda before=before: landings(folder) > before, "a landing", START_S)  # type: ignore[misc]
            time.sleep(chance.uniform(0, 2.0))
            process.kill()
    final = archiver(site, folder, "--once")
    assert eventually(final.ended, "the end of what is there", START_S) == (0,), final.complaints
    archive = Archive(folder)
    for topic in TOPICS:
        for partition in range(PARTITIONS[topic]):
            kept = [each for each in site.entries(topic) if each.partition == partition]
            assert landed(archive, topic, partition) == kept, (topic, partition)
    assert judged(archive) == growing.chronicle.fold.header
    typed = sum(rows for table, rows in archive.rows().items() if table.startswith("tables/"))
    assert typed == len(growing.chronicle.entries)
    assert archive.missing() == []


def test_told_to_stop_it_ends_in_order_and_says_how_far_it_is_on_the_way(
    site: Site, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """SIGTERM: exit code 0 within seconds; the JVM ends with it. Metrics are of this moment."""
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
    assert not any(Path(f"/proc/{pid}").exists() for pid in jvm)
    assert any(re.search(r"records in \d+ landings", line) for line in process.complaints)
    stood = landings(folder)
    once = archiver(site, folder, "--once")
    assert eventually(once.ended, "the rest", START_S) == (0,), once.complaints
    assert landings(folder) == stood + 1


def test_a_missing_file_is_said_and_what_comes_lands_all_the_same(site: Site, tmp_path: Path) -> None:
    """Exit code 8; whoever reads the lost records is told by name."""
    folder = tmp_path / "archive"
    with closing(KafkaWriter(site.kafka, site.cluster)) as writer:
        for number in range(10):
            writer.append(Topic.REQUESTS, "k", f"{number}".encode())
        assert writer.flush(30) == 0
    first = archiver(site, folder, "--once")
    assert eventually(first.ended, "the first", START_S) == (0,), first.complaints
    (lost,) = Archive(folder).files("records")
    lost.unlink()
    second = archiver(site, folder, "--once")
    assert eventually(second.ended, "the second", START_S) == (8,), second.complaints
    assert any(lost.name in line for line in second.complaints)


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
