"""What a crash costs on a real broker, with a sentinel and without one (OP29).

    python -m tests.benchmarks.takeover [--rounds 20] [--slow-rounds 3] [--fence 20s] [--bootstrap HOST:PORT]

Three figures, all read from the log: `kill -9` of a node until its NodeLeft; `kill -9` of the coordinator that leads,
and SIGTERM to it, until the first decision of the next term that is not its start. Each round begins when the process
to be killed has settled, its sentinel too; without sentinels a round lasts as long as the lease or the silence that it
costs, hence fewer of them. Broker and processes run on this machine.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.benchmarks.told import Value, add_json, spread, tell

from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.kafka import KafkaReader
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.membership import NodeLeft
from topolog.events.terms import TermStarted, cluster
from topolog.events.topics import PLANS, Topic
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.runtime import LOW_LATENCY

MEMBER = "tests.broker.member"
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
        command = [sys.executable, "-m", MEMBER, self.name, name, self._bootstrap, str(self._sentinel)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as member:
            assert member.stdout is not None
            member.stdout.readline()  # it says that it is a member
            self.log.rest(SETTLE_S)
            start = time.perf_counter()
            member.kill()
            self.log.read_until(lambda each: isinstance(each.event, NodeLeft) and each.event.node == name)
            return (time.perf_counter() - start) * 1000

    def coordinator_round(self, _: int, number: signal.Signals = signal.SIGKILL) -> float:
        """ms from this signal to the leader to the first decision of the next term; the dead one then stands by."""
        self.log.rest(SETTLE_S)
        row = cluster(self.log.fold.state)
        leader, term = row.coordinator, row.term
        start = time.perf_counter()
        self.coordinators[leader].send_signal(number)
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


def measure(bootstrap: str, arguments: argparse.Namespace, *, sentinel: bool) -> dict[str, Value]:
    rounds = arguments.rounds if sentinel else arguments.slow_rounds
    what = f"{'with' if sentinel else 'without'} a sentinel, fence {arguments.fence}"
    told: dict[str, Value] = {}
    with contextlib.closing(Site(bootstrap, arguments.fence, sentinel=sentinel)) as site:
        planned = partial(site.coordinator_round, number=signal.SIGTERM)
        for key, name, round_, goal_ms in (
            ("node_left_ms", "kill -9 of a node -> NodeLeft", site.node_round, NODE_GOAL_MS),
            ("leader_killed_ms", "kill -9 of the leader -> first decision of the next", site.coordinator_round, None),
            ("leader_stopped_ms", "SIGTERM to the leader -> first decision of the next", planned, None),
        ):
            if rounds and (sentinel or round_ is not planned):
                taken = spread([round_(number) for number in range(rounds)])
                told[f"{key}.{'sentinel' if sentinel else 'silent'}"] = taken
                goal = f" (goal {goal_ms})" if goal_ms else ""
                print(
                    f"{name}, {what}: {taken.p50:,.0f} / {taken.max:,.0f} ms p50 / max of {taken.count}{goal}",
                    flush=True,
                )
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--slow-rounds", type=int, default=3, help="rounds without sentinels")
    parser.add_argument("--fence", default="20s")
    parser.add_argument("--bootstrap", help="an existing broker; by default one is started for the measurement")
    add_json(parser)
    arguments = parser.parse_args()
    told: dict[str, Value] = {}
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
            told |= measure(bootstrap, arguments, sentinel=sentinel)
    tell(arguments, told)


if __name__ == "__main__":
    main()
