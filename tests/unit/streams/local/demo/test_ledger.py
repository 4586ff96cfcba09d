"""What counts as lost: each rule of ledger.py, by a row and what is read of it."""

import pytest

from topolog.streams.local.demo.clients import report
from topolog.streams.local.demo.ledger import Ledger, Pause, Row, Verdict


def written(count: int, life: int = 0) -> Row:
    row = Row("a", 7)
    for _ in range(count):
        row.send(life)
        row.acknowledge()
    return row


@pytest.mark.parametrize(
    ("found", "verdict"), [(3, Verdict.KEPT), (2, Verdict.LOST), (None, Verdict.LOST), (4, Verdict.LOST)]
)
def test_what_was_acknowledged_is_there(found: int | None, verdict: Verdict) -> None:
    """An older number, no row, or one that nobody wrote: each is a defect of the store."""
    assert written(3).judge(found, 0) is verdict


@pytest.mark.parametrize(("found", "verdict"), [(3, Verdict.KEPT), (4, Verdict.KEPT), (2, Verdict.LOST)])
def test_what_was_not_answered_may_be_there_or_not(found: int, verdict: Verdict) -> None:
    row = written(3)
    row.send(0)
    row.in_doubt = True
    assert row.judge(found, 0) is verdict


def test_a_row_in_doubt_gets_no_further_number() -> None:
    """A late copy of the request that was not answered would otherwise look like a loss."""
    row = written(3)
    assert row.send(0) == 4
    row.in_doubt = True
    assert row.send(0) == 4
    row.acknowledge()
    assert row.send(0) == 4
    assert row.judge(3, 0) is Verdict.LOST


def test_what_was_read_counts_as_acknowledged() -> None:
    """A read never shows what may yet be lost."""
    row = written(3)
    row.send(0)
    row.in_doubt = True
    row.see(4, 0)
    assert row.judge(3, 0) is Verdict.LOST
    row.see(None, 0)
    row.see(2, 0)
    assert row.acknowledged == 4


def test_what_was_sent_before_the_partition_was_lost_is_gone_and_no_more() -> None:
    """It counts when it was sent, for the answer may be heard after the loss; what is there all the same is kept."""
    row = written(3, life=0)
    assert row.judge(None, 1) is Verdict.GONE
    assert row.judge(2, 1) is Verdict.GONE
    assert row.judge(3, 1) is Verdict.KEPT
    again = written(3, life=1)
    assert again.judge(None, 1) is Verdict.LOST
    again.send(2)
    again.acknowledge()
    assert (again.judge(None, 2), again.judge(None, 3)) == (Verdict.LOST, Verdict.GONE)


def test_the_report_says_what_was_lost_and_what_was_gone() -> None:
    """One line each; what did not happen is not told, but for «lost»."""
    one, two = Ledger(writes=3, reads=2), Ledger(writes=4, unread=1)
    one.paused(Pause(5, 0.25))
    two.paused(Pause(6, 0.125))
    assert "none while a copy lived" in report(one)
    two.judged(written(3), None, 1)
    two.judged(written(3), 2, 0)
    one.add(two)
    assert report(one).splitlines() == [
        "writes         7 acknowledged",
        "reads          2",
        "longest pause  0.25 s, of rows/5",
        "gone           1 rows, with the last copy of rows/7",
        "not answered   1 rows, so nobody knows what became of them",
        "lost           1 rows:",
        "               a: 3 was acknowledged, 2 is there",
    ]
