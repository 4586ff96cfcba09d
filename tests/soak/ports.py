"""Ports that nobody uses."""

import os
import random
import socket

_WORKERS_MAX = 8
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS_MAX
_SHARE = 12_000 // _WORKERS_MAX
BELOW_EPHEMERAL = range(20_000, 32_000)[_WORKER * _SHARE :][:_SHARE]
"""The kernel gives outgoing connections ports above; test processes that run at once have ports of their own."""


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_row(count: int) -> int:
    """The first of so many ports in a row that are free now; where, is left to chance."""
    while True:
        first = random.choice(BELOW_EPHEMERAL[: -count - 1 : 2])
        if all(map(is_free, range(first, first + count))):
            return first
