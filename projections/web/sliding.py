"""The moments that the slider of a page can be put to, and the steps from one decision to the next.

Lease renewals, which a quiet cluster has several of a minute, are no steps: nothing that is shown changes by them.
"""

from itertools import islice, takewhile

from topolog.events.ids import Position
from topolog.projections.moments import iso
from topolog.projections.store import Reading
from topolog.projections.web.event_words import tone_of
from topolog.projections.web.frame import Mark, Slider

MARKS_MAX = 160


def slider(newest: Reading, shown: Reading) -> Slider:
    """Of the newest decisions, and of some before the moment that is shown if that is earlier."""
    latest = list(islice(newest.positions(), MARKS_MAX))
    if latest and shown.position < latest[-1]:
        latest += islice(newest.positions(shown.position + 1), MARKS_MAX)
    marks = tuple(_mark(newest, position) for position in reversed(latest))
    first = min(shown.position, marks[0].position) if marks else 0
    return Slider(
        first=first,
        newest=newest.position,
        newest_time=iso(newest.meta.logged_at_ms),
        marks=marks,
        before=next(iter(shown.positions(shown.surely_decision(shown.position).set_start)), None),
        after=_next(newest, shown.position),
    )


def _mark(reading: Reading, position: Position) -> Mark:
    decided = reading.surely_decision(position)
    return Mark(position, iso(decided.logged_at_ms), decided.event_name, tone_of(decided.event_name))


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
