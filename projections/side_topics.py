"""What a projector keeps of the topics beside the log of decisions, in whichever store is shown."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import msgspec

from topolog.events.failpoints import reach
from topolog.events.leases import NodeRow
from topolog.events.log import Entry
from topolog.events.topics import PLANS, Topic
from topolog.projections import findings, newest_maps
from topolog.projections.sides import (
    FindingsRow,
    LetterRow,
    MapPartRow,
    MapRow,
    SideWrite,
    WatchRow,
    expiry,
    side_write,
)
from topolog.projections.store import Reading, Store

_EXPIRY_EVERY_S = 3_600.0
"""How often what topics have dropped is dropped here."""


class SideTopics:
    """One thread notes, any thread asks. `now_s` is a monotonic clock, `wall_ms` the time of day (UTC)."""

    def __init__(self, now_s: Callable[[], float], wall_ms: Callable[[], int]) -> None:
        self._now_s = now_s
        self._wall_ms = wall_ms
        self._heard_at_s: Mapping[int, float] = {}
        self._expires_at_s = now_s()

    @property
    def heard_ago_ms(self) -> dict[int, int]:
        """How long ago the last word about each partition of lease health was read."""
        now_s = self._now_s()
        return {key: round((now_s - at_s) * 1000) for key, at_s in self._heard_at_s.items()}

    def note(self, entries: Sequence[Entry], store: Store) -> None:
        """Keep what these records of side topics say, and now and then drop what their topics have dropped."""
        if entries:
            reach("projector.sides-read")
            write = _with_maps(_with_findings(side_write(entries), entries, store), entries, store)
            heard = {row.heard.partition: self._now_s() for row in write.rows.values() if isinstance(row, WatchRow)}
            self._heard_at_s = {**self._heard_at_s, **heard}  # another one: others read it meanwhile
            store.write_sides(write)
            reach("projector.sides-written")
        if self._now_s() >= self._expires_at_s:
            self._expires_at_s = self._now_s() + _EXPIRY_EVERY_S
            self._expire(store)

    def _expire(self, store: Store) -> None:
        with store.reading() as reading:
            letters = expiry(reading.sides(LetterRow), self._wall_ms() - _kept_ms(Topic.DEAD))
            pages = findings.expiry(
                (row for _, row in reading.sides(FindingsRow)), self._wall_ms() - _kept_ms(Topic.TREES)
            )
            maps = newest_maps.expiry(_maps(reading), self._wall_ms() - _kept_ms(Topic.MAPS))
        for gone in (letters, pages, maps):
            store.write_sides(gone)


def _with_findings(write: SideWrite, entries: Sequence[Entry], store: Store) -> SideWrite:
    """Which pages of findings are kept goes by those that are kept already."""
    if all(entry.topic is not Topic.TREES for entry in entries):
        return write
    with store.reading() as reading:
        rows = findings.findings_write((row for _, row in reading.sides(FindingsRow)), entries)
    return msgspec.structs.replace(write, rows={**write.rows, **rows})


def _with_maps(write: SideWrite, entries: Sequence[Entry], store: Store) -> SideWrite:
    """The same of single maps."""
    if all(entry.topic is not Topic.MAPS for entry in entries):
        return write
    with store.reading() as reading:
        log = newest_maps.Log(reading.position, cache(lambda node: reading.row(NodeRow, node) is not None))
        rows = newest_maps.maps_write(_maps(reading), entries, log)
    return msgspec.structs.replace(write, rows={**write.rows, **rows})


def _maps(reading: Reading) -> newest_maps.Held:
    heads = {row.node: row for _, row in reading.sides(MapRow)}
    return newest_maps.Held(heads, [row for _, row in reading.sides(MapPartRow)])


def _kept_ms(topic: Topic) -> int:
    return next(plan.retention_ms for plan in PLANS if plan.topic is topic)
