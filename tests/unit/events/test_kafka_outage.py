"""A client that does not find back to a broker that answers others is told from one that waits for a broker."""

import logging
from collections.abc import Collection

import pytest
from confluent_kafka import KafkaError

from topolog.events.kafka_ends import Ends, Place
from topolog.events.kafka_outage import MISSED_AFTER_S, Outage

DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN)
PLACES = [("topolog.east.heartbeats", 1)]


class Asked(Ends):
    """Brokers that answer, or do not."""

    def __init__(self) -> None:
        self.is_up = False

    def ask(self, places: Collection[Place]) -> dict[Place, int] | None:
        return dict.fromkeys(places, 7) if self.is_up else None


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def ends() -> Asked:
    return Asked()


@pytest.fixture
def outage(ends: Asked, now: list[float]) -> Outage:
    return Outage("127.0.0.1:1", ends, speaks=True, now_s=lambda: now[0])


def test_nobody_misses_brokers_that_answer_nobody(outage: Outage, now: list[float]) -> None:
    """However long it takes: making clients anew would not bring them back."""
    outage.on_error(DOWN)
    for _ in range(5):
        now[0] += MISSED_AFTER_S
        assert not outage.is_missed(PLACES)


def test_who_is_still_lost_a_while_after_others_were_answered_has_missed_it(
    outage: Outage, ends: Asked, now: list[float]
) -> None:
    """Once; the client that comes next has as long to find a broker."""
    outage.on_error(DOWN)
    ends.is_up = True
    assert not outage.is_missed(PLACES)
    now[0] += MISSED_AFTER_S - 0.1
    assert not outage.is_missed(PLACES)
    now[0] += 0.2
    assert outage.is_missed(PLACES)
    assert not outage.is_missed(PLACES)
    now[0] += MISSED_AFTER_S
    assert outage.is_missed(PLACES)


def test_who_was_answered_has_missed_nothing_and_is_asked_about_nothing(outage: Outage, ends: Asked) -> None:
    ends.is_up = True
    assert not outage.is_missed(PLACES)
    outage.on_error(DOWN)
    assert not outage.is_missed([])
    outage.over()
    assert not outage.is_on


def test_an_outage_is_said_once_and_so_is_its_end(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        outage.on_error(DOWN)
    for _ in range(3):
        outage.over()
    assert [record.getMessage().partition(" at ")[0] for record in caplog.records] == [
        "No Kafka broker answers",
        "Kafka answers again",
    ]
