"""An archive whose records were written without Spark: as it would have landed them."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same

from topolog.events.log import Entry
from topolog.events.stamp import decode_stamp
from topolog.events.topics import Topic
from topolog.projections.archive.landings import ArchiveWriter
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


def land(archive: ArchiveWriter, entries: Sequence[Entry]) -> None:
    """One landing of these decisions, which have no holes between them."""
    rows = [
        {
            "partition": 0,
            "offset": each.offset,
            "appended_at": datetime.fromtimestamp(each.appended_at_ms / 1000, UTC),
            "key": (each.key or "").encode(),
            "value": each.value,
            "headers": [{"key": name, "value": value} for name, value in each.headers],
        }
        for each in entries
    ]
    path = archive.staged() / "records" / "topic=decisions" / "date=2027-01-15" / f"part-{entries[0].offset}.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows[::-1], SCHEMA), path)  # a file is in any order
    if entries[0].offset == 0 and entries[0].stamp is not None:
        archive.identify(decode_stamp(entries[0].stamp).log_id)
    span = Span(Topic.DECISIONS.short_name, 0, entries[0].offset, entries[-1].offset + 1)
    archive.land("test", [span], {"records": len(rows)}, 5)
