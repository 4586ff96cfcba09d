"""Lease terms that change on a real broker: a stopped member is waited for by the former fence, then the new one."""

import signal

from tests.broker.conftest import FENCE_MS, MARGIN_MS, Process, Site, eventually

from topolog.events.asked import RequestId
from topolog.events.asking import encode_request
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.ids import Position
from topolog.events.kafka import KafkaWriter
from topolog.events.lease_terms import LeaseTermsChanged, LeaseTermsConfirmed, LeaseTermsRequested
from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeLeft
from topolog.events.terms import cluster
from topolog.events.topics import Topic

LONG_FENCE_MS = 20 * MARGIN_MS
CLOCKS = 0.02
"""By how much two clocks of one machine may disagree on a span: the broker's is set by hand or by NTP."""


def ask(site: Site, fence_ms: int) -> None:
    log_id = bytes.fromhex(cluster(site.told().state).log_id)
    request = LeaseTermsRequested(RequestId("operator", 1), log_id, "ada", "a faster Kafka", fence_ms)
    writer = KafkaWriter(site.kafka, site.cluster)
    writer.append(Topic.OPERATIONS, "operator", encode_request(request))
    writer.flush(10)


def timed(site: Site) -> dict[Position, tuple[Folded, int]]:
    """Every decision so far, with the broker's time of it in ms."""
    fold = Fold()
    found: dict[Position, tuple[Folded, int]] = {}
    for entry in site.entries(Topic.DECISIONS):
        folded = fold.read(entry.stamp, entry.value)
        if not isinstance(folded, Ignored):
            found |= {each.place.position: (each, entry.appended_at_ms) for each in folded}
    return found


def waited_ms(site: Site, stopped: Process, node: str) -> int:
    """How long after its last renewal a member leaves that is stopped now."""
    stopped.send(signal.SIGSTOP)

    def look() -> int | None:
        told = timed(site)
        for folded, left_ms in told.values():
            if isinstance(folded.event, NodeLeft) and folded.event.node == node:
                assert folded.event.reason is LeaveReason.FENCED
                return left_ms - told[folded.event.renewed_at][1]
        return None

    return eventually(look, f"{node} to be out", every_s=0.2)


def test_a_lowered_fence_shortens_waits_once_it_is_confirmed(site: Site) -> None:
    """LE37: from 10 s to 2 s. Until 10.5 s after the change nobody may be out sooner than that; then 2.5 s do."""
    site.coordinator("c1", fence_ms=LONG_FENCE_MS)
    with site.node("n1") as node:
        first = site.member("n2")
        ask(site, FENCE_MS)
        eventually(lambda: cluster(site.told().state).former, "the change")
        assert waited_ms(site, first, "n2") >= (LONG_FENCE_MS + MARGIN_MS) * (1 - CLOCKS)
        eventually(lambda: cluster(site.told().state).former is None, "the confirmation")
        at_ms = {type(folded.event): at_ms for folded, at_ms in timed(site).values()}
        assert at_ms[LeaseTermsConfirmed] - at_ms[LeaseTermsChanged] >= (LONG_FENCE_MS + MARGIN_MS) * (1 - CLOCKS)
        assert node.lease.remaining_ms <= FENCE_MS
        second = site.member("n3")
        waited = waited_ms(site, second, "n3")
        assert (FENCE_MS + MARGIN_MS) * (1 - CLOCKS) <= waited < LONG_FENCE_MS, "not by the former terms"
        assert site.agrees_with(node)
