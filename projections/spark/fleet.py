"""One job for the topics of many clusters, each into the archive of its own.

Threat. One cluster has a hundred times as many records as the others together. A stream of Spark would divide each
batch by what is there, and the others would wait for as many batches as that one needs. One of them is broken: its
topics were made anew or have no leader, its folder belongs to another or is damaged, something in it ends Spark's job.
It must not end the landing of the others, nor delay it.

So each round divides what it lands equally, and what some do not need goes to the others (`spans.shares`): all that a
small cluster has is in the next batch. A cluster whose topics or folder are not in order is set aside with the reason
until a look finds them so. What nobody can see before is seen when a batch fails: then each of its clusters is landed
alone, and whichever fails alone is landed alone until it succeeds, behind all others.
"""

import contextlib
import fnmatch
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from topolog.events.errors import Retriable, SparkEnded, TopologError
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import Topic, clusters
from topolog.projections.archive import topics
from topolog.projections.archive.landings import ArchiveWriter, opened
from topolog.projections.archive.progress import Progress, progress
from topolog.projections.archive.spans import Span
from topolog.projections.spark import batches, jobs
from topolog.projections.spark.lander import Lander

_LOGGER = logging.getLogger("topolog.archive")
Wanted = Sequence[tuple[str, Span]]


class Round(msgspec.Struct, frozen=True):
    """Offsets that have landed, and how many of those seen at the beginning of the round are left that can land."""

    landed: int
    left: int


class Fleet:
    """The archives below `folder` of the clusters that `pattern` (`*`, `shop-*`) fits; a context manager.

    `log_id` reads the id of a cluster's log. `kafka` are settings of Kafka's Java clients.
    """

    def __init__(
        self,
        folder: Path,
        pattern: str,
        admin: KafkaAdmin,
        kafka: Mapping[str, str],
        log_id: Callable[[str], bytes],
        now_ms: Callable[[], int],
        only: Sequence[Topic] = topics.TOPICS,
    ) -> None:
        self._folder = folder
        self._pattern = pattern
        self._admin = admin
        self._kafka = kafka
        self._log_id = log_id
        self._now_ms = now_ms
        self._topics = only
        self._archives: dict[str, ArchiveWriter] = {}
        self._locks: dict[str, contextlib.ExitStack] = {}
        self._rounds = 0
        self._seen: dict[str, topics.Seen] = {}
        self._unsound: dict[str, TopologError] = {}
        self._failing: dict[str, TopologError] = {}

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        for name in [*self._locks]:
            self._close(name)

    @property
    def set_aside(self) -> dict[str, TopologError]:
        """Why a cluster is not landed, by its name."""
        return {**self._failing, **self._unsound}

    def round(self, session: SparkSession, told: jobs.OnProgress | None = None) -> Round:
        """Land one batch of what is there. Raises Unreachable, SparkEnded, and what `told` does."""
        self._rounds += 1
        self._seen = self._looked_at()
        unread = {name: topics.unread(self._archives[name], seen) for name, seen in self._seen.items()}
        failing = [name for name in unread if name in self._failing]
        landed = self._together(session, _first(unread, unread.keys() - self._failing.keys()), told)
        landed += sum(self._alone(session, _first(unread, [name]), told) for name in failing)
        seen = sum(_offsets(spans) for name, spans in unread.items() if name not in self._failing)
        return Round(landed, max(0, seen - landed))

    def progress(self) -> list[Progress]:
        """One for each cluster that is landed, by its topics as the last round has seen them."""
        now_ms, sound = self._now_ms(), self._seen.items()
        return [progress(self._archives[name], seen, {}, now_ms) for name, seen in sound if name in self._archives]

    def _together(self, session: SparkSession, batch: Wanted, told: jobs.OnProgress | None) -> int:
        try:
            return self._land(session, batch, told)
        except SparkEnded:
            raise
        except TopologError as error:
            names = sorted({name for name, _ in batch})
            if isinstance(error, Retriable):
                self._admin.topics()  # raises if it is the broker that does not answer
                if len(names) == 1:
                    raise
            return sum(self._alone(session, [each for each in batch if each[0] == name], told) for name in names)

    def _alone(self, session: SparkSession, batch: Wanted, told: jobs.OnProgress | None) -> int:
        """What one cluster has of a batch; what ends it is noted and ends nothing else."""
        if not batch:
            return 0
        name = batch[0][0]
        try:
            landed = self._land(session, batch, told)
        except SparkEnded:
            raise
        except TopologError as error:
            self._failing[name] = error
            self._close(name)  # opened anew it is looked at anew
            return 0
        self._failing.pop(name, None)
        return landed

    def _land(self, session: SparkSession, batch: Wanted, told: jobs.OnProgress | None) -> int:
        if not batch:
            return 0
        archives = {name: self._opened(name) for name, _ in batch}
        _LOGGER.info(
            "Round %d: %d offsets of %d clusters.", self._rounds, _offsets(of for _, of in batch), len(archives)
        )
        scratch = next(iter(archives.values())).scratch("batch")
        lander = Lander(session, archives, scratch, self._now_ms, lambda: self._check(archives))
        batches.land(session, lander, self._kafka, batch, f"round {self._rounds}", told)
        return _offsets(span for _, span in batch)

    def _looked_at(self) -> dict[str, topics.Seen]:
        """What there is of the clusters whose topics are those of their archives."""
        named = [name for name in clusters(self._admin.topics()) if fnmatch.fnmatchcase(name, self._pattern)]
        looked = topics.look_at_all(self._admin, named, self._topics)
        self._unsound = looked.failed
        sound = {}
        for name, seen in looked.seen.items():
            try:
                archive = self._opened(name)
                topics.check(archive, seen)
                topics.begin(archive, seen)
            except TopologError as error:
                self._unsound[name] = error
            else:
                sound[name] = seen
        self._failing = {name: error for name, error in self._failing.items() if name in sound}
        return sound

    def _opened(self, cluster: str) -> ArchiveWriter:
        if cluster not in self._archives:
            with contextlib.ExitStack() as opening:
                archive = opening.enter_context(opened(self._folder / cluster, cluster))
                archive.identify(self._log_id(cluster))
                self._archives[cluster] = archive
                self._locks[cluster] = opening.pop_all()
        return self._archives[cluster]

    def _close(self, cluster: str) -> None:
        del self._archives[cluster]
        self._locks.pop(cluster).close()

    def _check(self, archives: Mapping[str, ArchiveWriter]) -> None:
        looked = topics.look_at_all(self._admin, archives, self._topics)
        for name, archive in archives.items():
            if name in looked.failed:
                raise looked.failed[name]
            topics.check(archive, looked.seen[name])


def _first(unread: Mapping[str, Iterable[Span]], names: Iterable[str]) -> Wanted:
    """The first batch of what these clusters have."""
    wanted = [(name, span) for name in names for span in unread[name]]
    return next(batches.in_batches(wanted, batches.RECORDS_PER_BATCH_MAX), [])


def _offsets(spans: Iterable[Span]) -> int:
    return sum(span.end - span.start for span in spans)
