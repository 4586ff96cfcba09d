"""Crashes and pauses on a real broker, with a fence of two seconds."""

import signal
import threading
from typing import Any

from tests.broker.conftest import FENCE_MS, MARGIN_MS, Process, Site, decode_requests, event_name, eventually

from topolog.events.errors import OutcomeUnknown
from topolog.events.fold import Folded
from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeLeft
from topolog.events.metadata import MetadataUpdateAccepted, MetadataUpdateProposed, ObjectType, UpdateRequested
from topolog.events.topics import Topic
from topolog.streams.node.client import Node


def test_a_stand_by_goes_on_when_the_coordinator_is_killed_while_proposals_run(site: Site) -> None:
    """K5, K7: every proposal is settled once, no version is lost or given twice, all folds are equal."""
    coordinators = {name: site.coordinator(name, sentinel=False) for name in ("c1", "c2")}
    first = site.leader()
    with site.node("n1") as one, site.node("n2") as two, site.node("n3") as three:
        proposed = threading.Event()
        versions: list[int] = []

        def propose(node: Node, prefix: str) -> None:
            for number in range(60):
                versions.append(_insistent(node, ObjectType("Busy", {f"{prefix}{number}": "long"})))
                if number == 10:
                    proposed.set()

        threads = [threading.Thread(target=propose, args=(node, node.name)) for node in (one, two, three)]
        for thread in threads:
            thread.start()
        assert proposed.wait(30)
        coordinators[first].kill()
        for thread in threads:
            thread.join(60)
        assert sorted(versions) == list(range(1, 181))
        told = site.told()
        assert told.header.term == 2
        assert all(site.agrees_with(node) for node in (one, two, three))
    asked = [each for each in decode_requests(site.entries(Topic.REQUESTS)) if isinstance(each, UpdateRequested)]
    granted = [each.event.request for each in told.decisions if isinstance(each.event, MetadataUpdateProposed)]
    assert len({(ref.requester, ref.sequence) for ref in granted if ref}) == len(granted)
    assert {str(each.id) for each in asked} == {str(ref) for ref in granted}


def _insistent(node: Node, definition: ObjectType) -> int:
    """Propose, and ask again for as long as the outcome is unknown."""
    try:
        return node.propose(definition, timeout_s=3).version
    except OutcomeUnknown as unknown:
        request_id = unknown.request_id
    while True:
        try:
            return node.outcome(request_id, timeout_s=3).version
        except OutcomeUnknown:
            continue


def test_a_planned_hand_over_costs_no_take_over_wait(site: Site) -> None:
    """K5: a coordinator that is told to stop ends its term, and the stand-by leads at once."""
    coordinators = {name: site.coordinator(name) for name in ("c1", "c2")}
    first = site.leader()
    other = ({"c1", "c2"} - {first}).pop()
    assert coordinators[first].end() == 0
    eventually(lambda: site.leader() == other, "the stand-by to lead", patience_s=10)
    names = [event_name(each) for each in site.told().decisions]
    assert names.index("TermEnded") + 1 == len(names) - 1 - names[::-1].index("TermStarted")


def test_a_killed_node_is_out_when_its_lease_is_over_and_proposals_say_so(site: Site) -> None:
    """LE24: without a sentinel a kill -9 costs the lease; what was proposed is accepted with the evidence."""
    site.coordinator("c1")
    with site.node("n1") as node, site.node("n2"):
        site.member("n3", sentinel=False).kill()
        outcome = node.propose(ObjectType("Customer", {"id": "long"}), timeout_s=30)
        assert outcome.accepted
        left = eventually(lambda: _leaving_of("n3", site), "n3 to be out")
        told = site.told()
    accepted = next(each.event for each in told.decisions if isinstance(each.event, MetadataUpdateAccepted))
    assert set(accepted.evidence.applied) == {"n1", "n2"}
    assert set(accepted.evidence.left) | set(accepted.evidence.presumed_fenced) == {"n3"}
    assert isinstance(left.event, NodeLeft)
    assert left.event.reason is LeaveReason.FENCED
    renewed = next(each for each in told.decisions if each.place.position == left.event.renewed_at)
    assert left.stamp.recorded_at_ms - renewed.stamp.recorded_at_ms >= FENCE_MS + MARGIN_MS - 100


def _leaving_of(node: str, site: Site) -> Folded | None:
    leavings = (each for each in site.told().decisions if isinstance(each.event, NodeLeft) and each.event.node == node)
    return next(leavings, None)


def test_a_paused_node_refuses_after_it_wakes_until_it_has_caught_up(site: Site) -> None:
    """LE13, LE1, LE6: it wakes with its lease over, refuses, and comes back only through the log."""
    site.coordinator("c1")
    paused = site.member("n2")
    with site.node("n1") as node:
        node.propose(ObjectType("Customer", {"id": "long"}))
        paused.tell(do="require")
        before = paused.hear("valid")
        paused.send(signal.SIGSTOP)
        assert node.propose(ObjectType("Customer", {"name": "String"}), timeout_s=30).accepted
        eventually(lambda: [each.node for each in node.members()] == ["n1"], "n2 to be out")
        paused.tell(do="require")
        paused.tell(do="metadata", type="Customer")
        paused.send(signal.SIGCONT)
        assert paused.hear("valid", "error")["code"] == "fenced"
        again = eventually(lambda: _valid(paused), "n2 to be a member again")
        assert again["incarnation"] != before["incarnation"]
        paused.tell(do="metadata", type="Customer")
        assert set(paused.hear("metadata")["fields"]) == {"id", "name"}


def _valid(process: Process) -> dict[str, Any] | None:
    process.tell(do="require")
    answer = process.hear("valid", "error")
    return answer if answer["said"] == "valid" else None
