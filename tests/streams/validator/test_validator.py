"""Validators in a small world: real sessions from their request to their end, with deaths wherever one can die."""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streams.rules.repairing import TABLE, three
from tests.streams.validator.site import COLUMNS, Mortality, MortalReplica, Site, Spoil, Validator, contents, rows

from topolog.events import repair as rp
from topolog.events import repair_requests as rr
from topolog.events import repair_tasks as t
from topolog.events import tree_answers
from topolog.events.codec import CODEC
from topolog.events.errors import Refused, ReplicaFailed, SparkEnded
from topolog.events.log import Entry
from topolog.events.repair_definition import Policy
from topolog.events.replica import Cut, Written
from topolog.events.replica_access import Progress
from topolog.events.replicas import replica, replica_key, replicas_of
from topolog.events.sessions import SessionStatus
from topolog.events.snapshots import SnapshotTaken
from topolog.events.token_range import RING, TokenRange
from topolog.events.topics import Topic
from topolog.events.tree_pages import PageKind, TreePage
from topolog.events.tree_spec import Column
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.validator import core as core_module
from topolog.streams.validator.core import Core
from topolog.streams.validator.driver import ANSWER_MS_MAX, PROGRESS_MS
from topolog.streams.validator.pages import Expected
from topolog.streams.validator.tasks import counted_on, due, is_listed


def differing_site(cadence: Cadence = Cadence(positions=0)) -> Site:  # noqa: B008 (frozen value)
    """Two replicas of fifty rows: one row has changed, one is missing, and five are new at the second."""
    site = Site(cadence)
    site.add("r1", rows(*range(50)))
    second = site.add("r2", rows(*range(50)))
    second.put({"id": 7, "name": "newer", "changed": 2})
    second.drop(9)
    for row in rows(100, 101, 102, 103, 104):
        second.put(row)
    return site


def serving(site: Site) -> tuple[Validator, Validator]:
    first, second = site.serve("v1", "r1"), site.serve("v2", "r2")
    site.settle()
    return first, second


def completed(site: Site) -> list[rp.TaskCompleted]:
    return [each for each in site.world.events(rp.TaskCompleted) if isinstance(each, rp.TaskCompleted)]


def failed(site: Site) -> list[tuple[str, str]]:
    return [
        (each.task.replica, each.code) for each in site.world.events(rp.TaskFailed) if isinstance(each, rp.TaskFailed)
    ]


def reported(site: Site) -> list[rr.TaskReported]:
    found = [CODEC.decode(each.value) for each in site.world.log.entries(Topic.REQUESTS)]
    return [each for each in found if isinstance(each, rr.TaskReported)]


def are_equal(site: Site) -> bool:
    first, *others = (contents(each) for each in site.replicas.values())
    return all(each == first for each in others)


def once(deed: Callable[[], object], call: str) -> Callable[[str], None]:
    """A hook: the deed is done at the first call of this name."""
    left = [deed]

    def hook(what: str) -> None:
        if what == call and left:
            left.pop()()

    return hook


def test_a_repair_makes_replicas_equal_and_leaves_no_read_point_behind() -> None:
    """Scenario 2 to 4, from the request to the end: the rows are carried both ways."""
    site = differing_site()
    serving(site)
    request = site.repair()
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert are_equal(site)
    assert len(contents(site.replicas["orders@r1"])) == 55
    assert [each.cuts_held for each in site.replicas.values()] == [frozenset(), frozenset()]


def test_one_process_serves_several_replicas() -> None:
    """Each of them does one task at a time, and the session ends as if there were two processes."""
    site = differing_site()
    site.serve("v1", "r1", "r2")
    site.settle()
    request = site.repair(segments=3, parallel=3)
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert are_equal(site)


def test_a_preview_writes_nothing() -> None:
    """Scenario 39."""
    site = differing_site()
    serving(site)
    before = [contents(each) for each in site.replicas.values()]
    request = site.open()
    site.settle()
    assert site.session(request).rows_found == 7
    assert [contents(each) for each in site.replicas.values()] == before
    assert not any(page.kind is PageKind.ROWS for page in site.pages())


def test_what_the_source_of_truth_lacks_is_deleted_if_the_session_says_so() -> None:
    """D.5.9, PULL."""
    site = differing_site()
    serving(site)
    request = site.repair(policy=Policy.PULL, source="r1", version_column="", deletes_extra=True)
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert contents(site.replicas["orders@r2"]) == contents(site.replicas["orders@r1"])
    assert len(contents(site.replicas["orders@r1"])) == 50


deaths = st.lists(st.tuples(st.integers(0, 24), st.booleans()), min_size=1, max_size=4)


@settings(deadline=None, max_examples=150)
@given(deaths)
def test_a_death_at_any_deed_costs_nothing_but_time(lives: list[tuple[int, bool]]) -> None:
    """Scenarios 20, 21: a new life goes on with what the log asks for, under the same attempt. Each task is answered
    once, its pages are whole and of one life (the rendezvous says so), and no row is written twice or skipped."""
    site = differing_site()
    site.serve("v1", "r1")
    site.serve("v2", "r2", mortality=Mortality(1_000))
    site.settle()
    request = site.repair()
    for deeds, behind in lives:
        site.serve("v2", "r2", mortality=Mortality(deeds, behind=behind))
        site.settle()
    site.serve("v2", "r2")
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert are_equal(site)
    answers = Counter((each.task.step, each.task.replica) for each in completed(site))
    assert set(answers.values()) == {1}
    assert {each.task.attempt for each in completed(site)} == {1}
    assert all(each.result.skipped == 0 for each in completed(site))
    assert failed(site) == []
    assert [each.cuts_held for each in site.replicas.values()] == [frozenset(), frozenset()]


def test_nothing_is_written_once_the_session_has_been_aborted() -> None:
    """Scenario 25: the writer looks into the log before each row, and the one that it was about is the last."""
    site = differing_site()
    site.serve("v1", "r1")
    site.settle()
    second = site.serve("v2", "r2")
    site.settle()
    written: list[str] = []

    def abort() -> None:
        site.world.ask(rr.SessionAbortRequested(site.world.operator_id(), site.world.log_id, "ada", "enough"))
        site.world.settle()
        for validator in (site.validators["v1"], second):
            validator.driver.step(0)

    def hook(what: str) -> None:
        if what == "write":
            written.append(what)
            if len(written) == 3:
                abort()

    site.hook = hook
    request = site.repair()
    site.settle()
    assert site.session(request).status is SessionStatus.ABORTED
    first = site.replicas["orders@r1"]
    assert len(contents(first)) + sum(row["name"] == "newer" for row in contents(first)) == 50 + 2
    assert not any(each.task.step == 6 and each.task.replica == "r1" for each in reported(site))
    assert [each.cuts_held for each in site.replicas.values()] == [frozenset(), frozenset()]


def test_an_older_attempt_is_not_reported() -> None:
    """A task that was given up while it was under way ends without an answer, and the next attempt has its own."""
    site = differing_site()
    serving(site)
    site.hook = once(lambda: site.world.run(1_500), "leaves")
    request = site.open(stall_ms=1_000)
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    given_up = [each for each in site.world.events(rp.TaskFailed) if isinstance(each, rp.TaskFailed)]
    assert {each.code for each in given_up} == {"STALLED"}
    assert not any(each.task == one.task for each in reported(site) for one in given_up)


def test_a_row_that_has_changed_since_is_left_as_it_is() -> None:
    """D.5.10: a write that nobody had compared is not written over; the session says that they still differ."""
    site = differing_site()
    serving(site)
    changed = {"id": 100, "name": "meanwhile", "changed": 3}
    site.hook = once(lambda: site.replicas["orders@r1"].put(changed), "write")
    request = site.repair()
    site.settle()
    assert changed in contents(site.replicas["orders@r1"])
    assert sum(each.result.skipped for each in completed(site)) == 1
    assert site.session(request).status is not SessionStatus.SUCCEEDED


def test_of_two_processes_that_serve_one_replica_the_newer_one_counts() -> None:
    """The older one finds out, answers nothing more, and ends: it does not take the replica back."""
    site = differing_site()
    _, zombie = serving(site)
    newer: list[Validator] = []

    def replace() -> None:
        newer.append(site.serve("v3", "r2"))
        for _ in range(5):
            site.world.settle()
            newer[0].driver.step(0)

    site.hook = once(replace, "cut")
    zombie.paused = True
    request = site.repair()
    for _ in range(3):
        site.turn()
    zombie.paused = False
    site.validators["v1"].paused = True
    site.turn()
    site.validators["v1"].paused = False
    site.settle()
    assert newer
    assert isinstance(zombie.failure, Refused)
    assert zombie.failure.code == "REPLACED"
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert {each.life for each in reported(site) if each.task.replica == "r2"} == {newer[0].life}
    declared = replica(site.world.state, "orders", "r2")
    assert declared is not None
    assert declared.life == newer[0].life


def opened_for_what_was(site: Site, change: Callable[[], object], **definition: object) -> tuple[str, str]:
    """A session that is opened while the second validator does not listen, and before this changes; code and message
    of its end."""
    _, second = serving(site)
    second.paused = True
    request = site.open(**definition)
    site.settle()
    change()
    second.paused = False
    site.settle()
    row = site.session(request)
    return row.code, row.message


def with_column(site: Site, name: str = "r2") -> None:
    held = site.replicas[f"orders@{name}"]
    held.redefine(msgspec.structs.replace(held.describe(), columns=(*COLUMNS, Column("added", "string"))))


def test_a_replica_that_has_another_schema_by_now_says_so_before_it_scans() -> None:
    """Scenario 13: both schemas are named, and it is declared anew, so that the next session knows."""
    site = differing_site()
    code, message = opened_for_what_was(site, lambda: with_column(site))
    assert code == "SCHEMA_MISMATCH"
    assert "added string" in message
    declared = replica(site.world.state, "orders", "r2")
    assert declared is not None
    assert [each.name for each in declared.definition.columns] == ["id", "name", "changed", "added"]
    assert not any(each.task.step == 2 for each in completed(site))


def test_a_replica_that_has_another_key_by_now_says_so_before_it_scans() -> None:
    """Scenario 13: with the same columns; its rows would have other tokens and other names."""
    site = differing_site()
    held = site.replicas["orders@r2"]
    changed = msgspec.structs.replace(held.describe(), key=("id", "name"))
    opened_for_what_was(site, lambda: held.redefine(changed))
    assert [(each.task.replica, each.code) for each in reported(site) if each.code] == [("r2", "SCHEMA")]
    assert not any(each.task.step == 2 for each in completed(site))


def test_columns_that_both_have_are_compared_all_the_same() -> None:
    """Scenario 13, with an explicit list of columns."""
    site = differing_site()
    code, _ = opened_for_what_was(site, lambda: with_column(site), columns=("name",))
    assert code == ""


def test_a_schema_that_changes_while_the_read_point_is_fixed_is_found_out() -> None:
    """Scenario 13: what was fixed is given back, and the next attempt tells why."""
    site = differing_site()
    serving(site)

    def change() -> None:
        with_column(site, "r1")
        with_column(site, "r2")

    site.hook = once(change, "cut")
    request = site.open()
    site.settle()
    assert failed(site)[0][1] == "INTERRUPTED"
    assert site.session(request).code == "SCHEMA_MISMATCH"
    assert [each.cuts_held for each in site.replicas.values()] == [frozenset(), frozenset()]


def test_a_range_that_a_replica_does_not_hold_is_refused() -> None:
    """B.1, wrong scope: whoever holds half answers for half."""
    site = differing_site()
    held = site.replicas["orders@r2"]
    half = msgspec.structs.replace(held.describe(), ranges=(TokenRange(0, RING // 2),))
    code, message = opened_for_what_was(site, lambda: held.redefine(half))
    assert code == "RANGE"
    assert "00000000..80000000" in message


def test_replicas_without_read_points_are_compared_and_nothing_is_concluded() -> None:
    """Scenario 31."""
    site = Site()
    site.add("r1", rows(1, 2, 3), gives_cuts=False)
    site.add("r2", rows(1, 2))
    serving(site)
    request = site.open()
    site.settle()
    assert all(each.result.cut is None for each in completed(site) if each.task.replica == "r1")
    assert site.session(request).status is not SessionStatus.FAILED
    assert not any(each.task.step == 3 for each in completed(site))


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda page: msgspec.structs.replace(page, payload=b"\xdd" + bytes(4)), "PAGES_DAMAGED"),
        (lambda page: msgspec.structs.replace(page, spec_id=bytes(16)), "PAGES_MISSING"),
        (lambda page: page if page.page else None, "PAGES_MISSING"),
        (lambda page: msgspec.structs.replace(page, life=page.page), "PAGES_MISSING"),
    ],
    ids=["other content", "other spec", "a page is missing", "pages of several lives"],
)
def test_pages_that_are_not_those_of_the_log_fail_the_task(
    spoil: Spoil, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D.5.8: nobody waits for ever, and nothing is sent by what nobody has found."""
    site = differing_site()
    serving(site)
    site.rendezvous.spoil = spoil
    monkeypatch.setattr(tree_answers.Packer.__init__, "__defaults__", (150,))
    request = site.repair()
    site.settle()
    assert {each for _, each in failed(site)} == {code}
    assert site.session(request).code == code
    assert not any(page.kind is PageKind.ROWS for page in site.pages())


def test_pages_of_a_process_that_was_never_asked_do_not_matter() -> None:
    """Somebody else sends rows under a task's name: the digest in the log is not theirs."""
    site = differing_site()
    serving(site)
    seen: list[TreePage] = []

    def forge() -> None:
        for page in site.pages():
            if page.kind is PageKind.ROWS:
                seen.append(page)
                site.put(msgspec.structs.replace(page, life=4711, payload=b"\xdd" + bytes(4)))

    first = site.validators["v1"]
    request = site.repair()
    while not any(each.step.kind is t.TaskKind.WRITE for each in started(site)):
        site.turn()
        first.paused = len(sends(site)) == 2
    forge()
    first.paused = False
    site.settle()
    assert seen
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert are_equal(site)


def started(site: Site) -> list[rp.StepStarted]:
    return [each for each in site.world.events(rp.StepStarted) if isinstance(each, rp.StepStarted)]


def sends(site: Site) -> list[rp.TaskCompleted]:
    numbers = {each.step.number for each in started(site) if each.step.kind is t.TaskKind.SEND}
    return [each for each in completed(site) if each.task.step in numbers]


def test_a_life_that_begins_at_a_snapshot_knows_what_was_sent_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state says what was sent in the step before, as long as that is written: the log need not be read for it."""
    site = differing_site(Cadence(positions=1, piece_bytes=100_000))
    serving(site)
    request = site.repair()
    while len(sends(site)) < 2:
        site.turn()
    behind = site.world.decisions()[-1].place.position
    del site.validators["v1"], site.validators["v2"]
    taken = len(site.world.events(SnapshotTaken))
    while len(site.world.events(SnapshotTaken)) < taken + 2:
        site.run(100)
    read: list[int] = []
    core_read = Core.read

    def reading(core: Core, entry: Entry) -> object:
        found = core_read(core, entry)
        read.append(core.fold.header.position)
        return found

    monkeypatch.setattr(Core, "read", reading)
    serving(site)
    site.settle()
    assert min(read) > behind
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert are_equal(site)


def test_progress_is_said_when_it_has_grown_and_not_more_often_than_that() -> None:
    """D.6: the numbers renew a task's time only if they grow, so they are said only then."""
    site = differing_site()
    first, _ = serving(site)
    worker = first.workers["orders@r1"]

    def work() -> None:
        assert worker.progress is not None
        task = worker.progress[0]
        for rows_read in (10, 10, 10, 25, 20, 25):
            worker.progress = (task, rows_read, 100)
            site.world.clock.advance(PROGRESS_MS)
            for _ in range(3):
                first.driver.step(0)
                site.world.settle()

    site.hook = once(work, "leaves")
    site.open(stall_ms=60_000)
    site.settle()
    told = [each for each in site.world.events(rp.TaskProgressed) if isinstance(each, rp.TaskProgressed)]
    assert [each.rows for each in told] == [10, 25]
    assert len([each for each in reported(site) if each.result is None]) == 2


def test_what_is_passed_by_in_the_search_for_pages_counts_as_progress() -> None:
    """A topic holds a week of others' pages: who reads through them has not come to a halt."""
    site = differing_site()
    first, _ = serving(site)
    worker = first.workers["orders@r1"]
    read, grown = worker.trees.read, list[int]()

    def far(expected: Expected, tell: Callable[[int], None]) -> Iterator[bytes]:
        assert worker.progress is not None
        before = worker.progress[2]
        tell(5_000)
        grown.append(worker.progress[2] - before)
        yield from read(expected, lambda size: tell(5_000 + size))

    worker.trees.read = far  # type: ignore[method-assign]
    request = site.repair()
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert grown[0] == 5_000


def test_what_the_log_has_answered_counts_for_as_old_as_the_answer_can_be() -> None:
    """Scenario 25: else a writer would go on a second longer than it may."""
    site = differing_site()
    first, _ = serving(site)
    ages: list[int] = []
    clock = site.world.clock
    fence = first.workers["orders@r1"].fence
    fence.heard = lambda at_ns: ages.append(clock.monotonic_ns() - at_ns)  # type: ignore[method-assign]
    site.open()
    site.settle()
    assert set(ages) == {ANSWER_MS_MAX * 1_000_000}


def test_of_the_read_points_in_the_log_a_new_life_gives_back_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log may tell of thousands, and each is a question to the replica."""
    monkeypatch.setattr(core_module, "CUTS_SEEN_MAX", 2)
    site = differing_site()
    serving(site)
    for number in range(4):
        site.replicas["orders@r2"].put(rows(200 + number)[0])
        site.open()
        site.settle()
    fixed = dict.fromkeys(each.result.cut for each in completed(site) if each.task.replica == "r2")
    del fixed[None]
    given_back: list[Cut] = []
    late = site.serve("v2", "r2")
    late.workers["orders@r2"].release = given_back.append  # type: ignore[assignment]
    site.settle()
    assert len(fixed) == 4
    assert given_back == sorted(list(fixed)[-2:], key=str)


def test_a_process_whose_spark_has_ended_ends_and_the_next_one_does_its_task() -> None:
    """Scenario 20: it would fail all that it is asked for from now on; nothing is said of the task."""
    site = differing_site()
    serving(site)

    def end() -> None:
        raise SparkEnded("The JVM of Spark has ended.")

    site.hook = once(end, "leaves")
    request = site.open()
    site.settle()
    (ended,) = (name for name, each in site.validators.items() if isinstance(each.failure, SparkEnded))
    assert failed(site) == []
    assert not site.session(request).status.is_end
    site.serve(ended, ended.replace("v", "r"))
    site.settle()
    assert site.session(request).rows_found == 7


def test_a_read_point_that_takes_longer_than_a_task_may_rest_is_waited_for() -> None:
    """Scenario 20: a table that is copied tells of its rows, and the limit of the step begins anew with each word."""
    site = differing_site()
    replica = site.replicas["orders@r1"]
    serving(site)
    fixed = replica.cut

    def slow(progress: Progress, shared: Cut | None = None) -> Cut | None:
        for count in range(1, 5):
            site.run(40_000)
            progress(count * 10, count * 1_000)
        return fixed(progress, shared)

    replica.cut = slow  # type: ignore[method-assign]
    began_ns = site.world.clock.monotonic_ns()
    request = site.open(prepare_ms=60_000)
    site.settle()
    assert site.world.clock.monotonic_ns() - began_ns > 120_000_000_000
    assert site.session(request).status is SessionStatus.SUCCEEDED, site.session(request)
    assert failed(site) == []


def test_segments_share_a_read_point() -> None:
    """It may be a copy of the table: it is held for those that are to come, and given back with the session; a second
    look fixes another."""
    site = differing_site()
    replica = site.replicas["orders@r1"]
    serving(site)
    fixed, copies = replica.cut, set[Cut | None]()

    def copied(progress: Progress, shared: Cut | None = None) -> Cut | None:
        replica.put({"id": 1_000 + next(number), "name": "new", "changed": 1})
        copies.add(found := fixed(progress, shared))
        return found

    number = iter(range(1_000))
    replica.cut = copied  # type: ignore[method-assign]
    request = site.open(segments=4, recheck=False)
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert site.session(request).rows_found >= 7
    assert len(copies) == 1
    assert replica.cuts_held == frozenset()
    site.open(segments=4, recheck=True)
    site.settle()
    assert len(copies) > 2
    assert replica.cuts_held == frozenset()


def test_whatever_a_replica_raises_is_an_answer() -> None:
    """Scenario 22: nobody waits."""
    site = differing_site()
    serving(site)

    def fail() -> None:
        raise ReplicaFailed("CORRUPT", "part-0001.parquet has no footer.")

    site.hook = once(fail, "leaves")
    request = site.open()
    site.settle()
    assert site.session(request).code == "CORRUPT"
    assert "part-0001" in site.session(request).message


def test_a_defect_of_a_replica_is_an_answer_too() -> None:
    """Scenario 22."""
    site = differing_site()
    serving(site)
    site.hook = once(lambda: 1 // 0, "leaves")
    request = site.open()
    site.settle()
    assert site.session(request).code == "FAILED"
    assert "ZeroDivisionError" in site.session(request).message


def test_an_end_in_order_withdraws_the_replicas() -> None:
    """What waits for them does not have to find out by silence."""
    site = differing_site()
    first, _ = serving(site)
    first.driver.core.withdraw()
    site.settle()
    assert [row.definition.name for row in replicas_of(site.world.state, "orders")] == ["r2"]
    assert first.driver.core.is_idle
    assert first.failure is None


def test_a_replica_that_an_operator_has_withdrawn_is_not_declared_again() -> None:
    """Its process ends, and says why."""
    site = differing_site()
    first, _ = serving(site)
    site.world.ask(
        rr.ReplicaWithdrawalRequested(site.world.operator_id(), site.world.log_id, "ada", "", "orders", "r1")
    )
    site.settle()
    assert isinstance(first.failure, Refused)
    assert "withdrawn" in str(first.failure)
    assert [row.definition.name for row in replicas_of(site.world.state, "orders")] == ["r2"]


def test_a_declaration_that_is_refused_ends_the_process() -> None:
    """It would serve what nobody can ask for."""
    site = Site()
    site.add("r" * 41, rows(1))
    validator = site.serve("v1", "r" * 41)
    site.settle()
    assert isinstance(validator.failure, Refused)
    assert validator.failure.code == "BAD_REPLICA"


def test_requests_that_the_broker_has_lost_are_sent_again() -> None:
    """K7: until there is an outcome."""
    site = differing_site()
    first = site.serve("v1", "r1")
    first.writer.prompt = False
    for _ in range(10):
        site.turn()
        first.writer.fail()
    assert list(replicas_of(site.world.state, "orders")) == []
    first.writer.prompt = True
    site.settle()
    assert [row.definition.name for row in replicas_of(site.world.state, "orders")] == ["r1"]


def test_a_read_point_is_given_back_when_a_newer_one_stands_in_its_place() -> None:
    """Somebody writes all the time: a long session does not collect read points."""
    site = differing_site()
    serving(site)
    held: list[int] = []
    busy = site.replicas["orders@r2"]
    number = iter(range(1_000, 2_000))

    def hook(what: str) -> None:
        if what == "cut":
            busy.put({"id": next(number), "name": "new", "changed": 1})
        held.append(len(busy.cuts_held))

    site.hook = hook
    request = site.repair()
    site.settle()
    assert site.session(request).status.is_end
    assert max(held) <= 2
    assert busy.cuts_held == frozenset()


def test_what_is_read_is_what_was_fixed_whatever_is_written_meanwhile() -> None:
    """Scenario 31: the findings are those of the frozen copies, and no read point is given back too early."""
    site = Site()
    site.add("r1", rows(*range(50)))
    site.add("r2", rows(*range(50)))
    serving(site)
    number = iter(range(1_000, 2_000))

    def write(what: str) -> None:
        if what == "leaves":
            for replica_ in site.replicas.values():
                replica_.put({"id": next(number), "name": "new", "changed": 1})

    site.hook = write
    request = site.open()
    site.settle()
    assert failed(site) == []
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert site.session(request).rows_found == 0


def test_a_read_point_that_is_fixed_again_is_not_given_back_in_between() -> None:
    """It may have cost a copy of the table: the check behind a comparison finds it again by its name."""
    site = differing_site()
    serving(site)
    called: Counter[str] = Counter()
    site.hook = lambda what: called.update([what])
    request = site.open()
    site.settle()
    assert site.session(request).rows_found == 7
    assert called["cut"] == 4
    assert called["release"] == 2


def test_a_read_point_that_another_session_fixes_is_not_given_back_by_the_end_of_one() -> None:
    """Both have it under one name, and the one that needs it no longer ends while the other is about it."""
    site = differing_site()
    first, second = serving(site)
    first.paused = True
    ended = site.open()
    site.settle()
    (held,) = site.replicas["orders@r2"].cuts_held

    def end() -> None:
        number = site.session(ended).number
        site.world.ask(rr.SessionAbortRequested(site.world.operator_id(), site.world.log_id, "ada", "", number))
        site.world.settle()
        second.driver.step(0)

    site.hook = once(end, "cut")
    request = site.open()
    site.settle()
    assert site.session(ended).status is SessionStatus.ABORTED
    assert site.replicas["orders@r2"].cuts_held == {held}
    first.paused = False
    site.settle()
    assert site.session(request).rows_found == 7
    assert site.replicas["orders@r2"].cuts_held == frozenset()


def test_what_is_under_way_at_an_end_in_order_is_done_by_the_next_life() -> None:
    """It has not failed, and is not withdrawn either: a restart is no reason for a session to end."""
    site = differing_site()
    first, _ = serving(site)

    coordinator = site.world.leader()

    def end() -> None:
        coordinator.paused = True
        first.driver.core.withdraw()
        first.driver.step(0)
        first.workers["orders@r1"].fence.ask(t.TaskId(site.session(request).number, 0, 2, "r1", 1))

    site.hook = once(end, "leaves")
    request = site.open()
    site.settle()
    coordinator.paused = False
    site.settle()
    assert "FENCED" not in {each.code for each in reported(site)}
    assert not site.session(request).status.is_end
    assert first.driver.core.is_idle
    site.serve("v3", "r1")
    site.settle()
    assert site.session(request).rows_found == 7
    assert not site.world.events(rp.TaskFailed)


def test_a_session_that_goes_on_without_a_replica_no_longer_counts_on_it() -> None:
    """Its validator may withdraw it: nobody waits for its next life."""
    world = three()
    world.servers["R3"].is_up = False
    world.open(allow_partial=True)
    served = {replica_key(TABLE, name): (TABLE, name) for name in ("R1", "R3")}
    world.run()
    assert counted_on(world.core.state, served) == served.keys()
    world.expire("task/", "/R3")
    assert counted_on(world.core.state, served) == {replica_key(TABLE, "R1")}


def test_the_fence_is_asked_before_each_batch_whatever_the_replica_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that forgets to ask writes one batch more, and not all of them."""
    site = differing_site()
    first, _ = serving(site)
    monkeypatch.setattr(MortalReplica, "write", lambda *given: Written(len(given[2]), 0))
    checked: list[t.TaskId] = []
    monkeypatch.setattr(first.workers["orders@r1"].fence, "check", checked.append)
    site.repair()
    site.settle()
    assert len(checked) == 3  # for six rows


def test_a_life_is_asked_for_nothing_before_the_log_says_that_it_serves() -> None:
    """The tasks are those of the life that is declared."""
    site = differing_site()
    first, _ = serving(site)
    first.paused = True
    site.open()
    site.settle()
    served = {"orders@r1": ("orders", "r1")}
    (asked,) = due(site.world.state, served, first.life)
    assert asked.step.kind is t.TaskKind.PREPARE
    assert is_listed(site.world.state, asked.task, served, first.life)
    assert due(site.world.state, served, first.life + 100) == []
    assert not is_listed(site.world.state, asked.task, served, first.life + 100)
    assert due(site.world.state, {"orders@r3": ("orders", "r3")}, first.life) == []
    later = msgspec.structs.replace(asked.task, attempt=2)
    assert not is_listed(site.world.state, later, served, first.life)


def test_a_session_is_not_begun_by_a_process_that_is_still_reading() -> None:
    """A log that is read slowly: what it asked for once is over by its end."""
    site = differing_site()
    serving(site)
    site.open()
    site.settle()
    before = len(reported(site))
    late = site.serve("v2", "r2")
    late.reader.batch_max = 1
    asked = len(site.world.log.entries(Topic.REQUESTS))
    while late.driver.core.fold.header.position < site.world.decisions()[-1].place.position:
        assert len(site.world.log.entries(Topic.REQUESTS)) == asked
        site.turn()
    site.settle()
    assert len(reported(site)) == before
    assert late.failure is None
