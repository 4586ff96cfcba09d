"""How much memory each role holds: when nothing happens, and after it has worked.

    python -m tests.benchmarks.memory [--proposals 5000] [--rest 20] [--bootstrap HOST:PORT]

Resident memory (RSS) of each process: pages shared with others, such as those of Python itself, count in every one of
them. The load is one proposer with 64 proposals in flight, twenty fields to a type. The broker's heap is as large
as it is allowed to be.
"""

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from tests.benchmarks.metadata_round import many_at_once
from tests.benchmarks.told import Value, add_json, tell
from tests.soak.ports import free_row

from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS
from topolog.streams.local.broker import LocalBroker
from topolog.streams.node.client import Node

IN_FLIGHT = 64
SENTINEL = b"topolog.streams.node.sentinel"


def node(cluster: str, bootstrap: str, orders: Connection) -> None:
    """A member that proposes what it is told, and says how many a second were accepted."""
    with Node(cluster, "n0", kafka={"bootstrap.servers": bootstrap}) as member:
        orders.send(0.0)
        while count := orders.recv():
            orders.send(many_at_once(member, "Load", count, IN_FLIGHT))


def rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def sentinel_of(pid: int) -> int:
    children = [
        child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return next(int(child) for child in children if SENTINEL in Path(f"/proc/{child}/cmdline").read_bytes())


@contextlib.contextmanager
def roles(cluster: str, bootstrap: str, home: Path) -> Iterator[dict[str, int]]:
    """The processes of topolog but for the node, by the name that they have here."""
    sets = ["--set", f"cluster.name={cluster}", "--set", f"kafka.bootstrap.servers={bootstrap}"]
    sets += ["--set", f"api.port={free_row(1)}"]
    commands = {
        "coordinator": ["coordinator", "--instance", "c1"],
        "stand_by": ["coordinator", "--instance", "c2"],
        "projector": ["projector"],
        "lease_health": ["lease-health"],
    }
    environment = {**os.environ, "XDG_DATA_HOME": str(home)}
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, words in commands.items():
            command = [sys.executable, "-m", "topolog", "run", *words, *sets]
            started[name] = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
            time.sleep(2.0 if name == "coordinator" else 0.0)  # the other one is to stand by
        yield {name: process.pid for name, process in started.items()}
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait(15)


def look(pids: Mapping[str, int], moment: str) -> dict[str, Value]:
    found: dict[str, Value] = {f"{name}_mb.{moment}": rss_mb(pid) for name, pid in pids.items()}
    for key, each in found.items():
        print(f"{key:24} {each:8.0f}", flush=True)
    return found


def measure(bootstrap: str, broker: int | None, home: Path, arguments: argparse.Namespace) -> dict[str, Value]:
    cluster = f"bench-{os.getpid()}"
    KafkaAdmin({"bootstrap.servers": bootstrap}).create_topics(cluster, PLANS)
    here, there = multiprocessing.Pipe()
    member = multiprocessing.Process(target=node, args=(cluster, bootstrap, there))
    with roles(cluster, bootstrap, home) as started:
        member.start()
        here.recv()
        assert member.pid is not None
        pids = {**started, "node": member.pid, "sentinel": sentinel_of(member.pid)}
        pids |= {"broker": broker} if broker else {}
        time.sleep(arguments.rest)
        told = look(pids, "rest")
        here.send(arguments.proposals)
        told["accepted_per_s"] = here.recv()
        time.sleep(arguments.rest)
        told |= look(pids, "load")
        here.send(0)
        member.join(15)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proposals", type=int, default=5_000)
    parser.add_argument("--rest", type=float, default=20.0, metavar="S", help="before each look")
    parser.add_argument("--bootstrap", help="an existing broker; by default one is started for the measurement")
    add_json(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        if arguments.bootstrap:
            told = measure(arguments.bootstrap, None, home, arguments)
        else:
            local = LocalBroker(Path(scratch) / "broker", port=free_row(2))
            with local.running(ready=lambda at: KafkaAdmin({"bootstrap.servers": at}).wait_until_usable()) as status:
                told = measure(status.bootstrap, status.pid, home, arguments)
    tell(arguments, told)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
