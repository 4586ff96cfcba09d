"""One job for the topics of many clusters, each into the archive of its own.

Threat. One cluster has a hundred times as many records as the others together. A stream of Spark would divide each
batch by what is there, and the others would wait for as many batches as that one needs. One of them is broken: its
topics were made anew, its folder belongs to another. It must not end the job for the others.

So each round divides what it lands equally, and what some do not need goes to the others (`spans.shares`): all that a
small cluster has is in the next batch. A cluster that cannot be landed is set aside with its reason until the next
look, and looked at again in each round.
"""

import contextlib
import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from topolog.events.errors import BadInput, LogDiverged, Permanent
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import Topic
from topolog.projections.archive import topics
from topolog.projections.archive.landings import ArchiveWriter, opened
from topolog.projections.archive.progress import Progress, progress
from topolog.projections.spark import jobs, landing
from topolog.projections.spark.batches import Lander

_LOG = re.compile(rf"topolog\.(.+)\.{re.escape(Topic.DECISIONS.short_name)}")


class Fleet:
    """The archives below `folder` of the clusters that `pattern` (`*`, `shop-*`) fits; a context manager.

    `log_id` reads the id of a cluster's log. `set_aside` says why a cluster is not landed, by its name.
    """

    def __init__(
        self,
        folder: Path,
        pattern: str,
        admin: KafkaAdmin,
        log_id: Callable[[str], bytes],
        now_ms: Callable[[], int],
        only: Sequence[Topic] = topics.TOPICS,
    ) -> None:
        self._folder = folder
        self._pattern = pattern
        self._admin = admin
        self._log_id = log_id
        self._now_ms = now_ms
        self._topics = only
        self._archives: dict[str, ArchiveWriter] = {}
        self._kept = contextlib.ExitStack()
        self._rounds = 0
        self.set_aside: dict[str, Permanent] = {}

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def round(self, session: SparkSession, kafka: Mapping[str, str], told: jobs.Told | None = None) -> int:
        """Land one batch; how many offsets it has, 0 if all has landed. Raises Unreachable, and what Spark does."""
        sound = self._looked_at()
        wanted = [(name, span) for name, seen in sound.items() for span in topics.unread(self._archives[name], seen)]
        batch = next(landing.in_batches(wanted, landing.RECORDS_PER_BATCH_MAX), [])
        if batch:
            self._rounds += 1
            scratch = self._archives[batch[0][0]].scratch("batch")
            named = {name: self._archives[name] for name, _ in batch}
            lander = Lander(session, named, scratch, self._now_ms, lambda: self._check(named))
            try:
                landing.Batches(session, lander, kafka, told).land(batch, f"round {self._rounds}")
            except (BadInput, LogDiverged):
                self._looked_at()
                if not self.set_aside:  # by now nothing is wrong with any of them
                    raise
        return sum(span.end - span.start for _, span in batch)

    def progress(self) -> list[Progress]:
        """One for each cluster that is landed."""
        now_ms = self._now_ms()
        return [progress(self._archives[name], seen, {}, now_ms) for name, seen in self._looked_at().items()]

    def _looked_at(self) -> dict[str, topics.Seen]:
        """What there is of the clusters whose topics are those of their archives."""
        there = self._admin.topics()
        found = sorted(match[1] for name in there if (match := _LOG.fullmatch(name)))
        named = [name for name in found if fnmatch.fnmatchcase(name, self._pattern)]
        lacking = {name: lacks for name in named if (lacks := topics.lacking(name, there, self._topics))}
        self.set_aside = {name: topics.not_found(lacks) for name, lacks in lacking.items()}
        sound = {}
        clusters = [name for name in named if name not in lacking]
        seen = topics.look(self._admin, clusters, self._topics) if clusters else {}
        for name in clusters:
            try:
                topics.check(self._opened(name), seen[name])
            except Permanent as error:
                self.set_aside[name] = error
            else:
                sound[name] = seen[name]
        return sound

    def _opened(self, cluster: str) -> ArchiveWriter:
        if cluster not in self._archives:
            with contextlib.ExitStack() as opening:
                archive = opening.enter_context(opened(self._folder / cluster, cluster))
                archive.identify(self._log_id(cluster))
                self._archives[cluster] = archive
                self._kept.push(opening.pop_all())
        return self._archives[cluster]

    def _check(self, archives: Mapping[str, ArchiveWriter]) -> None:
        seen = topics.look(self._admin, archives, self._topics)
        for name, archive in archives.items():
            topics.check(archive, seen[name])
