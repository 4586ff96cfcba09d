"""What a piece of work takes: by the clock, and of the processors, of this process and of Spark's."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from pyspark import SparkContext

Result = TypeVar("Result")
_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(msgspec.Struct, frozen=True, order=True):
    """Seconds."""

    processor: float
    wall: float


def measured(action: Callable[[], Result]) -> tuple[Cost, Result]:
    pids = [os.getpid(), SparkContext._gateway.proc.pid]  # type: ignore[union-attr]
    began, began_s = sum(map(_seconds, pids)), time.perf_counter()
    result = action()
    return Cost(sum(map(_seconds, pids)) - began, time.perf_counter() - began_s), result


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS  # with children that were waited for: peers are run as such
