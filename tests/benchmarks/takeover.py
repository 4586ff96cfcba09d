"""What a crash costs on a real broker, with a sentinel and without one (DESIGN §8).

    python tests/benchmarks/takeover.py [--rounds 20] [--slow-rounds 3] [--fence 20s] [--bootstrap HOST:PORT]

Two figures, both read from the log: `kill -9` of a node until its NodeLeft, and `kill -9` of the coordinator that leads
until the first decision of the next term that is not its start. Each round begins when the process to be killed has
settled, its sentinel too; without sentinels a round lasts as long as the lease or the silence that it costs, hence
fewer of them. Broker and processes run on this machine.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.kafka import KafkaReader
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.membership import NodeLeft
from topolog.events.terms import TermStarted, cluster
from topolog.events.topics import PLANS, Topic
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.runtime import LOW_LATENCY

MEMBER = Path(__file__).parent.parent / "integration" / "member.py"
NODE_GOAL_MS = 500
SETTLE_S = 2.0
PATIENCE_S = 120.0


class Log:
    """The decisions of one cluster as they come."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.fold = Fold()
        self._reader = KafkaReader({"bootstrap.servers": bootstrap}, name)
        self._reader.assign({(Topic.DECISIONS, 0): None})

    def read_until(self, is_it: Callable[[Folded], bool]) -> None:
        """Return when a decision of this sort is read."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if any(is_it(each) for each in self._more(0.5)):
                return
        raise SystemExit(f"nothing of the sort in the log after {PATIENCE_S:g} s")

    def rest(self, seconds: float) -> None:
        """Read on for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._more(0.1)

    def close(self) -> None:
        self._reader.close()

    def _more(self, timeout_s: float) -> list[Folded]:
        found: list[Folded] = []
        for entry in self._reader.poll(timeout_s):
            folded = self.fold.read(entry.stamp, entry.value)
            if not isinstance(folded, Ignored):
                found += folded
        return found


class Site:
    """One cluster: two coordinators, and nodes that come and go."""

    def __init__(self, bootstrap: str, fence: str, *, sentinel: bool) -> None:
        self.name = f"bench-{os.getpid()}-{'with' if sentinel else 'without'}"
        self._bootstrap = bootstrap
        self._fence = fence
        self._sentinel = sentinel
        KafkaAdmin({"bootstrap.servers": bootstrap}).create_topics(self.name, PLANS)
        self.log = Log(bootstrap, self.name)
        self.coordinators = {name: self._coordinator(name) for name in ("c1", "c2")}
        self.log.read_until(lambda each: isinstance(each.event, TermStarted))

    def node_round(self, number: int) -> float:
        """ms from the kill of a node that has just joined to its NodeLeft."""
        name = f"n{number}"
        command = [sys.executable, str(MEMBER), self.name, name, self._bootstrap, str(self._sentinel)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as member:
            assert member.stdout is not None
            member.stdout.readline()  # it says that it is a member
            self.log.rest(SETTLE_S)
            start = time.perf_counter()
            member.kill()
            self.log.read_until(lambda each: isinstance(each.event, NodeLeft) and each.event.node == name)
            return (time.perf_counter() - start) * 1000

    def coordinator_round(self, _: int) -> float:
        """ms from the kill of the leader to the first decision of the next term; the dead one then stands by."""
        self.log.rest(SETTLE_S)
        row = cluster(self.log.fold.state)
        leader, term = row.coordinator, row.term
        start = time.perf_counter()
        self.coordinators[leader].kill()
        self.log.read_until(lambda each: each.place.term > term and not isinstance(each.event, TermStarted))
        taken_ms = (time.perf_counter() - start) * 1000
        self.coordinators[leader].wait()
        self.coordinators[leader] = self._coordinator(leader)
        return taken_ms

    def close(self) -> None:
        for coordinator in self.coordinators.values():
            coordinator.terminate()
        for coordinator in self.coordinators.values():
            coordinator.wait(10)
        self.log.close()

    def _coordinator(self, instance: str) -> subprocess.Popen[bytes]:
        settings = {
            "cluster.name": self.name,
            "kafka.bootstrap.servers": self._bootstrap,
            "lease.fence": self._fence,
            "lease.sentinel": str(self._sentinel).lower(),
        }
        sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "topolog", "run", "coordinator", "--instance", instance, *sets]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def measure(bootstrap: str, arguments: argparse.Namespace, *, sentinel: bool) -> None:
    rounds = arguments.rounds if sentinel else arguments.slow_rounds
    what = f"{'with' if sentinel else 'without'} a sentinel, fence {arguments.fence}"
    with contextlib.closing(Site(bootstrap, arguments.fence, sentinel=sentinel)) as site:
        report(f"kill -9 of a node -> NodeLeft, {what}", map(site.node_round, range(rounds)), NODE_GOAL_MS)
        report(
            f"kill -9 of the leader -> first decision of the next, {what}", map(site.coordinator_round, range(rounds))
        )


def report(what: str, rounds: Iterator[float], goal_ms: int | None = None) -> None:
    taken = list(rounds)
    goal = f" (goal {goal_ms})" if goal_ms else ""
    print(f"{what}: {statistics.median(taken):,.0f} / {max(taken):,.0f} ms p50 / max of {len(taken)}{goal}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--slow-rounds", type=int, default=3, help="rounds without sentinels")
    parser.add_argument("--fence", default="20s")
    parser.add_argument("--bootstrap", help="an existing broker; by default one is started for the measurement")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        bootstrap = arguments.bootstrap
        if not bootstrap:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            broker = LocalBroker(Path(folder) / "broker", port=19492, flags=LOW_LATENCY)
            stack.enter_context(
                broker.running(ready=lambda at: KafkaAdmin({"bootstrap.servers": at}).wait_until_usable())
            )
            bootstrap = broker.bootstrap
        for sentinel in (True, False):
            measure(bootstrap, arguments, sentinel=sentinel)


if __name__ == "__main__":
    main()
