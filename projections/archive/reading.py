"""The records of an archive, in the order of their offsets, each once: what a fold, a judge or a report reads again.

Landings came in any order (a backfill of last month stands behind today's stream), and no two have the same offset. So
their spans are put in order, and of each landing the rows of one span are given at a time. Whether anything is missing
in between is for the fold to say: offsets have holes where a transaction ended, chain hashes have none.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # the same
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same

from topolog.events.errors import DamagedStore
from topolog.projections.archive.landings import Archive, Landing
from topolog.projections.archive.spans import Span

ALL_COLUMNS = ("offset", "appended_at", "key", "value", "headers")


def tables(
    archive: Archive, topic: str, start: int = 0, *, partition: int = 0, columns: Sequence[str] = ALL_COLUMNS
) -> Iterator[pa.Table]:
    """The records of a partition from `start` on, some hundred thousand at a time; `offset` is always a column.

    Raises DamagedStore for a file that a landing names and that is not there, cannot be read, or lacks rows.
    """
    wanted = [
        (span, landing)
        for landing in archive.landings
        for span in landing.spans
        if span.place == (topic, partition) and span.end > start
    ]
    read: tuple[int, pa.Table] | None = None
    for span, landing in sorted(wanted, key=lambda each: each[0]):
        if read is None or read[0] != landing.number:
            read = landing.number, _read(archive, landing, topic, columns)
        yield _within(read[1], span, partition, start)


def _read(archive: Archive, landing: Landing, topic: str, columns: Sequence[str]) -> pa.Table:
    """What a landing has of a topic, by offset."""
    names = ["partition", *dict.fromkeys(("offset", *columns))]
    parts = [_file(path, names) for path in archive.files(f"records/topic={topic}", landing)]
    if not parts:
        raise DamagedStore(f"Landing {landing.number} of {archive.folder} has {topic}, but no file of it.", hint=_HINT)
    table = pa.concat_tables(parts)
    return table.take(pc.sort_indices(table, sort_keys=[("partition", "ascending"), ("offset", "ascending")]))


def _file(path: Path, names: Sequence[str]) -> pa.Table:
    try:
        return pq.read_table(path, columns=list(names), partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise DamagedStore(f"{path} cannot be read: {str(error).splitlines()[0]}", hint=_HINT) from error


def _within(table: pa.Table, span: Span, partition: int, start: int) -> pa.Table:
    offset = table.column("offset")
    first = max(span.start, start)
    asked = pc.and_(pc.greater_equal(offset, first), pc.less(offset, span.end))
    found = table.filter(pc.and_(asked, pc.equal(table.column("partition"), partition))).drop_columns(["partition"])
    ends = (found.column("offset")[0].as_py(), found.column("offset")[-1].as_py()) if found.num_rows else ()
    if first == span.start and ends != (span.start, span.end - 1):
        raise DamagedStore(f"The archive lacks records of {span.topic} from offset {span.start} on.", hint=_HINT)
    return found


_HINT = "Bring the file back from a backup, or land the topic anew in another folder: `topolog spark archive`."
