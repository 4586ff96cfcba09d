"""A client that does not find back to a broker that answers others is told from one that waits for a broker."""

import logging
from collections.abc import Collection, Mapping

import pytest
from confluent_kafka import KafkaError

from topolog.events.kafka_ends import Ends, Place
from topolog.events.kafka_outage import MISSED_AFTER_S, QUIET_S, Attention, Outage, Standstill

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
def attention(ends: Asked, now: list[float]) -> Attention:
    return Attention(ends, now_s=lambda: now[0])


def more(_: Mapping[Place, int]) -> bool:
    return True


def test_nobody_is_lost_where_no_broker_answers(attention: Attention, now: list[float]) -> None:
    """However long it takes: making clients anew would not bring it back."""
    for _ in range(9):
        now[0] += MISSED_AFTER_S
        assert not attention.is_lost(PLACES, more)


def test_who_gets_nothing_of_what_is_there_for_a_while_is_lost(
    attention: Attention, ends: Asked, now: list[float]
) -> None:
    """Once; the client that comes next has as long to find a broker."""
    ends.is_up = True
    for _ in range(2):
        now[0] += QUIET_S - 0.1
        assert not attention.is_lost(PLACES, more)
        now[0] += 0.2
        assert not attention.is_lost(PLACES, more)
        now[0] += MISSED_AFTER_S - 0.1
        assert not attention.is_lost(PLACES, more)
        now[0] += 0.2
        assert attention.is_lost(PLACES, more)


def test_who_has_all_that_is_there_is_not_lost(attention: Attention, ends: Asked, now: list[float]) -> None:
    """A log may be quiet for a night."""
    ends.is_up = True
    for _ in range(9):
        now[0] += MISSED_AFTER_S
        assert not attention.is_lost(PLACES, lambda found: found[PLACES[0]] > 7)


def test_who_gets_something_is_not_lost(attention: Attention, ends: Asked, now: list[float]) -> None:
    ends.is_up = True
    for _ in range(9):
        now[0] += QUIET_S + 1
        assert not attention.is_lost(PLACES, more)
        attention.got()


def test_who_is_stuck_in_one_partition_is_lost_whatever_it_gets_of_others(now: list[float]) -> None:
    """LE27: heartbeats that are not read to their end make a coordinator deaf for all of them."""
    standstill, stuck, other = Standstill(lambda: now[0]), ("heartbeats", 1), ("heartbeats", 2)
    for second in range(int(QUIET_S + MISSED_AFTER_S)):
        assert not standstill.is_lost({stuck: 7, other: second})
        now[0] += 1
    assert standstill.is_lost({stuck: 7, other: 9})
    assert not standstill.is_lost({stuck: 7, other: 9})


def test_who_moves_on_is_not_stuck(now: list[float]) -> None:
    """However far behind: what there is takes time to be read."""
    standstill = Standstill(lambda: now[0])
    for read_to in range(20):
        assert not standstill.is_lost({("heartbeats", 1): read_to})
        now[0] += MISSED_AFTER_S
    assert not standstill.is_lost({})


def test_an_outage_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    outage = Outage("127.0.0.1:1")
    for _ in range(3):
        outage.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    for _ in range(3):
        outage.over()
    assert [record.getMessage().partition(" at ")[0] for record in caplog.records] == [
        "No Kafka broker answers",
        "Kafka answers again",
    ]
