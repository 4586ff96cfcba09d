"""What a rebuild beside a live projector costs its readers, how long a switch takes, and a restart.

    python -m tests.benchmarks.generations [--decisions 60000] [--live 50] [--folder DIR]

A projector reads a log that grows by `--live` records a second while two threads ask for a row and a page, 100 times a
second each. That is measured alone, beside a rebuild in a process (as topolog does it), and beside the same rebuild in
a thread of the projector's process (for comparison). Then the store is switched, there and back, and opened again.
`--folder` keeps the log between runs. The figures are this machine's.
"""

import argparse
import functools
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.benchmarks.rebuild import archives, entries_of
from tests.benchmarks.told import Spread, Value, add_json, spread, tell

from topolog.events.leases import NodeRow
from topolog.events.log import Entry, InMemoryLog, LogReader
from topolog.events.topics import Topic
from topolog.projections.projector import Projector
from topolog.projections.upkeep.doing import do
from topolog.projections.upkeep.keeper import Terms, bytes_of
from topolog.projections.upkeep.orders import Action, UpkeepOrder
from topolog.projections.upkeep.tasks import Report, Task
from topolog.projections.upkeep.workshop import OpenReader, Processes, Work, Workshop

ASKS_PER_S, PAGE, BASELINE_S = 100, 100, 15.0
KEPT = Terms(former_kept_ms=86_400_000)


class Threads:
    """Each task in a thread of this process."""

    def __init__(self, open_reader: Callable[[], LogReader]) -> None:
        self._open_reader = open_reader

    def begin(self, task: Task) -> Work:
        return _ThreadWork(self._open_reader, task)


class _ThreadWork:
    def __init__(self, open_reader: Callable[[], LogReader], task: Task) -> None:
        self._told: list[Report] = []
        self._thread = threading.Thread(target=do, args=(task, open_reader, self._told.append), daemon=True)
        self._thread.start()

    def reports(self) -> list[Report]:
        told, self._told[:] = [*self._told], []
        return told

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._thread.join()


class Readers:
    """Threads that ask; how long each answer took, and how far behind the log it was."""

    def __init__(self, projector: Projector) -> None:
        self._projector = projector
        self._stop = threading.Event()
        self.took_s: list[float] = []
        self.failed = 0

    @contextmanager
    def asking(self) -> Iterator["Readers"]:
        threads = [threading.Thread(target=self._run, daemon=True) for _ in range(2)]
        for each in threads:
            each.start()
        try:
            yield self
        finally:
            self._stop.set()
            for each in threads:
                each.join()

    def _run(self) -> None:
        while not self._stop.wait(1 / ASKS_PER_S):
            began_s = time.perf_counter()
            try:
                with self._projector.reading() as reading:
                    assert reading.row(NodeRow, "n3") is not None
                    for _, _ in zip(range(PAGE), reading.decisions(), strict=False):
                        pass
            except Exception:  # noqa: BLE001 (counted)
                self.failed += 1
            self.took_s.append(time.perf_counter() - began_s)


class Live:
    """A log that grows; how long each of its newest records took to be shown."""

    def __init__(self, entries: list[Entry], tail: int, per_s: float) -> None:
        self.log = InMemoryLog()
        self._rows = self.log._partitions[Topic.DECISIONS, 0]
        self._rows.extend(entries[:-tail])
        self._tail = entries[-tail:]
        self._whole = len(entries)
        self._per_s = per_s
        self._stop = threading.Event()
        self.appended_s: dict[int, float] = {}
        self.lag_s: list[float] = []

    @property
    def left(self) -> int:
        """How many records have not come yet."""
        return self._whole - len(self._rows)

    @contextmanager
    def growing(self, projector: Projector) -> Iterator[None]:
        projector.on_commit(lambda: self._note(projector))
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        for entry in self._tail:
            if self._stop.wait(1 / self._per_s):
                return
            with self.log.changed:
                self.appended_s[entry.offset] = time.perf_counter()
                self._rows.append(entry)
                self.log.changed.notify_all()

    def _note(self, projector: Projector) -> None:
        now_s, read_to = time.perf_counter(), projector.meta.last_offset
        for offset in [each for each in list(self.appended_s) if read_to is not None and each <= read_to]:
            self.lag_s.append(now_s - self.appended_s.pop(offset))


def open_archive(path: Path, tail: int) -> LogReader:
    """The log without so many of its last records."""
    log = InMemoryLog()
    entries = entries_of(path)
    log._partitions[Topic.DECISIONS, 0] = entries[: len(entries) - tail]
    reader = log.reader()
    reader.batch_max = 2_000
    return reader


def quantiles(values: list[float]) -> str:
    cut = statistics.quantiles(values, n=100) if len(values) > 1 else [0.0] * 99
    return f"{cut[49] * 1000:,.1f} | {cut[94] * 1000:,.1f} | {cut[98] * 1000:,.1f} | {max(values) * 1000:,.0f}"


def measured(name: str, projector: Projector, live: Live, work: Callable[[], float]) -> Spread:
    """One row: what readers and the newest records waited for while `work` was done, and its rate."""
    live.lag_s.clear()
    readers = Readers(projector)
    with readers.asking():
        rate = work()
    rate_text = f"{rate:,.0f}" if rate else "-"
    lag = quantiles(live.lag_s)
    sys.stdout.write(f"| {name} | {rate_text} | {quantiles(readers.took_s)} | {lag} | {readers.failed} |\n")
    sys.stdout.flush()
    return spread([each * 1000 for each in readers.took_s])


def idle() -> float:
    time.sleep(BASELINE_S)
    return 0.0


def rebuilt(projector: Projector, workshop: Workshop, action: Action = Action.REBUILD) -> float:
    """Has it done; returns decisions per second, from the order until the new store is shown."""
    projector.keeper._workshop = workshop
    began_s = time.perf_counter()
    projector.act(UpkeepOrder(f"o{began_s}", action, "bench", "", 1))
    while projector.keeper.status.wanted is not None:
        time.sleep(0.005)
    assert projector.keeper.status.refused is None, projector.keeper.status.refused
    return projector.meta.position / (time.perf_counter() - began_s)


def timed_succession(projector: Projector) -> list[tuple[float, float]]:
    """How long each switch holds the projector, and readers."""
    found: list[tuple[float, float]] = []
    succession = projector._succession
    complete = succession.complete

    def watched(*given: object, **named: object) -> object:
        began_s = time.perf_counter()
        shown = complete(*given, **named)  # type: ignore[arg-type]
        if shown is not None:
            completed_s = time.perf_counter()
            with projector._swap:
                found.append((completed_s - began_s, time.perf_counter() - completed_s))
        return shown

    succession.complete = watched  # type: ignore[assignment,method-assign]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=60_000)
    parser.add_argument("--live", type=float, default=50)
    parser.add_argument("--folder", type=Path, help="where the log is kept between runs")
    add_json(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        (path,) = archives(arguments.folder or Path(scratch), 1, arguments.decisions)
        entries = entries_of(path)
        tail = min(20_000, len(entries) // 3)
        told = run(path, Live(entries, tail, arguments.live), Path(scratch) / "store")
    tell(arguments, told)


def run(path: Path, live: Live, folder: Path) -> dict[str, Value]:
    def as_it_is() -> OpenReader:
        return functools.partial(open_archive, path, live.left)

    stop = threading.Event()
    projector = Projector(live.log.reader(), folder, "c0", workshop=Processes(as_it_is()), terms=KEPT)
    while projector.step():
        pass
    switches = timed_succession(projector)
    running = threading.Thread(target=projector.run, args=(stop,), daemon=True)
    running.start()
    head = (
        "| beside | decisions/s | p50 | p95 | p99 | max ms of a read | p50 | p95 | p99 | max ms to be shown | failed |"
    )
    sys.stdout.write(f"{head}\n|---|" + "---:|" * 10 + "\n")
    with live.growing(projector):
        told: dict[str, Value] = {"read_ms": measured("nothing", projector, live, idle)}
        work = functools.partial(rebuilt, projector, Processes(as_it_is()))
        told["read_beside_rebuild_ms"] = measured("a rebuild in a process", projector, live, work)
        measured("the way back", projector, live, lambda: rebuilt(projector, Processes(as_it_is()), Action.BACK))
        measured("a rebuild in a thread", projector, live, lambda: rebuilt(projector, Threads(as_it_is())))
    stop.set()
    running.join()
    for held, swapped in switches:
        sys.stdout.write(f"switch: the projector was held for {held * 1000:.1f} ms, a reader {swapped * 1000:.3f} ms\n")
    told["switch_ms"] = spread([held * 1000 for held, _ in switches])
    size, position = bytes_of(projector._shown.store.path), projector.meta.position
    projector.close()
    began_s = time.perf_counter()
    with closing(Projector(live.log.reader(), folder, "c0", terms=KEPT)) as again, again.reading() as reading:
        assert reading.row(NodeRow, "n3") is not None
        took_s = time.perf_counter() - began_s
    sys.stdout.write(
        f"restart at position {position:,}, {size / 1e6:,.1f} MB: first read after {took_s * 1000:,.0f} ms\n"
    )
    return {**told, "restart_ms": took_s * 1000}


if __name__ == "__main__":
    main()
