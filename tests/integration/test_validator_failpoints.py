"""A validator that is killed wherever that costs something, on a real broker; another life goes on with its session.

All tests share one cluster and one coordinator; each repairs a table of its own. The replicas' rows are in files, so
they outlive their process.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Process, eventually
from tests.integration.crash_site import CrashSite, assert_died
from tests.integration.validating import keep, rows_in
from tests.streams.validator.site import Incomplete, Rendezvous

from topolog.events import repair_requests as rr
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.kafka import KafkaReader
from topolog.events.log import Entry
from topolog.events.repair import TaskAssigned, TaskCompleted, TaskFailed
from topolog.events.repair_definition import Policy, SessionDefinition, SessionKind
from topolog.events.replicas import replicas_of
from topolog.events.requests import OutcomeRow, outcome_of
from topolog.events.sessions import SessionRow, SessionStatus, session
from topolog.events.state import State
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.tree_pages import TreePage
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
    """A cluster whose log and pages are followed by one thread, which is its rendezvous too."""

    def __init__(self, bootstrap: str, cluster: str) -> None:
        super().__init__(bootstrap, cluster)
        self.fold = Fold()
        self.decisions: list[Folded] = []
        self._pages: list[TreePage] = []
        self._reading = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    @property
    def log_id(self) -> bytes:
        assert self.fold.header.log_id is not None
        return self.fold.header.log_id

    @property
    def state(self) -> State:
        return self.fold.state

    def ask(self, request: rr.RepairRequest) -> None:
        self.put(Topic.REQUESTS, request.id.requester, CODEC.encode(request))

    def pages(self) -> Iterable[TreePage]:
        return self._pages

    def put_page(self, page: TreePage) -> None:
        self.put(Topic.TREES, str(page.task.session), CODEC.encode(page))

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join()

    def _follow(self) -> None:
        """Decisions and pages as they come; a rendezvous that has not read all of the pages looks again."""
        rendezvous = Rendezvous(_Around(self))
        with contextlib.closing(KafkaReader(self.kafka, self.cluster)) as reader:
            trees = {(Topic.TREES, number): None for number in range(PARTITIONS[Topic.TREES])}
            reader.assign({(Topic.DECISIONS, 0): None, **trees})
            while not self._ended.is_set():
                entries = reader.poll(0.05)
                with self._reading:
                    self._read(entries)
                if self.fold.header.log_id:
                    with contextlib.suppress(Incomplete):
                        rendezvous.step()

    def _read(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.topic is Topic.TREES:
                page = CODEC.decode(entry.value)
                assert isinstance(page, TreePage)
                self._pages.append(page)
            else:
                found = self.fold.read(entry.stamp, entry.value)
                self.decisions += [] if isinstance(found, Ignored) else found

    def validator(self, entry: str, table: str, name: str, file: Path) -> Process:
        return self.forked("validating", entry, self.cluster, self.bootstrap, table, name, str(file))

    def served(self, table: str) -> set[str]:
        with self._reading:
            return {row.definition.name for row in replicas_of(self.state, table)}

    def repair(self, table: str) -> Callable[[], SessionRow | None]:
        """What has become of it, once it has ended."""
        request = RequestId(f"operator-{table}", 1)
        definition = SessionDefinition(table, SessionKind.REPAIR, Policy.UNION, version_column="changed")
        self.ask(rr.SessionRequested(request, self.log_id, "ada", "", definition))

        def look() -> SessionRow | None:
            outcome: OutcomeRow | None = outcome_of(self.state, request)
            row = session(self.state, int(outcome.subject.split()[-1])) if outcome else None
            return row if row and row.status.is_end else None

        return look


class _Around:
    """The site as its rendezvous sees it."""

    def __init__(self, site: RepairSite) -> None:
        self._site = site
        self.ask, self.pages, self.put = site.ask, site.pages, site.put_page

    @property
    def log_id(self) -> bytes:
        return self._site.log_id

    @property
    def state(self) -> State:
        return self._site.state


@pytest.fixture(scope="module")
def repair_site(kafka: str) -> Iterator[RepairSite]:
    with contextlib.closing(RepairSite(kafka, "validator-failpoints")) as site, site.leading(), site.following():
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
    """Scenarios 20, 21: the session succeeds, each task has one answer, and no row was written twice."""
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
    events = [each.event for each in repair_site.decisions]
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
