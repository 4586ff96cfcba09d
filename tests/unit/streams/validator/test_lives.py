"""Lives of a validator: how one begins, declares what it serves, ends, and what the next one finds."""

import msgspec
import pytest
from tests.unit.streams.validator.observed import are_equal, differing_site, failed, once, reported, sends, serving
from tests.unit.streams.validator.site import Site, Validator, rows

from topolog.events import repair as rp
from topolog.events import repair_requests as rr
from topolog.events import repair_tasks as t
from topolog.events.errors import Refused, SparkEnded
from topolog.events.log import Entry
from topolog.events.replicas import replica, replicas_of
from topolog.events.sessions import SessionStatus
from topolog.events.snapshots import SnapshotTaken
from topolog.events.topics import Topic
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.validator.core import Core
from topolog.streams.validator.tasks import due, is_listed


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


def test_a_process_whose_spark_has_ended_ends_and_the_next_one_does_its_task() -> None:
    """RE7: it would fail all that it is asked for from now on; nothing is said of the task."""
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
