"""Read points: what is compared is one moment of a replica, and none is left behind."""

from collections import Counter

import pytest
from tests.unit.streams.rules.repairing import TABLE, three
from tests.unit.streams.validator.observed import completed, differing_site, failed, once, serving
from tests.unit.streams.validator.site import Site, rows

from topolog.events import repair_requests as rr
from topolog.events.replica import Cut
from topolog.events.replica_access import Progress
from topolog.events.replicas import replica_key
from topolog.events.sessions import SessionStatus
from topolog.streams.validator import core as core_module
from topolog.streams.validator.tasks import counted_on


def test_replicas_without_read_points_are_compared_and_nothing_is_concluded() -> None:
    """RE19."""
    site = Site()
    site.add("r1", rows(1, 2, 3), gives_cuts=False)
    site.add("r2", rows(1, 2))
    serving(site)
    request = site.open()
    site.settle()
    assert all(each.result.cut is None for each in completed(site) if each.task.replica == "r1")
    assert site.session(request).status is not SessionStatus.FAILED
    assert not any(each.task.step == 3 for each in completed(site))


def test_a_read_point_that_takes_longer_than_a_task_may_rest_is_waited_for() -> None:
    """RE7: a table that is copied tells of its rows, and the limit of the step begins anew with each word."""
    site = differing_site()
    replica = site.replicas["orders@r1"]
    serving(site)
    fixed = replica.cut

    def slow(progress: Progress, shared: Cut | None = None) -> Cut | None:
        for count in range(1, 5):
            site.run(8_000)
            progress(count * 10, count * 1_000)
        return fixed(progress, shared)

    replica.cut = slow  # type: ignore[method-assign]
    began_ns = site.world.clock.monotonic_ns()
    request = site.open(prepare_ms=12_000)
    site.settle()
    assert site.world.clock.monotonic_ns() - began_ns > 24_000_000_000
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
    """RE19: the findings are those of the frozen copies, and no read point is given back too early."""
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
