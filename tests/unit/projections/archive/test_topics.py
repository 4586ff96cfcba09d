"""Whether topics are those that an archive was made of, and what is left to land (RD27)."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.unit.projections.chronicle import LOG_ID, Chronicle

from topolog.events.errors import BadInput, LogDiverged, NotFound, Unreachable
from topolog.events.kafka_admin import FoundTopic, KafkaAdmin
from topolog.events.kafka_admin_client import AdminClient
from topolog.events.log import InMemoryLog
from topolog.events.topics import Topic
from topolog.projections.archive.landings import ArchiveWriter, opened
from topolog.projections.archive.spans import Span
from topolog.projections.archive.topics import (
    Seen,
    appended_ms,
    begin,
    check,
    deleted,
    first_log_id,
    look,
    look_at_all,
    starts,
    unread,
)

IDS = {"decisions": "d", "requests": "r"}


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[ArchiveWriter]:
    with opened(tmp_path / "archive", "shop") as archive:
        yield archive


def land(archive: ArchiveWriter, *spans: Span, read: tuple[Span, ...] = ()) -> None:
    archive.staged()
    archive.land("test", spans, {}, 5, read)


def seen(decisions: tuple[int, int] = (0, 0), requests: tuple[int, int] = (0, 0)) -> Seen:
    return Seen(IDS, {("decisions", 0): decisions, ("requests", 0): requests})


def test_a_stream_goes_on_where_the_archive_ends(archive: ArchiveWriter) -> None:
    """And at the oldest record that is kept where nothing has landed."""
    now = seen((0, 50), (20, 30))
    check(archive, now)
    assert starts(archive, now) == {("decisions", 0): 0, ("requests", 0): 20}
    land(archive, Span("decisions", 0, 0, 50), Span("requests", 0, 20, 25))
    assert starts(archive, now) == {("decisions", 0): 50, ("requests", 0): 25}
    assert unread(archive, now) == (Span("requests", 0, 25, 30),)


def test_a_hole_that_a_backfill_has_left_is_where_it_goes_on(archive: ArchiveWriter) -> None:
    land(archive, Span("decisions", 0, 10, 20))
    assert unread(archive, seen((0, 30))) == (Span("decisions", 0, 0, 10), Span("decisions", 0, 20, 30))
    assert starts(archive, seen((0, 30)))["decisions", 0] == 0


def test_offsets_without_a_record_are_not_read_for_ever(archive: ArchiveWriter) -> None:
    """The mark of a transaction is at an end of what was read."""
    land(archive, Span("decisions", 0, 0, 9), read=(Span("decisions", 0, 0, 10),))
    assert unread(archive, seen((0, 10))) == ()


def test_a_topic_that_ends_before_what_has_landed_is_refused(archive: ArchiveWriter) -> None:
    land(archive, Span("decisions", 0, 0, 50))
    check(archive, seen((0, 50)))
    with pytest.raises(LogDiverged, match="decisions/0 up to offset 50, and the topic ends at 49"):
        check(archive, seen((0, 49)))


def test_a_topic_that_was_made_anew_and_has_grown_past_what_has_landed_is_refused(archive: ArchiveWriter) -> None:
    check(archive, seen((0, 50)))
    land(archive, Span("decisions", 0, 0, 50))
    with pytest.raises(BadInput, match="requests was made anew"):
        check(archive, Seen({**IDS, "requests": "x"}, seen((0, 60)).bounds))


def test_records_that_were_deleted_before_they_landed_are_named(archive: ArchiveWriter) -> None:
    """They are no hole that nobody sees: the job ends, or an operator gives them up and the archive says so."""
    land(archive, Span("requests", 0, 0, 10))
    check(archive, seen(requests=(10, 40)))
    with pytest.raises(LogDiverged, match=r"requests/0 from 10 to 24.*--accept-loss"):
        check(archive, seen(requests=(25, 40)))
    archive.give_up(deleted(archive, seen(requests=(25, 40))), 5)
    check(archive, seen(requests=(25, 40)))
    assert archive.lost() == (Span("requests", 0, 10, 25),)
    assert starts(archive, seen(requests=(25, 40)))["requests", 0] == 25


def test_a_log_that_has_lost_its_beginning_is_refused_at_once(archive: ArchiveWriter) -> None:
    """Chain hashes begin at its first record."""
    with pytest.raises(LogDiverged, match=r"decisions/0 from 0 to 4\. The log itself must never be cut"):
        check(archive, seen((5, 40)))


def test_what_compaction_has_removed_is_no_loss(archive: ArchiveWriter) -> None:
    land(archive, Span("lease-health", 0, 0, 10))
    check(archive, Seen({}, {("lease-health", 0): (25, 40)}))


def test_the_logs_id_is_in_its_first_record_whatever_stands_before_it() -> None:
    chronicle = Chronicle()
    chronicle.append_raw(None, b"hello")
    assert first_log_id(chronicle.log.reader()) == b""
    chronicle.start()
    assert first_log_id(chronicle.log.reader()) == LOG_ID


def test_how_long_ago_the_oldest_record_left_was_appended() -> None:
    now = [1_000]
    log = InMemoryLog(lambda: now[0])
    for _ in range(3):
        log.put(Topic.REQUESTS, "k", b"")
        now[0] += 500
    assert appended_ms(log.reader(), {("requests", 0): 1}) == {("requests", 0): 1_500}
    assert appended_ms(log.reader(), {}) == {}


def test_records_that_never_landed_and_were_deleted_are_named_too(archive: ArchiveWriter) -> None:
    """Nothing of the partition had landed when the job stopped: what was there then is missed."""
    began = seen(requests=(20, 20))
    begin(archive, began)
    begin(archive, seen(requests=(22, 30)))  # a later run notes nothing anew
    assert deleted(archive, seen(requests=(25, 40))) == (Span("requests", 0, 20, 25),)
    with pytest.raises(LogDiverged, match="requests/0 from 20 to 24"):
        check(archive, seen(requests=(25, 40)))


def test_a_cluster_without_a_leader_or_without_topics_fails_alone() -> None:
    """One look at many clusters."""
    names = ["sound", "silent", "gone", "hidden"]
    found = look_at_all(Broker(), names, [Topic.DECISIONS])  # type: ignore[arg-type]
    assert found.seen == {"sound": Seen({"decisions": "1"}, {("decisions", 0): (0, 7)})}
    failed = {name: type(error) for name, error in found.failed.items()}
    assert failed == {"silent": Unreachable, "gone": NotFound, "hidden": BadInput}
    with pytest.raises(NotFound, match=r"topolog\.gone\.decisions"):
        look(Broker(), "gone", [Topic.DECISIONS])  # type: ignore[arg-type]


class Broker:
    """Has the logs of two clusters, one of them without a leader."""

    def describe(self, names: Iterable[str]) -> dict[str, FoundTopic]:
        return {name: FoundTopic("1", int("hidden" not in name)) for name in names if "gone" not in name}

    def not_found(self, cluster: str, name: str) -> NotFound:
        return NotFound(f"{cluster} lacks {name}")

    def bounds(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        return {place: (0, 7) for place in places if "silent" not in place[0]}


def test_a_topic_that_may_not_be_seen_is_not_taken_for_a_silent_broker_nor_left_out() -> None:
    """One that is no needed topic would else be skipped without a word."""
    admin, seen, hidden = KafkaAdmin({"bootstrap.servers": "127.0.0.1:1"}), Future[Any](), Future[Any]()
    seen.set_result(SimpleNamespace(topic_id="1", partitions=[0]))
    hidden.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    admin._admin = cast("AdminClient", SimpleNamespace(describe_topics=lambda *_, **__: {"a": seen, "b": hidden}))
    assert admin.describe(["a", "b"]) == {"a": FoundTopic("1", 1), "b": FoundTopic("", 0)}
