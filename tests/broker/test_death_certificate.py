"""The sentinel on a real broker: what a crash costs with it, and without it (fence 2 s, margin 0.5 s)."""

import os
import signal
import time
from pathlib import Path

from tests.broker.conftest import MARGIN_MS, Process, Site, eventually

from topolog.events.codec import CODEC
from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeDied, NodeJoined, NodeLeft
from topolog.events.terms import TermStarted
from topolog.events.topics import Topic
from topolog.streams.node.client import Node

LONG_FENCE_MS = 20 * MARGIN_MS
"""A lease that is waited for shows, however busy the machine is."""


def sentinel_of(process: Process) -> int:
    """The pid of the process's sentinel, once it has one that listens."""

    def look() -> int | None:
        lists = Path(f"/proc/{process.pid}/task").glob("*/children")  # by the thread that started them
        pids = [int(pid) for each in lists for pid in each.read_text().split()]
        return next((pid for pid in pids if not is_gone(pid) and is_deaf(pid)), None)

    return eventually(look, f"the sentinel of {process.pid}")


def is_deaf(pid: int) -> bool:
    """Whether it ignores SIGINT, which is the first thing that a sentinel does."""
    ignored = int(fact_of(pid, "SigIgn") or "0", 16)
    return bool(ignored >> (signal.SIGINT - 1) & 1)


def is_gone(pid: int) -> bool:
    """Ended, whether or not its parent has collected it."""
    return fact_of(pid, "State")[:1] in ("", "Z", "X")


def fact_of(pid: int, name: str) -> str:
    """What the kernel says of a process, nothing if it is no more."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")


def reasons(site: Site, node: str) -> list[LeaveReason]:
    """Why the node's incarnations have left so far, in order."""
    leavings = [each.event for each in site.told().decisions if isinstance(each.event, NodeLeft)]
    return [each.reason for each in leavings if each.node == node]


def test_a_killed_node_is_out_at_once_and_its_successor_in(site: Site) -> None:
    """LE26: NodeLeft(DIED) without waiting for the lease; a process started again at once joins without waiting."""
    site.coordinator("c1", fence_ms=LONG_FENCE_MS)
    with site.node("n1"):
        killed = site.member("n2")
        sentinel = sentinel_of(killed)
        began = time.monotonic()
        killed.kill()
        site.member("n2")
        assert time.monotonic() - began < LONG_FENCE_MS / 1000
        assert reasons(site, "n2") == [LeaveReason.DIED]
        eventually(lambda: is_gone(sentinel), "the sentinel to end")
    joined = [each.event for each in site.told().decisions if isinstance(each.event, NodeJoined)]
    assert [each.joiner.node for each in joined] == ["n1", "n2", "n2"]


def test_without_its_sentinel_a_killed_node_costs_its_lease(site: Site) -> None:
    """The certificate only shortens: with the sentinel killed first the lease is what it was."""
    site.coordinator("c1")
    with site.node("n1") as node:
        killed = site.member("n2")
        killed.send(signal.SIGSTOP)  # so that it does not start another one
        os.kill(sentinel_of(killed), signal.SIGKILL)
        killed.kill()
        eventually(lambda: [each.node for each in node.members()] == ["n1"], "n2 to be out")
        assert reasons(site, "n2") == [LeaveReason.FENCED]


def test_a_lost_sentinel_is_replaced(site: Site) -> None:
    """Another one starts, and knows for whom it speaks."""
    site.coordinator("c1")
    with site.node("n1"):
        killed = site.member("n2")
        first = sentinel_of(killed)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: is_gone(first) and sentinel_of(killed) != first, "another sentinel")
        killed.kill()
        assert eventually(lambda: reasons(site, "n2"), "n2 to be out") == [LeaveReason.DIED]


def test_a_node_that_leaves_in_order_leaves_no_sentinel(site: Site) -> None:
    """LEFT, and nothing is left behind when its process ends."""
    site.coordinator("c1")
    with site.node("n1"):
        leaving = site.member("n2")
        sentinel = sentinel_of(leaving)
        leaving.leave()
        assert is_gone(sentinel)
        assert reasons(site, "n2") == [LeaveReason.LEFT]


def test_a_stand_by_leads_at_once_when_the_leader_is_killed(site: Site) -> None:
    """K5: the sentinel's word lets it act without waiting for silence; terms follow each other without a gap.

    The longest fence that the margin of these tests allows: on a busy machine too, the word is quicker than silence.
    """
    coordinators = {name: site.coordinator(name, fence_ms=LONG_FENCE_MS) for name in ("c1", "c2")}
    first = site.leader()
    other = ({"c1", "c2"} - {first}).pop()
    sentinel_of(coordinators[first])
    with site.node("n1") as node:
        coordinators[first].kill()
        eventually(lambda: _heard_dead(coordinators[other]), "the stand-by to hear of it")
        eventually(lambda: node.lease.is_valid and site.leader() == other, "the stand-by to lead")
    started = [each.event for each in site.told().decisions if isinstance(each.event, TermStarted)]
    assert [each.instance for each in started] == [first, other]


def _heard_dead(process: Process) -> bool:
    return any("has died" in line for line in process.complaints)


def test_a_retired_coordinator_leaves_no_sentinel(site: Site) -> None:
    """An end in order needs no certificate."""
    coordinator = site.coordinator("c1")
    site.leader()
    sentinel = sentinel_of(coordinator)
    assert coordinator.end() == 0
    assert is_gone(sentinel)


def test_a_fork_of_a_member_is_fenced_and_does_not_silence_the_sentinel(site: Site) -> None:
    """The child outlives its parent, with a copy of everything: the parent is out at once all the same."""
    site.coordinator("c1")
    with site.node("n1"):
        forking = site.member("n2")
        sentinel_of(forking)
        forking.tell(do="fork")
        told = forking.hear("forked")
        assert (told["valid"], told["remaining_ms"]) == (False, 0)
        try:
            forking.kill()
            assert eventually(lambda: reasons(site, "n2"), "n2 to be out") == [LeaveReason.DIED]
        finally:
            os.kill(told["pid"], signal.SIGKILL)


def test_a_node_in_this_process_has_one_too(site: Site) -> None:
    """Sentinels belong to nodes: one is there while it is a member, none when it has left."""
    site.coordinator("c1")
    node: Node
    with site.node("n1") as node:
        pid = node._sentinel.pid
        assert pid is not None
    assert is_gone(pid)


def test_a_process_that_is_stopped_or_has_closed_its_pipe_is_not_dead(site: Site) -> None:
    """SIGSTOP, also with the end of the pipe: the lease runs out in silence, and no certificate is written."""
    site.coordinator("c1")
    with site.node("n1") as node:
        stopped, closed = site.member("n2"), site.member("n3")
        sentinels = [sentinel_of(stopped), sentinel_of(closed)]
        closed.tell(do="close-pipe")
        closed.hear("closed")
        stopped.send(signal.SIGSTOP)
        closed.send(signal.SIGSTOP)
        eventually(lambda: [each.node for each in node.members()] == ["n1"], "both to be out")
        assert not any(is_gone(sentinel) for sentinel in sentinels)
        assert reasons(site, "n2") == reasons(site, "n3") == [LeaveReason.FENCED]
        assert not any(isinstance(CODEC.decode(entry.value), NodeDied) for entry in site.entries(Topic.HEARTBEATS))
        stopped.kill()
        closed.kill()
        eventually(lambda: all(is_gone(sentinel) for sentinel in sentinels), "the sentinels to speak and end")
        spoken = [CODEC.decode(entry.value) for entry in site.entries(Topic.HEARTBEATS)]
        assert {each.node for each in spoken if isinstance(each, NodeDied)} == {"n2", "n3"}
        assert reasons(site, "n2") == [LeaveReason.FENCED], "who has left does not leave again"


def test_what_ends_a_service_in_its_terminal_does_not_end_its_sentinel(site: Site) -> None:
    """SIGINT, SIGTERM and SIGHUP at the sentinel itself, and a session that is not the service's."""
    site.coordinator("c1")
    with site.node("n1"):
        killed = site.member("n2")
        sentinel = sentinel_of(killed)
        assert os.getsid(sentinel) == sentinel != os.getsid(killed.pid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(sentinel, number)
        killed.kill()
        assert eventually(lambda: reasons(site, "n2"), "n2 to be out") == [LeaveReason.DIED]


def test_no_secret_stands_in_the_arguments(site: Site) -> None:
    """Settings of Kafka go through the pipe: whoever lists processes sees none of them."""
    site.coordinator("c1")
    process = site.member("n1")
    arguments = Path(f"/proc/{sentinel_of(process)}/cmdline").read_bytes()
    assert site.bootstrap.encode() not in arguments
