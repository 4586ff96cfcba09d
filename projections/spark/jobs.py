"""A job of Spark that is told of while it runs, can be ended, and whose errors are ours.

Spark counts tasks, and a task is some hundred thousand rows: what is told is the part of the tasks that are done. Who
is told may raise, and that ends the job on all cores before the call returns.

The JVM may be killed, by a system that is short of memory, say. What PySpark then raises is as manifold as its ways to
the JVM; so it is not that which is looked at, but whether the process of the JVM is there.
"""

import itertools
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # it ships no types
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from topolog.events.errors import ReplicaFailed, SparkEnded, SparkFailed, TopologError
from topolog.projections.spark.session import is_over
from topolog.projections.spark.trees import too_large

Result = TypeVar("Result")
Told = Callable[[float], None]

ASK_EVERY_S = 0.5
_LOST = (Py4JError, ConnectionError, EOFError)
_POOLS = itertools.cycle(f"pool {number}" for number in range(16))
"""Jobs of one pool go one after the other, those of several side by side (session.py); no pool is ever given up."""

_END_S = 2.0
"""How long a process may go on after its sockets are closed."""

# What Spark calls what went wrong; the first that is in its text decides.
_CODES = (
    ("COLUMN_ALREADY_EXISTS", "SCHEMA"),
    ("CONFLICTING_DIRECTORY_STRUCTURES", "SCHEMA"),
    ("CONFLICTING_PARTITION_COLUMN_NAMES", "SCHEMA"),
    ("ARITHMETIC_OVERFLOW", "LEAF_TOO_LARGE"),
    ("NUMERIC_VALUE_OUT_OF_RANGE", "SCHEMA"),
    ("CAST_OVERFLOW", "SCHEMA"),
    ("CAST_INVALID_INPUT", "SCHEMA"),
    ("MALFORMED_RECORD_IN_PARSING", "SCHEMA"),
    ("DUPLICATED_MAP_KEY", "CORRUPT"),
    ("FileNotFoundException", "CUT_LOST"),
    ("PATH_NOT_FOUND", "CUT_LOST"),
    ("UNABLE_TO_INFER_SCHEMA", "CUT_LOST"),
    ("FILE_NOT_EXIST", "CUT_LOST"),
    ("CANNOT_READ_FILE_FOOTER", "CORRUPT"),
    ("FAILED_READ_FILE", "CORRUPT"),
    ("is not a Parquet file", "CORRUPT"),
    ("ChecksumException", "CORRUPT"),
    ("No space left on device", "IO"),
)


def run(session: SparkSession, action: Callable[[], Result], told: Told | None = None) -> Result:
    """What `action` returns. Raises ReplicaFailed or SparkFailed for what Spark raises, SparkEnded once it is no more,
    and what `told` raises."""
    try:
        return _run(session, action, told)
    except TopologError:
        raise
    except Exception as error:
        if is_over(_END_S if isinstance(error, _LOST) and not isinstance(error, Py4JJavaError) else 0):
            raise SparkEnded(
                "The JVM of Spark has ended, and this process can read no table any more.",
                hint="Start it again; give it more memory or smaller tasks if it was killed for want of that.",
            ) from error
        raise translated(error) from error


def _run(session: SparkSession, action: Callable[[], Result], told: Told | None) -> Result:
    group = uuid.uuid4().hex
    context = session.sparkContext
    results: list[Result] = []
    errors: list[BaseException] = []

    def act() -> None:
        try:
            context.setJobGroup(group, "topolog", interruptOnCancel=False)
            context.setLocalProperty("spark.scheduler.pool", next(_POOLS))
            results.append(action())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = InheritableThread(target=act, session=session, name="spark-job")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(ASK_EVERY_S)
            if told is not None:
                told(_done(session, group))
    except BaseException:
        while thread.is_alive() and not is_over(0):  # its job may not be handed in yet, or have another after it
            with suppress(*_LOST):
                context.cancelJobGroup(group)
            thread.join(ASK_EVERY_S)
        raise
    if errors:
        raise errors[0]
    return results[0]


def translated(error: BaseException) -> BaseException:
    """An error of Spark as one of ours; any other as it is."""
    if isinstance(error, TopologError) or not isinstance(error, PySparkException | Py4JError):
        return error
    said = str(error)
    if isinstance(error, Py4JJavaError):
        said = f"{said}\n{error.java_exception}"
    for mark, code in _CODES:
        if mark in said:
            if code == "LEAF_TOO_LARGE":
                return too_large("The sums over a leaf do not fit 64 bits.")
            file = re.search(r"file:[^\s'\"\]]+", said)
            where = f" {file.group(0)}" if file else ""
            return ReplicaFailed(code, f"Spark says: {_sentence(said, mark)}{where}")
    return SparkFailed(f"A job of Spark failed: {_sentence(said, '')}")


def causes(error: BaseException) -> list[str]:
    """What Java says of an error, from itself to its first cause, each with its class; nothing without a JVM."""
    found: list[str] = []
    with suppress(*_LOST):
        java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
        while java is not None:
            found.append(str(java.toString()))
            java = java.getCause()
    return found


def _done(session: SparkSession, group: str) -> float:
    """The part of the tasks that are done, of the stages that have begun."""
    tracker = session.sparkContext.statusTracker()
    tasks = done = 0
    for job in tracker.getJobIdsForGroup(group):
        if (told := tracker.getJobInfo(job)) is None:
            continue
        for number in told.stageIds:
            if (stage := tracker.getStageInfo(number)) is not None:
                tasks += stage.numTasks
                done += stage.numCompletedTasks
    return done / tasks if tasks else 0.0


def _sentence(said: str, mark: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if mark in line), lines[0] if lines else "nothing")[:300]
