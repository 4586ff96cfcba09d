"""What is not as it should be, the worst first: each a sentence, where to look, and the command that says more."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from topolog.projections import letters, partitions, situation
from topolog.projections.durations import ago
from topolog.projections.headline import is_bad
from topolog.projections.health import lease_health
from topolog.projections.packed import CONDITIONS, Condition
from topolog.projections.partitions import in_words
from topolog.projections.pending import pending
from topolog.projections.pending_resources import Pending
from topolog.projections.resources import Cluster, LeaseHealth
from topolog.projections.sentences import listed
from topolog.projections.store import Reading
from topolog.projections.web.asking import May

TONES = ("bad", "busy", "ok")
_LISTED = 6
_OF_A_KIND = 3
_COUNTED = frozenset({"LOST", "PAUSED", "LOADING", "HAND-OVER"})
"""Kinds of which a cluster may have thousands: partitions are counted instead."""


class Problem(msgspec.Struct, frozen=True):
    """`view` and `query` name the page that has it all; `command` asks the same in the terminal."""

    tone: str
    sentence: str
    view: str = ""
    query: Mapping[str, str] = {}
    command: str = ""


def problems(reading: Reading, age_ms: int, stopped: str | None, cluster: Cluster, may: May) -> list[Problem]:
    """All of them, the worst first: what is pending, in the order of the API, and what a reader of now can tell.

    Only of what may be shown beside the cluster itself.
    """
    found = [
        *_of_reader(age_ms, stopped, cluster),
        *_of_cluster(cluster),
        *(_of_partitions(reading) if may("partitions") else ()),
        *(_of_pending(pending(reading, age_ms)) if may("pending") else ()),
        *(_of_health(lease_health(reading, age_ms)) if reading.is_current and may("lease-health") else ()),
        *(_of_letters(reading) if may("dead-letters") else ()),
    ]
    return sorted(found, key=lambda problem: TONES.index(problem.tone))


def are_all(may: May) -> bool:
    """Whether nothing that could be wrong is kept from whoever asks."""
    return all(map(may, ("partitions", "pending", "lease-health", "dead-letters")))


def tone_of(found: Sequence[Problem]) -> str:
    return found[0].tone if found else "ok"


def in_a_line(reading: Reading, age_ms: int, stopped: str | None, may: May) -> tuple[str, str]:
    """Tone and sentence of a cluster as it is now."""
    cluster = situation.cluster(reading, age_ms)
    found = problems(reading, age_ms, stopped, cluster, may)
    others = (each.sentence for each in found[:1] if each.sentence not in cluster.sentence)
    return tone_of(found), " ".join((*others, cluster.sentence))


def _of_reader(age_ms: int, stopped: str | None, cluster: Cluster) -> Iterator[Problem]:
    if stopped:
        yield Problem("bad", f"This reader has stopped: {stopped}", "projections", command="get cluster")
    elif age_ms > cluster.fence_ms:
        yield Problem(
            "bad", f"What is shown is {ago(age_ms)} old: more than a lease lasts.", "projections", command="get cluster"
        )


def _of_cluster(cluster: Cluster) -> Iterator[Problem]:
    """What is so until somebody changes it, and hence waits for nothing."""
    if cluster.state == "INACTIVE":
        yield Problem(
            "bad", "The cluster is inactive: nothing is read or written.", "baselines", command="explain cluster"
        )
    elif cluster.state != "ACTIVE":
        yield Problem("busy", "The cluster is read-only: nothing is written.", "baselines", command="explain cluster")
    if cluster.baseline and cluster.baseline.away:
        away = _listed(cluster.baseline.away)
        yield Problem("busy", f"Of the baseline are away: {away}.", "baselines", command="get baselines")


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


def _of_pending(found: Sequence[Pending]) -> Iterator[Problem]:
    """The first of each kind in full, the others of it by their count."""
    for kind, alike in groupby(found, key=lambda each: each.kind):
        same = [each for each in alike if each.kind not in _COUNTED]
        for each in same[:_OF_A_KIND]:
            command = each.next[0].removeprefix("topolog ") if each.next else "get pending"
            yield Problem("bad" if is_bad(each) else "busy", each.sentence, f"pending/{each.name}", command=command)
        if len(same) > _OF_A_KIND:
            more = f"And {len(same) - _OF_A_KIND} more of {kind.lower()}."
            yield Problem("bad" if is_bad(same[0]) else "busy", more, "pending", {"kind": kind}, "get pending")


def _of_health(found: Sequence[LeaseHealth]) -> Iterator[Problem]:
    told = dict.fromkeys((each.state, each.sentence) for each in found if each.state not in ("OK", "RELEASED"))
    for state, sentence in told:
        tone = "bad" if state in ("FENCED", "SILENT") else "busy"
        if state != "UNKNOWN":
            yield Problem(tone, sentence, "lease-health", {"state": state}, "get lease-health")
    if any(state == "UNKNOWN" for state, _ in told):
        sentence = next(sentence for state, sentence in told if state == "UNKNOWN")
        yield Problem("ok", sentence, "lease-health", {}, "get lease-health")


def _of_letters(reading: Reading) -> Iterator[Problem]:
    if reading.is_current and next(letters.letters(reading), None) is not None:
        yield Problem(
            "ok", "There are dead letters: input that nobody could read.", "dead-letters", {}, "get dead-letters"
        )


def _listed(names: Sequence[str]) -> str:
    return listed(list(names), _LISTED)
