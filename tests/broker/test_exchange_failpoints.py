"""A crash at every named place of an exchange, on a real broker; nobody acts beside another meanwhile (EX12, EX23).

All tests share one cluster: two members that stay and a third one that comes and goes, each a process that acts all the
time for whatever it may, and keeps a diary of it. A witness, a client, sees what the log says.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.broker.actor import GROUP
from tests.broker.conftest import PATIENCE_S, Process, eventually
from tests.broker.crash_site import LANDED, CrashSite, assert_died
from tests.broker.diary import Diary, Tenure, contradictions, tenures

from topolog.events.exchange import HandOverRow, open_exchange, queued
from topolog.events.group_definition import GroupDefinition
from topolog.events.leases import NodeKind
from topolog.events.partitions import PartitionState
from topolog.streams.node.client import Node
from topolog.streams.rules.exchange import Patience

PARTITIONS = 16
TWO, THREE = {"n1", "n2"}, {"n1", "n2", "n3"}


class ExchangeSite(CrashSite):
    """`actors`: its member processes by name; `inside`: those that are members, or are about to be."""

    def __init__(self, bootstrap: str, cluster: str, folder: Path) -> None:
        super().__init__(bootstrap, cluster)
        self.folder = folder
        self.actors: dict[str, Process] = {}
        self.inside: set[str] = set()
        self._entering: set[str] = set()

    def actor(self, name: str) -> Process:
        """Its process, started if there is none."""
        if name not in self.actors:
            self.actors[name] = self.forked("actor", self.cluster, name, self.bootstrap, str(self.folder))
        return self.actors[name]

    def enter(self, name: str) -> None:
        """Let it join; `welcome` waits for it."""
        self.actor(name).tell(do="enter")
        self.inside.add(name)
        self._entering.add(name)

    def leave(self, name: str) -> None:
        """Let it leave in order; whoever coordinates hears of it."""
        self.actors[name].tell(do="leave")
        self.inside.discard(name)

    def kill(self, name: str) -> None:
        self.actors.pop(name).kill()
        self.inside.discard(name)
        self._entering.discard(name)

    def order(self, name: str, answer: str, **order: str) -> None:
        self.actor(name).tell(**order)
        self.actor(name).hear(answer)

    def welcome(self) -> None:
        """Wait until all that were told to are members; somebody has to coordinate."""
        for name in sorted(self._entering):
            self.actors[name].hear("member")
        self._entering.clear()

    def see_to(self, members: set[str]) -> None:
        """Let exactly these be members and everything at rest, while nobody coordinates."""
        self._bury()
        if self.inside != members:
            with self.leading():
                self.settle_on(members)

    def settle_on(self, members: set[str]) -> None:
        """The same under somebody who does."""
        self._bury()
        for name in sorted(members - self.inside):
            self.enter(name)
        for name in sorted(self.inside - members):
            self.leave(name)
        self.welcome()
        eventually(self.is_at_rest, f"{sorted(members)} to share all out")

    def _bury(self) -> None:
        """A test that failed may have left dead ones."""
        for name in [name for name, process in self.actors.items() if process.exit_code is not None]:
            self.kill(name)

    def is_at_rest(self) -> bool:
        """As the witness has read it: two whole copies of each partition, where they should be, on members only."""
        servers = {str(row.node) for row in self.witness.members() if row.kind is NodeKind.SERVER}
        found = self.witness.partitions(GROUP)
        copies = [copy for each in found for copy in each.copies]
        return (
            servers == self.inside
            and not self.is_exchanging()
            and {copy.state for copy in copies} == {PartitionState.OWNING}
            and len(copies) == 2 * PARTITIONS
            and {str(copy.node) for copy in copies} == servers
            and all(each.copies[0].node == each.primary for each in found)
        )

    def is_exchanging(self) -> bool:
        """Whether an exchange is open or about to be, or a primary is handed over, as the witness has read it."""
        with self.witness._session.folding:
            state = self.witness._session.core.state
            return open_exchange(state) is not None or bool(queued(state)) or state.count(HandOverRow) > 0

    def acting(self) -> set[tuple[int, int, str]]:
        """Who is to act for what, under which token, as the witness has read it."""
        return {(each.partition, each.token, str(each.primary)) for each in self.witness.partitions(GROUP)}

    def acted(self) -> set[tuple[int, int, str]]:
        """Who has acted, by the diaries."""
        return {(each.partition, each.token, each.node) for each in tenures(self.folder)}


@pytest.fixture(scope="module")
def site(
    kafka: str, new_cluster: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ExchangeSite]:
    folder = tmp_path_factory.mktemp("diaries")
    with (
        contextlib.closing(ExchangeSite(kafka, new_cluster(), folder)) as site,
        contextlib.ExitStack() as stack,
    ):
        with site.leading():
            witness = Node(site.cluster, "witness", kafka=site.kafka, kind=NodeKind.CLIENT, join_timeout_s=PATIENCE_S)
            site.witness = stack.enter_context(witness)
            site.witness.create_group(GroupDefinition(GROUP, PARTITIONS, 1))
        yield site


def assert_sound(site: ExchangeSite, members: set[str]) -> None:
    """Everything is at rest and served, everybody's fold is the log's, and no two have ever acted at a time."""
    assert site.inside == members
    site.welcome()
    eventually(site.is_at_rest, f"{sorted(members)} to share all out")
    eventually(lambda: site.acting() <= site.acted(), "everybody to act for what is his")
    fingerprints = [site.witness.fingerprint()]
    for name in sorted(members):
        site.actors[name].tell(do="fingerprint")
        told = site.actors[name].hear("fingerprint")
        fingerprints.append((told["position"], bytes.fromhex(told["hash"])))
    told_by_log = site.told()
    assert [(position, told_by_log.hashes[position]) for position, _ in fingerprints] == fingerprints
    assert open_exchange(told_by_log.state) is None
    assert not queued(told_by_log.state)
    assert not told_by_log.state.count(HandOverRow)
    assert not contradictions(tenures(site.folder))


class Change:
    """What the members do while a coordinator dies; `before` and `after`: who is a member; `patience`: however busy the
    machine is, an exchange that waits for those that answer ends with their answers."""

    name = ""
    before, after = TWO, THREE
    patience = Patience(gather_ms=30_000, warn_ms=40_000)

    def prepare(self, site: ExchangeSite) -> None:
        site.see_to(self.before)

    def begin(self, site: ExchangeSite) -> None:
        """Under the coordinator that is to die."""

    def finish(self, site: ExchangeSite) -> None:
        """Under the next one."""


class Join(Change):
    """The third one joins, loads, and is handed its share of primaries."""

    name = "join"

    def begin(self, site: ExchangeSite) -> None:
        site.enter("n3")


class Leave(Change):
    """It leaves in order."""

    name = "leave"
    before, after = THREE, TWO

    def begin(self, site: ExchangeSite) -> None:
        site.leave("n3")


class Death(Change):
    """It is killed."""

    name = "death"
    before, after = THREE, TWO

    def begin(self, site: ExchangeSite) -> None:
        site.kill("n3")


class Merge(Change):
    """It is killed while another one hangs, and comes back: the exchange that waits takes its joining in."""

    name = "merge"
    before = THREE

    def begin(self, site: ExchangeSite) -> None:
        site.order("n2", "holds", do="hold")
        site.kill("n3")
        eventually(site.is_exchanging, "the exchange of its leaving")
        site.enter("n3")

    def finish(self, site: ExchangeSite) -> None:
        site.actors["n2"].tell(do="go")


class FoundOpen(Merge):
    """The exchange that waits is open already when the coordinator that is to die is elected."""

    name = "found-open"

    def prepare(self, site: ExchangeSite) -> None:
        Change.prepare(self, site)
        with site.leading(patience=self.patience):
            super().begin(site)
            eventually(site.is_exchanging, "the exchange of its joining")
            site.welcome()

    def begin(self, site: ExchangeSite) -> None:
        pass


class WithoutOne(Change):
    """It is killed while another one hangs: the exchange ends without that one, whose answer comes late."""

    name = "without-one"
    before, after = THREE, TWO
    patience = Patience(warn_ms=20_000)

    def begin(self, site: ExchangeSite) -> None:
        site.order("n2", "holds", do="hold")
        site.kill("n3")

    def finish(self, site: ExchangeSite) -> None:
        site.actors["n2"].tell(do="go")


class Overdue(WithoutOne):
    """As before, and the log is to name the one that hangs."""

    name = "overdue"
    patience = Patience(warn_ms=100)


class Stuck(Change):
    """It joins and hangs, is listed nowhere, and is stopped. Whoever was stopped comes back as a new process."""

    name = "stuck"
    patience = Patience(warn_ms=150, evict_ms=300)

    def begin(self, site: ExchangeSite) -> None:
        site.order("n3", "mute", do="mute")
        site.enter("n3")

    def finish(self, site: ExchangeSite) -> None:
        site.kill("n3")
        site.enter("n3")


JOIN, LEAVE, DEATH = Join(), Leave(), Death()
MERGE, FOUND_OPEN, WITHOUT_ONE, OVERDUE, STUCK = Merge(), FoundOpen(), WithoutOne(), Overdue(), Stuck()

COORDINATOR = (  # in an order in which few members have to come and go between two of them
    (JOIN, "coordinator.exchange-decided=crash"),
    (LEAVE, "coordinator.outcome-decided=crash"),
    (JOIN, "coordinator.exchange-decided" + LANDED),  # what triggers it is in the log
    (DEATH, "coordinator.outcome-decided" + LANDED),
    (JOIN, "coordinator.exchange-appended=crash"),
    (LEAVE, "coordinator.inside-an-outcome=crash"),
    (JOIN, "coordinator.exchange-appended" + LANDED),
    (DEATH, "coordinator.inside-an-outcome" + LANDED),
    (JOIN, "coordinator.map-heard=crash"),
    (LEAVE, "coordinator.outcome-appended=crash"),
    (DEATH, "coordinator.outcome-appended" + LANDED),
    (JOIN, "coordinator.maps-complete=crash"),
    (LEAVE, "coordinator.states-decided=crash"),
    (JOIN, "coordinator.outcome-decided=crash"),
    (DEATH, "coordinator.states-appended" + LANDED),
    (JOIN, "coordinator.inside-an-outcome=crash"),
    (JOIN, "coordinator.inside-an-outcome" + LANDED),
    (JOIN, "coordinator.outcome-appended=crash"),
    (JOIN, "coordinator.outcome-appended" + LANDED),
    (JOIN, "coordinator.states-decided=crash"),
    (JOIN, "coordinator.states-appended=crash"),
    (JOIN, "coordinator.states-appended" + LANDED),
    (JOIN, "coordinator.hand-over-decided=crash"),
    (JOIN, "coordinator.hand-over-appended=crash"),
    (JOIN, "coordinator.hand-over-appended" + LANDED),
    (JOIN, "coordinator.drain-heard=crash"),
    (JOIN, "coordinator.switch-decided=crash"),
    (JOIN, "coordinator.switch-appended=crash"),
    (JOIN, "coordinator.switch-appended" + LANDED),
    (MERGE, "coordinator.merge-decided=crash"),
    (MERGE, "coordinator.merge-appended=crash"),
    (MERGE, "coordinator.merge-appended" + LANDED),
    (FOUND_OPEN, "coordinator.map-heard-again=crash"),
    (WITHOUT_ONE, "coordinator.exchange-decided=crash"),
    (WITHOUT_ONE, "coordinator.exchange-decided" + LANDED),
    (WITHOUT_ONE, "coordinator.exchange-appended=crash"),
    (WITHOUT_ONE, "coordinator.outcome-decided=crash"),
    (WITHOUT_ONE, "coordinator.outcome-decided" + LANDED),
    (WITHOUT_ONE, "coordinator.inside-an-outcome=crash"),
    (WITHOUT_ONE, "coordinator.inside-an-outcome" + LANDED),
    (WITHOUT_ONE, "coordinator.outcome-appended=crash"),
    (WITHOUT_ONE, "coordinator.outcome-appended" + LANDED),
    (OVERDUE, "coordinator.overdue-decided=crash"),
    (OVERDUE, "coordinator.overdue-appended" + LANDED),
    (STUCK, "coordinator.stop-decided=crash"),
    (STUCK, "coordinator.stop-appended" + LANDED),
)


@pytest.mark.parametrize(("change", "entry"), COORDINATOR, ids=lambda each: getattr(each, "name", each))
def test_an_exchange_outlives_its_coordinator_wherever_that_dies(
    site: ExchangeSite, change: Change, entry: str
) -> None:
    """EX23, K4: what its triggers, maps and outcome have come to is in the log and on `maps`; the next one goes on."""
    change.prepare(site)
    instance = f"armed{next(site.numbers)}"
    armed = site.armed(entry, "guarded", instance, *(str(each) for each in msgspec.structs.astuple(change.patience)))
    change.begin(site)
    assert_died(armed, entry)
    with site.leading():
        change.finish(site)
        assert_sound(site, change.after)


NODE = (  # who dies while the third one joins
    ("n3", "node.map-folded=crash"),
    ("n3", "node.map-owed=crash"),
    ("n3", "node.map-sent=crash"),
    ("n3", "node.map-sent" + LANDED),
    ("n3", "node.map-adopted=crash"),
    ("n3", "node.finished=crash"),
    ("n3", "node.finished:5=crash"),
    ("n2", "node.map-owed=crash"),
    ("n2", "node.map-sent" + LANDED),
    ("n2", "node.handing-over=crash"),
    ("n2", "node.drained=crash"),
    ("n2", "node.drained=pause:500ms+crash"),
    ("n2", "node.map-adopted:3=crash"),
    ("n2", "node.clearing=crash"),
    ("n2", "node.finished=crash"),
)


@pytest.fixture(scope="module")
def led_site(site: ExchangeSite) -> Iterator[ExchangeSite]:
    """The same cluster with a coordinator that stays."""
    site.see_to(TWO)
    with site.leading():
        yield site


@pytest.mark.parametrize(("name", "entry"), NODE)
def test_an_exchange_outlives_a_member_wherever_that_dies(led_site: ExchangeSite, name: str, entry: str) -> None:
    """EX12, EX24: whoever dies is awaited no more, and what it was told, drained or loaded comes back from nowhere."""
    site = led_site
    site.settle_on(TWO)
    site.order(name, "armed", do="arm", entry=entry)
    site.enter("n3")
    assert_died(site.actors[name], entry)
    site.kill(name)
    site.enter(name)
    assert_sound(site, THREE)


def test_diaries_show_two_who_act_at_a_time(tmp_path: Path) -> None:
    """What the tests above rest on: an overlap, a token of two nodes, and a lower one that comes later are seen."""
    one, two = Diary(tmp_path / "n1.1.diary"), Diary(tmp_path / "n2.1.diary")
    one.note(0, 10, 100, 200)
    one.note(0, 10, 210, 300)
    two.note(0, 11, 300, 400)
    two.note(1, 11, 100, 400)
    assert tenures(tmp_path)[:2] == [Tenure(0, 10, 100, 300, "n1"), Tenure(0, 11, 300, 400, "n2")]
    assert not contradictions(tenures(tmp_path))
    for token, begun_ns, ended_ns in ((11, 500, 600), (9, 150, 160), (12, 390, 500)):
        three = Diary(tmp_path / "n3.1.diary")
        three.note(0, token, begun_ns, ended_ns)
        assert contradictions(tenures(tmp_path))
