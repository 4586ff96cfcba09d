"""The pipeline as a whole on a real broker: what lands while everything dies becomes the store that serves."""

import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path

import httpx
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
from tests.broker.archiving import START_S, archiver, children, judged, landed, landings, lives
from tests.broker.conftest import Process, Site, eventually
from tests.broker.crash_site import CrashSite
from tests.broker.living import Life
from tests.broker.taking_over import Asking, rebuild
from tests.broker.test_self_check import position, started

from topolog.events.log import Entry
from topolog.events.topics import PARTITIONS, Topic
from topolog.projections.archive.landings import Archive
from topolog.projections.archive.topics import TOPICS
from topolog.projections.generations import generation_path

KILLS_MAX = 8
WITHIN_S = 2.0
"""So long after a batch has begun, or has landed, a job lives on at most. A batch takes some seconds."""

Place = tuple[str, int, int]


class Victim(Enum):
    """Who dies of a job: its process, whose JVM goes on for a moment; the JVM alone; both at once."""

    PROCESS = "process"
    JVM = "JVM"
    BOTH = "both"


class Killing:
    """Jobs that land into one archive and die of it. `interrupted` counts those that had a batch open."""

    def __init__(self, site: Site, folder: Path, chance: random.Random) -> None:
        self._site = site
        self._folder = folder
        self._chance = chance
        self.killed: Counter[Victim] = Counter()
        self.interrupted = 0
        self.jvms: list[int] = []

    def kill(self, victim: Victim) -> None:
        """Start a job and kill it at a random moment behind the beginning of a batch, or a landing."""
        former, stood = self._batches(), landings(self._folder)
        job = archiver(self._site, self._folder, "--every", "200ms")
        looks: dict[str, Callable[[], object]] = {
            "a batch": lambda: self._batches() - former,
            "a landing": lambda: landings(self._folder) > stood,
        }
        what = self._chance.choice(sorted(looks))
        eventually(lambda: job.exit_code is not None or looks[what](), what, START_S)
        time.sleep(self._chance.uniform(0, WITHIN_S))
        assert job.exit_code is None, job.complaints
        jvms = children(job.pid)
        assert jvms, "it has no JVM"
        self.jvms += jvms
        self._kill(job, jvms, victim)
        self.interrupted += bool(self._batches() - former)
        self.killed[victim] += 1

    def _kill(self, job: Process, jvms: Sequence[int], victim: Victim) -> None:
        dying = [*([] if victim is Victim.PROCESS else jvms), *([] if victim is Victim.JVM else [job.pid])]
        self._chance.shuffle(dying)
        for pid in dying:
            os.kill(pid, signal.SIGKILL)
        (code,) = eventually(job.ended, "the job to end")
        if victim is Victim.JVM:
            assert code == 1, code
            assert any("The JVM of Spark has ended." in line for line in job.complaints), job.complaints
        else:
            assert code == -signal.SIGKILL

    def _batches(self) -> set[str]:
        """What is below `staging/` of batches that were begun and do not stand."""
        staging = self._folder / "staging"
        found = [path for path in (staging.iterdir() if staging.exists() else ()) if "checkpoint" not in path.name]
        return {path.name for path in found if _has_something(path)}


def test_what_lands_while_everything_dies_becomes_the_store_that_serves(
    kafka: str, cluster: str, tmp_path: Path, unused_port: Callable[[], int], asked: Mapping[str, str]
) -> None:
    """RD26, RD31: the streaming job is killed at random beside a cluster that lives; then each record has
    landed once, the chain holds from the first on, the rebuild has the live state hash, and is taken over unnoticed."""
    seed = int(asked.get("TOPOLOG_TEST_SEED", time.time_ns() % 1_000_000))
    sys.stdout.write(f"TOPOLOG_TEST_SEED={seed}\n")
    chance, folder, store, port = random.Random(seed), tmp_path / "archive", tmp_path / "store", unused_port()
    with contextlib.closing(CrashSite(kafka, cluster)) as site, Life(site, random.Random(seed)) as life:
        started(site, port, store, 1)
        killing = Killing(site, folder, chance)
        victims = list(Victim)
        chance.shuffle(victims)
        for victim in victims:
            killing.kill(victim)
        while not killing.interrupted and killing.killed.total() < KILLS_MAX:
            killing.kill(chance.choice(victims))
        sys.stdout.write(f"{killing.interrupted} of {killing.killed.total()} jobs died with a batch open\n")
        assert killing.interrupted
        life.settle()
        ask(site, port)

        before = {topic: len(site.entries(topic)) for topic in TOPICS}
        once = archiver(site, folder, "--once")
        assert eventually(once.ended, "the end of what is there", START_S) == (0,), once.complaints
        archive = Archive(folder)
        assert_landed_once(site, archive, before)
        assert_served_by_its_rebuild(site, archive, port, store)
        eventually(lambda: not any(map(lives, killing.jvms)), "the JVMs to be gone")
    assert life.lived.keys() == {"proposed", "group", "disturbed", "killed", "left", "beheaded"}


def ask(site: Site, port: int) -> None:
    """As an operator: what nodes ask stands in another topic."""
    body = {"kind": "propose", "definition": {"name": "Asked", "fields": {"id": "long"}}}
    address = f"http://127.0.0.1:{port}/v1/clusters/{site.cluster}/requests"
    told = httpx.post(address, json=body, params={"wait": "decided"}, timeout=30, trust_env=False).json()
    assert told["item"]["status"] == "GRANTED", told


def assert_landed_once(site: Site, archive: Archive, before: Mapping[Topic, int]) -> None:
    """Each record that was there before the last job has landed as it was, once, and is in one table or set aside."""
    everything: Counter[Place] = Counter()
    for topic in TOPICS:
        entries, count = site.entries(topic), 0
        for partition in range(PARTITIONS[topic]):
            found = landed(archive, topic, partition)
            assert found == [each for each in entries if each.partition == partition][: len(found)], (topic, partition)
            everything.update(map(_place, found))
            count += len(found)
        assert count >= before[topic] > 0 or topic is Topic.LEASE_HEALTH, topic
    typed = Counter(tuple(row["log"].values())[:3] for row in _rows(archive, "tables", "log"))
    aside = Counter(tuple(row.values()) for row in _rows(archive, "quarantine", "topic", "partition", "offset"))
    assert aside
    assert typed + aside == everything
    assert archive.missing() == []


def assert_served_by_its_rebuild(site: Site, archive: Archive, port: int, store: Path) -> None:
    """What is made of the archive alone is what the live projector has there; it is taken over, and goes on."""
    header, former = judged(archive), generation_path(store)
    eventually(lambda: position(site, port) >= header.position, "the projector")
    live = state_at(site, port, header.position)
    assert live == (header.chain.hex(), site.told().hashes[header.position].hex())
    asking = Asking(site, port)
    with asking.all_the_time():
        args = ("--from", str(archive.folder), "--check")
        code, item, complaint = rebuild(site, store, *args, "--archive-only", "--wait", "60s")
        assert (code, item.get("standing"), complaint) == (0, "TAKEN", "")
        assert item["verdict"]["state"] == "EQUAL"
        assert (item["position"], item["chain"], item["state_hash"]) == (header.position, *live)
        reached, before = position(site, port), asking.count
        eventually(lambda: position(site, port) > reached, "the cluster to live on")
        eventually(lambda: asking.count > before + 30, "more answers")
        code, item, complaint = rebuild(site, store, *args, "--only-check")
        assert (code, item.get("standing"), complaint) == (0, "COMPARED", "")
        assert item["verdict"]["state"] == "EQUAL", "of the store that was taken over, and has read on"
        assert item["position"] > reached
    assert not asking.wrong
    assert generation_path(store) != former
    assert former.exists(), "it is the way back"
    assert state_at(site, port, header.position) == live


def state_at(site: Site, port: int, at: int) -> tuple[str, str]:
    """Chain and state hash (hex) that the projector tells of a position."""
    url = f"http://127.0.0.1:{port}/v1/clusters/{site.cluster}/cluster"
    answer = httpx.get(url, params={"as_of": at}, timeout=30, trust_env=False).raise_for_status()
    item = answer.json()["item"]
    return item["chain"], item["state_hash"]


def _rows(archive: Archive, prefix: str, *columns: str) -> Iterable[dict[str, dict[str, object]]]:
    for path in archive.files(prefix):
        yield from pq.read_table(path, columns=list(columns), partitioning=None).to_pylist()


def _place(entry: Entry) -> Place:
    return entry.topic.short_name, entry.partition, entry.offset


def _has_something(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # it has landed meanwhile
        return any(path.iterdir())
    return False
