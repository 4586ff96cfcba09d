"""The example of the seed: A, B and C are segmented, both parts are activated apart and write, and C wants to return.

Ours is segmented as a log can be: a copy of it goes live beside the original. A and B go on with one, C with the other.
"""

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from tests.broker.conftest import PATIENCE_S, Process, Site, eventually
from tests.broker.log_copy import copy_log

from topolog.events.asked import Request, RequestId
from topolog.events.baseline import ClusterStateRow, cluster_state
from topolog.events.baseline_requests import ClusterStateRequested, WarmRequested
from topolog.events.cluster_state import ClusterState
from topolog.events.codec import CODEC
from topolog.events.errors import Refused
from topolog.events.ids import Position
from topolog.events.kafka import KafkaWriter
from topolog.events.leases import NodeKind
from topolog.events.membership import NodeJoined
from topolog.events.object_types import ObjectType
from topolog.events.requests import RequestRefused
from topolog.events.topics import Topic
from topolog.events.views import Kinship
from topolog.streams.node.client import Node

SOME_ROWS = 30
POSITIONS_BEHIND = 100
"""As many decisions stand between the activation and the next view at least: more than a part makes that is new."""


class Part:
    """One cluster, and the nodes that go on with it: each with its disk below `folder`."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.folder = folder
        self.coordinator = site.coordinator("c1")
        self._keepers: dict[str, Process] = {}
        self._asked = 0

    def start(self, *names: str) -> None:
        started = {name: self.site.keeper(name, self.folder) for name in names}
        for process in started.values():
            process.hear("member")
        self._keepers |= started

    def stop(self, *names: str) -> None:
        for name in names:
            assert self._keepers.pop(name).leave() == 0

    def stop_all(self) -> None:
        self.stop(*self._keepers)

    def become(self, target: ClusterState) -> None:
        """An operator says so, and it is done."""
        self._ask(partial(ClusterStateRequested, target=target))
        self._await(lambda row: row.state is target, target.value)

    def warm(self) -> None:
        """An operator goes on with those who are here."""
        self._await(lambda row: row.cold_at is not None, "cold")
        self._ask(WarmRequested)
        self._await(lambda row: row.goes_on, "warm")

    def write(self, *names: str) -> None:
        """Each of these nodes has rows acknowledged that nobody else has heard of before."""
        before = {name: self._stored(name) for name in names}
        for name, count in before.items():
            eventually(lambda name=name, count=count: self._stored(name) > count + SOME_ROWS, f"{name} to write")  # type: ignore[misc]

    @property
    def end(self) -> Position:
        """The last position of the log."""
        return self.site.told().header.position

    def chains(self) -> dict[int, bytes]:
        """The chain hash behind each position."""
        return {each.place.position: each.place.chain for each in self.site.told().decisions}

    def is_served(self) -> bool:
        """Whether all who went on are still there, and write."""
        self.write(*self._keepers)
        return all(process.exit_code is None for process in self._keepers.values())

    def put_disk(self, node: str, disk: Path | None) -> None:
        """Give a node that is off a copy of this disk in the place of its own; an empty one if that is None."""
        shutil.rmtree(self.folder / node)
        if disk:
            shutil.copytree(disk, self.folder / node)

    def kinships(self, node: str) -> list[Kinship | None]:
        """How the past of the node agreed with the log, at each join."""
        events = [each.event for each in self.site.told().decisions]
        return [each.kinship for each in events if isinstance(each, NodeJoined) and each.joiner.node == node]

    def refuses(self, node: str, folder: Path) -> Refused:
        """What a node with this folder is told that wants to join; and the log says it too."""
        with pytest.raises(Refused) as refused, _node(self.site, node, folder):
            pytest.fail("it is let in")
        events = [each.event for each in self.site.told().decisions]
        refusals = [event for event in events if isinstance(event, RequestRefused)]
        said = [event for event in refusals if event.request.requester.startswith(f"{node}-")][-1]
        assert (said.code, dict(said.facts)) == (refused.value.code, dict(refused.value.facts))
        return refused.value

    def _await(self, is_so: Callable[[ClusterStateRow], bool], what: str) -> None:
        eventually(lambda: is_so(cluster_state(self.site.told().state)), f"the cluster to be {what}", every_s=0.2)

    def _ask(self, make: Callable[[RequestId, bytes, str, str], Request]) -> None:
        self._asked += 1
        log_id = self.site.told().header.log_id
        assert log_id is not None
        request = make(RequestId(f"operator-{self.site.cluster}", self._asked), log_id, "operator", "")
        with closing(KafkaWriter(self.site.kafka, self.site.cluster)) as writer:
            writer.append(Topic.OPERATIONS, "operator", CODEC.encode(request))

    def _stored(self, name: str) -> int:
        path = self.folder / f"{name}.stored"
        return len(path.read_text().splitlines()) if path.exists() else 0


def _node(site: Site, name: str, folder: Path) -> Node:
    return Node(site.cluster, name, kafka=site.kafka, folder=folder, join_timeout_s=PATIENCE_S)


class Segmented:
    """`ab` goes on with the original, `early` and `late` each with C and a copy: one of them before it, one behind it.

    `at_first` has the disks of before, `active_at` is where all were activated.
    """

    def __init__(self, stack: ExitStack, kafka: str, new_cluster: Callable[[], str], folder: Path) -> None:
        self.at_first = folder / "at-first"
        self._folder = folder
        self._stack = stack
        self._kafka = kafka
        self._new_cluster = new_cluster
        self._tries = 0
        self.ab = self._part(self._new_cluster())
        self.ab.start("A", "B", "C")
        self.ab.become(ClusterState.ACTIVE)
        self.active_at = self.ab.end
        self.ab.write("A", "B", "C")
        _say_much(self.ab.site)
        self.ab.become(ClusterState.INACTIVE)
        self.ab.stop_all()
        shutil.copytree(self.ab.folder, self.at_first)
        copies = [self._copy(), self._copy()]
        self.early = self._go_on_apart(copies[0])
        self.ab.start("A", "B")
        self.ab.become(ClusterState.ACTIVE)
        self.ab.write("A", "B")
        self.late = self._go_on_apart(copies[1])

    def cut_short(self, decisions: int) -> Part:
        """A copy of the original's first decisions, with the disks of before."""
        return self._part(self._copy(decisions), self.at_first)

    def another(self) -> Part:
        """A cluster that has nothing to do with these."""
        return self._part(self._new_cluster())

    def disk(self, part: Part, node: str) -> Path:
        """A copy of the disk of a node as it is now, for a try: what comes of that leaves the disk as it is."""
        self._tries += 1
        return shutil.copytree(part.folder / node, self._folder / f"try-{self._tries}")

    def _copy(self, decisions: int | None = None) -> str:
        name = self._new_cluster()
        copy_log(self._kafka, self.ab.site.cluster, name, decisions=decisions)
        return name

    def _part(self, cluster: str, disks: Path | None = None) -> Part:
        folder = self._folder / cluster
        if disks:
            shutil.copytree(disks, folder)
        else:
            folder.mkdir()
        return Part(self._stack.enter_context(closing(Site(self._kafka, cluster))), folder)

    def _go_on_apart(self, copy: str) -> Part:
        part = self._part(copy, self.at_first)
        part.start("C")
        part.become(ClusterState.ACTIVE)
        part.warm()
        part.write("C")
        part.stop("C")
        return part


def _say_much(site: Site) -> None:
    """Decisions under one view."""
    with Node(site.cluster, "talker", kafka=site.kafka, kind=NodeKind.CLIENT, join_timeout_s=PATIENCE_S) as talker:
        for number in range(POSITIONS_BEHIND // 2):
            talker.propose(ObjectType("Thing", {f"field{number}": "long"}, affinity_key="field0"))


@pytest.fixture(scope="module")
def segmented(
    kafka: str, new_cluster: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Segmented]:
    """All parts are activated apart, and have written."""
    with ExitStack() as stack:
        yield Segmented(stack, kafka, new_cluster, tmp_path_factory.mktemp("segmented"))


def test_who_has_written_in_the_other_part_is_not_let_in(segmented: Segmented) -> None:
    """FORKED, whoever comes to whom and whichever part was started first; with the last place that both have, and the
    next ones of both sides. BA25: for Ignite it matters who starts first."""
    ab, early, late = segmented.ab, segmented.early, segmented.late
    for node, origin, part, here in (
        ("C", early, ab, {"A", "B"}),
        ("C", late, ab, {"A", "B"}),
        ("A", ab, early, {"C"}),
        ("B", ab, late, {"C"}),
        ("C", late, early, {"C"}),
    ):
        refused = part.refuses(node, segmented.disk(origin, node))
        assert refused.code == "FORKED"
        facts = refused.facts
        common, theirs, ours = (int(facts[f"{side}_position"]) for side in ("common", "theirs", "ours"))
        chains, others = part.chains(), origin.chains()
        assert chains[common] == others[common] != b""
        assert bytes.fromhex(facts["theirs_chain"]) == others[theirs] != chains.get(theirs)
        assert bytes.fromhex(facts["ours_chain"]) == chains[ours]
        assert theirs > common < ours
        assert here <= set(facts["ours_members_since"].split(", "))
        lost = f"what it wrote behind position {common} and nobody else has is lost"
        hints = {"last_copies": "Never start it with an", "last_copies_online": "Do not start it with an"}
        assert next((hint for fact, hint in hints.items() if fact in facts), lost) in refused.message
    assert ab.is_served()


def test_a_node_with_a_disk_that_the_log_knows_is_let_in(segmented: Segmented) -> None:
    """NEW, BEHIND, RESTORED, WIPED: each has all rows again in the end, and who brings nothing of its own loses nobody
    anything. The disk of C is here that of before the parting, which this part has gone on from."""
    ab = segmented.ab
    ab.start("D")
    assert ab.kinships("D") == [Kinship.NEW]
    for kinship, disk in (
        (Kinship.BEHIND, segmented.at_first / "C"),
        (Kinship.RESTORED, segmented.at_first / "C"),
        (Kinship.WIPED, None),
    ):
        ab.put_disk("C", disk)
        ab.start("C")
        assert ab.kinships("C")[-1] is kinship
        ab.write("A", "B", "C")
        ab.stop("C")


def test_a_log_that_was_cut_short_lets_nobody_in_who_has_seen_more(segmented: Segmented) -> None:
    """AHEAD: the newer log is what to bring back. An empty disk is let in: it has nothing that the log has not."""
    cut = segmented.cut_short(segmented.active_at + 1)
    refused = cut.refuses("A", segmented.disk(segmented.ab, "A"))
    assert refused.code == "AHEAD"
    assert int(refused.facts["theirs_position"]) > int(refused.facts["end"]) >= segmented.active_at
    assert int(refused.facts["common_position"]) <= segmented.active_at
    assert "it was cut short, or is an older copy" in refused.message
    cut.put_disk("B", None)
    cut.start("B")
    assert cut.kinships("B")[-1] is Kinship.WIPED


def test_an_older_log_is_an_older_one_until_somebody_goes_on_with_it(segmented: Segmented) -> None:
    """AHEAD does not turn into FORKED because the log that was put back beats, and has a client. What it is granted
    makes another history of it."""
    ab = segmented.ab
    ab.stop("A")
    older = segmented.cut_short(ab.end + 1)
    ab.start("A")
    ab.write("A")
    disk = segmented.disk(ab, "A")
    refused = older.refuses("A", disk)
    assert refused.code == "AHEAD"
    theirs = int(refused.facts["theirs_position"])
    with Node(older.site.cluster, "talker-2", kafka=older.site.kafka, kind=NodeKind.CLIENT) as talker:
        eventually(lambda: older.end > theirs, "the older log to grow past what A has seen")
        refused = older.refuses("A", segmented.disk(ab, "A"))
        assert (refused.code, refused.facts["theirs_position"]) == ("AHEAD", str(theirs))
        assert int(refused.facts["end"]) > theirs
        talker.propose(ObjectType("Other", {"field": "long"}))
    assert older.refuses("A", disk).code == "FORKED"


def test_a_disk_of_another_cluster_or_node_is_foreign(segmented: Segmented) -> None:
    ab = segmented.ab
    refused = segmented.another().refuses("A", segmented.disk(ab, "A"))
    assert refused.code == "FOREIGN"
    assert refused.facts["log_id"] != refused.facts["expected"]
    refused = ab.refuses("C", segmented.disk(ab, "B"))
    assert (refused.code, refused.facts["node"]) == ("FOREIGN", "B")


def test_a_node_that_dies_at_a_sync_comes_back_with_what_it_had(site: Site, tmp_path: Path) -> None:
    """`kill -9` before and behind each of the first syncs of its past: of its joining, of its first lease, of the next.
    It is neither refused nor taken for an older disk; before the first sync nothing had been."""
    part = Part(site, tmp_path)
    part.start("A", "B")
    for time in (1, 2, 3):
        for place in ("node.past-syncing", "node.past-synced"):
            dying = site.keeper("C", tmp_path, f"{place}:{time}=crash")
            assert dying.wait() == -signal.SIGKILL
    part.start("C")
    first, second, *others = part.kinships("C")
    assert (first, second) == (Kinship.NEW, Kinship.NEW)
    assert len(others) == 5
    assert set(others) <= {Kinship.EQUAL, Kinship.BEHIND}
    part.write("A", "B", "C")
