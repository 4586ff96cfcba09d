"""The example of the seed: A, B and C are segmented, both parts are activated apart and write, and C wants to return.

Ours is segmented as a log can be: a copy of it goes live beside the original. A and B go on with one, C with the other.
"""

import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from tests.integration.conftest import PATIENCE_S, Process, Site, eventually
from tests.integration.log_copy import copy_log

from topolog.events.baseline import ClusterStateRow, cluster_state
from topolog.events.cluster_state import ClusterState
from topolog.events.codec import CODEC
from topolog.events.errors import Refused
from topolog.events.ids import Position
from topolog.events.kafka import KafkaWriter
from topolog.events.membership import NodeRow
from topolog.events.object_types import ObjectType
from topolog.events.requests import (
    AnyRequest,
    ClusterStateRequested,
    NodeKind,
    RequestId,
    RequestRefused,
    WarmRequested,
)
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

    def kinship(self, node: str) -> Kinship | None:
        """How the past of the node agreed with the log when it joined last."""
        row = self.site.told().state.get(NodeRow, node)
        return row.kinship if row else None

    def refuses(self, node: str, folder: Path) -> Refused:
        """What a node with this folder is told that wants to join; and the log says it too."""
        with pytest.raises(Refused) as refused, _node(self.site, node, folder):
            pytest.fail("it is let in")
        events = [each.event for each in self.site.told().decisions]
        said = [event for event in events if isinstance(event, RequestRefused)][-1]
        assert (said.code, dict(said.facts)) == (refused.value.code, dict(refused.value.facts))
        return refused.value

    def _await(self, is_so: Callable[[ClusterStateRow], bool], what: str) -> None:
        eventually(lambda: is_so(cluster_state(self.site.told().state)), f"the cluster to be {what}", every_s=0.2)

    def _ask(self, make: Callable[[RequestId, bytes, str, str], AnyRequest]) -> None:
        self._asked += 1
        log_id = self.site.told().header.log_id
        assert log_id is not None
        request = make(RequestId(f"operator-{self.site.cluster}", self._asked), log_id, "operator", "")
        with closing(KafkaWriter(self.site.kafka, self.site.cluster)) as writer:
            writer.append(Topic.REQUESTS, "operator", CODEC.encode(request))

    def _stored(self, name: str) -> int:
        path = self.folder / f"{name}.stored"
        return len(path.read_text().splitlines()) if path.exists() else 0


def _node(site: Site, name: str, folder: Path) -> Node:
    return Node(site.cluster, name, kafka=site.kafka, folder=folder, join_timeout_s=PATIENCE_S)


class Segmented:
    """`ab` and `c` have gone on apart; `at_first` has the disks of before, `active_at` is where all were activated."""

    def __init__(self, stack: ExitStack, kafka: str, folder: Path, *, copy_first: bool) -> None:
        cluster = f"test-{uuid.uuid4().hex[:12]}"
        self.at_first = folder / "at-first"
        self.folder = folder
        self._stack = stack
        self._tries = 0
        self.ab = self._part(kafka, cluster)
        self.ab.start("A", "B", "C")
        self.ab.become(ClusterState.ACTIVE)
        self.active_at = self.ab.end
        self.ab.write("A", "B", "C")
        _say_much(self.ab.site)
        self.ab.become(ClusterState.INACTIVE)
        self.ab.stop_all()
        shutil.copytree(self.ab.folder, self.at_first)
        self.c = self.copied()
        for part in (self.c, self.ab) if copy_first else (self.ab, self.c):
            self._go_on(part)

    def copied(self, decisions: int | None = None) -> Part:
        """A copy of the original's log, and of the disks of before, that goes live beside it."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        copy_log(self.ab.site.bootstrap, self.ab.site.cluster, name, decisions=decisions)
        return self._part(self.ab.site.bootstrap, name, self.at_first)

    def another(self) -> Part:
        """A cluster that has nothing to do with these."""
        return self._part(self.ab.site.bootstrap, f"test-{uuid.uuid4().hex[:12]}")

    def disk(self, node: str) -> Path:
        """A copy of the disk of a node as it is now, for a try: what comes of that leaves the disk as it is."""
        self._tries += 1
        part = self.c if node == "C" else self.ab
        return shutil.copytree(part.folder / node, self.folder / f"try-{self._tries}")

    def _part(self, kafka: str, cluster: str, disks: Path | None = None) -> Part:
        folder = self.folder / cluster
        if disks:
            shutil.copytree(disks, folder)
        else:
            folder.mkdir()
        return Part(self._stack.enter_context(closing(Site(kafka, cluster))), folder)

    def _go_on(self, part: Part) -> None:
        names = ("A", "B") if part is self.ab else ("C",)
        part.start(*names)
        part.become(ClusterState.ACTIVE)
        if part is self.c:
            part.warm()
        part.write(*names)


def _say_much(site: Site) -> None:
    """Decisions under one view."""
    with Node(site.cluster, "talker", kafka=site.kafka, kind=NodeKind.CLIENT, join_timeout_s=PATIENCE_S) as talker:
        for number in range(POSITIONS_BEHIND // 2):
            talker.propose(ObjectType("Thing", {f"field{number}": "long"}, affinity_key="field0"))


ORIGINAL_FIRST, COPY_FIRST = "the original starts first", "the copy starts first"
original_first = pytest.mark.parametrize("segmented", [ORIGINAL_FIRST], indirect=True)


@pytest.fixture(scope="module")
def segmented(
    kafka: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Segmented]:
    """Both parts are activated apart, and have written."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("segmented")
        yield Segmented(stack, kafka, folder, copy_first=request.param == COPY_FIRST)


@pytest.mark.parametrize("segmented", [COPY_FIRST, ORIGINAL_FIRST], indirect=True)
def test_who_has_written_in_the_other_part_is_not_let_in(segmented: Segmented) -> None:
    """FORKED, whoever comes to whom and whichever part was started first; with the last place that both have, and the
    first one of each side behind it. C1 to C3: for Ignite it matters who starts first."""
    ab, c = segmented.ab, segmented.c
    for node, part, members in (("C", ab, {"A", "B"}), ("A", c, {"C"}), ("B", c, {"C"})):
        refused = part.refuses(node, segmented.disk(node))
        assert refused.code == "FORKED"
        facts = refused.facts
        common, theirs, ours = (int(facts[f"{side}_position"]) for side in ("common", "theirs", "ours"))
        chains, others = part.chains(), (c if part is ab else ab).chains()
        assert chains[common] == others[common] != b""
        assert bytes.fromhex(facts["theirs_chain"]) == others[theirs] != chains.get(theirs)
        assert bytes.fromhex(facts["ours_chain"]) == chains[ours]
        assert theirs > common < ours
        assert members <= set(facts["ours_members_since"].split(", "))
        assert f"what it alone wrote behind position {common} is lost" in refused.message
        assert part.is_served()


@original_first
def test_a_node_with_a_disk_that_the_log_knows_is_let_in(segmented: Segmented) -> None:
    """NEW, BEHIND, RESTORED, WIPED: each has all rows again in the end, and who brings nothing of its own loses nobody
    anything. The disk of C is here that of before the parting, which this part has gone on from."""
    ab = segmented.ab
    ab.start("D")
    assert ab.kinship("D") is Kinship.NEW
    for kinship, disk in (
        (Kinship.BEHIND, segmented.at_first / "C"),
        (Kinship.RESTORED, segmented.at_first / "C"),
        (Kinship.WIPED, None),
    ):
        ab.put_disk("C", disk)
        ab.start("C")
        assert ab.kinship("C") is kinship
        ab.write("A", "B", "C")
        ab.stop("C")


@original_first
def test_a_log_that_was_cut_short_lets_nobody_in_who_has_seen_more(segmented: Segmented) -> None:
    """AHEAD: the newer log is what to bring back. An empty disk is let in: it has nothing that the log has not."""
    cut = segmented.copied(decisions=segmented.active_at + 1)
    refused = cut.refuses("A", segmented.disk("A"))
    assert refused.code == "AHEAD"
    assert int(refused.facts["theirs_position"]) > int(refused.facts["end"]) >= segmented.active_at
    assert int(refused.facts["common_position"]) <= segmented.active_at
    assert "Bring back the newer log" in refused.message
    cut.put_disk("B", None)
    cut.start("B")
    assert cut.kinship("B") is Kinship.WIPED


@original_first
def test_a_disk_of_another_cluster_or_node_is_foreign(segmented: Segmented) -> None:
    refused = segmented.another().refuses("A", segmented.disk("A"))
    assert refused.code == "FOREIGN"
    assert refused.facts["log_id"] != refused.facts["expected"]
    refused = segmented.ab.refuses("C", segmented.disk("B"))
    assert (refused.code, refused.facts["node"]) == ("FOREIGN", "B")


@pytest.mark.parametrize("place", ["node.past-syncing", "node.past-synced"])
@pytest.mark.parametrize("time", [1, 2, 3])
def test_a_node_that_dies_at_a_sync_comes_back_with_what_it_had(
    site: Site, tmp_path: Path, place: str, time: int
) -> None:
    """`kill -9` before and behind each of the first syncs of its past: of its joining, of its first lease, of the
    next. It is neither refused nor taken for an older disk."""
    part = Part(site, tmp_path)
    part.start("A", "B")
    dying = site.keeper("C", tmp_path, f"{place}:{time}=crash")
    assert dying.wait() == -signal.SIGKILL
    part.start("C")
    had_a_life = time > 1 or place.endswith("synced")
    assert part.kinship("C") in ((Kinship.EQUAL, Kinship.BEHIND) if had_a_life else (Kinship.NEW,))
    part.write("A", "B", "C")
