"""How far an archive has come, and how far it is behind its topics: for a line on a terminal, and for Prometheus."""

from collections.abc import Mapping

import msgspec

from topolog.projections.archive.landings import QUARANTINE, RECORDS, Archive
from topolog.projections.archive.topics import Seen, TopicPartition, starts, unread


class PlaceProgress(msgspec.Struct, frozen=True):
    """One partition: all before the offset `landed` that there is has landed; `end` is after the newest record.

    `behind` is how many offsets have not landed, `behind_ms` how long ago the oldest of them was appended: 0 without
    one, None where nobody has looked.
    """

    topic: str
    partition: int
    landed: int
    end: int
    behind: int = 0
    behind_ms: int | None = 0


class Progress(msgspec.Struct, frozen=True):
    """One archive at one moment. `rows` by table; `landed_ms` is when the newest landing was made, 0 without one."""

    cluster: str
    places: tuple[PlaceProgress, ...]
    landings: int
    rows: dict[str, int]
    lost: int
    landed_ms: int
    rows_per_s: float = 0.0

    @property
    def behind(self) -> int:
        return sum(place.behind for place in self.places)

    @property
    def behind_ms(self) -> int:
        return max((place.behind_ms or 0 for place in self.places), default=0)

    @property
    def records(self) -> int:
        return self.rows.get(RECORDS, 0)

    @property
    def quarantined(self) -> int:
        return self.rows.get(QUARANTINE, 0)


def progress(archive: Archive, seen: Seen, appended: Mapping[TopicPartition, int], now_ms: int) -> Progress:
    """`appended`: when the oldest record that has not landed was appended, where somebody has looked."""
    behind: dict[TopicPartition, int] = {}
    for span in unread(archive, seen):
        behind[span.place] = behind.get(span.place, 0) + span.end - span.start
    begins = starts(archive, seen)
    places = (
        PlaceProgress(
            *place,
            begins[place],
            end,
            behind.get(place, 0),
            _age_ms(appended.get(place), now_ms) if place in behind else 0,
        )
        for place, (_, end) in seen.bounds.items()
    )
    return Progress(
        archive.about.cluster,
        tuple(sorted(places, key=lambda each: (each.topic, each.partition))),
        len(archive.landings),
        archive.rows(),
        sum(span.end - span.start for span in archive.lost()),
        archive.landings[-1].landed_ms if archive.landings else 0,
    )


def at_rate(found: Progress, rows_per_s: float) -> Progress:
    return msgspec.structs.replace(found, rows_per_s=rows_per_s)


def sentence(found: Progress) -> str:
    """In one line: `main: 12,345 records landed, 1,200 behind (3.2 s), 3 in quarantine · decisions 10,000/10,200 …`."""
    age = f" ({found.behind_ms / 1000:.1f} s)" if found.behind_ms else ""
    parts = [f"{found.cluster}: {found.records:,} records landed"]
    parts += [f"{found.behind:,} behind{age}" if found.behind else "nothing behind"]
    parts += [f"{found.quarantined:,} in quarantine"] if found.quarantined else []
    parts += [f"{found.lost:,} lost before they landed"] if found.lost else []
    parts += [f"{found.rows_per_s:,.0f} records/s"] if found.rows_per_s else []
    ends: dict[str, tuple[int, int]] = {}
    for place in found.places:
        landed, end = ends.get(place.topic, (0, 0))
        ends[place.topic] = landed + place.landed, end + place.end
    topics = " · ".join(f"{topic} {landed:,}/{end:,}" for topic, (landed, end) in ends.items())
    return f"{', '.join(parts)} · {topics}"


def _age_ms(appended_ms: int | None, now_ms: int) -> int | None:
    return None if appended_ms is None else max(0, now_ms - appended_ms)
