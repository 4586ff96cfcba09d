"""Lists of what was asked and decided: decisions, requests, input that nobody could read."""

from topolog.projections.resources import Decision, Request
from topolog.projections.web import values
from topolog.projections.web.event_words import tone_of, words
from topolog.projections.web.frame import Frame
from topolog.projections.web.listing import Column, Listing
from topolog.projections.web.values import Shown, Value

_CONTENT_CHARS = 160


def what(_: Frame, each: Decision) -> Shown:
    tone = tone_of(each.event)
    return (
        Value(each.subject),
        Value(words(each.event), tone="bad") if tone == "bad" else Value(note=words(each.event)),
    )


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
        Column("What", what),
        Column("Event", lambda f, each: Value(each.event, f.to("decisions", event=each.event), is_code=True)),
        Column("Content", content, is_wide=True),
        Column("Asked by", lambda f, each: values.actor(f, each.actor)),
        Column("Why", lambda _, each: Value(each.reason, note=each.cause), is_wide=True),
        Column("Show", lambda f, each: Value("this moment", f.to_at(each.position))),
    ),
    empty="No decision is as these filters say. An event is named as NodeJoined, a subject as `node n3`.",
)


def _about(_: Frame, each: Request) -> Shown:
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
        Column("Message", _about, is_wide=True),
        Column("Asked by", lambda _, each: each.actor, sort="actor"),
        Column("Why", lambda _, each: each.reason or "–", is_wide=True),
        Column("Decided at", lambda f, each: values.position(f, each.position), is_number=True),
    ),
    empty="Nothing was asked yet, or nothing as these filters say.",
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
