"""What reports are made of: the typed tables of an archive, and which of their records count.

A table holds every record that decodes; `counted` leaves those that the fold has accepted, with their positions. A
report names the fields it needs with their types, and so reads no others, reads files of older schema versions too
(what they lack is null), and has a table without rows where nothing of that type has landed.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.errors import BadInput
from topolog.projections.archive import tenures
from topolog.projections.archive.derived import Told
from topolog.projections.archive.landings import QUARANTINE, TYPED, Archive, DamagedArchive
from topolog.projections.archive.positions import Positions, brought_forward

_PLACE = (
    "log struct<topic:string,offset:bigint,appended_at:timestamp>, "
    "stamp struct<cause:string,actor:string,reason:string>"
)
_DAY_MS = 86_400_000
Result = TypeVar("Result")
_IS_DECISION = "log.topic = 'decisions'"
"""Somebody may have written a decision into another topic, whose offsets are others."""

_TENURES = (
    "group string, partition int, position bigint, logged_at timestamp, primary string, is_stopped boolean, "
    "is_lost boolean, is_there boolean"
)
_POSITIONS = "offset bigint, position bigint, set_end bigint, logged_at timestamp"


class Days(msgspec.Struct, frozen=True):
    """The days (UTC) that are asked about, both included; None for as far as the archive goes."""

    first: date | None = None
    last: date | None = None

    @property
    def end_ms(self) -> int | None:
        """The moment behind the last day."""
        if self.last is None:
            return None
        return round(datetime.combine(self.last, time.min, UTC).timestamp() * 1000) + _DAY_MS


def landed_in(
    session: SparkSession,
    archive: Archive,
    days: Days = Days(),  # noqa: B008 (frozen value)
    told: Told = lambda _: None,
    derived: Path | None = None,
) -> "Landed":
    """An archive as reports read it; judges first what has landed since, which Spark has no part in.

    Raises BadInput for an archive without decisions, and what `positions.brought_forward` does.
    """
    positions = brought_forward(archive, derived, told)
    if not positions.accepted:
        raise BadInput(
            f"The archive in {archive.folder} has no decisions, and all reports are made of those.",
            hint="Land the topic `decisions` into it: `topolog spark archive`.",
        )
    return Landed(session, archive, positions, days, told, derived)


class Landed:
    """One archive as a report reads it. `judged` are its positions."""

    def __init__(
        self,
        session: SparkSession,
        archive: Archive,
        positions: Positions,
        days: Days,
        told: Told = lambda _: None,
        derived: Path | None = None,
    ) -> None:
        self.session = session
        self.judged = positions
        self.days = days
        self._archive = archive
        self._told = told
        self._derived = derived
        self._on_their_way: set[Path] = set()

    @property
    def cluster(self) -> str:
        return self._archive.about.cluster

    @property
    def log_id(self) -> str:
        return self._archive.about.log_id

    @property
    def end(self) -> Column:
        """Up to where facts are known or asked for: what is open then has lasted until then."""
        known_ms, asked_ms = self.judged.logged_ms, self.days.end_ms
        return F.timestamp_millis(F.lit(known_ms if asked_ms is None else min(known_ms, asked_ms)))

    def typed(self, name: str, fields: str = "") -> DataFrame:
        """A table, whether its rows count or not: `offset`, `by` (cause, actor, reason of the stamp), and these fields,
        as in DDL."""
        schema = f"{_PLACE}, {fields}" if fields else _PLACE
        found = self._read(self._files(f"{TYPED}/{name}"), schema).where(_IS_DECISION)
        return found.select(F.col("log.offset").alias("offset"), F.col("stamp").alias("by"), *found.columns[2:])

    def whole(self, name: str) -> DataFrame | None:
        """A table with all its columns, None if nothing of it has landed."""
        files = [str(path) for path in self._files(f"{TYPED}/{name}")]
        return self.session.read.option("mergeSchema", True).parquet(*files).where(_IS_DECISION) if files else None

    def measured(self, name: str, fields: str) -> DataFrame:
        """A table of another topic: `offset`, `appended_at` and these fields. Nobody judges such records."""
        found = self._read(self._files(f"{TYPED}/{name}"), f"{_PLACE}, {fields}")
        place = (F.col("log")[each].alias(each) for each in ("offset", "appended_at"))
        return found.select(*place, *found.columns[2:])

    def counted(self, typed: DataFrame) -> DataFrame:
        """Of the rows of typed tables those that count, with `position`, `set_end`, and the log's time `logged_at`."""
        return typed.join(self.positions(), "offset").drop("offset")

    def positions(self) -> DataFrame:
        """offset, position, set_end, logged_at of each decision that counts, up to the last day asked about."""
        found = self._read(self.judged.files, _POSITIONS)
        if self.judged.voided:
            found = found.where(~F.col("position").isin(self.judged.voided))
        return self._until_end(found)

    def tenures(self) -> DataFrame:
        """Who acted for which partition from when on (`archive/tenures.py`)."""
        found = self._read(self.folded, _TENURES)  # another report may have folded further meanwhile
        return self._until_end(found.where(F.col("position") <= self.judged.verified_at))

    @cached_property
    def folded(self) -> tuple[Path, ...]:
        """The files of tenures, which take a fold of the whole log: once, and without Spark."""
        return tenures.brought_forward(self._archive, self.judged, self._derived, self._told)

    def asked(self, facts: DataFrame, at: str) -> DataFrame:
        """Those whose time `at` lies within the days asked about; with `date`."""
        dated = facts.withColumn("date", F.to_date(at))
        if self.days.first:
            dated = dated.where(F.col("date") >= F.lit(self.days.first))
        return dated.where(F.col("date") <= F.lit(self.days.last)) if self.days.last else dated

    def undecoded(self) -> DataFrame:
        """Decisions that count and do not decode: position, reason."""
        aside = self._read(self._files(QUARANTINE), "topic string, offset bigint, reason string, type string").where(
            F.col("topic") == "decisions"
        )
        return self.counted(aside.select("offset", "reason")).select("position", "reason")

    def steady(self, action: Callable[[], Result]) -> Result:
        """What `action` makes of these tables; made again if it fails and a writer has moved files of them meanwhile.

        Spark reads a table when its rows are asked for, long after it was told where the files are, and a landing that
        stands is moved only then. A file is moved once, so this comes to an end.
        """
        while True:
            try:
                return action()
            except Exception:
                if not self._have_moved():
                    raise

    def _files(self, prefix: str) -> list[Path]:
        if gone := self._archive.missing(prefix):
            raise DamagedArchive(
                f"{len(gone)} files of the archive are missing, the first is {gone[0]}.",
                hint="Bring them back from a backup, or make the reports of an archive that is whole.",
            )
        files = self._archive.files(prefix)
        self._on_their_way.update(path for path in files if path != self._archive.final(path))
        return files

    def _have_moved(self) -> bool:
        moved = {path for path in self._on_their_way if not path.exists() and self._archive.final(path).exists()}
        self._on_their_way -= moved
        return bool(moved)

    def _until_end(self, found: DataFrame) -> DataFrame:
        end_ms = self.days.end_ms
        return found if end_ms is None else found.where(F.unix_millis("logged_at") < end_ms)

    def _read(self, files: Sequence[Path], schema: str) -> DataFrame:
        if not files:
            return self.session.createDataFrame([], schema)
        return self.session.read.schema(schema).parquet(*(str(path) for path in files))


def ms_between(start: str, end: str) -> Column:
    """Milliseconds from one column of times to another."""
    return F.unix_millis(end) - F.unix_millis(start)
