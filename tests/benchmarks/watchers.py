"""How long after a decision is appended the last of a thousand watchers of the API has it.

    python -m tests.benchmarks.watchers [--watchers 1000] [--rounds 200]

Goal (OP29): ≤ 15 / 40 ms (p50 / p99); etcd's own 1,000 watchers: 6 / 17 ms. Two processes: the server with its
projector, store and API over a log in memory (a broker would add its own round trip), and one client with all of the
connections. A round ends when every connection has the event, so rounds do not overlap. The clock is CLOCK_MONOTONIC,
common to both processes.
"""

import argparse
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.benchmarks.told import Spread, add_json, spread, tell
from tests.unit.projections.chronicle import Chronicle

from topolog.projections.api.server import Source, serve

PATH = "/v1/clusters/main/types?watch=true"
ETCD_MS = (6, 17)
_WARM_ROUNDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watchers", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=200)
    add_json(parser)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        _serve()
        return
    first, last = measured(asked.watchers, asked.rounds)
    print(
        f"{asked.watchers} watchers, {asked.rounds} decisions: the last has it after {last.p50:.1f} / {last.p99:.1f} ms"
    )
    print(f"the first one after {first.p50:.1f} / {first.p99:.1f} ms; etcd's last {ETCD_MS[0]} / {ETCD_MS[1]} ms")
    tell(asked, {"first_ms": first, "last_ms": last})


def measured(watchers: int, rounds: int) -> tuple[Spread, Spread]:
    """The ms of the first and of the last watcher that has an event."""
    command = [sys.executable, "-m", "tests.benchmarks.watchers", "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        host, port = server.stdout.readline().strip().removeprefix("http://").split(":")
        crowd = Crowd(host, int(port), watchers)
        firsts, lasts = list[float](), list[float]()
        for number in range(_WARM_ROUNDS + rounds):
            server.stdin.write("next\n")
            began_ns = int(server.stdout.readline())
            first_ns, last_ns = crowd.heard(b'"name":"T%d"' % number)
            if number >= _WARM_ROUNDS:
                firsts.append((first_ns - began_ns) / 1e6)
                lasts.append((last_ns - began_ns) / 1e6)
        server.stdin.close()
    return spread(firsts), spread(lasts)


class Crowd:
    """All connections in one process, each told when it has heard a word."""

    def __init__(self, host: str, port: int, count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets = [socket.create_connection((host, port)) for _ in range(count)]
        for each in self._sockets:
            each.sendall(f"GET {PATH} HTTP/1.1\r\nHost: {host}\r\nAccept: application/jsonl\r\n\r\n".encode())
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ)
        self.heard(b'"SYNCED"')

    def heard(self, word: bytes) -> tuple[int, int]:
        """When the first and the last one heard it, in ns."""
        waiting = set(self._sockets)
        times: list[int] = []
        while waiting:
            for key, _ in self._selector.select(30):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if word in connection.recv(1 << 16):
                    waiting.discard(connection)
                    times.append(time.monotonic_ns())
        return times[0], times[-1]


def _serve() -> None:
    chronicle = Chronicle().start()
    chronicle.join("n1")

    def decide() -> None:
        for number, _ in enumerate(sys.stdin):
            sys.stdout.write(f"{time.monotonic_ns()}\n")
            sys.stdout.flush()
            chronicle.propose(f"T{number}", {"id": "long", "name": "String"})
        os.kill(os.getpid(), signal.SIGTERM)

    def on_ready(url: str) -> None:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        threading.Thread(target=decide, daemon=True).start()

    log = chronicle.log
    with tempfile.TemporaryDirectory() as folder:
        source = Source("main", log.reader(), log.writer(), Path(folder))
        serve([source], "127.0.0.1", 0, address="memory", on_ready=on_ready)


if __name__ == "__main__":
    main()
