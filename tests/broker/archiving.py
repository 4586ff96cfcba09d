"""`topolog spark archive` as a process of its own, and what an archive holds, for tests that kill the one."""

import sys
from pathlib import Path

from tests.broker.conftest import Process, Site

from topolog.events.fold import Header, Judge
from topolog.events.log import Entry
from topolog.events.topics import Topic
from topolog.projections.archive import reading
from topolog.projections.archive.landings import Archive

START_S = 300.0
"""Until a job that was started has landed something, on a busy machine."""


def archiver(site: Site, folder: Path, *more: str) -> Process:
    settings = {"cluster.name": site.cluster, "kafka.bootstrap.servers": site.bootstrap}
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "topolog", "spark", "archive", "--to", str(folder), *more, *sets]
    return site.started(command)


def landings(folder: Path) -> int:
    return len(list((folder / "landings").glob("*.json")))


def landed(archive: Archive, topic: Topic, partition: int) -> list[Entry]:
    """The records of a partition, as a reader of the log would have them."""
    return [each for found in reading.entries(archive, topic, partition=partition) for each in found]


def judged(archive: Archive) -> Header:
    """Where the chain of decisions ends that begins with the first record; raises LogDiverged where it breaks."""
    judge = Judge()
    for entry in landed(archive, Topic.DECISIONS, 0):
        judge.judge(entry.stamp, entry.value)
    return judge.header


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def lives(pid: int) -> bool:
    """Whether the process runs: one that has ended and that nobody has waited for yet is still listed."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
