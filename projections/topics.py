"""What can be asked of the cluster's topics: what each is to be like, and how far this process has read those it reads.

No broker is asked, so a topic may really be otherwise. How far it is read has no past.
"""

from collections.abc import Mapping

from topolog.events.errors import NotFound
from topolog.events.topics import PLANS, Topic, TopicPlan, topic_name
from topolog.projections.moments import iso
from topolog.projections.progress import Progress
from topolog.projections.queries import not_found
from topolog.projections.store import Reading
from topolog.projections.topic_resources import ClusterTopic, TopicPartition

NO_PAST = "How far topics are read has no past: it is what the reader knows now."

ABOUT: Mapping[Topic, tuple[str, str]] = {
    Topic.DECISIONS: ("cluster", "the truth: every decision, refusals included"),
    Topic.REQUESTS: ("subject", "what any process asks, of itself and of what takes nothing from others"),
    Topic.OPERATIONS: ("subject", "what operators ask: the API writes it, and nobody else may"),
    Topic.MAPS: ("node", "what nodes hold of groups: answers to exchanges, and changes"),
    Topic.HEARTBEATS: ("node", "life, acknowledgements, releases"),
    Topic.LEASE_HEALTH: ("node", "how punctual heartbeats are: for people and alarms, never for a decision"),
    Topic.TREES: ("repair session", "pages of trees, digests and findings of sessions that compare replicas"),
    Topic.SNAPSHOTS: ("cluster", "chunks of the state at a position"),
    Topic.DEAD: ("original key", "input that nobody could read, its bytes untouched"),
}
"""Of each topic: what its records are keyed by, and what it is for."""


def topics(reading: Reading, age_ms: int) -> list[ClusterTopic]:
    """Every topic of the cluster, in the order of its life; `age_ms` is that of what is known of `decisions`."""
    return [_shown(reading, age_ms, plan) for plan in PLANS]


def topic(reading: Reading, age_ms: int, name: str) -> ClusterTopic:
    """One topic by its short name, or by the broker's."""
    for each in topics(reading, age_ms):
        if name in (each.name, each.topic):
            return each
    raise _no_topic(name)


def _no_topic(name: str) -> NotFound:
    return not_found(name, (plan.topic.short_name for plan in PLANS), "topic")


def _shown(reading: Reading, age_ms: int, plan: TopicPlan) -> ClusterTopic:
    key, says = ABOUT[plan.topic]
    read = _read(reading.present.progress, plan)
    return ClusterTopic(
        name=plan.topic.short_name,
        topic=topic_name(reading.meta.cluster, plan.topic),
        partitions=plan.partitions,
        key=key,
        policy="compact" if plan.compacts else "delete",
        retention_ms=plan.retention_ms,
        is_needed=plan.is_needed,
        says=says,
        is_read=bool(read),
        records=sum(each.records for each in read) if read else None,
        lag_s=_lag_s(reading.present.progress, plan.topic, age_ms) if read else None,
        read=read,
    )


def _read(progress: Progress, plan: TopicPlan) -> tuple[TopicPartition, ...]:
    found = []
    for number in range(plan.partitions):
        held = progress.partitions.get((plan.topic, number))
        if held is not None:
            last = None if held.appended_ms is None else iso(held.appended_ms)
            found.append(TopicPartition(number, held.next_offset, held.records, last))
    return tuple(found)


def _lag_s(progress: Progress, topic: Topic, age_ms: int) -> float | None:
    """A reader cannot tell a silent topic from a broker that is gone; but decisions are never silent for long, so no
    topic is known better than they are."""
    behind_s = progress.behind_s.get(topic)
    return None if behind_s is None else round(max(behind_s, age_ms / 1000), 3)
