"""The audit's files on their own: what several threads do to them at once."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from topolog.projections.api.access import audit
from topolog.projections.api.access.ledger import Ledger

ROUNDS = 10
CALLERS = 500
DENIED = audit.Record("r1", "2026-11-21T02:00:00Z", "ann", "token", "::1", "", "main", "GET", {}, False, "", "DENIED")


@pytest.fixture
def brisk_switches() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("brisk_switches")
def test_denials_are_counted_while_the_counts_are_told(tmp_path: Path) -> None:
    """The door denies in the event loop, the console's page of the audit asks for the counts in another thread."""
    now_s = 0.0
    starts = threading.Barrier(2)
    records = [msgspec.structs.replace(DENIED, principal=f"p{number}") for number in range(CALLERS)]

    def together(act: Callable[[], object]) -> None:
        starts.wait(20)
        act()

    with closing(Ledger(tmp_path, 1 << 30, 2, lambda: now_s)) as ledger, ThreadPoolExecutor(2) as threads:
        for _ in range(ROUNDS):
            for record in (*records, *records):
                ledger.deny(record)
            now_s += 60
            acts: list[Callable[[], object]] = [lambda: ledger.deny(DENIED), ledger.tell_repeats]
            for act in [threads.submit(together, act) for act in acts]:
                act.result(20)
    assert sum(each.count for each in ledger.newest_first()) == ROUNDS * (2 * CALLERS + 1), "each is counted once"
