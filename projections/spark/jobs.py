"""A job of Spark that is told of while it runs, can be ended, and whose errors are ours.

Spark counts tasks, and a task is some hundred thousand rows: what is told is the part of the tasks that are done. Who
is told may raise, and that ends the job on all cores before the call returns.

The JVM may be killed, by a system that is short of memory, say. What PySpark then raises is as manifold as its ways to
the JVM; so it is not that which is looked at, but whether the process of the JVM is there.
"""

import itertools
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # it ships no types
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from topolog.events.errors import SparkEnded, SparkFailed, TopologError
from topolog.projections.spark.session import is_over

Result = TypeVar("Result")
OnProgress = Callable[[float], None]

ASK_EVERY_S = 0.5
_LOST = (Py4JError, ConnectionError, EOFError)
_POOLS = itertools.cycle(f"pool {number}" for number in range(16))
"""Jobs of one pool go one after the other, those of several side by side (session.py); no pool is ever given up."""

_END_S = 2.0
"""How long a process may go on after its sockets are closed."""


def run(session: SparkSession, action: Callable[[], Result], told: OnProgress | None = None) -> Result:
    """What `action` returns. Raises SparkFailed for what Spark raises, SparkEnded once it is no more, and what `told`
    raises."""
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
        if not isinstance(error, PySparkException | Py4JError):
            raise
        raise SparkFailed(f"A job of Spark failed: {sentence(told_by(error))}") from error


def _run(session: SparkSession, action: Callable[[], Result], told: OnProgress | None) -> Result:
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


def told_by(error: BaseException) -> str:
    """All that Spark says of an error, and Java of its causes, by lines."""
    return "\n".join([str(error), *causes(error)])


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


def sentence(said: str, mark: str = "") -> str:
    """The first line of it that has the mark, or the first one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if mark in line), lines[0] if lines else "nothing")[:300]
