"""Many seeds on several cores: each outcome as plain data, in the order of the seeds whichever process is faster.

Ctrl-C is the caller's: its processes never see it, so that none of them complains while it is being ended.
"""

import logging
import multiprocessing
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker

import msgspec

from topolog.streams.simulation.faults import Faults
from topolog.streams.simulation.run import Violation, simulate

PROCESSES = 2


class Outcome(msgspec.Struct, frozen=True):
    """What became of one seed; `violation` is the whole story of a rule that broke, nothing if none did."""

    seed: int
    violation: str = ""
    positions: int = 0
    terms: int = 0
    nodes_left: int = 0


def outcome_of(seed: int, steps: int) -> Outcome:
    """Run one seed under every fault at once."""
    try:
        report = simulate(seed, steps, Faults())
    except Violation as violation:
        return Outcome(seed, str(violation))
    return Outcome(seed, "", report.positions, report.terms, report.nodes_left)


def outcomes(seeds: Sequence[int], steps: int, *, processes: int = PROCESSES) -> Generator[Outcome, None, None]:
    """The outcome of each seed, in their order. To close the iterator ends the processes."""
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
    with _deaf_children():
        pool = context.Pool(min(processes, len(seeds)), initializer=logging.disable)
    with pool:
        yield from pool.imap(partial(outcome_of, steps=steps), seeds)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that start inside inherit that SIGINT is blocked; one that comes meanwhile is kept for after."""
    resource_tracker.ensure_running()  # before: its start unblocks SIGINT
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
