"""How long a change of a definition takes until it is committed, on a real broker, with nobody, somebody newly or
somebody known to be dead (docs/design/tables.md); and what asking for a lease costs.

    python -m tests.benchmarks.schema_change [--members 3 16] [--changes 400] [--batch 1000] [--deaths 3]
        [--fence-ms 2000] [--margin-ms 500] [--bootstrap HOST:PORT] [--only latency deaths batch checks]

Broker, coordinator and every member run on this machine, each in a process of its own; the operator, here, writes its
requests to the log and reads it. A time is from the sending of a request to the moment at which its commit is read
back. Dead means stopped (SIGSTOP), so no sentinel says anything: the cluster has to wait for the lease.
"""

import argparse
import contextlib
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.benchmarks.told import Spread, Value, add_json, spread, tell
from tests.broker.conftest import eventually
from tests.broker.schema_operator import Operator
from tests.unit.streams.rules.changing import INT, add, alter, database, drop, drop_column, grant, retype, table

from topolog.events.ids import Position
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.leases import members
from topolog.events.object_definition import ColumnType, ObjectKind, Privilege, Statement
from topolog.events.objects import object_row
from topolog.events.terms import cluster
from topolog.events.topics import PLANS
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.runtime import LOW_LATENCY
from topolog.streams.node.client import Node

WARM_UP_S = 20.0
TABLE = "shop.orders"
TIMES = 200_000


def member(name_of_cluster: str, name: str, bootstrap: str, done: Event) -> None:
    """One more member: applies and acknowledges until the measurement is over."""
    with Node(name_of_cluster, name, kafka={"bootstrap.servers": bootstrap}):
        done.wait()


class Stage:
    """One cluster with a coordinator, its members, and an operator beside it."""

    def __init__(self, bootstrap: str, count: int, fence_ms: int, margin_ms: int) -> None:
        self.name = f"schema-{os.getpid()}-{time.monotonic_ns()}"
        self.bootstrap = bootstrap
        self.count = count
        lease = {"fence": fence_ms, "margin": margin_ms, "heartbeat": min(1_000, fence_ms // 10)}
        self._flags = {f"lease.{name}": f"{length_ms}ms" for name, length_ms in lease.items()}
        self.members: list[BaseProcess] = []
        self._done = multiprocessing.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[Operator]:
        KafkaAdmin({"bootstrap.servers": self.bootstrap}).create_topics(self.name, PLANS)
        flags = {"cluster.name": self.name, "kafka.bootstrap.servers": self.bootstrap, **self._flags}
        sets = [part for key, value in flags.items() for part in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "topolog", "run", "coordinator", *sets]
        coordinator = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for number in range(self.count):
            arguments = (self.name, f"n{number}", self.bootstrap, self._done)
            self.members.append(multiprocessing.Process(target=member, args=arguments, daemon=True))
            self.members[-1].start()
        try:
            with Operator({"bootstrap.servers": self.bootstrap}, self.name) as operator:
                eventually(lambda: living(operator) == self.count, "all to be members", patience_s=120)
                operator.change(database(), table(TABLE, note=INT))
                yield operator
        finally:
            self._done.set()
            for process in self.members:
                process.join(10)
            coordinator.terminate()
            coordinator.wait(10)

    @contextlib.contextmanager
    def stopped(self, operator: Operator) -> Iterator[None]:
        """The last member is dead inside, and back as a member when this is left."""
        victim = self.members[-1].pid
        assert victim is not None
        os.kill(victim, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(victim, signal.SIGCONT)
        eventually(lambda: living(operator) == self.count, "it to be back", patience_s=120)
        operator.change(*toggled(operator))  # it has applied all


def living(operator: Operator) -> int:
    with operator.looking() as state:
        return sum(row.holds_lease for row in members(state))


def toggled(operator: Operator) -> tuple[Statement]:
    """The table with one column more, or without it again."""
    with operator.looking() as state:
        row = object_row(state, TABLE)
        has_more = row is not None and row.definition is not None and row.definition.column("more") is not None
    return (alter(TABLE, drop_column("more") if has_more else add("more")),)


def one(operator: Operator, *statements: Statement) -> float:
    """ms until the change is committed."""
    start = time.perf_counter()
    operator.change(*statements)
    return (time.perf_counter() - start) * 1000


def report_latency(operator: Operator, count: int, changes: int, warm_up_s: float) -> Spread:
    until = time.monotonic() + warm_up_s
    while time.monotonic() < until:
        one(operator, *toggled(operator))
    taken = [one(operator, *toggled(operator)) for _ in range(changes)]
    found = spread(taken)
    print(f"{count:3} members, all up: a change in {found.p50:.1f} / {found.p99:.1f} ms p50 / p99", flush=True)
    return found


def report_deaths(stage: Stage, operator: Operator, deaths: int) -> Spread:
    with operator.looking() as state:
        row = cluster(state)
    goal_ms = row.proceed_ms + 1_000
    newly, known = list[float](), list[float]()
    for _ in range(deaths):
        with stage.stopped(operator):
            newly.append(one(operator, *toggled(operator)))
            eventually(lambda: living(operator) == stage.count - 1, "it to be out", patience_s=120)
            known.append(one(operator, *toggled(operator)))
    verdict = "met" if max(newly) <= goal_ms else "NOT MET"
    print(
        f"{stage.count:3} members, fence {row.fence_ms} ms, margin {row.margin_ms} ms, one newly dead: a change in "
        f"{statistics.median(newly):,.0f} / {max(newly):,.0f} ms p50 / max of {deaths} (goal {goal_ms:,}: {verdict}); "
        f"known to be dead: {statistics.median(known):.1f} / {max(known):.1f} ms",
        flush=True,
    )
    return spread(newly)


def report_batch(stage: Stage, operator: Operator, batch: int) -> None:
    for prefix, ask in (("a", many), ("b", at_once)):
        names = [f"shop.{prefix}{number}" for number in range(batch)]
        create_ms = ask(operator, [table(name, note=INT) for name in names])
        alter_ms = ask(operator, [alter(name, retype("note", ColumnType.INT64)) for name in names])
        with stage.stopped(operator):
            drop_ms = ask(operator, [drop(name) for name in names])
        how = "requests sent at once" if ask is many else "statements of one request"
        print(
            f"{stage.count:3} members, {batch:,} {how}, all committed after: create {create_ms:,.0f}, alter "
            f"{alter_ms:,.0f}, drop with one newly dead {drop_ms:,.0f} ms",
            flush=True,
        )


def many(operator: Operator, statements: list[Statement]) -> float:
    start = time.perf_counter()
    requests = [operator.ask(each) for each in statements]
    operator.flush()
    numbers: list[Position] = [operator.number(request) for request in requests]
    for number in numbers:
        operator.ended(number)
    return (time.perf_counter() - start) * 1000


def at_once(operator: Operator, statements: list[Statement]) -> float:
    return one(operator, *statements)


def report_checks(stage: Stage, operator: Operator) -> None:
    operator.change(grant(f"ada@{TABLE}", Privilege.READ))
    with Node(stage.name, "asker", kafka={"bootstrap.servers": stage.bootstrap}) as node:

        def use() -> None:
            with node.using(TABLE):
                pass

        checks: dict[str, Callable[[], object]] = {
            "lease.require": node.lease.require,
            "ttl_ms": lambda: node.ttl_ms(TABLE),
            "table": lambda: node.table(TABLE),
            "using": use,
            "allows": lambda: node.allows("ada", Privilege.READ, TABLE),
        }
        for name, check in checks.items():
            best = min(timeit.repeat(check, number=TIMES // 10, repeat=10)) / (TIMES // 10)
            print(f"node.{name}: {best * 1e9:,.0f} ns", flush=True)
    operator.change(drop(f"ada@{TABLE}", ObjectKind.GRANT))


def measure(bootstrap: str, given: argparse.Namespace) -> dict[str, Value]:
    told: dict[str, Value] = {}
    for count in given.members:
        stage = Stage(bootstrap, count, given.fence_ms, given.margin_ms)
        with stage.running() as operator:
            if "latency" in given.only:
                told[f"change_ms.{count}"] = report_latency(operator, count, given.changes, given.warm_up)
            if "deaths" in given.only:
                told[f"change_one_dead_ms.{count}"] = report_deaths(stage, operator, given.deaths)
            if "batch" in given.only:
                report_batch(stage, operator, given.batch)
            if "checks" in given.only:
                report_checks(stage, operator)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--members", type=int, nargs="*", default=[3, 16])
    parser.add_argument("--changes", type=int, default=400)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--deaths", type=int, default=3)
    parser.add_argument("--fence-ms", type=int, default=2_000)
    parser.add_argument("--margin-ms", type=int, default=500)
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, metavar="S")
    parser.add_argument("--only", nargs="*", default=["latency", "deaths", "batch", "checks"])
    parser.add_argument("--bootstrap", help="an existing broker; by default one is started for the measurement")
    add_json(parser)
    given = parser.parse_args()
    if given.bootstrap:
        tell(given, measure(given.bootstrap, given))
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = LocalBroker(Path(folder) / "broker", port=19492, flags=LOW_LATENCY)
        with broker.running(ready=lambda bootstrap: KafkaAdmin({"bootstrap.servers": bootstrap}).wait_until_usable()):
            tell(given, measure(broker.bootstrap, given))


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
