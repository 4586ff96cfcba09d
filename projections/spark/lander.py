"""A batch of records becomes a landing in the archive of each cluster that it is of.

Spark writes all clusters of a batch at once, for what a job costs is its start, and their folders are then given to
their archives. What was written is counted in the files themselves: a table that lacks rows of its type has records
that Spark could not decode, and only then they are looked for; records that are missing from the files would end the
landing before it stands.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from pyspark.util import inheritable_thread_target

from topolog.events.codec import Released, released
from topolog.events.errors import BadInput, SparkFailed
from topolog.events.topics import Topic
from topolog.projections.archive.landings import QUARANTINE, RECORDS, TYPED, ArchiveWriter
from topolog.projections.archive.spans import Span, merged, minus, overlapping
from topolog.projections.spark import steps

_JOBS_AT_ONCE = 3
"""A table of a few rows costs Spark the planning of a job and no work: more than one at a time keep the cores busy."""

Rows = dict[str, dict[str, int]]
"""How many rows there are: by cluster, by table."""
ReadSpans = Mapping[str, Sequence[Span]]
"""Which offsets a batch was read from, by cluster; offsets of no record among them."""


class Group(msgspec.Struct, frozen=True):
    """Records of one partition of a batch that say the same schema, from the first to the last of them."""

    cluster: str
    topic: str
    partition: int
    prefix: str | None
    start: int
    last: int
    count: int


class Lander:
    """Lands batches into archives, by cluster; `scratch` is an empty folder on their disk, `now_ms` wall time (UTC).

    `check` raises if the topics are no longer those that the archives were made of; it is asked when a batch has been
    read, before anything of it stands. `versions`: the schemas of records, if not those that are released.
    """

    def __init__(
        self,
        session: SparkSession,
        archives: Mapping[str, ArchiveWriter],
        scratch: Path,
        now_ms: Callable[[], int],
        check: Callable[[], None] = lambda: None,
        versions: Iterable[Released] | None = None,
    ) -> None:
        self._session = session
        self._archives = archives
        self._scratch = scratch
        self._now_ms = now_ms
        self._check = check
        self._types: dict[str, list[Released]] = {}
        self._prefixes: dict[str, str] = {}
        for each in released() if versions is None else versions:
            self._types.setdefault(each.name, []).append(each)
            self._prefixes[each.prefix.hex().upper()] = each.name
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")

    def land(self, batch: DataFrame, source: str, read: ReadSpans = MappingProxyType({})) -> None:
        """Land what of these records has not landed; nothing happens if all of them have.

        Offsets without a record (the marks of transactions, what was compacted away) are noted as read, or they would
        be read for ever.
        """
        for archive in self._archives.values():
            archive.refresh()
        came = steps.records(batch).where(F.col(steps.CLUSTER).isin(list(self._archives)))
        came = came.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self._land(*self._not_landed(came), source, read)
        finally:
            came.unpersist()

    def _not_landed(self, came: DataFrame) -> tuple[DataFrame, Sequence[Group], ReadSpans]:
        """What of these records has not landed, its groups, and by cluster its spans: each from the first to the last
        record that is left, for a reader takes both ends of a span for records."""
        groups = _groups(came)
        spans = _spans(groups)
        taken = {name: overlapping(each, self._archives[name].spans()) for name, each in spans.items()}
        if not any(taken.values()):
            return came, groups, spans
        left = {name: found for name, each in spans.items() if (found := minus(each, taken[name]))}
        new = steps.without(came, taken)
        return new, _groups(new) if left else [], _with_records(came, left)

    def _land(self, came: DataFrame, groups: Sequence[Group], spans: ReadSpans, source: str, read: ReadSpans) -> None:
        to_land = {name for name, each in read.items() if minus(each, self._archives[name].covered())} | spans.keys()
        if not to_land:
            return
        if self._scratch.exists():
            shutil.rmtree(self._scratch)
        rows = self._write(came, groups) if groups else {}
        self._identify(came, groups)
        self._check()
        for name in sorted(to_land):
            archive = self._archives[name]
            try:
                self._hand_over(name, archive.staged())
                archive.land(source, spans.get(name, ()), rows.get(name, {}), self._now_ms(), read.get(name, ()))
            except OSError as error:
                raise BadInput(f"The archive in {archive.folder} cannot be written: {error.strerror}.") from error
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _hand_over(self, cluster: str, staged: Path) -> None:
        """Its files, as the archive has them: without the folder of the cluster, and one quarantine for all types."""
        for table in self._written():
            name = QUARANTINE if table.is_relative_to(self._scratch / QUARANTINE) else table.relative_to(self._scratch)
            written = table / f"{steps.CLUSTER}={cluster}"
            for path in written.rglob("*.parquet"):
                target = staged / name / path.relative_to(written)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.rename(target)

    def _written(self) -> list[Path]:
        by_type = [_folders(self._scratch / each) for each in (TYPED, QUARANTINE)]
        return [self._scratch / RECORDS, *chain.from_iterable(by_type)]

    def _write(self, came: DataFrame, groups: Sequence[Group]) -> Rows:
        """Write the records, a table of each type that is there, and what is in none of them."""
        typed: Counter[str] = Counter()
        for group in groups:
            typed[self._prefixes.get(group.prefix or "", "")] += group.count
        records = came.select(steps.CLUSTER, *steps.RECORD_COLUMNS)
        records = records.sortWithinPartitions(steps.CLUSTER, "topic", "date", "partition", "offset")
        jobs = [lambda: self._save(records, RECORDS, steps.CLUSTER, "topic", "date")]
        if typed.pop("", 0):
            reason = steps.reason_without_type(self._prefixes)
            aside = steps.set_aside(came.withColumn("reason", reason).where("reason is not null"), F.col("reason"))
            jobs.append(lambda: self._save(aside, f"{QUARANTINE}/untyped", steps.CLUSTER, "date"))
        jobs += [lambda name=name: self._save_table(came, name, typed[name]) for name in sorted(typed)]  # type: ignore[misc]
        with ThreadPoolExecutor(_JOBS_AT_ONCE) as pool:
            done = [pool.submit(inheritable_thread_target(self._session)(job)) for job in jobs]
            for each in done:
                each.result()
        rows = self._counted()
        written, given = sum(each[RECORDS] for each in rows.values()), sum(group.count for group in groups)
        if written != given:
            raise SparkFailed(f"Spark has written {written} of {given} records.", hint="Nothing of them has landed.")
        return rows

    def _save_table(self, came: DataFrame, name: str, count: int) -> None:
        events = steps.decoded(came, self._types[name])
        self._save(steps.table(events), f"{TYPED}/{name}", steps.CLUSTER, "date")
        if sum(_rows_in(self._scratch / TYPED / name).values()) < count:
            damaged = steps.set_aside(events.where(F.col("event").isNull()), F.lit(steps.DAMAGED), name)
            self._save(damaged, f"{QUARANTINE}/{name}", steps.CLUSTER, "date")

    def _save(self, frame: DataFrame, table: str, *by: str) -> None:
        frame.write.partitionBy(*by).parquet(str(self._scratch / table))

    def _counted(self) -> Rows:
        """What the files have."""
        rows: Rows = defaultdict(lambda: defaultdict(int))
        for table in self._written():
            name = str(table.relative_to(self._scratch))
            for cluster, count in _rows_in(table).items():
                rows[cluster][QUARANTINE if name.startswith(QUARANTINE) else name] += count
        return rows

    def _identify(self, came: DataFrame, groups: Sequence[Group]) -> None:
        """The log's own id is in the stamp of its first record; one that stands behind it is a stranger's, which no
        reader counts."""
        first = Topic.DECISIONS.short_name
        if any(group.topic == first and self._prefixes.get(group.prefix or "") == "LogStarted" for group in groups):
            for row in steps.begun(came, first).collect():
                archive = self._archives[row[steps.CLUSTER]]
                if row["offset"] == 0 or not archive.about.log_id:
                    archive.identify(bytes(row["log_id"]))


def _groups(came: DataFrame) -> list[Group]:
    found = came.groupBy(F.col(steps.CLUSTER).alias("cluster"), "topic", "partition", "prefix").agg(
        F.min("offset").alias("start"), F.max("offset").alias("last"), F.count("*").alias("count")
    )
    return [Group(*_fields(row)) for row in found.collect()]


def _with_records(came: DataFrame, spans: ReadSpans) -> dict[str, tuple[Span, ...]]:
    """These spans from the first to the last record of each; those without one are left out."""
    found: dict[str, list[Span]] = defaultdict(list)
    for cluster, each in spans.items():
        for span in each:
            inside = came.where(steps.is_within(cluster, span)).agg(F.min("offset"), F.max("offset")).first()
            if inside is not None and inside[0] is not None:
                found[cluster].append(Span(span.topic, span.partition, inside[0], inside[1] + 1))
    return {cluster: merged(each) for cluster, each in found.items()}


def _fields(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in Group.__struct_fields__)


def _spans(groups: Sequence[Group]) -> dict[str, tuple[Span, ...]]:
    """From the first to the last record of each partition, by cluster."""
    ends: dict[tuple[str, str, int], tuple[int, int]] = {}
    for each in groups:
        place = each.cluster, each.topic, each.partition
        start, last = ends.get(place, (each.start, each.last))
        ends[place] = min(start, each.start), max(last, each.last)
    found: dict[str, list[Span]] = defaultdict(list)
    for (cluster, topic, partition), (start, last) in ends.items():
        found[cluster].append(Span(topic, partition, start, last + 1))
    return {cluster: merged(spans) for cluster, spans in found.items()}


def _rows_in(table: Path) -> dict[str, int]:
    """By cluster; Spark writes no file for nothing."""
    found: dict[str, int] = defaultdict(int)
    for folder in _folders(table):
        if folder.name.startswith(f"{steps.CLUSTER}="):
            for path in folder.rglob("*.parquet"):
                found[folder.name.removeprefix(f"{steps.CLUSTER}=")] += pq.read_metadata(path).num_rows
    return found


def _folders(folder: Path) -> Iterator[Path]:
    return (each for each in sorted(folder.iterdir()) if each.is_dir()) if folder.exists() else iter(())
