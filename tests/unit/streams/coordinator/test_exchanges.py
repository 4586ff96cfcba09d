"""What a coordinator knows of partitions besides the log: whose map counts for what, and when it looks at which row."""

from collections.abc import Iterable

import pytest
from tests.unit.streams.rules.cluster import LOG_ID, new_id
from tests.unit.streams.rules.counted import Counted
from tests.unit.streams.rules.exchanging import Shared, kinds, passed, shared

from topolog.events.decision import Decision
from topolog.events.exchange import ExchangeCompleted, open_exchange
from topolog.events.exchange_requests import ExchangeRequested
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Offset
from topolog.events.log import Entry
from topolog.events.membership import Applied
from topolog.events.partitions import PartitionState, codes_of, encode_codes
from topolog.events.single_maps import Finished, GroupMap, SinglePartitionMap, pack_finished
from topolog.events.terms import cluster
from topolog.events.topics import Topic
from topolog.events.views import Echo, Kinship, Past, newest_point
from topolog.streams.coordinator.exchanges import Exchanges, known_of
from topolog.streams.coordinator.reports import Reports
from topolog.streams.rules.single_maps import MapVerdict


class Desk:
    """A coordinator's `Exchanges` beside a cluster."""

    def __init__(self, found: Shared) -> None:
        self.found = found
        self.exchanges = Exchanges()
        self._sequence = 0

    def tell(self, node: str, incarnation: int = 1, finished: dict[int, Finished] | None = None) -> None:
        """A node's map of this moment: what it has finished to load, and nothing else."""
        self._sequence += 1
        loaded = finished or {}
        states = encode_codes(codes_of(dict.fromkeys(loaded, PartitionState.OWNING), 16))
        log_id = bytes.fromhex(cluster(self.found.state).log_id)
        applied = Applied(log_id, self.found.position, bytes(32))
        groups = (GroupMap("orders", states, None, b"", pack_finished(loaded) if loaded else b""),)
        told = SinglePartitionMap(NodeId(node), Incarnation(incarnation), None, self._sequence, applied, 0, 1, groups)
        entry = Entry(Topic.MAPS, 0, Offset(self._sequence), node, b"", (), 0)
        known = known_of(self.found.state, self.found.position, {})
        assert self.exchanges.hear(told, entry, known).verdict is MapVerdict.KEPT

    def answer(self, node: str, incarnation: int, whole: Iterable[int]) -> None:
        """A node's map for the exchange that is open: it says that it has these partitions whole."""
        self._sequence += 1
        opened = open_exchange(self.found.state)
        assert opened is not None
        states = encode_codes(codes_of(dict.fromkeys(whole, PartitionState.OWNING), 16))
        log_id = bytes.fromhex(cluster(self.found.state).log_id)
        told = SinglePartitionMap(
            NodeId(node),
            Incarnation(incarnation),
            opened.started_at,
            self._sequence,
            Applied(log_id, self.found.position, bytes(32)),
            0,
            1,
            (GroupMap("orders", states, None, b"", b""),),
        )
        entry = Entry(Topic.MAPS, 0, Offset(self._sequence), node, b"", (), 0)
        known = known_of(self.found.state, self.found.position, {})
        assert self.exchanges.hear(told, entry, known).verdict is MapVerdict.KEPT

    def run(self) -> None:
        while decided := self.settle():
            self.found.log(*decided)

    def settle(self) -> list[Decision]:
        known = known_of(self.found.state, self.found.position, {})
        return self.exchanges.settle(self.found.state, known, Reports(), NOWHERE, 0)


def loading() -> tuple[Shared, dict[int, Finished]]:
    """n1 and n2 share a group, n3 has joined; what that one has finished, once it has loaded all."""
    found = shared("n1", "n2")
    found.join("n3")
    found.exchange()
    finished = {
        each.partition: Finished(copy.since, each.token)
        for _, each in found.all()
        for copy in each.copies
        if copy.state is PartitionState.MOVING
    }
    return found, finished


def test_a_map_from_before_an_exchange_is_not_that_of_who_was_silent_in_it() -> None:
    """DS17: or exchange would follow exchange, each without it."""
    found = shared("n1", "n2", backups=0)
    found.leave("n1")
    found.exchange()
    found.join("n1")
    desk = Desk(found)
    desk.tell("n1", incarnation=2)
    found.settle_exchange()
    passed(found, "gather")
    found.settle_exchange()
    assert desk.settle() == []
    desk.tell("n1", incarnation=2)
    assert kinds(desk.settle()) == ["ExchangeQueued"]


def test_reports_wait_for_the_end_of_an_exchange_and_die_with_their_incarnation() -> None:
    """EX10, EX28: then they count, unless another life has begun."""
    found, finished = loading()
    desk = Desk(found)
    desk.tell("n3", finished=finished)
    found.join("n4")
    found.settle_exchange()
    assert desk.settle() == []
    found.answer("n1", "n2", "n3", "n4")
    found.settle_exchange()
    assert kinds(desk.settle()) == ["PartitionStatesChanged"]
    assert desk.settle() == [], "each is looked at once"
    desk.tell("n3", finished=finished)
    found.leave("n3")
    found.rest()
    found.join("n3")
    found.exchange()
    assert desk.settle() == []


def test_a_new_leader_looks_at_every_row() -> None:
    """K4: what its predecessor has not come to decide, it does, though no row changes any more."""
    found, _ = loading()
    found.load("n3")
    found.state.drain()
    desk = Desk(found)
    assert desk.settle() == []
    desk.exchanges.begin(found.state)
    assert kinds(desk.settle())[0] == "HandOverPrepared"


def past_of_n2(found: Shared, incarnation: int, reserved: int) -> Past:
    newest = newest_point(found.state)
    assert newest is not None
    return Past(LOG_ID, NodeId("n2"), (newest,), Echo(Incarnation(incarnation), 0, newest), reserved)


@pytest.mark.parametrize("kinship", [Kinship.RESTORED, Kinship.WIPED])
def test_a_disk_that_was_put_back_is_not_believed_after_its_next_restart_either(kinship: Kinship) -> None:
    """DS2: the life in between has noted its joining there, and has loaded nothing: the next one has the same data."""
    found = Counted("n1", "n2")
    found.create(backups=0)
    found.rest()
    owned = {
        node: [each.partition for _, each in found.all() if node in found.states(each.partition)]
        for node in ("n1", "n2")
    }
    old = past_of_n2(found, 1, reserved=30) if kinship is Kinship.RESTORED else None
    found.renew(n2=40)
    found.leave("n2")
    found.exchange()
    found.join("n2", past=old)
    assert found.node("n2").kinship is kinship
    found.settle_exchange()
    noted = past_of_n2(found, 2, reserved=64)
    found.leave("n2")
    found.join("n2", past=noted)
    assert found.node("n2").kinship is Kinship.RESTORED
    desk = Desk(found)
    desk.run()
    desk.answer("n1", 1, owned["n1"])
    desk.answer("n2", 3, owned["n2"])
    desk.run()
    assert [found.one(partition).is_lost for partition in owned["n2"]] == [True] * len(owned["n2"])
    found.leave("n2")
    found.join("n2", past=past_of_n2(found, 3, reserved=64))
    assert found.node("n2").kinship is Kinship.EQUAL, "it has been heard, and what it has had from there on is its own"


def test_an_exchange_that_has_heard_a_former_life_has_not_heard_the_next_one() -> None:
    """One that takes in no joins ends without the life that has come meanwhile: the log lists its copies still."""
    found = Counted("n1", "n2")
    found.create(backups=0)
    found.rest()
    owned = [each.partition for _, each in found.all() if "n2" in found.states(each.partition)]
    found.renew(n2=40)
    found.leave("n2")
    found.exchange()
    found.ask(ExchangeRequested(new_id(), LOG_ID, "ada", ""))
    found.join("n2")
    found.settle_exchange()
    desk = Desk(found)
    desk.answer("n2", 2, ())
    noted = past_of_n2(found, 2, reserved=64)
    found.leave("n2")
    found.join("n2", past=noted)
    desk.answer("n1", 1, ())
    decided = desk.settle()
    assert isinstance(decided[-1], ExchangeCompleted)
    found.log(*decided)
    assert found.node("n2").kinship is Kinship.RESTORED
    desk.run()
    desk.answer("n1", 1, ())
    desk.answer("n2", 3, owned)
    desk.run()
    assert all(found.one(partition).is_lost for partition in owned)
