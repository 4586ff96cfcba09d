"""A broker that was not the one to make a topic learns of it a moment later."""

from collections.abc import Iterator, Mapping
from itertools import repeat

import pytest
from confluent_kafka.admin._metadata import PartitionMetadata, TopicMetadata

from topolog.events.errors import NotFound
from topolog.events.kafka_admin import KafkaAdmin, topic_config
from topolog.events.topics import PLANS, Topic, topic_name

NAME = topic_name("east", Topic.LEASE_HEALTH)


def known(leader: int) -> dict[str, TopicMetadata]:
    """What a broker says of the topic: four partitions, three replicas."""
    topic, partition = TopicMetadata(), PartitionMetadata()
    partition.leader, partition.replicas = leader, [1, 2, 3]
    topic.partitions = dict.fromkeys(range(4), partition)
    return {NAME: topic}


class Asked(KafkaAdmin):
    """One whose brokers give these answers, in order."""

    def __init__(self, answers: Iterator[Mapping[str, TopicMetadata]]) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1"})
        self._answers = answers

    def _metadata(self) -> Mapping[str, TopicMetadata]:
        return next(self._answers)


def test_how_many_copies_a_topic_has_is_known_once_the_broker_asked_knows_it() -> None:
    """Not at all, by name only, without a leader: each is what one of three brokers may say of a topic just made."""
    answers = iter([{}, {NAME: TopicMetadata()}, known(leader=-1), known(leader=2)])
    assert Asked(answers).replicas("east", Topic.LEASE_HEALTH) == 3
    assert not list(answers)


def test_a_topic_that_another_broker_has_just_made_is_waited_for() -> None:
    """Of three brokers the one asked may not know it yet: it is not missing because of that."""
    answers = iter([{}, {}, known(leader=2), known(leader=2)])
    Asked(answers).wait_for_leaders("east", [plan for plan in PLANS if plan.topic is Topic.LEASE_HEALTH])
    assert not list(answers)


@pytest.mark.parametrize(
    ("cluster", "hint"),
    [
        (
            "eats",
            "Is the name right? There are: east; --set cluster.name=east names one. If it is a new one, make what is",
        ),
        ("east", "Make what is missing with"),
    ],
)
def test_a_name_that_no_cluster_has_may_be_a_typo(cluster: str, hint: str) -> None:
    """`cluster init` would make a cluster of it."""
    there = {topic_name("east", Topic.DECISIONS): TopicMetadata()}
    with pytest.raises(NotFound) as caught:
        Asked(repeat(there)).wait_for_leaders(cluster, PLANS)
    assert caught.value.hint.startswith(hint)


def test_what_nodes_write_is_measured_as_its_readers_will_have_it() -> None:
    """A batch that unpacks to more than librdkafka's receive.message.max.bytes stops each reader at its offset."""
    bounded = {each.topic for each in PLANS if topic_config(each, 3).get("compression.type") == "uncompressed"}
    assert bounded == {Topic.REQUESTS, Topic.HEARTBEATS, Topic.MAPS}
