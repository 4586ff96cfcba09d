"""Lists of what was asked and decided: decisions, requests, input that nobody could read."""

from functools import partial
from typing import Any

from topolog.projections import repeats
from topolog.projections.pending_resources import Pending
from topolog.projections.resources import Decision, Request
from topolog.projections.topic_resources import ClusterTopic
from topolog.projections.web import values
from topolog.projections.web.event_words import tone_of, words
from topolog.projections.web.frame import Frame
from topolog.projections.web.listing import Column, Listing
from topolog.projections.web.values import Shown, Value

_CONTENT_CHARS = 160


def what(frame: Frame, each: Decision) -> Shown:
    is_bad = tone_of(each.event) == "bad"
    told = Value(words(each.event), tone="bad") if is_bad else Value(words(each.event))
    return (Value(each.subject), told, Value(each.event, frame.to("decisions", event=each.event), is_code=True))


def content(_: Frame, each: Decision) -> Shown:
    told = values.plain(each.content)
    return told if len(told) <= _CONTENT_CHARS else f"{told[:_CONTENT_CHARS]}…"


DECISIONS = Listing(
    view="decisions",
    title="Decisions",
    about="The log itself, newest first; renewals of leases are left out unless they are asked for.",
    columns=(
        Column("Position", lambda f, each: values.position(f, each.position), is_number=True, sort="position"),
        Column("Time", lambda _, each: values.time(each.time)),
        Column("What", what, is_wide=True),
        Column("Content", content, is_wide=True),
        Column("Asked by", lambda f, each: values.actor(f, each.actor)),
        Column("Decided by", lambda _, each: each.decided_by),
        Column("Why", lambda _, each: values.why(each.cause, each.reason), is_wide=True),
        Column("Show", lambda f, each: Value("this moment", f.to_at(each.position))),
    ),
    empty="No decision is as these filters say. An event is named as NodeJoined, a subject as `node n3`.",
    same=lambda each: repeats.of_decision(partial(getattr, each)),
)


def _message(_: Frame, each: Request) -> Shown:
    return Value(f"{each.code}: {each.message}" if each.code else each.message or "–")


REQUESTS = Listing(
    view="requests",
    title="Requests",
    about="What was asked, and its one outcome. The last 64 of each requester are listed, older ones found by name.",
    columns=(
        Column("Request", lambda f, each: Value(each.id, f.to("requests", *each.id.rsplit("/", 1)))),
        Column("Time", lambda _, each: values.time(each.time), sort="time"),
        Column("About", lambda _, each: each.subject),
        Column("Outcome", lambda _, each: values.state(each.status), sort="status"),
        Column("Message", _message, is_wide=True),
        Column("Asked by", lambda _, each: each.actor, sort="actor"),
        Column("Why", lambda _, each: each.reason or "–", is_wide=True),
        Column("Decided at", lambda f, each: values.position(f, each.position), is_number=True),
    ),
    empty="Nothing was asked yet, or nothing as these filters say.",
    same=lambda each: repeats.of_request(partial(getattr, each)),
)

DEAD_LETTERS = Listing(
    view="dead-letters",
    title="Dead letters",
    about="Input that nobody could read, newest first. It has no past.",
    columns=(
        Column("Letter", lambda f, each: Value(each.id, f.to("dead-letters", each.id))),
        Column("Time", lambda _, each: values.time(each.time)),
        Column("Was meant for", lambda _, each: each.topic or "–"),
        Column("Reason", lambda _, each: each.reason, is_wide=True),
        Column("Bytes", lambda _, each: f"{each.size:,}", is_number=True, sort="size"),
        Column(
            "Replay of",
            lambda f, each: Value(each.replays, f.to("dead-letters", each.replays)) if each.replays else "–",
        ),
    ),
    empty="Nothing has died: everything that was sent could be read.",
    has_past=False,
)


def _holders(frame: Frame, each: Pending) -> Shown:
    holders = tuple(holder.node for holder in each.waits_for)
    if each.kind == "SESSION":  # who is waited for is a replica
        return ", ".join(holders) or "–"
    return values.names(frame, "nodes", holders, 6)


def _about(frame: Frame, each: Pending) -> Shown:
    return Value(each.name, frame.to("pending", *each.name.split("/")))


PENDING = Listing(
    view="pending",
    title="Pending",
    about="Everything that is not over, the worst first: what it waits for, whom, and until when at the latest.",
    columns=(
        Column("What", _about),
        Column("Sentence", lambda _, each: each.sentence, is_wide=True),
        Column("Waits for", _holders),
        Column("Waited", lambda _, each: values.exact(each.waited_ms), is_number=True, sort="waited_ms"),
        Column("Ends", lambda _, each: each.ends, is_wide=True),
        Column("What helps", lambda _, each: tuple(Value(line, is_code=True) for line in each.next[:2]), is_wide=True),
        Column("Since", lambda f, each: values.position(f, each.since), is_number=True, sort="since"),
    ),
    empty="Nothing waits for anything: all is agreed on, shared out and at rest.",
)


def _lag(_: Frame, each: ClusterTopic) -> Shown:
    if not each.is_read:
        return "not read here"
    return "–" if each.lag_s is None else f"{each.lag_s:.1f} s"


def _next_offsets(_: Frame, each: ClusterTopic) -> Shown:
    return ", ".join("the oldest" if part.offset is None else str(part.offset) for part in each.read) or "–"


TOPICS = Listing(
    view="topics",
    title="Topics",
    about="What each topic is for, and how far this process has read it: how many seconds behind. They have no past.",
    columns=(
        Column("Topic", lambda f, each: Value(each.name, f.to("topics", each.name))),
        Column("Says", lambda _, each: each.says, is_wide=True),
        Column("Partitions", lambda _, each: each.partitions, is_number=True),
        Column("Key", lambda _, each: each.key),
        Column("Policy", lambda _, each: each.policy),
        Column("Kept", lambda _, each: "for ever" if each.retention_ms < 0 else values.span(each.retention_ms)),
        Column("Behind", _lag, is_number=True),
        Column("Next offsets", _next_offsets),
        Column("Read", lambda _, each: "–" if each.records is None else f"{each.records:,}", is_number=True),
    ),
    empty="No topic is as these filters say.",
    terminal="",
    has_past=False,
)


def _result(_: Frame, each: Any) -> Shown:
    """What is done in a dry run has changed nothing."""
    shown = values.state(each.result, each.code)
    return (Value("dry run", tone="quiet"), Value(shown.text, note=each.code)) if each.dry_run else shown


AUDIT = Listing(
    view="audit",
    title="Audit",
    about="Who asked this process for what that changes something, from where, why, and what became of it.",
    columns=(
        Column("Time", lambda _, each: values.time(each.time)),
        Column("Who", lambda f, each: Value(each.principal, f.narrowed(who=each.principal), note=each.method)),
        Column("What", lambda _, each: each.what, is_wide=True),
        Column("Result", _result),
        Column("Outcome", lambda f, each: (values.state(each.outcome), values.position(f, each.position))),
        Column("Why", lambda _, each: each.reason or each.detail or "–", is_wide=True),
        Column("From", lambda _, each: Value(each.client, note=each.agent), is_wide=True),
        Column("Times", lambda _, each: each.count, is_number=True),
    ),
    empty="No record: nobody has asked for a change, nobody was turned away, or this process keeps no audit.",
    has_past=False,
)
