"""What `topolog doctor` looks at: the API and the cluster behind it, the broker and its topics, whom we ask.

Every check ends in a finding, also if what it needs is down: a doctor who falls ill with the patient helps nobody. Each
finding that is no OK says what to do about it.
"""

import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Protocol

from topolog.events.errors import NotFound, TopologError
from topolog.events.topics import PLANS, Topic, TopicPlan, clusters, topic_name, topic_prefix
from topolog.projections.cli.client import Api
from topolog.projections.cli.clusters_meant import Meant
from topolog.projections.cli.contexts import Standing, without_credentials
from topolog.projections.cli.moments import age
from topolog.projections.cli.output_schema import Finding
from topolog.projections.cli.problems import Json

OK, WARNING, PROBLEM, UNKNOWN = "OK", "WARNING", "PROBLEM", "UNKNOWN"
SKEW_MS_MAX = 1_000
"""Clocks further apart mislead whoever reads times; no lease rests on them."""

_APPENDED_WITHIN_S = 3.0

_STOPPED = "docs/runbooks/reader-stopped.md has what helps for each reason; nothing else is known until it reads on."

Place = tuple[str, int]


class Broker(Protocol):
    """What is asked of the broker (`events/kafka_admin.py`)."""

    def topics(self) -> frozenset[str]: ...

    def configs(self, names: Collection[str]) -> dict[str, dict[str, str]]: ...

    def replicas(self, cluster: str, topic: Topic) -> int: ...

    def newest_ms(self, places: Collection[Place]) -> int: ...

    def rights(self) -> frozenset[str] | None: ...


def of_standing(standing: Standing) -> Iterator[Finding]:
    """Of whom the command line asks, and whether others can read its token."""
    context = f", context {standing.context.name}" if standing.context else ""
    about = f"{without_credentials(standing.api.value)} ({standing.api.origin}{context})"
    yield Finding("command line", OK, f"asks {about}", "")
    path = standing.token_path
    if path is None:
        return
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        yield Finding("token", PROBLEM, f"{path}: {error.strerror or error}", f"Put the token into {path}.")
        return
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield Finding("token", WARNING, f"others may read {path} ({mode:o})", f"chmod 600 {path}")
    else:
        yield Finding("token", OK, f"{path} is read by its owner alone", "")


def of_api(api: Api, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Iterator[Finding]:
    """Whether the API answers, knows the present, and somebody decides."""
    try:
        _, ready = api.document("/readyz")
        cluster = api.get(("cluster",)).item
        newest = api.get(("decisions",), {"limit": 1, "renewals": "true"})
    except TopologError as error:
        yield Finding("API", PROBLEM, error.message, error.hint or "Its log says why.")
        return
    yield Finding("API", OK, f"answers at {without_credentials(api.url)} about cluster {api.cluster}", "")
    ours = [each for each in ready.get("clusters") or () if each.get("cluster") == api.cluster]
    projection = ours[0] if ours else ready
    yield from _of_projection(projection)
    if projection.get("stopped"):
        yield Finding("coordinator", UNKNOWN, "what it writes is not read here", _STOPPED)
    else:
        yield from _of_coordinator(cluster, newest.items[0] if newest.items else {}, now())
    yield from _of_news(cluster)


def _of_news(cluster: Json) -> Iterator[Finding]:
    """What the headline of the cluster says: what is lost, who is refused, who is silent."""
    news = [str(each) for each in cluster.get("news") or ()]
    fix = "`topolog status` says what hangs on it, `topolog get pending` what helps."
    yield from (Finding("cluster", PROBLEM, each, fix) for each in news)
    if not news:
        yield Finding("cluster", OK, "nothing is lost, paused, refused, silent or overdue", "")


def _of_projection(ready: Json) -> Iterator[Finding]:
    lag = f"position {ready.get('position')}, {age(int(ready.get('age_ms') or 0))} old"
    reasons = [str(each) for each in ready.get("reasons") or ()]
    if ready.get("stopped"):
        yield Finding("projection", PROBLEM, f"stopped at {lag}: {ready['stopped']}", _STOPPED)
    elif reasons:
        hint = "Is the broker reachable for the projector? It catches up by itself if it is."
        yield Finding("projection", PROBLEM, f"{lag}: {' '.join(reasons)}", hint)
    else:
        yield Finding("projection", OK, lag, "")


def _of_coordinator(cluster: Json, newest: Json, now: datetime) -> Iterator[Finding]:
    """A leader writes every quarter of a fence at the least, so silence says that there is none."""
    leader, fence_ms = str(cluster.get("coordinator") or ""), int(cluster.get("fence_ms") or 0)
    start = "Start one: `topolog run coordinator`; two of them take over from each other."
    try:
        silent_ms = round((now - datetime.fromisoformat(str(newest["time"]))).total_seconds() * 1000)
    except (KeyError, ValueError):
        yield Finding("coordinator", PROBLEM, "nothing has been decided yet", start)
        return
    if not leader or silent_ms > fence_ms:
        said = f"{leader or 'nobody'} leads, and has written nothing for {age(silent_ms)}"
        yield Finding("coordinator", PROBLEM, said, start)
    else:
        yield Finding("coordinator", OK, f"{leader} leads, and wrote {age(silent_ms)} ago", "")
    if cluster.get("ignored_records"):
        counts = ", ".join(f"{count} {why}" for why, count in dict(cluster["ignored_records"]).items())
        yield Finding("log", OK, f"records that do not count: {counts}", "")


def of_broker(broker: Broker, meant: Meant, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the broker answers, has the topics as they are planned, guards them, and shares our clock."""
    address = settings.get("bootstrap.servers", "")
    try:
        there = broker.topics()
        yield Finding("broker", OK, f"answers at {address}", "")
        yield from _of_transport(settings)
        chosen, why = meant.among(there)
        if not meant.named and clusters(there):
            yield Finding("cluster", OK, f"{', '.join(chosen)}: {why}", "")
        for cluster in chosen:
            yield from _of_cluster(broker, cluster, there, is_local=_is_loopback(address))
    except TopologError as error:
        yield Finding(
            "broker", PROBLEM, error.message, error.hint or "Is it running? kafka.bootstrap.servers names it."
        )


def _of_cluster(broker: Broker, cluster: str, there: Collection[str], *, is_local: bool) -> Iterator[Finding]:
    missing = [plan for plan in PLANS if topic_name(cluster, plan.topic) not in there]
    yield from _of_missing(cluster, missing, there)
    present = [plan for plan in PLANS if plan not in missing]
    yield from _of_topics(broker, cluster, present, is_local=is_local)
    yield from _of_rights(broker, cluster, is_local=is_local)
    yield from _of_clock(broker, cluster, present)


def _of_transport(settings: Mapping[str, str]) -> Iterator[Finding]:
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol in ("PLAINTEXT", "SASL_PLAINTEXT") and not _is_loopback(settings.get("bootstrap.servers", "")):
        fix = "Set kafka.security.protocol to SSL or SASL_SSL."
        yield Finding("encryption", WARNING, f"what is sent to the broker can be read on the way ({protocol})", fix)


def _of_missing(cluster: str, missing: Collection[TopicPlan], there: Collection[str]) -> Iterator[Finding]:
    others = [each for each in clusters(there) if each != cluster]
    if len(missing) == len(PLANS) and others:
        about = f"there is no cluster {cluster}, or this account may not see it; there are: {', '.join(others)}"
        yield Finding("topic", PROBLEM, about, f"--cluster {others[0]} names one that is there.")
        return
    make = f"`topolog cluster init --set cluster.name={cluster}` makes what is missing."
    for plan in missing:
        state = PROBLEM if plan.is_needed else WARNING
        about = f"there is no {topic_name(cluster, plan.topic)}, or this account may not see it"
        yield Finding("topic", state, about, make)


def _of_topics(broker: Broker, cluster: str, plans: Collection[TopicPlan], *, is_local: bool) -> Iterator[Finding]:
    """Their settings against those that `topolog cluster init` gives them, and how many copies there are."""
    from topolog.events.kafka_admin import topic_config

    names = {topic_name(cluster, plan.topic): plan for plan in plans}
    held = broker.configs(names) if names else {}
    single, wrong = list[str](), 0
    for name, plan in names.items():
        copies = broker.replicas(cluster, plan.topic)
        single += [name] if copies == 1 else []
        if name not in held:
            yield Finding("topic", UNKNOWN, f"the settings of {name} may not be seen", "Grant DescribeConfigs.")
            continue
        for key, wanted in topic_config(plan, copies).items():
            is_at_least = key == "min.insync.replicas"
            found = held[name].get(key)
            if found != wanted and not (is_at_least and found is not None and int(found) > int(wanted)):
                wrong += 1
                yield Finding(
                    "topic",
                    PROBLEM,
                    f"{name}: {key} is {found}, not {wanted}",
                    f"kafka-configs --alter --entity-type topics --entity-name {name} --add-config {key}={wanted}",
                )
    if names and not wrong:
        yield Finding("topics", OK, f"{len(names)} are as they are planned", "")
    if single:
        about = f"one copy of {len(single)} topics: not durable against loss of the disk"
        fix = "" if is_local else "Give them three copies: kafka-reassign-partitions."
        yield Finding("copies", OK if is_local else WARNING, about, fix)


def _of_rights(broker: Broker, cluster: str, *, is_local: bool) -> Iterator[Finding]:
    table = "`topolog cluster init --plan` prints the access that each role needs."
    try:
        granted = broker.rights()
    except NotFound as error:
        yield Finding("access", UNKNOWN, error.message, table)
        return
    if granted is None:
        state, about = (OK, "on loopback") if is_local else (WARNING, "whoever reaches it may write decisions")
        fix = "" if is_local else f"Give the broker an authorizer. {table}"
        yield Finding("access", state, f"the broker asks nobody who he is: {about}", fix)
        return
    prefix = topic_prefix(cluster)
    ours = sorted(
        each
        for each in granted
        if each.startswith(prefix) or (each[-1:] == "*" and prefix[: len(each) - 1] == each[:-1])
    )
    wide = [each for each in ours if len(each.rstrip("*")) < len(prefix)]
    if wide:
        about = f"ACLs reach beyond this cluster: {', '.join(wide)}"
        yield Finding("access", WARNING, about, f"Narrow them to {prefix}*. {table}")
    elif ours:
        yield Finding("access", OK, f"{len(ours)} patterns of ACLs are about this cluster", "")
    else:
        about = "no ACL that this account may see is about this cluster"
        yield Finding("access", OK if is_local else WARNING, about, "" if is_local else table)


def _of_clock(broker: Broker, cluster: str, plans: Collection[TopicPlan]) -> Iterator[Finding]:
    """The broker's time of a record that was appended just now, against ours before and after."""
    beating = [plan for plan in plans if plan.topic in (Topic.HEARTBEATS, Topic.DECISIONS)]
    places = [(topic_name(cluster, plan.topic), number) for plan in beating for number in range(plan.partitions)]
    if not places:
        return
    first, until_s = broker.newest_ms(places), time.monotonic() + _APPENDED_WITHIN_S
    while time.monotonic() < until_s:
        before_ms = time.time() * 1000
        newest = broker.newest_ms(places)
        if newest > first:
            yield _skew(newest - before_ms)
            return
        time.sleep(0.1)
    fix = "Start a coordinator or a node, then look again."
    yield Finding("clock", UNKNOWN, f"nothing was appended within {_APPENDED_WITHIN_S:g} s to compare by", fix)


def _skew(apart_ms: float) -> Finding:
    about = f"the broker's clock is {age(round(abs(apart_ms)))} {'ahead' if apart_ms > 0 else 'behind'}"
    if abs(apart_ms) <= SKEW_MS_MAX:
        return Finding("clock", OK, f"the broker's clock and ours are within {age(SKEW_MS_MAX)}", "")
    return Finding("clock", WARNING, about, "Let NTP or chrony set both clocks; leases do not rest on them, times do.")


def _is_loopback(address: str) -> bool:
    hosts = [each.rpartition(":")[0].strip("[]") for each in address.split(",")]
    return all(host in ("localhost", "::1") or host.startswith("127.") for host in hosts)
