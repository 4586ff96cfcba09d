"""Topics and groups on Apache Kafka: what is asked of a broker besides reading and writing.

Threat. A topic that was made a moment ago is known to the broker that made it, not yet to the next one asked; a topic
whose partitions have no leader can be named and not be read. So whoever needs topics waits for one answer that has all
of them with their leaders.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin._acl import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec
from confluent_kafka.admin._metadata import TopicMetadata
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from topolog.events.errors import BadInput, NotAllowed, NotFound, Unreachable
from topolog.events.kafka import REACH_TIMEOUT_S, KafkaSettings, client
from topolog.events.kafka_admin_client import AdminClient
from topolog.events.kafka_ends import Place
from topolog.events.kafka_errors import denied, is_not_let_in, not_let_in
from topolog.events.topics import OF_NODES, Topic, TopicPlan, clusters, topic_name

KNOWN_TIMEOUT_S = 30.0
"""How long a topic that was just made may be unknown to a broker, or without leaders."""

_SPREAD_S = 2.0
"""How long a topic may be unknown to the broker asked before it is said to be missing."""

_UNREACHABLE = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)

COMPACTED = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
"""The newest record of each key is kept; a segment is closed every ten minutes, for an open one is never compacted."""


class FoundTopic(msgspec.Struct, frozen=True):
    """A topic as Kafka has it: `id` is another one once it was deleted and made anew. Without partitions it is one that
    this account may not see."""

    id: str
    partitions: int


class KafkaAdmin:
    """What `cluster init`, `up` and the tests need of a broker besides reading and writing."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._address = settings.get("bootstrap.servers", "")
        self._settings = dict(settings)
        self._not_let_in: KafkaError | None = None
        self._admin = self._connected()

    def _connected(self) -> AdminClient:
        self._has_answered = False
        return client(AdminClient, {**self._settings, "error_cb": self._on_error})

    def topics(self) -> frozenset[str]:
        """Names of all topics; raises Unreachable within 10 s, naming the address."""
        return frozenset(self._metadata())

    def _on_error(self, error: KafkaError) -> None:
        if is_not_let_in(error):
            self._not_let_in = error

    def wait_until_usable(self, timeout_s: float = KNOWN_TIMEOUT_S) -> None:
        """Wait until every partition the broker knows has a leader: after a crash it answers before it can serve."""
        self._wait(lambda known: all(_has_leaders(each) for each in known.values()), timeout_s, "The broker's topics")

    def create_topics(self, cluster: str, plans: Iterable[TopicPlan], *, replicas: int = 1) -> tuple[str, ...]:
        """Make those of the planned topics that are missing; returns their names."""
        existing = self.topics()
        missing = [
            NewTopic(
                topic_name(cluster, plan.topic),
                num_partitions=plan.partitions,
                replication_factor=replicas,
                config=topic_config(plan, replicas),
            )
            for plan in plans
            if topic_name(cluster, plan.topic) not in existing
        ]
        for name, future in self._admin.create_topics(missing).items() if missing else ():
            try:
                future.result()
            except KafkaException as error:
                self._check_made(name, error.args[0], replicas)
        self._await_leaders(
            cluster, {topic_name(cluster, plan.topic): plan.partitions for plan in plans}, KNOWN_TIMEOUT_S
        )
        return tuple(topic.topic for topic in missing)

    def _check_made(self, name: str, error: KafkaError, replicas: int) -> None:
        """Raise for a topic that could not be made, unless somebody else was quicker."""
        if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
            brokers = len(self._admin.list_topics(timeout=REACH_TIMEOUT_S).brokers)
            raise BadInput(
                f"{replicas} copies of a topic need {replicas} brokers, there are {brokers}.",
                hint="`topolog broker start --nodes 3` starts three on this machine.",
            )
        if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
            raise denied(self._settings, name)
        if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise Unreachable(f"Topic {name} cannot be made: {error.str()}.")

    def replicas(self, cluster: str, topic: Topic) -> int:
        """How many copies the topic has, for those that go with it; waits until the broker asked knows it."""
        name = topic_name(cluster, topic)
        known = self._wait(
            lambda known: name in known and _has_leaders(known[name]), KNOWN_TIMEOUT_S, f"The partitions of {name}"
        )
        return max(len(each.replicas) for each in known[name].partitions.values())

    def describe(self, names: Collection[str]) -> dict[str, FoundTopic]:
        """Those of these topics that are there, as far as this account may know; raises Unreachable."""
        asked = self._admin.describe_topics(TopicCollection([*names]), request_timeout=REACH_TIMEOUT_S)
        found = {}
        for name, future in asked.items():
            try:
                topic = future.result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise self._unreachable() from error
                found[name] = FoundTopic("", 0)
                continue
            found[name] = FoundTopic(str(topic.topic_id), len(topic.partitions))
        return found

    def bounds(self, places: Collection[Place]) -> dict[Place, tuple[int, int]]:
        """Of each partition that can be asked the offset of the oldest record kept, and the one after the newest that
        is committed. One without a leader is left out; raises Unreachable if there is no other.
        """
        oldest = self._offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # the library's gap
        end = self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]  # the same
        return {place: (oldest[place], end[place]) for place in oldest.keys() & end.keys()}

    def offsets_at(self, places: Collection[Place], time_ms: int) -> dict[Place, int]:
        """The offset of the first record appended at this time (UTC) or later; -1 where there is none.

        Raises Unreachable, for a partition without a leader too.
        """
        found = self._offsets(places, OffsetSpec.for_timestamp(time_ms))
        if found.keys() != {*places}:
            raise self._unreachable()
        return found

    def _offsets(self, places: Collection[Place], spec: OffsetSpec) -> dict[Place, int]:
        return {place: each.offset for place, each in self._listed(places, spec, IsolationLevel.READ_COMMITTED).items()}

    def _listed(
        self, places: Collection[Place], spec: OffsetSpec, level: IsolationLevel
    ) -> dict[Place, ListOffsetsResultInfo]:
        """What the leaders say of those that have one; raises Unreachable if none has.

        What one cannot say that has answered before is asked once more by a client that remembers nothing:
        `kafka_ends.py` and `kafka_outage.py` say why.
        """
        found, failed = self._listed_once(places, spec, level)
        if failed and self._has_answered:
            self._admin = self._connected()
            found, failed = self._listed_once(places, spec, level)
        self._has_answered = bool(found)
        if failed and not found:
            raise self._unreachable() from failed
        return found

    def _listed_once(
        self, places: Collection[Place], spec: OffsetSpec, level: IsolationLevel
    ) -> tuple[dict[Place, ListOffsetsResultInfo], KafkaException | None]:
        asked = self._admin.list_offsets(
            {TopicPartition(*place): spec for place in places}, isolation_level=level, request_timeout=REACH_TIMEOUT_S
        )
        found, failed = dict[Place, ListOffsetsResultInfo](), None
        for each, future in asked.items():
            try:
                found[each.topic, each.partition] = future.result()
            except KafkaException as error:
                failed = error
        return found, failed

    def configs(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """The settings in force of those of these topics that this account may see; raises Unreachable."""
        asked = self._admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, name) for name in names], request_timeout=REACH_TIMEOUT_S
        )
        found = {}
        for resource, future in asked.items():
            try:
                found[resource.name] = {key: str(entry.value) for key, entry in future.result().items()}
            except KafkaException as error:
                if error.args[0].code() in _UNREACHABLE:
                    raise self._unreachable() from error
        return found

    def newest_ms(self, places: Collection[Place]) -> int:
        """The newest time of append of all records of these partitions, -1 if there are none; raises Unreachable."""
        newest = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]  # the library's gap
        found = self._listed(places, newest, IsolationLevel.READ_UNCOMMITTED)
        if found.keys() != {*places}:
            raise self._unreachable()
        return max((int(each.timestamp) for each in found.values()), default=-1)

    def rights(self) -> frozenset[str] | None:
        """The names, and prefixes ended by `*`, of topics that access is granted to by ACLs; None if nobody is asked
        who he is, for there is no authorizer. Raises NotFound if this account may not see that, and Unreachable."""
        anything = (ResourceType.TOPIC, None, ResourcePatternType.ANY, None, None)
        every = AclBindingFilter(*anything, AclOperation.ANY, AclPermissionType.ALLOW)  # type: ignore[arg-type]  # None is «any»
        try:
            held = self._admin.describe_acls(every, request_timeout=REACH_TIMEOUT_S).result()
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.SECURITY_DISABLED:
                return None
            if code in _UNREACHABLE:
                raise self._unreachable() from error
            raise NotFound(f"This account may not see ACLs: {error.args[0].str()}.") from error
        is_prefix = ResourcePatternType.PREFIXED
        return frozenset(f"{each.name}{'*' if each.resource_pattern_type == is_prefix else ''}" for each in held)

    def forget_group(self, group: str) -> bool:
        """Drop a consumer group's places, so that it begins at the oldest records; False if it is still in use."""
        try:
            self._admin.delete_consumer_groups([group], request_timeout=REACH_TIMEOUT_S)[group].result()
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND)
        return True

    def wait_for_leaders(self, cluster: str, plans: Iterable[TopicPlan], timeout_s: float = KNOWN_TIMEOUT_S) -> None:
        """Wait until every partition of these topics has a leader: metadata alone does not mean that it can be read.

        Raises NotFound after two seconds if a topic is missing.
        """
        planned = {topic_name(cluster, plan.topic): plan.partitions for plan in plans}
        deadline = time.monotonic() + _SPREAD_S
        while missing := sorted(planned.keys() - (known := self.topics())):
            if time.monotonic() > deadline:
                self._check_seen(missing)
                raise self.not_found(cluster, missing[0], known)
            time.sleep(0.05)
        self._await_leaders(cluster, planned, timeout_s)

    def not_found(self, cluster: str, name: str, known: Iterable[str] | None = None) -> NotFound:
        """That the cluster lacks the topic of this name, and how to go on; `known` are the names of all topics."""
        return NotFound(
            f"Cluster {cluster!r} has no topic {name} on {self._address}, or this account may not see it.",
            hint=_how_to_go_on(cluster, self.topics() if known is None else known),
        )

    def _check_seen(self, names: Collection[str]) -> None:
        """Raise NotAllowed if one of these topics is hidden from this account; a list leaves such topics out."""
        if self._settings.get("security.protocol", "plaintext").lower() == "plaintext":
            return  # it has not said who it is
        for name, found in self.describe(names).items():
            if not found.partitions:
                raise denied(self._settings, name)

    def _await_leaders(self, cluster: str, planned: Mapping[str, int], timeout_s: float) -> None:
        """All in one answer: of several brokers the next one asked may not know yet what the last one did."""
        known = self._wait(
            lambda known: all(name in known and _has_leaders(known[name]) for name in planned),
            timeout_s,
            f"The topics of cluster {cluster!r}",
        )
        for name, partitions in planned.items():
            found = len(known[name].partitions)
            if found != partitions:  # it would be read in part, or never to its end
                raise BadInput(
                    f"Topic {name} has {found} partitions, topolog needs {partitions}.",
                    hint="Delete it and make it again with `topolog cluster init`.",
                )

    def _wait(
        self, is_met: Callable[[Mapping[str, TopicMetadata]], bool], timeout_s: float, what: str
    ) -> Mapping[str, TopicMetadata]:
        """The first answer of which it is met."""
        deadline = time.monotonic() + timeout_s
        while not is_met(known := self._metadata()):
            if time.monotonic() > deadline:
                raise Unreachable(f"{what} on {self._address} have no leaders after {timeout_s:g} s.")
            time.sleep(0.05)
        return known

    def _metadata(self) -> Mapping[str, TopicMetadata]:
        try:
            return self._admin.list_topics(timeout=REACH_TIMEOUT_S).topics
        except KafkaException as error:
            raise self._unreachable() from error

    def _unreachable(self) -> Unreachable | NotAllowed:
        """Why nothing can be asked: nobody answers, or who answers does not let us in."""
        self._admin.poll(0)
        self._admin = self._connected()  # it may never find a broker again (`kafka_outage.py` says why)
        if self._not_let_in is not None:
            return not_let_in(self._settings, self._not_let_in)
        return Unreachable(
            f"No Kafka broker answers at {self._address}.",
            hint="Start one with `topolog broker start`, or set kafka.bootstrap.servers.",
        )


def _how_to_go_on(cluster: str, topics: Iterable[str]) -> str:
    """For a cluster without topics. A name that was mistyped is not to become one."""
    there = clusters(topics)
    make = "make what is missing with `topolog cluster init`"
    if not there or cluster in there:
        return f"{make.capitalize()}."
    others = f"There are: {', '.join(there)}; --set cluster.name={there[0]} names one."
    return f"Is the name right? {others} If it is a new one, {make}."


def _has_leaders(topic: TopicMetadata) -> bool:
    return bool(topic.partitions) and all(each.leader >= 0 for each in topic.partitions.values())


def topic_config(plan: TopicPlan, replicas: int) -> dict[str, str]:
    """The topic's settings: LogAppendTime, no unclean election, two in-sync replicas where there are three.

    What nodes write is kept uncompressed, so that the broker measures a batch as its readers will have it: one of 3 kB
    that unpacks to 90 MB is never read by librdkafka, nor is anything behind it.
    """
    return {
        "retention.ms": str(plan.retention_ms),
        "retention.bytes": "-1",
        **(COMPACTED if plan.compacts else {"cleanup.policy": "delete"}),
        **({"compression.type": "uncompressed"} if plan.topic in OF_NODES else {}),
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "2" if replicas > 2 else "1",
        "unclean.leader.election.enable": "false",
    }
