"""How fast a log is rebuilt from an archive: one cluster in one process, and several over all cores by Spark.

    python -m tests.benchmarks.rebuild [--decisions 200000] [--clusters 4] [--cores 2] [--folder DIR] [--profile]

Goals (OP29): a live projector 50 k events/s per process, a rebuild from an archive 300 k on two cores. The log is
mixed: every second decision renews the leases of ten nodes, a quarter propose a version of a type and a quarter accept
one; one of a hundred lets a node in or says that it has left. Beside the whole the steps
are measured by themselves: what is read, what is judged by its stamp, what is folded.
`--folder` keeps the archives for the next run. The figures are this machine's.
"""

import argparse
import cProfile
import pstats
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from tests.benchmarks.told import add_json, tell
from tests.unit.projections.archive.landed import in_landings
from tests.unit.projections.chronicle import Chronicle

from topolog.events.fold import Fold, Judge
from topolog.events.ids import Offset
from topolog.events.log import Entry, InMemoryLog
from topolog.events.topics import Topic
from topolog.projections.archive import reading
from topolog.projections.archive.landings import Archive
from topolog.projections.archive.rebuilding import Task, rebuild_store
from topolog.projections.projector import Projector
from topolog.projections.spark.rebuild import collected, outcomes
from topolog.projections.spark.session import SessionSettings, spark_session

NODES, TYPES, EVERY, LANDING_ROWS = 20, 200, 50, 100_000


def mixed(cluster: str, decisions: int) -> Chronicle:
    """A log of so many decisions, of all that is common."""
    chronicle = Chronicle(cluster, pace_ms=20).start()
    nodes = [f"n{number}" for number in range(NODES)]
    for name in nodes:
        chronicle.join(name)
    turn = 0
    while chronicle.position < decisions:
        turn += 1
        name = f"T{turn % TYPES}"
        chronicle.propose(name, {f"f{turn // TYPES % 20}": "int"}, reason="the benchmark")
        chronicle.renew(*nodes[: NODES // 2])
        chronicle.accept(name, *nodes)
        chronicle.renew(*nodes[NODES // 2 :])
        if turn % EVERY == 0:
            chronicle.join("guest", renewed=False)
        elif turn % EVERY == EVERY // 2 and turn > EVERY:
            chronicle.leave("guest")
    return chronicle


def archives(folder: Path, clusters: int, decisions: int) -> list[Path]:
    """One archive per cluster, made if it is not there yet."""
    made = []
    for number in range(clusters):
        path = folder / f"c{number}-{decisions}"
        if not (path / "archive.json").exists():
            chronicle = mixed(f"c{number}", decisions)
            in_landings(path, f"c{number}", chronicle.entries, [LANDING_ROWS] * (decisions // LANDING_ROWS))
        made.append(path)
    return made


def entries_of(folder: Path) -> list[Entry]:
    return [entry for batch in reading.entries(Archive(folder), Topic.DECISIONS) for entry in batch]


def read(folder: Path) -> None:
    for _ in reading.entries(Archive(folder), Topic.DECISIONS):
        pass


def judged(entries: Sequence[Entry]) -> None:
    judge = Judge()
    for entry in entries:
        judge.judge(entry.stamp, entry.value)


def folded(entries: Sequence[Entry]) -> None:
    fold = Fold()
    for entry in entries:
        fold.read(entry.stamp, entry.value)
        fold.state.drain()
        fold.state.hash()


def projected(entries: Sequence[Entry], folder: Path) -> None:
    """As a live projector does, of a log in memory."""
    log = InMemoryLog()
    log._partitions[Topic.DECISIONS, 0] = [*entries]
    reader = log.reader()
    reader.batch_max = 500
    with closing(Projector(reader, folder, "c0")) as projector:
        while projector.step():
            pass
        assert projector.stopped is None
        assert projector.meta.last_offset == Offset(len(entries) - 1)


def rebuilt_one(archive: Path, folder: Path) -> None:
    told = rebuild_store(Task("c0", folder, archive), time.monotonic, lambda _: None)
    assert told.position >= 0


def rate(name: str, count: int, work: Callable[[], object]) -> float:
    """Events per second, printed with what each costs."""
    began_s, began_own_s = time.perf_counter(), time.process_time()
    work()
    took_s, own_s = time.perf_counter() - began_s, time.process_time() - began_own_s
    sys.stdout.write(f"| {name} | {count / took_s:,.0f} | {took_s / count * 1e6:.1f} | {own_s / count * 1e6:.1f} |\n")
    sys.stdout.flush()
    return count / took_s


def by_itself(archive: Path, scratch: Path) -> dict[str, float]:
    """The steps of one cluster, each alone: events per second."""
    entries = entries_of(archive)
    count = len(entries)
    return {
        "read_per_s": rate("read from the archive", count, lambda: read(archive)),
        "judged_per_s": rate("judged by stamps", count, lambda: judged(entries)),
        "folded_per_s": rate("folded, without a store", count, lambda: folded(entries)),
        "live_per_s": rate("live projector, log in memory", count, lambda: projected(entries, scratch / "live")),
        "rebuilt_per_s": rate("rebuild of one cluster", count, lambda: rebuilt_one(archive, scratch / "made")),
    }


def by_spark(paths: Sequence[Path], folder: Path, cores: int, decisions: int) -> float:
    """Events per second of all clusters together."""
    tasks = [Task(Archive(path).about.cluster, folder / path.name, path) for path in paths]
    with spark_session(folder / "spark", SessionSettings(cores=cores, memory="1g")) as session:
        collected(outcomes(session, tasks[:1]))  # the first one starts Python processes and imports
        for path in folder.glob("c*"):
            shutil.rmtree(path)
        name = f"{len(tasks)} clusters, Spark on {cores} cores"
        return rate(name, len(tasks) * decisions, lambda: collected(outcomes(session, tasks)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=200_000)
    parser.add_argument("--clusters", type=int, default=4, help="those of Spark's run; with 1 there is none")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where archives are kept between runs")
    parser.add_argument("--profile", action="store_true", help="of the rebuild of one cluster, instead of the figures")
    add_json(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        paths = archives(arguments.folder or Path(scratch), arguments.clusters, arguments.decisions)
        if arguments.profile:
            with cProfile.Profile() as profile:
                rebuilt_one(paths[0], Path(scratch) / "profiled")
            pstats.Stats(profile).sort_stats("tottime").print_stats(40)
            return
        sys.stdout.write("| step | events/s | µs per event | µs of processors |\n|---|---:|---:|---:|\n")
        told = by_itself(paths[0], Path(scratch))
        if len(paths) > 1:
            count = len(entries_of(paths[0]))
            told["rebuilt_on_all_cores_per_s"] = by_spark(paths, Path(scratch) / "many", arguments.cores, count)
    tell(arguments, told)


if __name__ == "__main__":
    main()
