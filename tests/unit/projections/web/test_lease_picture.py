"""The picture of leases tells of an outage where the log does, and nowhere else."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.unit.projections.chronicle import FENCE_MS, Chronicle

from topolog.events.lease_terms import LeaseTermsChanged, LeaseTermsConfirmed
from topolog.events.leases import LeaveReason, NodeKind
from topolog.projections.projector import Projector
from topolog.projections.web import lease_picture
from topolog.projections.web.lease_picture import Band, Strip, Strips, strips

NODES = ("n1", "n2", "n3")
HOUR_MS = 3_600_000
RESTARTS = 10


@contextmanager
def picture(projector: Projector, window_ms: int = HOUR_MS, age_ms: int = 0) -> Iterator[Strips]:
    while projector.step():
        pass
    with projector.reading() as reading:
        yield strips(reading, age_ms, window_ms)


def renew(chronicle: Chronicle, times: int, *nodes: str, every_ms: int = 4_000) -> None:
    for _ in range(times):
        chronicle.now_ms += every_ms - chronicle.pace_ms
        chronicle.renew(*nodes)


def restart(chronicle: Chronicle, node: str) -> None:
    """It stops by itself, is away for a while, and is back."""
    others = tuple(each for each in NODES if each != node)
    chronicle.leave(node, LeaveReason.LEFT)
    renew(chronicle, 2, *others)
    chronicle.join(node)
    renew(chronicle, 8, *NODES)


def restarted(chronicle: Chronicle) -> None:
    """Three nodes whose hour has ten restarts of each."""
    for node in NODES:
        chronicle.join(node)
    renew(chronicle, 60, *NODES)
    for _ in range(RESTARTS):
        for node in NODES:
            restart(chronicle, node)


def covered(strip: Strip, colours: str) -> list[Band]:
    return [band for band in strip.bands if band.colour == colours]


def test_ten_restarts_of_each_node_are_no_outage(chronicle: Chronicle, projector: Projector) -> None:
    """Each life is drawn as what it was, however many there were: a member with a lease, or none at all."""
    restarted(chronicle)
    with picture(projector) as drawn:
        assert {strip.node for strip in drawn.strips} == set(NODES)
        for strip in drawn.strips:
            assert (strip.gap_ms, covered(strip, "gap")) == (0, [])
            assert [event.what for event in strip.events] == ["joined", *("left: left", "joined") * RESTARTS]
            assert len(covered(strip, "away")) == RESTARTS + 1, "before it first joined, and between two lives"
            assert not strip.is_overlapping


def test_the_marks_of_renewals_reach_over_the_whole_window(chronicle: Chronicle, projector: Projector) -> None:
    """A strip that changed its colour half-way would look as if something had happened there."""
    chronicle.join("n1")
    renew(chronicle, 899, "n1")
    with picture(projector) as drawn:
        (strip,) = drawn.strips
        steps = [after - before for before, after in zip(strip.ticks, strip.ticks[1:], strict=False)]
        assert strip.ticks[0] <= 10
        assert strip.ticks[-1] >= lease_picture.WIDTH - 10
        assert max(steps) <= 10
        assert strip.words.startswith("900 renewals")


def test_silence_is_a_gap_from_the_end_of_the_lease_on(chronicle: Chronicle, projector: Projector) -> None:
    """What is an outage is still one: n2 hangs, the others go on."""
    for node in NODES:
        chronicle.join(node)
    renew(chronicle, 10, *NODES)
    renew(chronicle, 10, "n1", "n3")
    renew(chronicle, 10, *NODES)
    with picture(projector) as drawn:
        gaps = {strip.node: strip.gap_ms for strip in drawn.strips}
    assert gaps == {"n2": 44_000 - FENCE_MS, "n1": 0, "n3": 0}


def test_a_node_that_never_renews_has_a_lease_for_one_fence_after_its_join(
    chronicle: Chronicle, projector: Projector
) -> None:
    chronicle.join("n1")
    chronicle.join("n2", renewed=False)
    renew(chronicle, 10, "n1")
    with picture(projector) as drawn:
        assert {strip.node: strip.gap_ms > 0 for strip in drawn.strips} == {"n1": False, "n2": True}


def test_before_the_log_began_nothing_is_known(chronicle: Chronicle, projector: Projector) -> None:
    chronicle.join("n1")
    renew(chronicle, 3, "n1")
    with picture(projector) as drawn:
        (strip,) = drawn.strips
        (unknown,) = covered(strip, "unknown")
        assert unknown.x == 0
        assert unknown.width > 980
        assert strip.gap_ms == 0


def test_what_the_reader_has_not_heard_is_unknown_and_no_gap(chronicle: Chronicle, projector: Projector) -> None:
    """The broker is away for ten minutes: no lease that this reader knows of is valid, and it knows of none."""
    chronicle.join("n1")
    renew(chronicle, 10, "n1")
    with picture(projector, age_ms=600_000) as drawn:
        (strip,) = drawn.strips
        assert strip.gap_ms == 0
        assert "the last 9 min are not known" in strip.words


def test_a_picture_that_is_cut_begins_where_all_is_known(
    chronicle: Chronicle, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewals before the oldest decision that was read may have been valid still."""
    chronicle.join("n1")
    renew(chronicle, 60, "n1")
    monkeypatch.setattr(lease_picture, "DECISIONS_MAX", 20)
    with picture(projector) as drawn:
        (strip,) = drawn.strips
        assert drawn.is_cut
        assert (strip.gap_ms, len(covered(strip, "unknown"))) == (0, 0)


def test_a_lease_is_valid_by_the_terms_of_its_renewal(chronicle: Chronicle, projector: Projector) -> None:
    """Renewals each 15 s hold a lease of 20 s; that the fence is 5 s later on makes no gaps of what was."""
    chronicle.join("n1")
    renew(chronicle, 20, "n1", every_ms=15_000)
    changed = chronicle.decide(LeaseTermsChanged(chronicle.ref(), 5_000, 1_000))
    renew(chronicle, 8, "n1")
    chronicle.decide(LeaseTermsConfirmed(changed))
    renew(chronicle, 8, "n1")
    with picture(projector) as drawn:
        (strip,) = drawn.strips
        assert strip.gap_ms == 0


def test_a_client_has_no_strip(chronicle: Chronicle, projector: Projector) -> None:
    chronicle.join("n1")
    chronicle.join("gateway", kind=NodeKind.CLIENT)
    renew(chronicle, 3, "n1", "gateway")
    chronicle.leave("gateway", LeaveReason.LEFT)
    with picture(projector) as drawn:
        assert [strip.node for strip in drawn.strips] == ["n1"]


def test_a_client_that_came_before_the_window_has_no_strip_either(chronicle: Chronicle, projector: Projector) -> None:
    chronicle.join("gateway", kind=NodeKind.CLIENT)
    chronicle.join("n1")
    renew(chronicle, 60, "n1", "gateway")
    with picture(projector, window_ms=60_000) as drawn:
        assert [strip.node for strip in drawn.strips] == ["n1"]
