"""The replication core: seeds of the whole, and single schedules that read aloud (`replication/__init__.py`)."""

import os

import msgspec
import pytest
from tests.unit.streams.local.demo.replicating import Violation, World

from topolog.events.ids import NodeId, Position
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo.replication import messages as m
from topolog.streams.local.demo.replication.content import Content
from topolog.streams.local.demo.replication.replica import Replica
from topolog.streams.node.views import CopyView, PartitionView

SEEDS = int(os.environ.get("TOPOLOG_REPLICATION_SEEDS", "60"))
"""Thousands take minutes: TOPOLOG_REPLICATION_SEEDS=5000."""

PARTS = 4
"""Of the seeds, so that each test is short."""

OWNING, MOVING, RENTING = PartitionState.OWNING, PartitionState.MOVING, PartitionState.RENTING
LOST = PartitionState.LOST
N1, N2, N3, N4 = (NodeId(name) for name in ("n1", "n2", "n3", "n4"))


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_rule(part: int) -> None:
    """Whatever is lost, delayed, doubled, fenced, gone or back: nothing acknowledged is lost, owners agree."""
    acknowledged = 0
    seeds = range(part, SEEDS, PARTS)
    for seed in seeds:
        world = World(seed)
        try:
            world.run()
        except Violation as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        acknowledged += world.acknowledged
    assert acknowledged > 5 * len(seeds), "a world in which nobody can write proves nothing"


def test_who_joins_while_a_group_is_shared_out_takes_part_at_once() -> None:
    """The outcome names it for copies although nobody has asked it: waiting for a question, it would never store."""
    for seed in range(20):
        try:
            World(seed, joins_late=True, crashes=0, lapses=0, steps=50).run()
        except Violation as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation


class Pair:
    """Replicas by name; what they say stays in `sent` until a test delivers it."""

    def __init__(self, *nodes: NodeId) -> None:
        self.replicas: dict[NodeId, Replica] = {}
        self.sent: list[tuple[NodeId, NodeId, m.AnyMessage]] = []
        self.said: list[m.Output] = []
        for node in nodes:
            self.join(node)

    def join(self, node: NodeId) -> None:
        """A new process, which the last of the owners supplies."""
        self.replicas[node] = Replica(node, page_rows=2, supplier=last_owner)
        self.replicas[node].enter()

    def adopt(self, view: PartitionView, *nodes: NodeId) -> None:
        for node in nodes or tuple(self.replicas):
            self._perform(node, self.replicas[node].adopt([view]))

    def write(self, node: NodeId, token: int, key: str, value: bytes | None, number: int = 1) -> None:
        operation = m.Write(number, "rows", 0, Position(token), key, value)
        self._perform(node, self.replicas[node].begin(operation))

    def deliver(self, kind: type[m.Message] = m.Message, to: NodeId | None = None) -> None:
        """All that is under way, or what is of this kind and to this node, and what follows from it."""
        while found := [each for each in self.sent if isinstance(each[2], kind) and to in (None, each[1])]:
            for each in found:
                self.sent.remove(each)
                source, target, message = each
                self._perform(target, self.replicas[target].receive(source, message))

    def rows(self, node: NodeId) -> dict[str, bytes | None]:
        partition = self.replicas[node].partition(("rows", 0))
        return {key: cell.value for key, cell in partition.content.rows()} if partition else {}

    def is_acknowledged(self, number: int) -> bool:
        return any(isinstance(each, m.Answered) and each.id == number for each in self.said)

    def _perform(self, node: NodeId, outputs: list[m.Output]) -> None:
        for output in outputs:
            if isinstance(output, m.Send):
                self.sent.append((node, output.to, output.message))
            else:
                self.said.append(output)


def last_owner(view: PartitionView) -> NodeId:
    return max(copy.node for copy in view.copies if copy.state is OWNING)


def view(token: int, primary: NodeId | None, **copies: tuple[PartitionState, int]) -> PartitionView:
    listed = tuple(CopyView(NodeId(node), state, Position(since)) for node, (state, since) in copies.items())
    return PartitionView("rows", 1, 0, Position(token), primary, listed, is_lost=False)


def begun(*nodes: NodeId) -> Pair:
    """All own since 5 and are synced; n1 acts."""
    pair = Pair(*nodes)
    pair.adopt(view(5, N1, **dict.fromkeys(nodes, (OWNING, 5))))
    pair.deliver()
    return pair


def test_a_write_is_acknowledged_when_all_have_it() -> None:
    """DS3: the primary alone is not enough."""
    pair = begun(N1, N2)
    pair.write(N1, 5, "k", b"v")
    assert not pair.is_acknowledged(1)
    pair.deliver(m.Replicate)
    assert not pair.is_acknowledged(1)
    pair.deliver()
    assert pair.is_acknowledged(1)
    assert pair.rows(N2) == {"k": b"v"}


def test_a_copy_listed_while_a_write_runs_gets_it_too() -> None:
    """DS3: and is waited for."""
    pair = begun(N1, N2)
    pair.join(N3)
    pair.write(N1, 5, "k", b"v")
    now = view(5, N1, n1=(OWNING, 5), n2=(OWNING, 5), n3=(MOVING, 9))
    pair.adopt(now)
    pair.deliver(m.Replicate, N2)
    pair.deliver(m.Stored)
    assert not pair.is_acknowledged(1)
    pair.deliver()
    assert pair.is_acknowledged(1)
    assert m.Loaded("rows", 0, Position(9), Position(5)) in pair.said
    assert pair.rows(N3) == {"k": b"v"}


def test_what_was_stored_under_a_former_listing_does_not_count() -> None:
    """DS3: n2 stored the write, went, and loads anew from n3, which has not got it yet: it must store it again."""
    pair = begun(N1, N2, N3)
    pair.write(N1, 5, "k", b"v")
    pair.deliver(m.Replicate, N2)
    pair.deliver(m.Stored)
    late = pair.sent[:]
    pair.sent.clear()
    pair.adopt(view(5, N1, n1=(OWNING, 5), n3=(OWNING, 5)))
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(MOVING, 9), n3=(OWNING, 5)))
    again = [each for each in pair.sent if isinstance(each[2], m.Replicate)]
    pair.sent = [each for each in pair.sent if isinstance(each[2], m.Ask)]
    pair.deliver()
    pair.sent = late
    pair.deliver()
    assert not pair.is_acknowledged(1)
    pair.sent = again
    pair.deliver()
    assert pair.is_acknowledged(1)
    assert pair.rows(N2) == pair.rows(N1)


def test_a_confirmation_of_a_former_listing_is_refused() -> None:
    """DS3: it comes when the copy is listed anew, and has lost what it confirms."""
    pair = begun(N1, N2)
    pair.write(N1, 5, "k", b"v")
    (number,) = [each[2].number for each in pair.sent if isinstance(each[2], m.Replicate)]
    pair.sent.clear()
    stored = m.Stored("rows", 0, Position(5), Position(5), number)
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(MOVING, 9)), N1)
    pair.sent = [(N2, N1, stored)]
    pair.deliver(m.Stored)
    assert not pair.is_acknowledged(1)
    assert pair.replicas[N1].refused["another listing"] == 1


def test_a_page_of_a_former_listing_is_refused() -> None:
    """DS5: it was made before writes that went to other copies only."""
    pair = begun(N1)
    pair.join(N2)
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(MOVING, 7)))
    pair.deliver(m.Ask)
    (page,) = [each for each in pair.sent if isinstance(each[2], m.Page)]
    pair.sent.clear()
    pair.adopt(view(5, N1, n1=(OWNING, 5)))
    pair.write(N1, 5, "k", b"v")
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(MOVING, 9)))
    asked, pair.sent = pair.sent, [page]
    pair.deliver()
    assert not [each for each in pair.said if isinstance(each, m.Loaded)]
    pair.sent = asked
    pair.deliver()
    assert m.Loaded("rows", 0, Position(9), Position(5)) in pair.said
    assert pair.rows(N2) == {"k": b"v"}


def test_a_write_that_comes_again_does_not_undo_a_deletion() -> None:
    """All copies have the deletion, so nobody keeps a marker of it; the write before it comes once more, much later."""
    pair = begun(N1, N2)
    pair.write(N1, 5, "k", b"v", 1)
    again = pair.sent[:]
    pair.deliver()
    pair.write(N1, 5, "k", None, 2)
    pair.deliver()
    pair.write(N1, 5, "other", b"v", 3)
    pair.deliver()
    pair.sent = again
    pair.deliver()
    assert pair.rows(N2) == pair.rows(N1) == {"other": b"v"}


def test_who_has_left_takes_no_part_until_it_is_back() -> None:
    """It is removed and joins again as it is: what the log lists from before that is of its former life."""
    pair = begun(N1, N2)
    pair.replicas[N2].leave()
    replicate = m.Replicate("rows", 0, Position(5), Position(5), 1, "k", b"v", 0)
    assert pair.replicas[N2].receive(N1, replicate) == []
    assert pair.replicas[N2].refused["not a member"] == 1
    pair.adopt(view(7, N2, n1=(OWNING, 5), n2=(OWNING, 5)), N2)
    pair.replicas[N2].enter()
    partition = pair.replicas[N2].partition(("rows", 0))
    assert partition is not None
    assert partition.leading is None, "a token of its former life"


def test_what_a_loss_leaves_is_kept_for_a_reset() -> None:
    """DS2, EX19: a copy that was loading when its last owner went has what came until then, also as the one chosen."""
    pair = begun(N1)
    pair.join(N2)
    for number, key in enumerate("abcde", start=1):
        pair.write(N1, 5, key, b"v", number)
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(MOVING, 7)))
    pair.deliver(m.Ask)
    pair.deliver(m.Page)
    assert pair.rows(N2) == {}
    pair.adopt(view(9, None, n1=(OWNING, 5), n2=(LOST, 9)), N2)
    assert pair.rows(N2) == {"a": b"v", "b": b"v"}
    pair.adopt(view(11, N2, n2=(OWNING, 11)), N2)
    assert pair.rows(N2) == {"a": b"v", "b": b"v"}


def test_a_demand_waits_until_the_primary_knows_the_demander() -> None:
    """DS3: the demander has read more of the log than its supplier."""
    pair = begun(N1)
    pair.join(N2)
    now = view(5, N1, n1=(OWNING, 5), n2=(MOVING, 9))
    pair.adopt(now, N2)
    pair.deliver()
    assert pair.sent == []
    pair.write(N1, 5, "k", b"v")
    assert pair.is_acknowledged(1)
    pair.adopt(now, N1)
    pair.deliver()
    assert pair.rows(N2) == {"k": b"v"}


def test_a_new_primary_serves_when_the_other_owners_are_equal() -> None:
    """DS4: what n1 wrote and nobody else has is gone; n2 writes only when n1 holds what n2 holds."""
    pair = begun(N1, N2)
    pair.write(N1, 5, "lost", b"v")
    pair.sent.clear()
    now = view(12, N2, n1=(OWNING, 5), n2=(OWNING, 5))
    pair.adopt(now, N2)
    pair.write(N2, 12, "k", b"w", number=2)
    pair.deliver()
    assert not pair.is_acknowledged(2)
    pair.adopt(now, N1)
    assert m.Failed(1) in pair.said, "DS8"
    pair.deliver()
    assert pair.is_acknowledged(2)
    assert pair.rows(N1) == pair.rows(N2) == {"k": b"w"}


def test_a_supplier_holds_what_the_primary_holds() -> None:
    """DS4: n3 has a write that only it got of the former primary; n4, which asks before n3 is reconciled, gets none."""
    pair = begun(N1, N2, N3)
    pair.write(N1, 5, "dirty", b"v")
    pair.deliver(m.Replicate, N3)
    pair.sent.clear()
    pair.join(N4)
    now = view(12, N2, n2=(OWNING, 5), n3=(OWNING, 5), n4=(MOVING, 12))
    pair.adopt(now, N4, N2)
    pair.deliver(to=N2)
    pair.deliver(to=N3)
    pair.adopt(now, N3)
    pair.deliver()
    assert pair.rows(N2) == pair.rows(N3) == pair.rows(N4) == {}


def test_a_late_write_of_a_former_primary_is_refused() -> None:
    """DS9: by the token, and counted."""
    pair = begun(N1, N2)
    pair.write(N1, 5, "k", b"v")
    late = pair.sent[:]
    pair.sent.clear()
    pair.adopt(view(12, N2, n1=(OWNING, 5), n2=(OWNING, 5)))
    pair.deliver()
    pair.sent = late
    pair.deliver()
    assert pair.rows(N1) == pair.rows(N2) == {}
    assert pair.replicas[N2].refused == {"another token": 1}


def test_a_load_begins_anew_under_a_new_token() -> None:
    """DS5: the first page came from n1; all pages come from n2."""
    pair = begun(N1, N2)
    for number, key in enumerate("abc"):
        pair.write(N1, 5, key, b"v", number)
        pair.deliver()
    pair.join(N3)
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(OWNING, 5), n3=(MOVING, 9)))
    pair.deliver(m.Ask)
    pair.deliver(m.Page, N3)
    pair.adopt(view(12, N2, n2=(OWNING, 5), n3=(MOVING, 9)), N2, N3)
    asked = [each[2] for each in pair.sent if each[:2] == (N3, N2)]
    assert [(ask.token, ask.after) for ask in asked if isinstance(ask, m.Ask)] == [(12, "")]
    pair.deliver()
    assert pair.rows(N3) == pair.rows(N2)
    assert m.Loaded("rows", 0, Position(9), Position(12)) in pair.said


def test_a_load_begins_anew_for_a_new_listing() -> None:
    """DS5: n2 had loaded, went, and is listed again under the same token: what was written meanwhile must come too."""
    pair = begun(N1)
    pair.join(N2)
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(MOVING, 9)))
    pair.deliver()
    pair.adopt(view(5, N1, n1=(OWNING, 5)))
    pair.write(N1, 5, "k", b"v")
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(MOVING, 15)))
    pair.deliver()
    assert pair.rows(N2) == pair.rows(N1) == {"k": b"v"}
    assert m.Loaded("rows", 0, Position(15), Position(5)) in pair.said


def test_a_load_replaces_and_brings_only_what_differs() -> None:
    """DS7: back after an absence, with rows of before: the equal one does not travel, the deleted one goes."""
    pair = begun(N1, N2)
    for number, key in enumerate("ab"):
        pair.write(N1, 5, key, b"v", number)
        pair.deliver()
    pair.adopt(view(5, N1, n1=(OWNING, 5)))
    pair.write(N1, 5, "a", None, 7)
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(MOVING, 9)))
    pair.deliver(m.Ask)
    (page,) = [each[2] for each in pair.sent if isinstance(each[2], m.Page)]
    assert page.rows == (m.Row("b", m.Version(Position(5), 2), None),)
    pair.deliver()
    assert pair.rows(N2) == pair.rows(N1) == {"b": b"v"}


def test_a_deletion_is_not_settled_before_the_write_it_deletes() -> None:
    """A copy that is listed in between would get the write, find no row in its load, and never hear of the deletion."""
    pair = begun(N1, N2)
    pair.write(N1, 5, "k", b"v", 1)
    pair.write(N1, 5, "k", None, 2)
    pair.sent = [each for each in pair.sent if isinstance(each[2], m.Replicate) and each[2].number == 2]
    pair.deliver()
    assert not pair.is_acknowledged(2)
    pair.join(N3)
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(OWNING, 5), n3=(MOVING, 9)))
    pair.deliver()
    for replica in (N1, N2, N3):
        pair._perform(replica, pair.replicas[replica].resend())
    pair.deliver()
    assert pair.is_acknowledged(2)
    assert pair.rows(N3) == pair.rows(N2) == pair.rows(N1) == {}


def test_a_write_for_a_listing_that_is_not_applied_yet_waits() -> None:
    """DS9: n3 confirms nothing before its intake has begun, for that begins from nothing."""
    pair = begun(N1, N2)
    pair.join(N3)
    now = view(5, N1, n1=(OWNING, 5), n2=(OWNING, 5), n3=(MOVING, 9))
    pair.adopt(now, N1, N2)
    pair.write(N1, 5, "k", b"v")
    pair.deliver()
    assert not pair.is_acknowledged(1)
    pair.adopt(now, N3)
    assert [type(each[2]) for each in pair.sent] == [m.Ask, m.Stored]
    pair.deliver()
    assert pair.is_acknowledged(1)
    assert pair.rows(N3) == {"k": b"v"}


def test_what_is_not_needed_is_cleared_and_said_once() -> None:
    """EX11: when the node has read its RENTING."""
    pair = begun(N1, N2)
    pair.write(N1, 5, "k", b"v")
    pair.deliver()
    for _ in range(2):
        pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(RENTING, 9)))
    assert pair.rows(N2) == {}
    assert pair.said.count(m.Cleared("rows", 0, Position(9))) == 1


def test_a_new_process_claims_nothing_of_its_predecessor() -> None:
    """It reads that it owns and acts, of before it was there: it neither acts nor says that it has a copy."""
    replica = Replica(N1)
    replica.adopt([view(5, N1, n1=(OWNING, 5))])
    replica.enter()
    begun_by_it = replica.begin(m.Read(1, "rows", 0, Position(5), "k"))
    assert begun_by_it == [m.Failed(1)]
    assert replica.whole() == {}


def test_each_exchange_asks_again() -> None:
    """Who is asked for its map while it acts goes on acting."""
    pair = begun(N1)
    assert pair.replicas[N1].enter() == []
    pair.write(N1, 5, "k", b"v")
    assert pair.is_acknowledged(1)


def test_a_process_that_comes_back_claims_what_it_still_owns() -> None:
    """Nobody acted while it was away: its copy is whole. Where another did, the log has taken it out."""
    pair = begun(N1)
    pair.write(N1, 5, "k", b"v")
    replica = pair.replicas[N1]
    replica.leave()
    replica.adopt([view(9, None, n1=(OWNING, 5))])
    assert replica.whole() == {1: {0: 5}}
    replica.adopt([view(12, N2, n2=(OWNING, 5))])
    assert replica.whole() == {}


def test_another_group_of_the_same_name_begins_empty() -> None:
    """Its number is another one: nothing of the former one shows, and nothing of it is claimed."""
    pair = begun(N1)
    pair.write(N1, 5, "k", b"v")
    anew = view(20, N1, n1=(OWNING, 20))
    pair.adopt(msgspec.structs.replace(anew, group_number=2))
    assert pair.rows(N1) == {}
    assert pair.replicas[N1].whole() == {2: {0: 0}}


def test_pages_end_at_their_size() -> None:
    """However long rows are, a page goes on with at least one."""
    content = Content(page_rows=100)
    for number in range(4):
        content.put(f"k{number}", m.Cell(m.Version(Position(5), number), bytes(200_000)))
    rows, through = content.page("", {})
    assert ([row.key for row in rows], through) == (["k0", "k1"], "k1")
    rows, through = content.page("k1", {"k2": m.Version(Position(5), 2)})
    assert [(row.key, row.value is None) for row in rows] == [("k2", True), ("k3", False)]
    assert through is None


def test_a_page_of_values_that_nobody_has_is_refused() -> None:
    """A value left out must be one that this copy told it has."""
    row = m.Row("k", m.Version(Position(5), 1), None)
    pair = begun(N1)
    pair.join(N2)
    pair.adopt(view(5, N1, n1=(OWNING, 5), n2=(MOVING, 9)))
    pair.sent = [(N1, N2, m.Page("rows", 0, Position(5), Position(9), "", None, (row,)))]
    pair.deliver()
    assert pair.replicas[N2].refused == {"another listing": 1}
    assert not pair.replicas[N2].whole()
