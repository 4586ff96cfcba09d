"""Archives as the job of Spark makes them, written without it: the same files, columns and landings."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same

from topolog.events.ids import Offset
from topolog.events.log import Entry
from topolog.projections.archive.landings import Landing, opened
from topolog.projections.archive.spans import Span

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("appended_at", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def land(folder: Path, cluster: str, entries: Sequence[Entry], *, log_id: bytes = b"") -> Landing:
    """One more landing, with one file per topic and day."""
    with opened(folder, cluster) as archive:
        if log_id:
            archive.identify(log_id)
        staged = archive.staged()
        for place, each in groupby(sorted(entries, key=_place), key=_place):
            path = staged / "records" / place[0] / place[1] / f"part-{len(archive.landings):05d}.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(table(each), path)
        spans = [
            Span(*place, min(offsets), max(offsets) + 1)
            for place in {(each.topic.short_name, each.partition) for each in entries}
            if (offsets := [each.offset for each in entries if (each.topic.short_name, each.partition) == place])
        ]
        return archive.land("test", spans, {"records": len(entries)}, 7)


def table(entries: Iterable[Entry]) -> pa.Table:
    rows = [
        {
            "partition": each.partition,
            "offset": each.offset,
            "appended_at": datetime.fromtimestamp(each.appended_at_ms / 1000, UTC),
            "key": None if each.key is None else each.key.encode("utf-8", "surrogateescape"),
            "value": each.value,
            "headers": [{"key": name, "value": value} for name, value in each.headers],
        }
        for each in entries
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def in_landings(folder: Path, cluster: str, entries: Sequence[Entry], sizes: Iterable[int]) -> Path:
    """The entries in landings of these sizes, what is left in one more; the folder."""
    left = list(entries)
    for size in sizes:
        if left[:size]:
            land(folder, cluster, left[:size])
        left = left[size:]
    if left:
        land(folder, cluster, left)
    return folder


def moved_on(entries: Iterable[Entry], by: int) -> list[Entry]:
    """The same records at later offsets, as behind the end of a transaction."""
    return [
        Entry(
            each.topic,
            each.partition,
            Offset(each.offset + by),
            each.key,
            each.value,
            each.headers,
            each.appended_at_ms,
        )
        for each in entries
    ]


def _place(entry: Entry) -> tuple[str, str]:
    day = datetime.fromtimestamp(entry.appended_at_ms / 1000, UTC).date()
    return f"topic={entry.topic.short_name}", f"date={day.isoformat()}"
