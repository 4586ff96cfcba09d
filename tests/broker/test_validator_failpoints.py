"""A validator that is killed wherever that costs something, on a real broker; another life goes on with its session.

All tests share one cluster and one coordinator; each repairs a table of its own. The replicas' rows are in files, so
they outlive their process.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.broker.conftest import Process, eventually
from tests.broker.crash_site import CrashSite, assert_died
from tests.broker.validating import keep, rows_in

from topolog.events import repair_requests as rr
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.repair import TaskAssigned, TaskCompleted, TaskFailed
from topolog.events.repair_definition import Policy, SessionDefinition, SessionKind
from topolog.events.replicas import replicas_of
from topolog.events.requests import outcome_of
from topolog.events.sessions import SessionRow, SessionStatus, session
from topolog.events.topics import PARTITIONS, Topic
from topolog.streams.clock import SystemClock
from topolog.streams.rendezvous.desk import Desk
from topolog.streams.validator.memory import Values

SENT = "validator.pages-sent:3=crash"
ENTRIES = (
    "validator.cut-fixed=crash",
    "validator.cut-fixed:3=crash",  # of the check behind the repair
    "validator.pages-sent=crash",
    "validator.pages-sent:2=crash",  # digests
    SENT,  # rows
    "validator.between-batches=crash",
    "validator.written=crash",
)


class RepairSite(CrashSite):
    """A cluster with a rendezvous in this process: its desk, and a reader of pages in place of faust."""

    @contextlib.contextmanager
    def comparing(self) -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self._compare, args=(ended,))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _compare(self, ended: threading.Event) -> None:
        with (
            contextlib.closing(KafkaReader(self.kafka, self.cluster)) as reader,
            contextlib.closing(KafkaReader(self.kafka, self.cluster)) as pages,
            contextlib.closing(KafkaWriter(self.kafka, self.cluster)) as writer,
        ):
            desk = Desk(reader, writer, SystemClock(), "rendezvous-1", 4_711)
            pages.assign({(Topic.TREES, number): None for number in range(PARTITIONS[Topic.TREES])})
            while not ended.is_set():
                desk.step(0.02)
                for entry in pages.poll(0.02) if desk.is_ready else ():
                    while not desk.take(entry.value):
                        desk.step(0)

    def validator(self, entry: str, table: str, name: str, file: Path) -> Process:
        return self.forked("validating", entry, self.cluster, self.bootstrap, table, name, str(file))

    def served(self, table: str) -> set[str]:
        return {row.definition.name for row in replicas_of(self.told().state, table)}

    def repair(self, table: str) -> Callable[[], SessionRow | None]:
        """What has become of it, once it has ended."""
        request, log_id = RequestId(f"operator-{table}", 1), self.told().header.log_id
        assert log_id is not None
        definition = SessionDefinition(table, SessionKind.REPAIR, Policy.UNION, version_column="changed")
        self.put(Topic.OPERATIONS, "ada", CODEC.encode(rr.SessionRequested(request, log_id, "ada", "", definition)))

        def look() -> SessionRow | None:
            state = self.told().state
            outcome = outcome_of(state, request)
            row = session(state, int(outcome.subject.split()[-1])) if outcome else None
            return row if row and row.status.is_end else None

        return look


@pytest.fixture(scope="module")
def repair_site(kafka: str, new_cluster: Callable[[], str]) -> Iterator[RepairSite]:
    with contextlib.closing(RepairSite(kafka, new_cluster())) as site, site.leading(), site.comparing():
        yield site


def table_files(folder: Path) -> tuple[Path, Path]:
    """Two replicas of one table, of which the second lacks ten rows and has an older version of another."""
    rows: list[Values] = [{"id": number, "name": f"n{number}", "changed": 2} for number in range(200)]
    files = folder / "r1.json", folder / "r2.json"
    keep(files[0], rows)
    keep(files[1], [{**row, "changed": 1} if row["id"] == 77 else row for row in rows[10:]])
    return files


@pytest.mark.parametrize("entry", ENTRIES)
def test_another_life_goes_on_where_a_validator_was_killed(repair_site: RepairSite, entry: str, tmp_path: Path) -> None:
    """RE7, RE4: the session succeeds, each task has one answer, and no row was written twice."""
    table = f"t{next(repair_site.numbers)}"
    first, second = table_files(tmp_path)
    # Rows go from the first to the second: who dies when they are sent is the first, else it is who writes them.
    killed, other = ("r2", second), ("r1", first)
    if entry == SENT:
        killed, other = other, killed
    sound, armed = repair_site.validator("", table, *other), repair_site.validator(entry, table, *killed)
    eventually(lambda: repair_site.served(table) == {"r1", "r2"}, "both replicas to be declared")
    ended = repair_site.repair(table)
    assert_died(armed, entry)
    after = repair_site.validator("", table, *killed)
    row = eventually(ended, "the end of the session")
    assert row.status is SessionStatus.SUCCEEDED, row
    assert rows_in(first) == rows_in(second)
    events = [each.event for each in repair_site.told().decisions]
    completed = [each for each in events if isinstance(each, TaskCompleted) and each.task.session == row.number]
    asked = [each.task for each in events if isinstance(each, TaskAssigned) and each.task.session == row.number]
    assert set(Counter(each.task for each in completed).values()) == {1}
    assert {each.attempt for each in asked} == {1}
    assert not any(isinstance(each, TaskFailed) and each.task.session == row.number for each in events)
    assert sum(each.result.skipped for each in completed) == 0
    assert row.rows_written == 11
    for process in (sound, after):
        assert process.end() == 0
    eventually(lambda: repair_site.served(table) == set(), "both replicas to be withdrawn")
