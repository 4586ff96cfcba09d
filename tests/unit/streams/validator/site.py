"""A table with replicas, moved by hand: a real coordinator, real validators, and a real rendezvous without faust."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from tests.unit.scenarios.world import STEP_MS, Process, World

from topolog.events import merkle
from topolog.events import repair_requests as rr
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import TopologError
from topolog.events.ids import Offset
from topolog.events.log import Headers, LogWriter, OnDelivery
from topolog.events.repair_definition import Policy, SessionDefinition, SessionKind
from topolog.events.replica import Cut, ReplicaDefinition, SentRow, Written
from topolog.events.replica_access import Fence, Progress, Replica
from topolog.events.sessions import SessionRow, session
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.tree_pages import TreePage
from topolog.events.tree_spec import Column, TreeSpec
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.rendezvous.desk import Desk
from topolog.streams.validator.core import Core
from topolog.streams.validator.driver import Driver
from topolog.streams.validator.memory import MemoryReplica, Values
from topolog.streams.validator.trees import Trees
from topolog.streams.validator.worker import Worker

COLUMNS = (Column("id", "long"), Column("name", "string"), Column("changed", "long"))
T = TypeVar("T")


class Died(BaseException):
    """A process is killed here; nothing in it can catch this."""


class Mortality:
    """Counts what a process does to the world; it dies at a given deed, before or behind it."""

    def __init__(self, deeds: float = float("inf"), *, behind: bool = False) -> None:
        self.left = deeds
        self.behind = behind

    def do(self, deed: Callable[[], T]) -> T:
        self.left -= 1
        if self.left < 0 and not self.behind:
            raise Died
        done = deed()
        if self.left < 0:
            raise Died
        return done


class MortalWriter:
    """A writer of a process that may die at any append."""

    def __init__(self, writer: LogWriter, mortality: Mortality) -> None:
        self._writer = writer
        self._mortality = mortality
        self.serve, self.flush, self.close = writer.serve, writer.flush, writer.close

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        self._mortality.do(lambda: self._writer.append(topic, key, value, headers, on_delivery))


class MortalReplica:
    """A replica whose process may die at each row that it writes, and around each read point. The site's hook is told
    of each call and may change the world meanwhile."""

    def __init__(self, replica: MemoryReplica, mortality: Mortality, site: "Site") -> None:
        self._replica = replica
        self._mortality = mortality
        self._site = site
        self.digests, self.rows, self.describe = replica.digests, replica.rows, replica.describe

    def cut(self, progress: Progress, shared: Cut | None = None) -> Cut | None:
        self._site.hook("cut")
        return self._mortality.do(lambda: self._replica.cut(progress, shared))

    def leaves(self, *args: Any) -> Iterable[merkle.Leaf]:
        self._site.hook("leaves")
        return self._replica.leaves(*args)

    def write(
        self, spec: TreeSpec, rows: Sequence[SentRow], cut: Cut | None, fence: Fence, progress: Progress
    ) -> Written:
        total = Written(0, 0)
        for row in rows:
            self._site.hook("write")
            one = self._mortality.do(lambda row=row: self._replica.write(spec, [row], cut, fence, progress))  # type: ignore[misc]
            total = Written(total.rows + one.rows, total.bytes + one.bytes, total.skipped + one.skipped)
        return total

    def release(self, cut: Cut) -> None:
        self._site.hook("release")
        self._mortality.do(lambda: self._replica.release(cut))


class Validator(Process):
    """One process that serves some replicas; its workers take their turns with it, on one thread."""

    def __init__(
        self,
        site: "Site",
        name: str,
        replicas: Mapping[str, MemoryReplica],
        mortality: Mortality,
    ) -> None:
        super().__init__(site.world, name)
        site.world.lives += 1
        self.life = site.world.lives
        self.failure: TopologError | None = None

        def trees() -> Trees:
            return Trees(MortalWriter(site.world.log.writer(), mortality), site.world.log.reader, self.life)

        served: dict[str, Replica] = {id_: MortalReplica(each, mortality, site) for id_, each in replicas.items()}
        self.workers = {id_: Worker(each, trees, site.world.clock, batch_rows=2) for id_, each in served.items()}
        core = Core([each.describe() for each in replicas.values()], self.life)
        writer = MortalWriter(self.writer, mortality)
        self.driver = Driver(self.reader, writer, site.world.clock, core, self.workers)

    def step(self) -> None:
        if self.failure is not None:
            return
        try:
            self.driver.step(0)
        except TopologError as error:
            self.failure = error
            return
        self.work()

    def work(self) -> None:
        """What the workers have to do."""
        for worker in self.workers.values():
            while not worker._jobs.empty():
                worker.step()


Spoil = Callable[[TreePage], TreePage | None]


class Meeting(Process):
    """The rendezvous: its desk, and a reader of pages in place of faust."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "rendezvous")
        self.spoil: Spoil = lambda page: page
        self.desk = Desk(self.reader, SpoiltWriter(self.writer, self), world.clock, "rendezvous-1", 4_711)
        self._pages = world.log.reader()
        self._pages.assign({(Topic.TREES, number): None for number in range(PARTITIONS[Topic.TREES])})

    def step(self) -> None:
        self.desk.step(0)
        if self.desk.is_ready:
            for entry in self._pages.poll(0):
                self.desk.take(entry.value)
                self.desk.step(0)


class SpoiltWriter:
    """A writer whose pages are not what they were when they come to the topic, or do not come there."""

    def __init__(self, writer: LogWriter, meeting: Meeting) -> None:
        self._writer = writer
        self._meeting = meeting
        self.serve, self.flush, self.close = writer.serve, writer.flush, writer.close

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        page = CODEC.read(value)
        if isinstance(page, TreePage):
            spoilt = self._meeting.spoil(page)
            if spoilt is None:
                assert on_delivery is not None
                on_delivery(None, Offset(0))
                return
            value = CODEC.encode(spoilt)
        self._writer.append(topic, key, value, headers, on_delivery)


class Site:
    """A cluster of one coordinator, with a rendezvous and any number of validators of table `orders`."""

    def __init__(self, cadence: Cadence = Cadence(positions=0)) -> None:  # noqa: B008 (frozen value)
        self.world = World(["c1"], cadence=cadence)
        self.replicas: dict[str, MemoryReplica] = {}
        self.validators: dict[str, Validator] = {}
        self.rendezvous = Meeting(self.world)
        self.meets: Callable[[], None] = self.rendezvous.step
        self.hook: Callable[[str], None] = lambda _: None

    def add(self, name: str, rows: Iterable[Values], **changes: Any) -> MemoryReplica:
        definition = ReplicaDefinition("orders", name, COLUMNS, ("id",))
        replica = MemoryReplica(msgspec.structs.replace(definition, **changes), rows)
        self.replicas[replica.describe().id] = replica
        return replica

    def serve(self, process: str, *names: str, mortality: Mortality | None = None) -> Validator:
        """A process comes up that serves these replicas, in place of one of this name."""
        served = {f"orders@{name}": self.replicas[f"orders@{name}"] for name in names}
        validator = self.validators[process] = Validator(self, process, served, mortality or Mortality())
        return validator

    def pages(self) -> list[TreePage]:
        """All that were sent, by whom so ever."""
        entries = (each for number in range(PARTITIONS[Topic.TREES]) for each in self._trees(number))
        return [page for page in map(CODEC.decode, entries) if isinstance(page, TreePage)]

    def _trees(self, number: int) -> list[bytes]:
        return [entry.value for entry in self.world.log.entries(Topic.TREES, number)]

    def put(self, page: TreePage) -> None:
        self.world.log.put(Topic.TREES, str(page.task.session), CODEC.encode(page))

    def settle(self) -> None:
        """Let everybody take turns until nothing more comes."""
        quiet = 0
        while quiet < 5:
            before = self.world.log.size
            self.turn()
            quiet = quiet + 1 if self.world.log.size == before else 0

    def run(self, ms: int) -> None:
        for _ in range(ms // STEP_MS):
            self.world.clock.advance(STEP_MS)
            self.turn()

    def turn(self) -> None:
        self.world._take_turns()
        for name, validator in list(self.validators.items()):
            if not validator.paused:
                try:
                    validator.step()
                except Died:
                    del self.validators[name]
        self.meets()

    def open(self, **changes: Any) -> RequestId:
        definition = SessionDefinition("orders", SessionKind.PREVIEW)
        request = rr.SessionRequested(
            self.world.operator_id(), self.world.log_id, "ada", "", msgspec.structs.replace(definition, **changes)
        )
        return self.world.ask(request)

    def repair(self, **changes: Any) -> RequestId:
        told = {"kind": SessionKind.REPAIR, "policy": Policy.UNION, "version_column": "changed", **changes}
        return self.open(**told)

    def session(self, request: RequestId) -> SessionRow:
        outcome = self.world.outcome(request)
        assert outcome is not None
        found = session(self.world.state, int(outcome.subject.split()[-1]))
        assert found is not None, outcome
        return found


def rows(*ids: int, name: str = "a", changed: int = 1) -> list[Values]:
    return [{"id": each, "name": f"{name}{each}", "changed": changed} for each in ids]


def contents(replica: MemoryReplica) -> list[Values]:
    return sorted(replica.rows_now, key=lambda row: str(row["id"]))
