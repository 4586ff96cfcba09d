"""Rebuilds of many clusters side by side: one task of Spark per cluster, longest first.

The fold is ours, in Python, and one log cannot be folded in two places at once; so what Spark gives here is many Python
processes on many machines, each with whole logs of its own, and their outcomes as a table. An archive that cannot be
rebuilt is a row that says why, and does not stop the others.

Executors need the archives and the folders of stores under the same paths as the driver, and topolog installed.
"""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from topolog.events.errors import TopologError
from topolog.projections.archive.landings import Archive
from topolog.projections.archive.rebuilding import Outcome, Standing, Task, rebuild_store

_OUTCOMES = (
    "cluster string, folder string, standing string, position long, chain string, state_hash string, decisions long, "
    "ignored long, seconds double, error string, hint string, verdict string"
)


def outcomes(session: SparkSession, tasks: Sequence[Task]) -> DataFrame:
    """One row per task, as `Outcome` has it (`verdict` as JSON); the rebuilds are made whenever the frame is read."""
    apart = session.sparkContext.parallelize(longest_first(tasks), len(tasks))
    return session.createDataFrame(apart.map(_row), _OUTCOMES)


def collected(frame: DataFrame) -> list[Outcome]:
    """The outcomes, by cluster."""
    found = []
    for row in frame.collect():
        verdict = msgspec.json.decode(row["verdict"]) if row["verdict"] else None
        found.append(msgspec.convert({**row.asDict(), "verdict": verdict}, Outcome))
    return sorted(found, key=lambda each: each.cluster)


def longest_first(tasks: Sequence[Task]) -> list[Task]:
    """So that the largest log does not begin when all others have ended."""
    return sorted(tasks, key=_records, reverse=True)


def _records(task: Task) -> int:
    """0 for an archive that cannot be read, which its own task says."""
    try:
        return Archive(task.archive).records if task.archive else 0
    except TopologError:
        return 0


def _row(task: Task) -> tuple[Any, ...]:
    """In a Python process of an executor."""
    outcome = _outcome(task)
    verdict = msgspec.json.encode(outcome.verdict).decode() if outcome.verdict else ""
    return tuple({**msgspec.to_builtins(outcome), "verdict": verdict}.values())


def _outcome(task: Task) -> Outcome:
    """What becomes of one must not end the others, whatever it is."""
    try:
        return rebuild_store(task, time.monotonic, lambda _: None)
    except TopologError as error:
        return _failed(task, error.message, error.hint)
    except Exception as error:  # noqa: BLE001 (a defect of ours is told like all else)
        return _failed(task, f"The rebuild failed: {error!r}.", "")


def _failed(task: Task, error: str, hint: str) -> Outcome:
    return Outcome(task.cluster, str(task.folder), Standing.FAILED, error=error, hint=hint)
