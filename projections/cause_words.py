"""What made a decision due, as people say it: the causes of stamps in plain words. No store is needed for that."""

import re
import shlex

_REQUEST = re.compile(r"requests@(\d+) (.+)")
_RECORD = re.compile(r"(heartbeats|maps)/(\d+)@(\d+) (.+)")
_DEADLINES: tuple[tuple[str, str], ...] = (
    (r"lease/(.+)/\d+/(\d+)/\d*", "the lease of {0} was over: none of its heartbeats was confirmed after position {1}"),
    (
        r"exchange/(\d+)/(.+)/\d+/warn/\d*",
        "{1} had not sent its map, asked for at position {0}, and operators see that",
    ),
    (r"exchange/(\d+)/(.+)/\d+/evict/\d*", "{1} had not sent its map, asked for at position {0}, for the longest wait"),
    (r"adjust/soft/(\d+)", "nobody had joined or left for the soft timeout since position {0}"),
    (r"adjust/hard/(\d+)", "the hard timeout since position {0} was over, though servers came and went on"),
    (r"change/(\d+)/deadline", "the deadline that was given with change {0} had passed"),
    (r"session/(\d+)/deadline", "the deadline that was given with session {0} had passed"),
    (r"session/(\d+)/rest/.*", "the pause of session {0}, which does not work all the time, was over"),
    (r"task/(\d+)/(\d+)/(\d+)/compare/\d+", "nobody had compared what was sent for session {0} since position {2}"),
    (r"task/(\d+)/(\d+)/(\d+)/\d+/(.+)", "{3} had not come further with session {0} since position {2}"),
    (r"retry/(\d+)/(\d+)/(\d+)/\d+/(.+)", "the pause before {3} is asked again for session {0} was over"),
    (r"schedule/(\d+)/(.+)", "schedule {1} was due, counted from position {0}"),
    (r"deadline: proceed_ms since (.+)", "proceed_ms had passed since {0}, so whoever was silent is fenced"),
    (r"deadline: idle for a day", "nothing had been asked for under these names for a day"),
)
_OTHERS: tuple[tuple[str, str], ...] = (
    (r"founded by (.+)", "coordinator {0} found no log, and began it"),
    (r"claimed by (.+) to void position (\d+)", "{0} took the lead to void position {1}"),
    (r"claimed by (.+)", "no coordinator was heard, or the last one had stopped, and {0} claimed to lead"),
    (r"(.+) stops", "coordinator {0} stopped on purpose"),
    (r"the beat of the leader", "the leader writes this as a sign of life, heartbeats or not"),
    (r"snapshot of position (\d+)", "a snapshot of position {0} had been written"),
    (r"`topolog void` by (.+)", "{0} voided it with `topolog void`"),
    (r"view (\S+): (.+)", "view {0} began: {1}"),
    (r"end of the wait since position (\d+)", "the lease that it had waited for since position {0} was over"),
    (r"failure of (.+)", "this had failed: {0}"),
    (r"its turn", "nothing that stands before it in line was left"),
    (r"all wanted copies own", "every copy that the affinity wants was whole"),
    (r"all that it waited for is there", "all that it waited for had come"),
    (r"nobody serves the replica any more", "nobody served the replica any more"),
)


def in_words(cause: str, actor: str = "", reason: str = "") -> str:
    """Why a decision was made, to go on «because …»; of a request who asked and what for."""
    if found := _REQUEST.fullmatch(cause):
        return f"{actor or 'somebody'} asked for it with request {found[2]}{f': «{reason}»' if reason else ''}"
    if found := _RECORD.fullmatch(cause):
        what = "heartbeat" if found[1] == "heartbeats" else "single map"
        return (
            f"a {what} of {found[4]} came that it had waited for ({found[1]}, partition {found[2]}, offset {found[3]})"
        )
    for pattern, words in (*_DEADLINES, *_OTHERS):
        if found := re.fullmatch(pattern, cause.removeprefix("deadline ")):
            return words.format(*found.groups())
    return cause.removeprefix("deadline ") or "the log does not say why"


def request_of(cause: str) -> str | None:
    """The id of the request that a decision answers, None if it answers none."""
    found = _REQUEST.fullmatch(cause)
    return found[2] if found else None


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
