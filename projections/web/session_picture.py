"""A session as a picture: what was compared of the ring of tokens and where it differs, for each two replicas.

A strip is the whole ring, or the tokens of one segment, cut into cells of equal size. What a colour says stands beside
it in words and figures. Of many segments only those with something to see have a strip of their own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from topolog.events import token_range
from topolog.events.repair_tasks import Pair, Purpose, TaskKind
from topolog.events.sessions import SegmentRow, SegmentStatus, SessionRow
from topolog.events.token_range import RING, Ranges, TokenRange
from topolog.projections import differences, explain_session, history, sessions
from topolog.projections.explain_words import LEFT_ALONE, rows
from topolog.projections.repair_resources import Repair, RowDifference, Session
from topolog.projections.repairs import repair
from topolog.projections.sentences import listed
from topolog.projections.session_course import Course, course
from topolog.projections.store import Reading
from topolog.projections.web import things
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.heat import Cell
from topolog.projections.web.templates import rendered

CELLS = 256
SEGMENTS_MAX = 24
PAIRS_MAX = 28
KEYS_MAX = 20
_LEVELS = 4

COLOURS: Mapping[SegmentStatus, str] = {
    SegmentStatus.RUNNING: "moving",
    SegmentStatus.EQUAL: "agrees",
    SegmentStatus.REPAIRED: "agrees",
    SegmentStatus.DIFFERENT: "differs3",
    SegmentStatus.INCONCLUSIVE: "moving",
    SegmentStatus.FAILED: "paused",
}
"""Of a segment by its state; one that is pending has none."""


class Strip(msgspec.Struct, frozen=True):
    """Cells of one row, and the same in words."""

    name: str
    words: str
    cells: tuple[Cell, ...]


class SessionPicture(msgspec.Struct, frozen=True):
    """Everything the page shows, all of one position. `pairs`: as compared first, `verified`: after a repair.

    `more_segments` and `more_pairs` have no strip; `keys` are the first that differ. `leaves`: how many differ between
    each two replicas, by either name.
    """

    session: Session
    repair: Repair | None
    sentence: str
    segments: Strip
    pairs: tuple[Strip, ...]
    verified: tuple[Strip, ...]
    parts: tuple[Strip, ...]
    more_segments: int
    more_pairs: int
    keys: tuple[RowDifference, ...]
    leaves: Mapping[str, Mapping[str, int]]

    @property
    def tone(self) -> str:
        """ok, busy or bad: the colour of the sentence."""
        if self.session.state in ("QUEUED", "RUNNING"):
            return "busy"
        if self.session.verdict in ("AGREE", "REPAIRED"):
            return "ok"
        return "bad"


def picture(reading: Reading, name: str) -> SessionPicture:
    """The session of this number at the reading's position; raises as `sessions.session` does."""
    row = sessions.surely(reading, name)
    found = sessions.session(reading, name)
    taken = course(reading, row)
    compared, verified = compared_pairs(taken, Purpose.COMPARE), compared_pairs(taken, Purpose.VERIFY)
    names = sorted(compared)
    shown = sorted(taken.segments, key=_urgency)[:SEGMENTS_MAX]
    return SessionPicture(
        session=found,
        repair=repair(reading, name) if found.kind == "REPAIR" else None,
        sentence=explain_session.explain_session(reading, name).sentence,
        segments=Strip("segments", _states(found), tuple(_segment_cells(taken.segments))),
        pairs=tuple(_pair(each, compared[each]) for each in names[:PAIRS_MAX]),
        verified=tuple(_pair(each, verified[each]) for each in sorted(verified)[:PAIRS_MAX]),
        parts=tuple(_part(each, compared) for each in sorted(shown, key=lambda each: each.index)),
        more_segments=len(taken.segments) - len(shown),
        more_pairs=max(0, len(names) - PAIRS_MAX),
        keys=_keys(reading, row),
        leaves=_leaves(verified or compared),
    )


def _leaves(pairs: Mapping[tuple[str, str], "Sequence[Compared]"]) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (left, right), compared in sorted(pairs.items()):
        count = sum(one.pair.leaves for one in compared)
        found.setdefault(left, {})[right] = count
        found.setdefault(right, {})[left] = count
    return {name: found[name] for name in sorted(found)}


class Compared(msgspec.Struct, frozen=True):
    """One pair in one segment: the finest comparison of its leaves. `within`: the tokens of the segment."""

    segment: int
    within: Ranges
    pair: Pair
    bits: int


def compared_pairs(taken: Course, purpose: Purpose) -> Mapping[tuple[str, str], list[Compared]]:
    """The newest comparison of each two replicas in each segment; finer leaves take the place of coarse ones."""
    newest: dict[tuple[str, str], dict[int, Compared]] = {}
    for each in taken.steps:
        step = each.row.step
        if step is not None and step.kind is TaskKind.LEAVES and step.purpose is purpose:
            for pair in each.row.pairs:
                of_pair = newest.setdefault((pair.left, pair.right), {})
                first = of_pair.get(each.row.index)
                within = first.within if first is not None and step.bits > first.bits else step.ranges
                of_pair[each.row.index] = Compared(each.row.index, within, pair, step.bits)
    return {names: [found[index] for index in sorted(found)] for names, found in newest.items()}


def cells(within: Sequence[TokenRange], about: Iterable[tuple[TokenRange, str]]) -> Iterator[Cell]:
    """A strip of the tokens `within`; of several ranges in one cell the last kind counts that is named."""
    start, end = within[0].start, within[-1].end
    size = max(1, (end - start) / CELLS)
    colours = [""] * CELLS
    for each, colour in about:
        first = int((max(each.start, start) - start) / size)
        last = min(CELLS - 1, int((min(each.end, end) - 1 - start) / size))
        colours[first : last + 1] = [colour] * max(0, last + 1 - first)
    at = 0
    for colour, alike in groupby(colours):
        width = sum(1 for _ in alike)
        if colour:
            yield Cell(at, width, colour)
        at += width


def _pair(names: tuple[str, str], found: Sequence[Compared]) -> Strip:
    about = [(each, "agrees") for one in found for each in one.within]
    about += [(each, _level(one.pair)) for one in found for each in one.pair.ranges]
    leaves = sum(one.pair.leaves for one in found)
    compared = sum(one.pair.leaves_compared for one in found)
    count = sum(one.pair.rows for one in found)
    words = (
        f"{leaves} of {compared} leaves differ, with {rows(count)} in them" if leaves else f"{compared} leaves agree"
    )
    return Strip(f"{names[0]} – {names[1]}", words, tuple(cells([TokenRange(0, RING)], about)))


def _level(pair: Pair) -> str:
    """The darker, the more of the leaves differ."""
    share = pair.leaves / max(1, pair.leaves_compared)
    return f"differs{min(_LEVELS, 1 + int(share * 20))}"


def _states(found: Session) -> str:
    return ", ".join(f"{count} {state.lower()}" for state, count in found.segments_by_state.items()) or "none yet"


def _segment_cells(segments: Sequence[SegmentRow]) -> Iterator[Cell]:
    about = [
        (each, COLOURS[segment.status])
        for segment in sorted(segments, key=_urgency, reverse=True)
        if segment.status in COLOURS
        for each in segment.ranges
    ]
    return cells([TokenRange(0, RING)], about)


_URGENT = (
    SegmentStatus.FAILED,
    SegmentStatus.DIFFERENT,
    SegmentStatus.INCONCLUSIVE,
    SegmentStatus.RUNNING,
    SegmentStatus.REPAIRED,
    SegmentStatus.EQUAL,
)


def _urgency(segment: SegmentRow) -> tuple[int, int]:
    """What there is most to see of comes first."""
    place = _URGENT.index(segment.status) if segment.status in _URGENT else len(_URGENT)
    return place, segment.index


def _part(segment: SegmentRow, compared: Mapping[tuple[str, str], Sequence[Compared]]) -> Strip:
    """One segment over its own tokens: where some two replicas differ in it."""
    found = [each for pairs in compared.values() for each in pairs if each.segment == segment.index]
    about = [(each, "agrees") for one in found for each in one.within]
    about += [(each, _level(one.pair)) for one in found for each in one.pair.ranges]
    differ = token_range.union(each for one in found for each in one.pair.ranges)
    code = f" ({segment.code})" if segment.code else ""
    where = f"; differs in {listed(list(map(str, differ)), 2)}" if differ else ""
    count = f"; {rows(segment.found.rows)} differ" if segment.found and segment.found.rows else ""
    words = f"{segment.status.value.lower()}{code}{count}{where}"
    return Strip(str(segment.index), words, tuple(cells(segment.ranges, about)))


def _keys(reading: Reading, row: SessionRow) -> tuple[RowDifference, ...]:
    """The first keys that differ; they have no past."""
    if not reading.is_current:
        return ()
    found = differences.differences(reading, {"session": str(row.number)})
    return tuple(each for each, _ in zip(found, range(KEYS_MAX), strict=False))


def page(asked: PageRequest, name: str) -> str:
    shown = _of_what_may(asked, picture(asked.reading, name))
    return rendered(
        "session.html",
        asked.frame,
        shown=shown,
        has_trees=asked.may("trees"),
        session=shown.session,
        cells=CELLS,
        left_alone=LEFT_ALONE,
        matrix=_matrix(shown),
        turns=list(things.turns(asked, history.of_session(asked.reading, name))),
        commands=things.commands(asked, "session", name),
        api=asked.frame.api("sessions", name),
    )


def _of_what_may(asked: PageRequest, shown: SessionPicture) -> SessionPicture:
    """The picture without what is of lists that may not be shown: above all keys, which are somebody's data."""
    if not asked.may("differences"):
        shown = msgspec.structs.replace(shown, keys=())
    if not asked.may("trees"):
        shown = msgspec.structs.replace(shown, pairs=(), verified=(), parts=(), leaves={}, more_pairs=0)
    if not asked.may("repairs", str(shown.session.number)):
        shown = msgspec.structs.replace(shown, repair=None)
    return shown


def _matrix(shown: SessionPicture) -> Mapping[str, Mapping[str, int]]:
    """Leaves that differ between each two replicas; nothing where there is but one pair to see."""
    return shown.leaves if len(shown.leaves) > 2 else {}


def recent(reading: Reading, at_most: int) -> list[Session]:
    """The sessions of the overview: those that are open, the oldest first, then the last that have ended."""
    opened = [sessions.shown(reading, row) for row in sessions.opened(reading)[:at_most]]
    ended = (each for each in sessions.sessions(reading, {}) if each.ended_at is not None)
    return [*opened, *(each for each, _ in zip(ended, range(at_most - len(opened)), strict=False))]
