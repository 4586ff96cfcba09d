"""Many seeds on several cores: each outcome as plain data, in the order of the seeds whichever process is faster.

A case is written as one line of JSON, so that a failing one, shortened, can be run again from a shell, a report or a
test.

Signals are the caller's: its processes never see one, so that none of them complains while it is being ended. They
share no queue and no lock, so that one that dies leaves nobody waiting.
"""

import logging
import multiprocessing
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import cycle
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TypeVar

import msgspec

from topolog.events.errors import BadInput, TopologError
from topolog.streams.simulation.faults import Faults
from topolog.streams.simulation.run import Case, Violation, drawn, simulate
from topolog.streams.simulation.shrinking import shrink, violation_of
from topolog.streams.simulation.stalls import Tally, stall

R = TypeVar("R")
PROCESSES = 2
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Outcome(msgspec.Struct, frozen=True):
    """What became of one seed; `violation` is the whole story of a rule that broke, nothing if none did."""

    seed: int
    violation: str = ""
    positions: int = 0
    terms: int = 0
    nodes_left: int = 0


def outcome_of(seed: int, span_ms: int) -> Outcome:
    """Run one seed under every fault at once; what it may meet beside faults, the seed decides."""
    try:
        report = simulate(seed, span_ms, Faults.of_seed(seed))
    except Violation as violation:
        return Outcome(seed, str(violation))
    return Outcome(seed, "", report.positions, report.terms, report.nodes_left)


def case_text(case: Case) -> str:
    """The case as one line of JSON."""
    return msgspec.json.encode(case).decode()


def case_from(text: str) -> Case:
    """The case in such a line; raises BadInput."""
    try:
        case = msgspec.json.decode(text, type=Case)
    except msgspec.MsgspecError as error:
        raise _no_case(str(error)) from error
    if case.seed < 0 or case.span_ms < 0:
        raise _no_case("`seed` and `span_ms` are 0 or more")
    return case


def _no_case(why: str) -> BadInput:
    return BadInput(f"This is no case of the simulation: {why}.", hint="Use the line that it has printed.")


def outcomes(seeds: Sequence[int], span_ms: int, *, processes: int = PROCESSES) -> Generator[Outcome, None, None]:
    """The outcome of each seed, in their order. To close the iterator ends the processes."""
    return _on_several(partial(outcome_of, span_ms=span_ms), seeds, processes)


def tallies(worlds: Sequence[int], *, processes: int = PROCESSES) -> Generator[Tally, None, None]:
    """What stalls have done to each of these worlds, in their order."""
    return _on_several(stall, worlds, processes)


def _on_several(run: Callable[[int], R], numbers: Sequence[int], processes: int) -> Generator[R, None, None]:
    """One of n processes takes every n-th number, and answers in a pipe of its own."""
    with _workers(run, numbers, min(processes, len(numbers))) as pipes:
        for number, pipe in zip(numbers, cycle(pipes), strict=False):
            try:
                yield pipe.recv()
            except EOFError as error:
                raise TopologError(
                    f"The process that ran number {number} has died.",
                    hint="Its trace stands above, or memory is short.",
                ) from error


@contextmanager
def _workers(run: Callable[[int], R], numbers: Sequence[int], count: int) -> Iterator[Sequence[Connection]]:
    """Processes that are at work inside, and killed at its end: they hold nothing that anybody else waits for."""
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
    started: list[tuple[SpawnProcess, Connection]] = []
    try:
        with _deaf_children():
            for first in range(count):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(run, numbers[first::count], theirs))
                process.start()
                theirs.close()
                started.append((process, ours))
        yield [pipe for _, pipe in started]
    finally:
        for process, _ in started:
            process.kill()
        for process, pipe in started:
            process.join()
            pipe.close()


def _work(run: Callable[[int], R], numbers: Sequence[int], pipe: Connection) -> None:
    logging.disable()
    with suppress(BrokenPipeError):  # who asked was killed
        for number in numbers:
            pipe.send(run(number))


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that start inside inherit that signals are blocked; one that comes meanwhile is kept for after."""
    resource_tracker.ensure_running()  # before: its start unblocks SIGINT
    former = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def shortest(seed: int, span_ms: int, *, until_s: float) -> Violation | None:
    """The shortest failing case of a seed that is found until then, on the monotonic clock; None if it does not fail.

    Ctrl-C ends the search like its time.
    """
    best = replayed(drawn(seed, span_ms, Faults.of_seed(seed)))
    with _quiet(), suppress(KeyboardInterrupt):
        for progress in shrink(best) if best else ():
            best = progress.best
            if time.monotonic() > until_s:
                break
    return best


def replayed(case: Case) -> Violation | None:
    """How this case breaks a rule, if it does."""
    with _quiet():
        return violation_of(case)


@contextmanager
def _quiet() -> Iterator[None]:
    """Simulated processes warn of every fault they meet: that is no news."""
    former = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(former)
