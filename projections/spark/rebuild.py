"""Rebuilds of many clusters side by side: one task of Spark per cluster, longest first.

The fold is ours, in Python, and one log cannot be folded in two places at once; so what Spark gives here is many Python
processes on many machines, each with whole logs of its own, and their outcomes as a table. An archive that cannot be
rebuilt is a row that says why, and does not stop the others.

Executors need the archives and the folders of stores under the same paths as the driver, and topolog installed.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import DataFrame, SparkSession

from topolog.events.errors import TopologError
from topolog.projections.archive.landings import Archive
from topolog.projections.archive.rebuilding import Rebuilt, Standing, Task, rebuilt

_OUTCOMES = (
    "cluster string, folder string, standing string, position long, chain string, state_hash string, decisions long, "
    "ignored long, seconds double, error string, hint string, verdict string"
)


def outcomes(session: SparkSession, tasks: Sequence[Task]) -> DataFrame:
    """One row per task, as `Rebuilt` has it (`verdict` as JSON); the rebuilds are made when the frame is read."""
    numbers = session.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(partial(_run, longest_first(tasks)), _OUTCOMES)


def collected(frame: DataFrame) -> list[Rebuilt]:
    """The outcomes, by cluster."""
    found = []
    for row in frame.toArrow().to_pylist():
        verdict = msgspec.json.decode(row["verdict"]) if row["verdict"] else None
        found.append(msgspec.convert({**row, "verdict": verdict}, Rebuilt))
    return sorted(found, key=lambda each: each.cluster)


def longest_first(tasks: Sequence[Task]) -> list[Task]:
    """So that the largest log does not begin when all others have ended."""
    return sorted(tasks, key=_records, reverse=True)


def _records(task: Task) -> int:
    return Archive(task.archive).rows().get("records", 0) if task.archive else 0


def _run(tasks: Sequence[Task], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a Python process of an executor."""
    for batch in batches:
        rows = [_row(_outcome(tasks[number])) for number in batch.column("id").to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_schema())


def _outcome(task: Task) -> Rebuilt:
    """What becomes of one must not end the others, whatever it is."""
    try:
        return rebuilt(task, time.monotonic, lambda _: None)
    except TopologError as error:
        return _failed(task, error.message, error.hint)
    except Exception as error:  # noqa: BLE001 (a defect of ours is told like all else)
        return _failed(task, f"The rebuild failed: {error!r}.", "")


def _failed(task: Task, error: str, hint: str) -> Rebuilt:
    return Rebuilt(task.cluster, str(task.folder), Standing.FAILED, error=error, hint=hint)


def _row(outcome: Rebuilt) -> Mapping[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(outcome)
    verdict = msgspec.json.encode(outcome.verdict).decode() if outcome.verdict else ""
    return {**row, "verdict": verdict}


def _schema() -> pa.Schema:
    types = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}
    return pa.schema([(name, types[type_]) for name, type_ in (each.split() for each in _OUTCOMES.split(", "))])
