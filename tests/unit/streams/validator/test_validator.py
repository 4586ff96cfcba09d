"""Validators in a small world: real sessions from their request to their end, with deaths wherever one can die."""

from collections.abc import Callable, Iterator

import pytest
from tests.unit.streams.validator.observed import are_equal, completed, differing_site, once, reported, serving
from tests.unit.streams.validator.site import MortalReplica, contents

from topolog.events import repair as rp
from topolog.events import repair_requests as rr
from topolog.events import repair_tasks as t
from topolog.events.repair_definition import Policy
from topolog.events.replica import Written
from topolog.events.sessions import SessionStatus
from topolog.events.tree_pages import PageKind
from topolog.streams.validator.driver import ANSWER_MS_MAX, PROGRESS_MS
from topolog.streams.validator.pages import Expected


def test_a_repair_makes_replicas_equal_and_leaves_no_read_point_behind() -> None:
    """RE2, RE24, from the request to the end: the rows are carried both ways."""
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
    """RE29."""
    site = differing_site()
    serving(site)
    before = [contents(each) for each in site.replicas.values()]
    request = site.open()
    site.settle()
    assert site.session(request).rows_found == 7
    assert [contents(each) for each in site.replicas.values()] == before
    assert not any(page.kind is PageKind.ROWS for page in site.pages())


def test_what_the_source_of_truth_lacks_is_deleted_if_the_session_says_so() -> None:
    """RE2, PULL."""
    site = differing_site()
    serving(site)
    request = site.repair(policy=Policy.PULL, source="r1", version_column="", deletes_extra=True)
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert contents(site.replicas["orders@r2"]) == contents(site.replicas["orders@r1"])
    assert len(contents(site.replicas["orders@r1"])) == 50


def test_nothing_is_written_once_the_session_has_been_aborted() -> None:
    """RE3: the writer looks into the log before each row, and the one that it was about is the last."""
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
    """RE24: a write that nobody had compared is not written over; the session says that they still differ."""
    site = differing_site()
    serving(site)
    changed = {"id": 100, "name": "meanwhile", "changed": 3}
    site.hook = once(lambda: site.replicas["orders@r1"].put(changed), "write")
    request = site.repair()
    site.settle()
    assert changed in contents(site.replicas["orders@r1"])
    assert sum(each.result.skipped for each in completed(site)) == 1
    assert site.session(request).status is not SessionStatus.SUCCEEDED


def test_progress_is_said_when_it_has_grown_and_not_more_often_than_that() -> None:
    """RE7: the numbers renew a task's time only if they grow, so they are said only then."""
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
    """RE3: else a writer would go on a second longer than it may."""
    site = differing_site()
    first, _ = serving(site)
    ages: list[int] = []
    clock = site.world.clock
    fence = first.workers["orders@r1"].fence
    fence.heard = lambda at_ns: ages.append(clock.monotonic_ns() - at_ns)  # type: ignore[method-assign]
    site.open()
    site.settle()
    assert set(ages) == {ANSWER_MS_MAX * 1_000_000}


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
