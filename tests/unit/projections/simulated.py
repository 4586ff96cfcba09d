"""Stores of simulated histories: real coordinators, nodes and operators under every fault, and what is read of them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from topolog.events.fold import Fold
from topolog.events.log import InMemoryLog
from topolog.events.topics import Topic
from topolog.projections.projector import Projector
from topolog.projections.store import Reading
from topolog.streams.simulation import Faults
from topolog.streams.simulation.run import _Run, drawn


@cache
def log_of(seed: int, span_ms: int = 8_000) -> InMemoryLog:
    """The log of the first world of a seed, drawn as `topolog simulate` does."""
    run = _Run(drawn(seed, span_ms, Faults.of_seed(seed)))
    run.through()
    log: InMemoryLog = run._histories.worlds[0].broker.log
    return log


@contextmanager
def reading_of(log: InMemoryLog, folder: Path) -> Iterator[Reading]:
    """A reading of the store that a projector makes of the whole log."""
    with closing(Projector(log.reader(), folder, "main")) as projector:
        while projector.step():
            pass
        with projector.reading() as reading:
            yield reading


def folds(log: InMemoryLog) -> Iterator[Fold]:
    """The fold behind each whole set, without any store."""
    fold = Fold()
    for entry in log.entries(Topic.DECISIONS):
        folded = fold.read(entry.stamp, entry.value)
        if isinstance(folded, list) and folded:
            yield fold
