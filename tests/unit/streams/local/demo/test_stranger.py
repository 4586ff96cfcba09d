"""The second service of the demo's cluster, with the cluster's log in memory: what it shows, and what it leaves."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.broker.conftest import eventually

from topolog.events.asked import RequestId
from topolog.events.cluster_state import ClusterState
from topolog.events.codec import CODEC
from topolog.events.errors import Refused, TopologError, Unreachable
from topolog.events.groups import GroupDropRequested
from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeLeft
from topolog.events.stamp import decode_stamp
from topolog.events.topics import Topic
from topolog.streams.local.demo import stranger
from topolog.streams.local.demo.shards import ATTRIBUTES as STORE
from topolog.streams.local.demo.shards import GROUP as ROWS
from topolog.streams.local.stopping import Stopping
from topolog.streams.node.client import Node
from topolog.streams.node.testing import LocalCluster

HANGS = "its hook hangs from now on"


class Demo:
    """Two nodes of the store's service, and the stranger in a thread."""

    def __init__(self, local: LocalCluster, ending: ExitStack) -> None:
        self.local = local
        self.said: list[str] = []
        self.failure: TopologError | None = None
        self.drop_failure: TopologError | None = None
        self.stopping = Stopping()
        self.store = [ending.enter_context(local.node(name, attributes=STORE)) for name in ("n1", "n2")]
        self._thread: threading.Thread | None = None
        self._asked = 0
        ending.callback(self.stopping.close)
        ending.callback(self.stop)

    def begin(self, *, hangs: bool, **options: Any) -> Node:
        """The stranger as a member, all that it says at first said."""
        node = self.local.node(stranger.NAME, **{"attributes": stranger.ATTRIBUTES} | options)

        def run() -> None:
            try:
                stranger.run_stranger(node, self.drop, self.stopping, self.said.append, hangs=hangs)
            except TopologError as error:
                self.failure = error

        self._thread = threading.Thread(target=run)
        self._thread.start()
        eventually(lambda: self.failure or (HANGS in " ".join(self.said) if hangs else self.said))
        return node

    def drop(self) -> None:
        """As the API does it: returns when it is decided."""
        if self.drop_failure:
            raise self.drop_failure
        self._asked += 1
        request = RequestId("api", self._asked)
        log_id = decode_stamp(next(iter(self.local.log.entries(Topic.DECISIONS))).stamp or b"").log_id
        asked = GroupDropRequested(request, log_id, "api", "", stranger.NAME)
        self.local.log.put(Topic.OPERATIONS, "api", CODEC.encode(asked))
        eventually(lambda: stranger.NAME not in self.store[0].groups())

    def stop(self) -> None:
        if self._thread and self._thread.is_alive():
            self.stopping.tell()
            self.stop_by_itself()

    def stop_by_itself(self) -> None:
        assert self._thread is not None
        self._thread.join(30)
        assert not self._thread.is_alive()

    def serve(self) -> set[str | None]:
        """Who acts for the rows of the store."""
        return {each.primary for each in self.store[0].partitions(ROWS.name)}


@pytest.fixture
def demo() -> Iterator[Demo]:
    with LocalCluster() as local, ExitStack() as ending:
        found = Demo(local, ending)
        found.store[0].create_group(ROWS)
        local.settle()
        yield found


def test_the_store_serves_without_it_and_it_ends_when_told(demo: Demo) -> None:
    """It hangs with a lease; a node of the store dies, and its rows are served in no time. Ctrl-C frees the hook."""
    node = demo.begin(hangs=True)
    with demo.local.hung(stranger.NAME):
        applied = node.position
        demo.local.kill("n2")
        assert demo.serve() == {"n1"}
        assert node.lease.is_valid
        assert node.position == applied
        demo.stop()
    assert demo.failure is None
    assert [each.reason for each in demo.local.decisions(NodeLeft)] == [LeaveReason.DIED, LeaveReason.LEFT]
    assert list(demo.store[0].groups()) == [ROWS.name], "what it had is nobody's"


def test_it_says_when_its_lease_is_over(demo: Demo) -> None:
    """Whoever watches need not know when."""
    demo.begin(hangs=True)
    with demo.local.hung(stranger.NAME):
        demo.local.advance(2.4)
        eventually(lambda: "its lease is over" in demo.said[-1])
        assert len(demo.said) == 3
        demo.stop()


def test_it_follows_the_log_if_it_is_not_asked_to_hang(demo: Demo) -> None:
    """Its partitions are its own: the store's nodes hold none of them, and it none of theirs."""
    node = demo.begin(hangs=False)
    demo.local.settle()
    assert demo.said == ["stranger is another service of cluster local, with partitions of its own; Ctrl-C ends it"]
    assert node.fingerprint() == demo.store[0].fingerprint()
    held = {
        each.group: {copy.node for copy in each.copies} for each in (node.owners("stranger", 0), node.owners("rows", 0))
    }
    assert held == {"stranger": {"stranger"}, "rows": {"n1", "n2"}}


def test_what_a_former_one_has_left_is_dropped_first(demo: Demo) -> None:
    """One that was killed drops nothing, and its partitions are lost: the next one hangs all the same."""
    former = demo.local.node(stranger.NAME, attributes=stranger.ATTRIBUTES)
    former.__enter__()
    before = former.create_group(stranger.GROUP).number
    demo.local.settle()
    demo.local.kill(stranger.NAME)
    former.__exit__()
    assert demo.store[0].lost(stranger.NAME) == [*range(stranger.GROUP.partitions)]
    node = demo.begin(hangs=True)
    with demo.local.hung(stranger.NAME):
        assert node.groups()[stranger.NAME].number > before
        assert not demo.store[0].lost(stranger.NAME)
        demo.stop()


def test_a_group_that_cannot_be_dropped_is_said_with_the_command_that_drops_it(demo: Demo) -> None:
    """It ends all the same."""
    demo.drop_failure = Unreachable("No API answers at http://127.0.0.1:8642.")
    demo.begin(hangs=False)
    demo.stop()
    assert demo.failure is None
    assert "No API answers" in demo.said[-1]
    assert "`topolog drop group stranger`" in demo.said[-1]


def test_one_that_gets_no_partitions_says_where_to_look(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a baseline without it."""
    monkeypatch.setattr(stranger, "LOOKS", 1)
    demo.begin(hangs=False, attributes={})
    eventually(lambda: "topolog explain partition stranger/0" in demo.said[-1])
    demo.stop()
    assert demo.failure is None


def test_what_refuses_its_group_ends_it(demo: Demo) -> None:
    """An error of whoever typed the command, with the code of refusals."""
    demo.local.change_state(ClusterState.ACTIVE_READ_ONLY)
    demo.begin(hangs=False)
    demo.stop()
    assert isinstance(demo.failure, Refused)
    assert demo.failure.code == "NOT_ACTIVE"


def test_what_has_ended_its_node_ends_it(demo: Demo) -> None:
    """It does not stay there as if it were a member."""
    node = demo.begin(hangs=False)
    demo.local.settle()
    demo.local.kill(stranger.NAME)
    demo.stop_by_itself()
    assert demo.failure is node.failure is not None
