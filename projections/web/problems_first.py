"""What is not as it should be, the worst first: each a sentence, where to look, and the command that says more."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from topolog.projections import change_rows, exchanges, letters, partitions, queries, situation
from topolog.projections.durations import ago
from topolog.projections.health import lease_health
from topolog.projections.packed import CONDITIONS, Condition
from topolog.projections.partitions import in_words
from topolog.projections.resources import Cluster, LeaseHealth, Node
from topolog.projections.store import Reading

TONES = ("bad", "busy", "ok")
_LISTED = 6


class Problem(msgspec.Struct, frozen=True):
    """`view` and `query` name the page that has it all; `command` asks the same in the terminal."""

    tone: str
    sentence: str
    view: str = ""
    query: Mapping[str, str] = {}
    command: str = ""


def problems(reading: Reading, age_ms: int, stopped: str | None, cluster: Cluster) -> list[Problem]:
    """All of them, the worst first; of equal ones in the order in which they are looked for."""
    found = [
        *_of_reader(age_ms, stopped, cluster),
        *_of_cluster(cluster),
        *_of_partitions(reading),
        *_of_nodes(queries.nodes(reading, age_ms)),
        *_of_exchange(reading, age_ms),
        *(_of_health(lease_health(reading, age_ms)) if reading.is_current else ()),
        *_of_agreement(reading, cluster),
        *_of_letters(reading),
    ]
    return sorted(found, key=lambda problem: TONES.index(problem.tone))


def tone_of(found: Sequence[Problem]) -> str:
    return found[0].tone if found else "ok"


def in_a_line(reading: Reading, age_ms: int, stopped: str | None) -> tuple[str, str]:
    """Tone and sentence of a cluster as it is now."""
    cluster = situation.cluster(reading, age_ms)
    found = problems(reading, age_ms, stopped, cluster)
    return tone_of(found), " ".join(dict.fromkeys([*(each.sentence for each in found[:1]), cluster.sentence]))


def _of_reader(age_ms: int, stopped: str | None, cluster: Cluster) -> Iterator[Problem]:
    if stopped:
        yield Problem("bad", f"This reader has stopped: {stopped}", "projections", command="get cluster")
    elif age_ms > cluster.fence_ms:
        yield Problem(
            "bad", f"What is shown is {ago(age_ms)} old: more than a lease lasts.", "projections", command="get cluster"
        )


def _of_cluster(cluster: Cluster) -> Iterator[Problem]:
    say_why = "explain cluster"
    if not cluster.coordinator:
        yield Problem("bad", "No coordinator leads: nothing is decided.", "decisions", command=say_why)
    if cluster.cold:
        yield Problem(
            "bad",
            f"The cluster is cold: it waits for {cluster.cold.quorum} members of the baseline.",
            "baselines",
            command=say_why,
        )
    if cluster.state == "INACTIVE":
        yield Problem("bad", "The cluster is inactive: nothing is read or written.", "baselines", command=say_why)
    elif cluster.state != "ACTIVE":
        yield Problem("busy", "The cluster is read-only: nothing is written.", "baselines", command=say_why)
    if cluster.target:
        waits = f", which waits for {_listed([each.node for each in cluster.awaited])}" if cluster.awaited else ""
        state = cluster.target.replace("_", " ").lower()
        yield Problem("busy", f"The cluster becomes {state}{waits}.", "baselines", command=say_why)
    if cluster.baseline and cluster.baseline.away:
        away = _listed(cluster.baseline.away)
        yield Problem("busy", f"Of the baseline are away: {away}.", "baselines", command="get baselines")
    if cluster.draining:
        yield Problem("busy", f"Handing over all copies: {_listed(cluster.draining)}.", "nodes", command="get nodes")
    if cluster.waiting_joins:
        yield Problem("busy", f"Waiting to join: {cluster.waiting_joins}.", "decisions", {"event": "JoinWaiting"})


def _of_partitions(reading: Reading) -> Iterator[Problem]:
    counts = partitions.condition_totals(reading)
    for condition, verb in ((Condition.LOST, "lost"), (Condition.PAUSED, "paused, neither read nor written")):
        if count := counts.get(condition, 0):
            yield Problem(
                "bad",
                f"{count} partition{' is' if count == 1 else 's are'} {verb}.",
                "partitions",
                {"state": condition.name},
                f"get partitions --state {condition.name}",
            )
    told = {Condition.LOST, Condition.PAUSED, Condition.OWNING}
    others: dict[Condition, int] = {each: count for each, count in counts.items() if each not in told}
    if others:
        worst = max(others, key=CONDITIONS.index)
        yield Problem(
            "busy",
            f"Partitions: {in_words(others)}.",
            "partitions",
            {"state": worst.name},
            f"get partitions --state {worst.name}",
        )


def _of_nodes(nodes: Sequence[Node]) -> Iterator[Problem]:
    overdue = [node.node for node in nodes if node.lease and node.lease.state == "OVERDUE"]
    if overdue:
        yield Problem(
            "bad", f"No lease was renewed in time: {_listed(overdue)}.", "leases", command="get leases --state OVERDUE"
        )
    without = [node.node for node in nodes if node.lease and node.lease.state == "NONE"]
    if without:
        yield Problem("bad", f"No valid lease yet: {_listed(without)}.", "leases", command="get leases --state NONE")
    stopping = [node.node for node in nodes if node.standing == "STOPPING"]
    if stopping:
        yield Problem("busy", f"On the way out: {_listed(stopping)}.", "nodes", {"standing": "STOPPING"}, "get nodes")


def _of_exchange(reading: Reading, age_ms: int) -> Iterator[Problem]:
    row = exchanges.open_row(reading)
    if row is None:
        return
    since = ago(exchanges.open_for_ms(reading, age_ms, row))
    silent = [each.node for each in exchanges.silent(row)]
    waits = f", waits for {_listed(silent)}" if silent else ""
    tone = "bad" if row.overdue else "busy"
    yield Problem(
        tone,
        f"Exchange {row.version} has been running for {since}{waits}.",
        f"exchanges/{row.version}",
        command="explain exchange newest",
    )


def _of_health(found: Sequence[LeaseHealth]) -> Iterator[Problem]:
    told = dict.fromkeys((each.state, each.sentence) for each in found if each.state not in ("OK", "RELEASED"))
    for state, sentence in told:
        tone = "bad" if state in ("FENCED", "SILENT") else "busy"
        if state != "UNKNOWN":
            yield Problem(tone, sentence, "lease-health", {"state": state}, "get lease-health")
    if any(state == "UNKNOWN" for state, _ in told):
        sentence = next(sentence for state, sentence in told if state == "UNKNOWN")
        yield Problem("ok", sentence, "lease-health", {}, "get lease-health")


def _of_agreement(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    if cluster.pending_types:
        count = cluster.pending_types
        yield Problem(
            "busy",
            f"{count} type{' is' if count == 1 else 's are'} not accepted yet.",
            "proposals",
            {"outcome": "PENDING"},
            "get types",
        )
    opened = change_rows.opened(reading)
    if opened:
        yield Problem(
            "busy",
            f"{len(opened)} change{' of definitions is' if len(opened) == 1 else 's of definitions are'} under way.",
            "changes",
            {"state": "PREPARED"},
            "get changes --state PREPARED",
        )
    if cluster.open_sessions:
        yield Problem(
            "busy",
            f"{cluster.open_sessions} session{' compares' if cluster.open_sessions == 1 else 's compare'} replicas.",
            "sessions",
            {"state": "RUNNING"},
            "get sessions --state RUNNING",
        )


def _of_letters(reading: Reading) -> Iterator[Problem]:
    if reading.is_current and next(letters.letters(reading), None) is not None:
        yield Problem(
            "ok", "There are dead letters: input that nobody could read.", "dead-letters", {}, "get dead-letters"
        )


def _listed(names: Sequence[str]) -> str:
    return situation.listed(list(names), _LISTED)
