"""The log in memory behaves as Kafka does; the topics have the names that Kafka knows."""

import threading

import pytest

from topolog.events.errors import BadInput, LogDiverged, TopologError, Unreachable
from topolog.events.ids import Offset
from topolog.events.log import Entry, InMemoryLog, InMemoryReader
from topolog.events.stamp import HEADER_NAME
from topolog.events.topics import BY_CODE, PARTITIONS, PLANS, Topic, topic_name

DECISIONS = (Topic.DECISIONS, 0)


def follower(log: InMemoryLog) -> InMemoryReader:
    """A reader of decisions from the beginning."""
    reader = log.reader()
    reader.assign({DECISIONS: Offset(0)})
    return reader


def values(entries: list[Entry]) -> list[bytes]:
    return [entry.value for entry in entries]


def test_records_are_read_in_the_order_in_which_they_landed() -> None:
    """One order per partition, for every reader, the writer's own included."""
    log = InMemoryLog(lambda: 17)
    one, two = log.writer(), log.writer()
    for number, writer in enumerate([one, two, one]):
        writer.append(Topic.DECISIONS, "demo", bytes([number]), [(HEADER_NAME, b"stamp")])
    found = follower(log).poll(0)
    assert [(entry.offset, entry.value) for entry in found] == [(0, b"\0"), (1, b"\1"), (2, b"\2")]
    assert {(entry.key, entry.stamp, entry.appended_at_ms) for entry in found} == {("demo", b"stamp", 17)}


def test_a_record_without_the_header_has_no_stamp() -> None:
    """What a foreign program wrote is told apart by that."""
    assert InMemoryLog().put(Topic.DECISIONS, "k", b"", [("other", b"1")]).stamp is None


def test_a_key_stays_in_its_partition() -> None:
    """All records of one node are in order, whatever the others send."""
    log = InMemoryLog()
    places = {key: {log.put(Topic.HEARTBEATS, key, b"").partition for _ in range(3)} for key in "abcdefgh"}
    assert all(len(partitions) == 1 for partitions in places.values())
    assert set.union(*places.values()) == set(range(PARTITIONS[Topic.HEARTBEATS]))


def test_a_reader_starts_where_it_is_told() -> None:
    """None is the oldest record kept; nothing is read twice."""
    log = InMemoryLog()
    for value in (b"a", b"b", b"c"):
        log.put(Topic.DECISIONS, "demo", value)
    reader = log.reader()
    reader.assign({DECISIONS: Offset(1)})
    assert values(reader.poll(0)) == [b"b", b"c"]
    assert reader.poll(0) == []
    reader.assign({DECISIONS: None})
    assert values(reader.poll(0)) == [b"a", b"b", b"c"]


def test_a_reader_can_be_made_to_lag_and_knows_whether_it_is_at_the_end() -> None:
    """Silence counts only for a reader at the end (K5); one that reads no such topic hears nothing of it."""
    log = InMemoryLog()
    reader = follower(log)
    assert reader.at_end(Topic.DECISIONS)
    for value in (b"a", b"b", b"c"):
        log.put(Topic.DECISIONS, "demo", value)
    reader.batch_max = 2
    assert not reader.hears(Topic.DECISIONS)
    assert values(reader.poll(0)) == [b"a", b"b"]
    assert not reader.at_end(Topic.DECISIONS)
    assert values(reader.poll(0)) == [b"c"]
    assert reader.hears(Topic.DECISIONS)
    assert not reader.at_end(Topic.REQUESTS)


def test_late_sends_of_a_writer_land_behind_those_of_its_successor() -> None:
    """What a deposed coordinator has handed over may still come, long after, in order and in part."""
    log = InMemoryLog()
    deposed, successor = log.writer(prompt=False), log.writer()
    deposed.append(Topic.DECISIONS, "demo", b"old 1")
    deposed.append(Topic.DECISIONS, "demo", b"old 2")
    successor.append(Topic.DECISIONS, "demo", b"new")
    deposed.land(1)
    assert values(follower(log).poll(0)) == [b"new", b"old 1"]
    assert deposed.in_flight == 1


def test_an_append_is_answered_later_than_it_is_made() -> None:
    """Callbacks run in `serve` alone, with the offset; a failed send is answered with its error and never lands."""
    log, answers = InMemoryLog(), list[tuple[TopologError | None, Offset | None]]()
    writer = log.writer(prompt=False)
    for value in (b"a", b"b"):
        writer.append(Topic.DECISIONS, "demo", value, on_delivery=lambda *answer: answers.append(answer))
    writer.land(1)
    writer.fail()
    assert answers == []
    writer.serve()
    assert answers[0] == (None, 0)
    ((error, offset),) = answers[1:]
    assert (type(error), offset) == (Unreachable, None)
    assert values(follower(log).poll(0)) == [b"a"]


def test_a_flush_says_how_many_sends_are_not_answered() -> None:
    """It runs the callbacks of those that are; it cannot make a broker answer."""
    log, answers = InMemoryLog(), list[tuple[TopologError | None, Offset | None]]()
    prompt, slow = log.writer(), log.writer(prompt=False)
    for writer in (prompt, slow):
        writer.append(Topic.DEAD, "k", b"v", on_delivery=lambda *answer: answers.append(answer))
    assert (prompt.flush(1), slow.flush(1)) == (0, 1)
    assert answers == [(None, 0)]


def test_while_the_broker_is_down_nothing_moves() -> None:
    """Nothing is read, nobody is at an end, sends stay in flight; afterwards all goes on in its order."""
    log = InMemoryLog()
    reader, writer = follower(log), log.writer()
    writer.append(Topic.DECISIONS, "demo", b"a")
    log.reachable = False
    writer.append(Topic.DECISIONS, "demo", b"b")
    assert (reader.poll(0), reader.hears(Topic.DECISIONS), writer.flush(0)) == ([], False, 1)
    log.reachable = True
    assert writer.flush(0) == 0
    assert values(reader.poll(0)) == [b"a", b"b"]


def test_a_log_cut_short_stops_the_reader_that_had_read_further() -> None:
    """A broker back from an older disk: the reader must not go on as if nothing had happened (K9)."""
    log = InMemoryLog()
    for value in (b"a", b"b", b"c"):
        log.put(Topic.DECISIONS, "demo", value)
    ahead, behind = follower(log), follower(log)
    ahead.poll(0)
    log.truncate(Topic.DECISIONS, 1)
    with pytest.raises(LogDiverged, match="decisions ends at 1, this reader was at 3"):
        ahead.poll(0)
    assert values(behind.poll(0)) == [b"a"]


def test_a_reader_wakes_when_a_record_lands() -> None:
    """A poll waits for the first record and no longer."""
    log, found = InMemoryLog(), list[bytes]()
    reader = follower(log)
    waiting = threading.Thread(target=lambda: found.extend(values(reader.poll(60))))
    waiting.start()
    log.put(Topic.DECISIONS, "demo", b"a")
    waiting.join(30)
    assert found == [b"a"]


def test_threads_may_append_at_once() -> None:
    """No record is lost, none has another's offset, and each writer's stay in their order."""
    log, writer = InMemoryLog(), InMemoryLog().writer()
    writer = log.writer()
    start = threading.Barrier(4)

    def append(name: int) -> None:
        start.wait()
        for number in range(500):
            writer.append(Topic.DECISIONS, "demo", bytes([name]) + number.to_bytes(2, "big"))

    threads = [threading.Thread(target=append, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = log.entries(Topic.DECISIONS)
    assert [entry.offset for entry in entries] == list(range(2000))
    for name in range(4):
        own = [entry.value for entry in entries if entry.value[0] == name]
        assert own == sorted(own)
        assert len(own) == 500


def test_a_topic_is_named_after_its_cluster() -> None:
    """`topolog.<cluster>.<short name>`, so that prefixed ACLs separate tenants."""
    assert topic_name("demo.eu-1", Topic.HEARTBEATS) == "topolog.demo.eu-1.heartbeats"


@pytest.mark.parametrize("name", ["", "a b", "a_b", "ä", "a/b", "n" * 201])
def test_what_cannot_be_a_topic_cannot_be_a_cluster(name: str) -> None:
    """Kafka takes letters, digits, dots and hyphens; underscores would collide with dots in its metrics."""
    with pytest.raises(BadInput, match="letters, digits, dots and hyphens"):
        topic_name(name, Topic.DECISIONS)


def test_decisions_have_one_partition_and_are_kept_for_ever() -> None:
    """Their order is the arbiter of everything."""
    plan = next(plan for plan in PLANS if plan.topic is Topic.DECISIONS)
    assert (plan.partitions, plan.retention_ms) == (1, -1)


def test_every_topic_has_a_plan_and_a_number_of_its_own() -> None:
    """Stamps name topics by numbers, for ever."""
    assert {plan.topic for plan in PLANS} == set(Topic)
    assert {topic: topic.code for topic in BY_CODE.values()} == {
        Topic.DECISIONS: 0,
        Topic.REQUESTS: 1,
        Topic.OPERATIONS: 8,
        Topic.HEARTBEATS: 2,
        Topic.DEAD: 3,
        Topic.SNAPSHOTS: 4,
        Topic.LEASE_HEALTH: 5,
        Topic.MAPS: 6,
        Topic.TREES: 7,
    }
