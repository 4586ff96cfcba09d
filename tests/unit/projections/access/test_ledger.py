"""The audit's files on their own: what several threads do to them at once."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from topolog.projections.api.access import audit, ledger
from topolog.projections.api.access.ledger import AuditFailed, Ledger

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


@pytest.mark.parametrize("principal", ["ann", audit.NOBODY], ids=["who is known", "who is not"])
def test_what_one_caller_varies_without_end_becomes_a_few_lines_and_a_count(tmp_path: Path, principal: str) -> None:
    """OP2: a viewer pushed the refusals of others out. All who are not known share one share."""
    now_s = 0.0
    asked = ledger.DENIED_PER_MINUTE + 500
    with closing(Ledger(tmp_path, 1 << 20, 2, lambda: now_s)) as kept:
        for minute in (1, 2):
            for number in range(asked):
                varied = f"{minute}.{number}"
                kept.deny(msgspec.structs.replace(DENIED, principal=principal, what=varied, client=varied, id=varied))
            kept.deny(msgspec.structs.replace(DENIED, principal="bob", id=f"bob's {minute}"))
            now_s += 60
    found = list(kept.newest_first())
    counts = [each.count for each in found if each.principal == principal]
    assert sorted(counts) == [*[1] * 2 * ledger.DENIED_PER_MINUTE, 500, 500]
    assert {each.id for each in found if each.principal == "bob"} == {"bob's 1", "bob's 2"}


def test_a_defect_of_the_writer_fails_what_waits_for_it_and_nothing_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is, whoever waits is told; a writer that had died would keep all of them waiting for ever."""

    def broken(_: int) -> None:
        raise RuntimeError("a bug")

    with closing(Ledger(tmp_path, 1 << 20, 2, lambda: 0.0)) as kept:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", broken)
            with pytest.raises(AuditFailed, match="a defect of topolog"):
                kept.begin(DENIED).result(20)
        kept.begin(DENIED).result(20)


def test_a_file_that_cannot_even_be_closed_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    with closing(Ledger(tmp_path, 1 << 20, 2, lambda: 0.0)) as kept:
        kept.begin(DENIED).result(20)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", broken)
            patched.setattr(os, "close", broken)
            with pytest.raises(AuditFailed, match="Input/output error"):
                kept.begin(DENIED).result(20)
        kept.begin(DENIED).result(20)


def test_who_has_left_before_the_record_was_written_takes_nobody_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller whose connection ends cancels what it waits for; the others' records are written all the same."""
    is_writing, goes_on = threading.Event(), threading.Event()
    whole = ledger._Files.append

    def slow(self: ledger._Files, lines: bytes, *, syncs: bool) -> None:
        is_writing.set()
        assert goes_on.wait(20)
        whole(self, lines, syncs=syncs)

    monkeypatch.setattr(ledger._Files, "append", slow)
    with closing(Ledger(tmp_path, 1 << 20, 2, lambda: 0.0)) as kept:
        first = kept.begin(DENIED)
        assert is_writing.wait(20)
        left, stays = kept.begin(DENIED), kept.begin(DENIED)
        assert left.cancel()
        goes_on.set()
        for each in (first, stays):
            each.result(20)
