"""Spans of offsets: what has landed, what is missing, what is left of a batch. Pure."""

from collections.abc import Iterable, Iterator
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


def shares(wanted: Iterable[tuple[str, Span]], limit: int) -> list[tuple[str, Span]]:
    """At most `limit` offsets of what several owners want, the first of each span.

    Whoever wants less than an equal part gets it all, and what is left over is divided among the others: so one that
    wants a hundred times as much delays nobody.
    """
    found: list[tuple[str, Span]] = []
    by_owner = {owner: [span for _, span in each] for owner, each in groupby(sorted(wanted), key=lambda pair: pair[0])}
    sizes = {owner: sum(span.end - span.start for span in each) for owner, each in by_owner.items()}
    for served, owner in enumerate(sorted(by_owner, key=lambda owner: sizes[owner])):
        part = min(sizes[owner], max(1, limit // (len(by_owner) - served)))
        limit -= part
        found += [(owner, span) for span in _first_of(by_owner[owner], part)]
    return found


def _first_of(spans: Iterable[Span], count: int) -> Iterator[Span]:
    """The same rule among the partitions of one owner."""
    left = sorted(spans, key=lambda span: span.end - span.start)
    for served, span in enumerate(left):
        part = min(span.end - span.start, max(1, count // (len(left) - served)))
        count -= part
        yield msgspec.structs.replace(span, end=span.start + part)
