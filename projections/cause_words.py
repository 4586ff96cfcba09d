"""What made a decision due: the causes of stamps are read here and nowhere else, into their kind, whom they name, and
plain words. No store is needed for that.

Coordinators write them (`streams/coordinator/causes.py`); each form that they have is a line of `_FORMS`.
"""

import re
import shlex
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

import msgspec

from topolog.events.topics import ASKED


class Kind(Enum):
    """What a decision answers. REQUEST, HEARTBEAT, MAP: a record of an input. DEADLINE: nothing came for so long.
    COORDINATOR: its own beat, claim or snapshot. OPERATOR: a voiding, which no request asks for. DECISION: one in the
    log. UNKNOWN: its stamp names nothing."""

    REQUEST = "REQUEST"
    HEARTBEAT = "HEARTBEAT"
    MAP = "MAP"
    DEADLINE = "DEADLINE"
    COORDINATOR = "COORDINATOR"
    OPERATOR = "OPERATOR"
    DECISION = "DECISION"
    UNKNOWN = "UNKNOWN"


class StampCause(msgspec.Struct, frozen=True):
    """The cause of a stamp, read: `words` go on «because …». `request` is the id of the request that is answered,
    `node` who has reported, or whose lease was over; empty where there is none."""

    kind: Kind
    words: str
    request: str = ""
    node: str = ""


_ASKED = "|".join(topic.short_name for topic in ASKED)
_REPORTED = "came that it had waited for ({0}, partition {1}, offset {2})"
_FORMS: Mapping[Kind, tuple[tuple[str, str], ...]] = {
    Kind.REQUEST: ((rf"(?:{_ASKED})@\d+ (?P<request>.+)", "request {0} asked for it"),),
    Kind.HEARTBEAT: ((r"(heartbeats)/(\d+)@(\d+) (?P<node>.+)", f"a heartbeat of {{3}} {_REPORTED}"),),
    Kind.MAP: ((r"(maps)/(\d+)@(\d+) (?P<node>.+)", f"a single map of {{3}} {_REPORTED}"),),
    Kind.DEADLINE: (
        (
            r"deadline lease/(?P<node>.+)/\d+/(\d+)/\d*",
            "the lease of {0} was over: none of its heartbeats was confirmed after position {1}",
        ),
        (
            r"deadline exchange/(\d+)/gather/\d*",
            "the exchange that began at position {0} had waited for those it needs for as long as it may",
        ),
        (
            r"deadline exchange/(\d+)/(.+)/\d+/warn/\d*",
            "{1} had not answered, asked at position {0}, and operators see that",
        ),
        (
            r"deadline exchange/(\d+)/(.+)/\d+/evict/\d*",
            "{1} had not answered, asked at position {0}, for the longest wait",
        ),
        (r"deadline adjust/soft/(\d+)", "nobody had joined or left for the soft timeout since position {0}"),
        (
            r"deadline adjust/hard/(\d+)",
            "the hard timeout since position {0} was over, though servers came and went on",
        ),
        (r"deadline change/(\d+)/deadline", "the deadline that was given with change {0} had passed"),
        (r"deadline session/(\d+)/deadline", "the deadline that was given with session {0} had passed"),
        (r"deadline session/(\d+)/rest/.*", "the pause of session {0}, which does not work all the time, was over"),
        (
            r"deadline task/(\d+)/(\d+)/(\d+)/compare/\d+",
            "nobody had compared what was sent for session {0} since position {2}",
        ),
        (
            r"deadline task/(\d+)/(\d+)/(\d+)/\d+/(.+)",
            "{3} had not come further with session {0} since position {2}",
        ),
        (
            r"deadline retry/(\d+)/(\d+)/(\d+)/\d+/(.+)",
            "the pause before {3} is asked again for session {0} was over",
        ),
        (r"deadline schedule/(\d+)/(.+)", "schedule {1} was due, counted from position {0}"),
        (
            r"deadline: proceed_ms since (.+)",
            "proceed_ms had passed since {0}, so whoever was silent is fenced",
        ),
        (r"deadline: idle for a day", "nothing had been asked for under these names for a day"),
        (r"deadline (.+)", "{0}"),  # those of a newer coordinator
        (r"(deadline: .+)", "{0}"),
    ),
    Kind.OPERATOR: (
        (r"claimed by (.+) to void position (\d+)", "{0} took the lead to void position {1}"),
        (r"`topolog void` by (.+)", "{0} voided it with `topolog void`"),
    ),
    Kind.DECISION: (
        (r"view (\S+): (.+)", "view {0} began: {1}"),
        (
            r"end of the wait since position (\d+)",
            "the lease that it had waited for since position {0} was over",
        ),
        (r"failure of (.+)", "this had failed: {0}"),
        (
            r"change of the state at position (\d+)",
            "the state of the cluster, changed at position {0}, does not allow it",
        ),
        (r"its turn", "nothing that stands before it in line was left"),
        (r"all wanted copies own", "every copy that the affinity wants was whole"),
        (r"all that it waited for is there", "all that it waited for had come"),
        (r"nobody serves the replica any more", "nobody served the replica any more"),
    ),
    Kind.COORDINATOR: (
        (r"founded by (.+)", "coordinator {0} found no log, and began it"),
        (r"claimed by (.+)", "no coordinator was heard, or the last one had stopped, and {0} claimed to lead"),
        (r"the beat of the leader", "the leader writes this as a sign of life, heartbeats or not"),
        (r"snapshot of position (\d+)", "a snapshot of position {0} had been written"),
        (r"(.+) stops", "coordinator {0} stopped on purpose"),
    ),
}
_READ_KEPT = 1024
"""A page asks for the same ones again and again."""

_COMPILED = tuple(
    (kind, re.compile(pattern, re.DOTALL), words) for kind, forms in _FORMS.items() for pattern, words in forms
)


@lru_cache(_READ_KEPT)
def read_cause(cause: str) -> StampCause:
    """What the cause of a stamp says; one that this version does not know is its own words."""
    for kind, pattern, words in _COMPILED:
        if found := pattern.fullmatch(cause):
            return StampCause(kind, words.format(*found.groups()), **found.groupdict())
    return StampCause(Kind.UNKNOWN, cause or "the log does not say why")


def in_words(cause: str, actor: str = "", reason: str = "") -> str:
    """Why a decision was made, to go on «because …»; of a request who asked and what for."""
    read = read_cause(cause)
    if read.kind is Kind.REQUEST:
        return f"{actor or 'somebody'} asked for it with request {read.request}{f': «{reason}»' if reason else ''}"
    return read.words


def why(cause: str, reason: str) -> str:
    """What for, in the words of who asked; where nobody did, what made the decision due, in a few words."""
    read = read_cause(cause)
    if reason or read.kind is Kind.REQUEST:
        return reason
    return _BRIEF[read.kind].format(read.node) if read.kind in _BRIEF else read.words


_BRIEF: Mapping[Kind, str] = {Kind.HEARTBEAT: "a heartbeat of {0}", Kind.MAP: "a single map of {0}"}
"""Without the place in a topic, which tells people nothing."""


_NAMED = frozenset({"node", "type", "group", "change", "session", "replica", "schedule", "database", "table", "grant"})
_ALONE = {"exchange": "exchange", "hand-over": "exchange", "baseline": "baseline", "leases": None, "requesters": None}


def explains(subject: str) -> str | None:
    """The command that explains what a decision is about; None where nothing more can be said."""
    kind, _, name = subject.partition(" ")
    if kind in _NAMED and name:
        return f"topolog explain {kind} {shlex.quote(name)}"
    if kind == "view" and name:
        return f"topolog explain table-view {shlex.quote(name)}"
    if subject in _ALONE:
        return f"topolog explain {_ALONE[subject]}" if _ALONE[subject] else None
    return "topolog explain cluster" if subject in ("cluster", "cluster state", "lease-terms") else None


_COMMAND = re.compile(r"`(topolog [^`]+)`")
_TO_BE_FILLED = re.compile(r"\b(NAME|FILE|NODE|ATTRIBUTE=VALUE)\b")
NEXT_MAX = 3


def commands_in(*texts: str) -> list[str]:
    """The commands that these texts name and that can be run as they stand, each once."""
    found = [command for text in texts for command in _COMMAND.findall(text)]
    return [command for command in dict.fromkeys(found) if not _TO_BE_FILLED.search(command)]
