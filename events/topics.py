"""The topics of one managed cluster: names, partitions, policies (docs/design/README.md).

Inputs have few partitions on purpose: they carry control traffic. `decisions` has exactly one: its order is the
arbiter of everything.
"""

from collections.abc import Iterable
from enum import Enum

import msgspec

from topolog.events.errors import BadInput

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")
_NAME_LENGTH_MAX = 200

RECORD_BYTES_MAX = 900_000
"""Largest record we write: librdkafka's own limit is 1,000,000, headers included."""


class Topic(Enum):
    """A topic's short name and the number under which a stamp states how far it was read."""

    DECISIONS = ("decisions", 0)
    REQUESTS = ("requests", 1)
    HEARTBEATS = ("heartbeats", 2)
    DEAD = ("dead", 3)
    SNAPSHOTS = ("snapshots", 4)
    LEASE_HEALTH = ("lease-health", 5)
    MAPS = ("maps", 6)
    TREES = ("trees", 7)
    OPERATIONS = ("operations", 8)

    def __init__(self, short_name: str, code: int) -> None:
        self.short_name = short_name
        self.code = code


class TopicPlan(msgspec.Struct, frozen=True):
    """How a topic must be: `retention_ms` -1 keeps for ever. `compacts`: of each key the newest record is kept.

    `is_needed`: no process of the cluster starts without it; the others are of roles that a cluster may do without.
    """

    topic: Topic
    partitions: int
    retention_ms: int
    is_needed: bool = True
    compacts: bool = False


PLANS = (
    TopicPlan(Topic.DECISIONS, 1, -1),
    TopicPlan(Topic.REQUESTS, 1, 7 * _DAY_MS),
    TopicPlan(Topic.OPERATIONS, 1, 7 * _DAY_MS),
    TopicPlan(Topic.HEARTBEATS, 4, _HOUR_MS),
    TopicPlan(Topic.DEAD, 1, 30 * _DAY_MS),
    TopicPlan(Topic.SNAPSHOTS, 1, 30 * _DAY_MS),
    TopicPlan(Topic.MAPS, 1, 7 * _DAY_MS),
    TopicPlan(Topic.LEASE_HEALTH, 4, -1, is_needed=False, compacts=True),
    TopicPlan(Topic.TREES, 4, 7 * _DAY_MS, is_needed=False),
)
NEEDED = tuple(plan for plan in PLANS if plan.is_needed)

REQUEST_TOPICS = (Topic.REQUESTS, Topic.OPERATIONS)
"""Where requests stand: what any process may ask, and what operators do (`operations.py`)."""

HEALTH_APP = "lease-health-"
"""What follows the cluster's prefix in the names that faust makes for lease health: a group and a changelog."""

RENDEZVOUS_APP = "rendezvous-"
"""The same for the rendezvous."""


class Access(msgspec.Struct, frozen=True):
    """What one role may do with a topic, or, where `topic` is None, with all that the cluster's prefix begins.

    `begins` narrows that to names that go on with it. `is_group`: with the consumer groups of that prefix. Only faust
    commits offsets; librdkafka just asks for the group's place.
    """

    role: str
    operations: tuple[str, ...]
    topic: Topic | None = None
    is_group: bool = False
    begins: str = ""


_RUNNING = ("node", "coordinator", "projector", "lease-health", "validator", "rendezvous", "archive")

ACLS = (
    *(Access(role, ("Describe",)) for role in _RUNNING),  # each role looks for all topics before it starts
    *(Access(role, ("Describe",), is_group=True) for role in _RUNNING),
    Access("node", ("Read",), Topic.DECISIONS),
    Access("node", ("Read",), Topic.SNAPSHOTS),
    Access("node", ("Write",), Topic.REQUESTS),
    Access("node", ("Write",), Topic.HEARTBEATS),
    Access("node", ("Write",), Topic.MAPS),
    Access("coordinator", ("Read", "Write"), Topic.DECISIONS),
    Access("coordinator", ("Read",), Topic.REQUESTS),
    Access("coordinator", ("Read",), Topic.OPERATIONS),
    Access("coordinator", ("Read", "Write"), Topic.HEARTBEATS),  # to write, for its death certificate
    Access("coordinator", ("Read",), Topic.MAPS),
    Access("coordinator", ("Write",), Topic.DEAD),
    Access("coordinator", ("Read", "Write"), Topic.SNAPSHOTS),
    Access("projector", ("Read",), Topic.DECISIONS),
    Access("projector", ("Read",), Topic.LEASE_HEALTH),
    Access("projector", ("Read",), Topic.DEAD),
    Access("projector", ("Read",), Topic.MAPS),
    Access("projector", ("Write",), Topic.OPERATIONS),  # nobody else: what stands there is believed
    Access("projector", ("Write",), Topic.REQUESTS),  # dead letters that are replayed
    Access("lease-health", ("Read",), Topic.DECISIONS),
    Access("lease-health", ("Read",), Topic.HEARTBEATS),
    Access("lease-health", ("Write",), Topic.LEASE_HEALTH),
    Access("lease-health", ("Create", "Read", "Write"), begins=HEALTH_APP),  # faust's changelog
    Access("lease-health", ("Read", "Delete"), is_group=True, begins=HEALTH_APP),
    Access("projector", ("Read",), Topic.TREES),
    Access("validator", ("Read",), Topic.DECISIONS),
    Access("validator", ("Read",), Topic.SNAPSHOTS),
    Access("validator", ("Write",), Topic.REQUESTS),
    Access("validator", ("Read", "Write"), Topic.TREES),
    Access("rendezvous", ("Read",), Topic.DECISIONS),
    Access("rendezvous", ("Read",), Topic.SNAPSHOTS),
    Access("rendezvous", ("Write",), Topic.REQUESTS),
    Access("rendezvous", ("Read", "Write"), Topic.TREES),
    Access("rendezvous", ("Create", "Read", "Write"), begins=RENDEZVOUS_APP),
    Access("rendezvous", ("Read", "Delete"), is_group=True, begins=RENDEZVOUS_APP),
    Access("archive", ("Read",), Topic.DECISIONS),
    Access("archive", ("Read",), Topic.REQUESTS),
    Access("archive", ("Read",), Topic.OPERATIONS),
    Access("archive", ("Read",), Topic.LEASE_HEALTH),
    Access("archive", ("Read",), Topic.DEAD),
    Access("operator", ("Create", "Describe")),  # whoever runs `topolog cluster init`
)
"""Least privilege by role; the projector's process is also the API. The command line talks to the API alone."""

OF_NODES = frozenset(each.topic for each in ACLS if each.role == "node" and "Write" in each.operations)
"""What nodes write, whom nobody has to believe anything."""

PARTITIONS = {plan.topic: plan.partitions for plan in PLANS}
BY_CODE = {topic.code: topic for topic in Topic}
BY_SHORT_NAME = {topic.short_name: topic for topic in Topic}

ROOT = "topolog."
"""What the names of all topics of ours begin with; the cluster's name follows, then the topic's short name."""


def topic_name(cluster: str, topic: Topic) -> str:
    """`topolog.<cluster>.<short name>`; raises BadInput for a bad name."""
    return f"{topic_prefix(cluster)}{topic.short_name}"


def topic_prefix(cluster: str) -> str:
    """What the names of a cluster's topics and consumer groups begin with, so that prefixed ACLs separate tenants.

    Raises BadInput for a bad name.
    """
    if not _is_name(cluster):
        raise BadInput(
            f"{cluster!r} cannot be a cluster's name.",
            hint=f"Use 1 to {_NAME_LENGTH_MAX} letters, digits, dots and hyphens (a topic name is made of it).",
        )
    return f"{ROOT}{cluster}."


def clusters(names: Iterable[str]) -> list[str]:
    """The clusters that have a log among topics of these names, sorted; a name that is no cluster's is left out."""
    end = f".{Topic.DECISIONS.short_name}"
    logs = (name for name in names if name.startswith(ROOT) and name.endswith(end))
    return sorted(cluster for name in logs if _is_name(cluster := name[len(ROOT) : -len(end)]))


def _is_name(cluster: str) -> bool:
    return bool(cluster) and len(cluster) <= _NAME_LENGTH_MAX and set(cluster) <= _NAME_CHARACTERS
