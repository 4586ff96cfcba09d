"""The keys on which replicas differ, and what a session's policy does about each: what `findings.py` keeps of pages.

Only pages that are whole, and those that the log speaks of, are believed. Differences have no past.
"""

from collections.abc import Iterator, Mapping, Sequence

from topolog.events import repair_plan
from topolog.events.errors import BadInput, NotFound
from topolog.events.repair_plan import Difference, Direction
from topolog.events.replicas import ReplicaRow, replica_key
from topolog.events.sessions import SegmentRow, SessionRow
from topolog.projections import findings, sessions
from topolog.projections.repair_resources import RowDifference, RowVersion
from topolog.projections.session_totals import segments_of
from topolog.projections.sides import FindingsBodyRow, FindingsRow
from topolog.projections.store import Reading

NO_PAST = "Keys that differ have no past: they are here as long as their topic has them, of the newest sessions."

_PARTS = 3


def differences(reading: Reading, filters: Mapping[str, str], after: str | None = None) -> Iterator[RowDifference]:
    """Keys that differ, sessions newest first. Filters: session, kind, replica (that lacks it, or is to get it).

    `after`: the name of the key before the first.
    """
    behind = None if after is None else _parsed(after)
    for row in _rows(reading, filters.get("session")):
        if behind is not None and row.number > behind[0]:
            continue
        for segment in segments_of(reading, row):
            for number, each in enumerate(kept(reading, segment)):
                is_behind = behind is None or row.number < behind[0] or (segment.index, number) > behind[1:]
                if is_behind:
                    found = _shown(row, segment, number, each, direction(reading, row, segment))
                    if _fits(found, filters):
                        yield found


def difference(reading: Reading, name: str) -> RowDifference:
    """One key by its name `session/segment/number`."""
    session, index, number = _parsed(name)
    row = sessions.surely(reading, str(session))
    for segment in segments_of(reading, row):
        held = kept(reading, segment) if segment.index == index else ()
        if number < len(held):
            return _shown(row, segment, number, held[number], direction(reading, row, segment))
    raise NotFound(f"There is no difference {name}.", hint=f"See differences --session {session}.")


def kept(reading: Reading, segment: SegmentRow) -> Sequence[Difference]:
    """The keys of a segment that are kept, in their order; nothing while its pages are not whole."""
    if segment.found is None:
        return ()
    prefix = findings.prefix_of(segment.session, segment.index, segment.found_in)
    pages: list[FindingsRow] = []
    for key, page in reading.sides(FindingsRow, after=prefix):
        if not key.startswith(prefix):
            break
        pages.append(page)
    if findings.digest_of(pages) != segment.found.digest:
        return ()
    bodies = (reading.side(FindingsBodyRow, findings.key_of(page)) for page in pages if page.kept)
    return [each for body in bodies if body is not None for each in body.differences]


def direction(reading: Reading, row: SessionRow, segment: SegmentRow) -> Direction:
    """Which way rows may go, as it was when the session ended."""
    assert row.spec is not None, "a session that has segments has a spec"
    then = reading if row.ended_at is None else reading.as_of(row.ended_at)
    held = {name: then.row(ReplicaRow, replica_key(row.definition.table, name)) for name in segment.replicas}
    read_only = frozenset(name for name, each in held.items() if each is not None and not each.definition.is_writable)
    return Direction(row.definition, row.spec, segment.replicas[0], read_only)


def _rows(reading: Reading, number: str | None) -> list[SessionRow]:
    if number is not None:
        return [sessions.surely(reading, number)]
    numbers = sorted({page.session for _, page in reading.sides(FindingsRow)}, reverse=True)
    found = (sessions.row_ever(reading, each) for each in numbers)
    return [row for row in found if row is not None]


def _parsed(name: str) -> tuple[int, int, int]:
    parts = name.split("/")
    if len(parts) != _PARTS or not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        raise BadInput(f"{name!r} names no difference.", hint="One looks like 47/0/17: session, segment, number.")
    session, segment, number = map(int, parts)
    return session, segment, number


def _fits(found: RowDifference, filters: Mapping[str, str]) -> bool:
    replica = filters.get("replica")
    return filters.get("kind") in (None, found.kind) and (
        replica is None or replica in found.missing or replica in found.targets
    )


def _shown(row: SessionRow, segment: SegmentRow, number: int, each: Difference, way: Direction) -> RowDifference:
    plan = repair_plan.planned(each, way)
    return RowDifference(
        name=f"{row.number}/{segment.index}/{number}",
        session=row.number,
        segment=segment.index,
        key=each.key,
        token=f"{each.token:08x}",
        kind=repair_plan.kind(each, way).value,
        versions=tuple(
            RowVersion(version.replicas, version.version, version.is_tombstone, version.rows, _content(version.content))
            for version in each.versions
        ),
        missing=each.missing,
        source=plan.source,
        targets=plan.targets,
        deletes=plan.deletes,
        left_alone=plan.reason,
    )


def _content(content: tuple[int, int]) -> str:
    """Both hashes of a row, as a name for what is in it."""
    return "".join(f"{each & (1 << 64) - 1:016x}" for each in content)
