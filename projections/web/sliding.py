"""The moments that the slider of a page can be put to, and the steps from one decision to the next.

Lease renewals, which a quiet cluster has several of a minute, are no steps: nothing that is shown changes by them.
"""

from itertools import islice, takewhile

from topolog.events.ids import Position
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.store import Reading
from topolog.projections.web.event_words import STEPS_OF_SESSIONS, tone_of, words
from topolog.projections.web.frame import Slider, SliderMark

MARKS_MAX = 160
LOOKED_THROUGH = 320


def slider(newest: Reading, shown: Reading, *, names_decisions: bool) -> Slider:
    """Of the newest decisions, and of some before the moment that is shown if that is earlier.

    Who may not read decisions is told where they are, and when, for these are the moments of all views; not what.
    """
    latest = _telling(newest, newest.position)
    if latest and shown.position < latest[-1].position:
        latest += _telling(newest, shown.position)
    made = _mark if names_decisions else _place
    marks = tuple(map(made, reversed(latest)))
    first = min(shown.position, marks[0].position) if marks else 0
    return Slider(
        first=first,
        newest=newest.position,
        newest_time=iso(newest.meta.logged_at_ms),
        marks=marks,
        before=next(iter(shown.positions(shown.surely_decision(shown.position).set_start)), None),
        after=_next(newest, shown.position),
    )


def _telling(reading: Reading, upto: int) -> list[Decided]:
    """The last decisions up to a position, newest first, but for the steps of sessions if there are others."""
    found = list(islice(reading.decisions(upto + 1), LOOKED_THROUGH))
    telling = [decided for decided in found if decided.event_name not in STEPS_OF_SESSIONS]
    return (telling or found)[:MARKS_MAX]


def _mark(decided: Decided) -> SliderMark:
    what = f"{decided.subject} {words(decided.event_name)}"
    return SliderMark(decided.position, iso(decided.logged_at_ms), what, tone_of(decided.event_name))


def _place(decided: Decided) -> SliderMark:
    return SliderMark(decided.position, iso(decided.logged_at_ms), "", "")


def _next(newest: Reading, position: Position) -> int | None:
    """The first decision behind a position: positions are read from the newest back, so in windows that grow."""
    window = 64
    while True:
        end = min(position + 1 + window, newest.position + 1)
        found = list(takewhile(lambda each: each > position, newest.positions(end)))
        if found:
            return newest.surely_decision(found[-1]).set_end
        if end > newest.position:
            return None
        window *= 4
