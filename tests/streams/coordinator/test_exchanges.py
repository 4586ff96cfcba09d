"""What a coordinator knows of partitions besides the log: whose map counts for what, and when it looks at which row."""

from tests.streams.rules.exchanging import Shared
from tests.streams.rules.test_exchange import kinds, passed, shared

from topolog.events.codec import Decision
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Offset
from topolog.events.log import Entry
from topolog.events.membership import Applied
from topolog.events.partitions import PartitionState, codes_of, encode_codes
from topolog.events.single_maps import Finished, GroupMap, SinglePartitionMap, pack_finished
from topolog.events.terms import cluster
from topolog.events.topics import Topic
from topolog.streams.coordinator.exchanges import Exchanges, known_of
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

    def settle(self) -> list[Decision]:
        known = known_of(self.found.state, self.found.position, {})
        return self.exchanges.settle(self.found.state, known, {}, NOWHERE, 0)


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
    """4.3.9: or exchange would follow exchange, each without it."""
    found = shared("n1", "n2", backups=0)
    desk = Desk(found)
    desk.tell("n1")
    found.join("n3")
    found.settle_exchange()
    found.answer("n2", "n3")
    passed(found, "warn")
    passed(found, "evict")
    found.settle_exchange()
    assert desk.settle() == []
    desk.tell("n1")
    assert kinds(desk.settle()) == ["ExchangeQueued"]


def test_reports_wait_for_the_end_of_an_exchange_and_die_with_their_incarnation() -> None:
    """PI8, T2: then they count, unless another life has begun."""
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
