"""Spans of offsets: what has landed, what is missing, what is left of a batch. Pure."""

from collections.abc import Iterable
from itertools import groupby

import msgspec


class Span(msgspec.Struct, frozen=True, order=True):
    """Offsets of one partition of a topic (by its short name), from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same offsets, each once, in as few spans as may be, in order."""
    found: list[Span] = []
    for span in sorted(each for each in spans if each.start < each.end):
        last = found[-1] if found else None
        if last is not None and last.place == span.place and span.start <= last.end:
            found[-1] = msgspec.structs.replace(last, end=max(last.end, span.end))
        else:
            found.append(span)
    return tuple(found)


def minus(spans: Iterable[Span], taken: Iterable[Span]) -> tuple[Span, ...]:
    """What of these offsets is not among those taken."""
    gone = {place: list(each) for place, each in groupby(merged(taken), key=lambda span: span.place)}
    found: list[Span] = []
    for span in merged(spans):
        start = span.start
        for each in gone.get(span.place, ()):
            if each.end <= start or each.start >= span.end:
                continue
            found.append(msgspec.structs.replace(span, start=start, end=min(max(each.start, start), span.end)))
            start = max(start, each.end)
        found.append(msgspec.structs.replace(span, start=min(start, span.end)))
    return merged(found)


def overlapping(spans: Iterable[Span], others: Iterable[Span]) -> tuple[Span, ...]:
    """The offsets that both have."""
    spans = tuple(spans)
    return minus(spans, minus(spans, others))
