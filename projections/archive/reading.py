"""The records of an archive, in the order of their offsets, each once: what a fold, a judge or a report reads again.

Landings came in any order (a backfill of last month stands behind today's stream), and no two have the same offset. So
their spans are put in order, and of each landing the rows of one span are given at a time. Whether anything is missing
in between is for the fold to say: offsets have holes where a transaction ended, chain hashes have none. But whatever a
landing says that it has is there, whole, or the reader stops: a description that was lost, a day that was removed, a
file that was cut short.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # the same
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same

from topolog.events.framing import SCHEMA_HEADER, unframed
from topolog.events.log import Entry
from topolog.events.stamp import HEADER_NAME
from topolog.events.topics import Topic
from topolog.projections.archive.landings import RECORDS, Archive, DamagedArchive, Landing
from topolog.projections.archive.spans import Span

RECORD_COLUMNS = ("appended_at", "value", "headers")
ALL_COLUMNS = ("offset", "appended_at", "key", "value", "headers")
_BATCH_ROWS = 10_000
_HINT = "Bring it back from a backup, or land the topic anew in another folder: `topolog spark archive`."


class Record(msgspec.Struct, frozen=True):
    """A record of `decisions` as it is judged: its value in single-object encoding, whatever framing it came in."""

    offset: int
    appended_ms: int
    stamp: bytes | None
    value: bytes


def entries(archive: Archive, topic: Topic, start: int = 0, *, partition: int = 0) -> Iterator[list[Entry]]:
    """The records of a partition from `start` on as a log returns them, some thousand at a time; raises as `tables`."""
    for table in tables(archive, topic.short_name, start, partition=partition):
        for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
            yield _entries(batch, topic, partition)


def tables(
    archive: Archive, topic: str, start: int = 0, *, partition: int = 0, columns: Sequence[str] = ALL_COLUMNS
) -> Iterator[pa.Table]:
    """The records of a partition from `start` on, some hundred thousand at a time; `offset` is always a column.

    Raises DamagedArchive for a file that a landing names and that is not there, cannot be read, or lacks rows, and for
    offsets that have landed twice.
    """
    wanted = [
        (span, landing)
        for landing in archive.landings
        for span in landing.spans
        if span.place == (topic, partition) and span.end > start
    ]
    read: tuple[int, pa.Table] | None = None
    before = 0
    for span, landing in sorted(wanted, key=lambda each: each[0]):
        if span.start < before:
            raise DamagedArchive(
                f"The archive in {archive.folder} has {topic} from offset {span.start} on twice; the second time in "
                f"landing {landing.number}.",
                hint="Land the topic anew in another folder.",
            )
        before = span.end
        if read is None or read[0] != landing.number:
            read = landing.number, _read(archive, landing, topic, columns)
        yield _within(read[1], span, partition, start)


def check_whole(archive: Archive, topic: str) -> None:
    """Read newer landings, and raise DamagedArchive if the description of one is missing, or a file of the topic."""
    archive.check_named(_prefix(topic))
    if gone := archive.missing(_prefix(topic)):
        days = sorted({part.removeprefix("date=") for path in gone for part in path.parts if part.startswith("date=")})
        raise DamagedArchive(
            f"The archive in {archive.folder} lacks {len(gone)} files of {topic}, of {', '.join(days)}.", hint=_HINT
        )


def records(table: pa.Table) -> Iterator[Record]:
    """The rows of `tables`, which must have RECORD_COLUMNS. Of the headers it reads the stamp alone, so it is quicker
    than `entries`."""
    for batch in table.to_batches():
        stamps = _contents(batch.column("headers"), HEADER_NAME)
        columns = batch.column("offset").to_pylist(), _appended_ms(batch), stamps, _values(batch)
        yield from map(Record, *columns)


def _entries(batch: pa.RecordBatch, topic: Topic, partition: int) -> list[Entry]:
    columns = zip(
        batch.column("offset").to_pylist(),
        batch.column("key").to_pylist(),
        _values(batch),
        _headers(batch.column("headers")),
        _appended_ms(batch),
        strict=True,
    )
    return [
        Entry(topic, partition, offset, _text(key), value, headers, appended_ms)
        for offset, key, value, headers, appended_ms in columns
    ]


# Columns of a batch, each as a whole: to take rows apart one by one would take longer than to fold them.


def _appended_ms(batch: pa.RecordBatch) -> list[int]:
    found: list[int] = batch.column("appended_at").cast("timestamp[ms]", safe=False).cast("int64").to_pylist()
    return found


def _values(batch: pa.RecordBatch) -> list[bytes]:
    """In single-object encoding where they are in a framing."""
    column = batch.column("value").fill_null(b"")
    values: list[bytes] = column.to_pylist()
    if not pc.any(pc.starts_with(column, b"\0")).as_py():
        return values
    schemas = _contents(batch.column("headers"), SCHEMA_HEADER)
    return [unframed(value, ((SCHEMA_HEADER, of or b""),)) for value, of in zip(values, schemas, strict=True)]


def _headers(column: Any) -> list[tuple[tuple[str, bytes], ...]]:
    flat = column.flatten()
    pairs = list(zip(*(pc.struct_field(flat, [part]).to_pylist() for part in (0, 1)), strict=True))
    told = [(name, value or b"") for name, value in pairs]
    ends = accumulate(column.value_lengths().fill_null(0).to_pylist(), initial=0)
    return [tuple(told[start:end]) for start, end in pairwise(ends)]


def _contents(headers: Any, name: str) -> list[bytes | None]:
    """Of each record the content of its first header of this name."""
    borders, pairs = headers.offsets.to_numpy(), headers.values
    named = pc.fill_null(pc.equal(pc.struct_field(pairs, [0]), name), False).to_numpy(zero_copy_only=False)
    at = np.flatnonzero(named)
    at = at[(at >= borders[0]) & (at < borders[-1])]
    lines = (np.searchsorted(borders, at, side="right") - 1).tolist()
    found: list[bytes | None] = [None] * len(headers)
    contents = pc.struct_field(pairs, [1]).take(pa.array(at)).to_pylist()
    for line, content in zip(lines[::-1], contents[::-1], strict=True):
        found[line] = content
    return found


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "surrogateescape")


def _read(archive: Archive, landing: Landing, topic: str, columns: Sequence[str]) -> pa.Table:
    """What a landing has of a topic, by offset."""
    names = ["partition", *dict.fromkeys(("offset", *columns))]
    paths = archive.files(_prefix(topic), landing)
    if not paths:
        raise DamagedArchive(
            f"Landing {landing.number} of {archive.folder} has {topic}, but no file of it.", hint=_HINT
        )
    table = pa.concat_tables([_file(archive, path, names) for path in paths])
    return table.take(pc.sort_indices(table, sort_keys=[("partition", "ascending"), ("offset", "ascending")]))


def _file(archive: Archive, path: Path, names: Sequence[str]) -> pa.Table:
    try:
        try:
            return pq.read_table(path, columns=list(names), partitioning=None)
        except FileNotFoundError:  # it may have been moved this very moment
            return pq.read_table(archive.final(path), columns=list(names), partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise DamagedArchive(f"{path} cannot be read: {str(error).splitlines()[0]}", hint=_HINT) from error


def _within(table: pa.Table, span: Span, partition: int, start: int) -> pa.Table:
    offset = table.column("offset")
    first = max(span.start, start)
    asked = pc.and_(pc.greater_equal(offset, first), pc.less(offset, span.end))
    found = table.filter(pc.and_(asked, pc.equal(table.column("partition"), partition))).drop_columns(["partition"])
    begins, ends = (found.column("offset")[at].as_py() if found.num_rows else None for at in (0, -1))
    if ends != span.end - 1 or (first == span.start and begins != span.start):
        raise DamagedArchive(
            f"The archive lacks records of {span.topic} from offset {first} to {span.end}.", hint=_HINT
        )
    return found


def _prefix(topic: str) -> str:
    return f"{RECORDS}/topic={topic}"
