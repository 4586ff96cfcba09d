"""A table with replicas, moved by hand: a real coordinator, real validators, and a rendezvous as small as can be."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from tests.scenarios.world import STEP_MS, Process, World

from topolog.events import merkle, repair_plan
from topolog.events import repair_requests as rr
from topolog.events import repair_tasks as t
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import TopologError
from topolog.events.log import Headers, LogWriter, OnDelivery
from topolog.events.repair_definition import Policy, SessionDefinition, SessionKind
from topolog.events.replica import Cut, ReplicaDefinition, RowDigest, SentRow, Written
from topolog.events.replica_access import Fence, Progress, Replica
from topolog.events.sessions import SegmentRow, SessionRow, open_sessions, segments, session
from topolog.events.state import State
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.tree_answers import item_pages
from topolog.events.tree_pages import PAGE_BYTES_MAX, PageKind, TreePage, digest_of
from topolog.events.tree_spec import Column, TreeSpec
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.validator.core import Core
from topolog.streams.validator.driver import Driver
from topolog.streams.validator.memory import MemoryReplica, Values
from topolog.streams.validator.pages import items, with_last
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


class Around(Protocol):
    """What the rendezvous reads and writes: a world, or a cluster on a broker."""

    @property
    def log_id(self) -> bytes: ...

    @property
    def state(self) -> State: ...

    def ask(self, request: rr.RepairRequest) -> object: ...

    def pages(self) -> Iterable[TreePage]: ...

    def put(self, page: TreePage) -> None: ...


class Incomplete(Exception):
    """Pages are missing that the log speaks of."""


class Rendezvous:
    """Compares what the log says is there, once each; raises Incomplete if it has not read it all."""

    def __init__(self, around: Around) -> None:
        self._world = around
        self.spoil: Callable[[TreePage], TreePage | None] = lambda page: page
        self.page_bytes = PAGE_BYTES_MAX
        self._asked = 0
        self._done: set[object] = set()

    def step(self) -> None:
        for each in open_sessions(self._world.state):
            for row in segments(self._world.state, each):
                step = row.step
                if step is None or not row.tasks or any(task.status is not t.TaskStatus.DONE for task in row.tasks):
                    continue
                named = (row.session, row.index, step.number)
                if len(row.tasks) == len(row.replicas) and named not in self._done:
                    if step.kind is t.TaskKind.LEAVES:
                        self._compare(each, row, step)
                    elif step.kind is t.TaskKind.DIGESTS:
                        self._find(each, row, step)
                    self._done.add(named)

    def _attempts(self, row: SegmentRow, step: t.Step) -> list[t.TaskId]:
        return [t.TaskId(row.session, row.index, step.number, task.replica, task.attempt) for task in row.tasks]

    def _compare(self, each: SessionRow, row: SegmentRow, step: t.Step) -> None:
        assert each.spec is not None
        leaves = {
            one.replica: [leaf for payload in self._pages(row, one, PageKind.LEAVES) for leaf in merkle.decode(payload)]
            for one in self._attempts(row, step)
        }
        for task in row.tasks:
            assert task.result is not None
            assert merkle.root(each.spec.id, step.bits, leaves[task.replica]) == task.result.digest
        names = [name for name in row.replicas if name in leaves]
        for at, left in enumerate(names):
            for right in names[at + 1 :]:
                one, other = leaves[left], leaves[right]
                buckets = merkle.differing(one, other)
                ranges = merkle.differing_ranges(one, other, step.bits)
                counts = [leaf.rows for leaf in (*one, *other) if leaf.bucket in buckets]
                compared = len({leaf.bucket for leaf in (*one, *other)})
                pair = t.Pair(
                    left, right, ranges, len(buckets), compared, max(counts, default=0), max(counts, default=0)
                )
                attempts = tuple(a for a in self._attempts(row, step) if a.replica in (left, right))
                self._world.ask(
                    rr.ComparisonReported(*self._head(), row.session, row.index, step.number, attempts, pair)
                )

    def _find(self, each: SessionRow, row: SegmentRow, step: t.Step) -> None:
        attempts = self._attempts(row, step)
        digests = {one.replica: list(items(self._pages(row, one, PageKind.DIGESTS), RowDigest)) for one in attempts}
        way = repair_plan.direction(self._world.state, each, row)
        found = repair_plan.differences(digests)
        payloads = list(item_pages(found, self.page_bytes))
        of = t.TaskId(row.session, row.index, step.number, "", 0)
        for number, (payload, is_last) in enumerate(with_last(payloads)):
            page = self.spoil(TreePage(of, 9, way.spec.id, PageKind.FINDINGS, number, is_last, payload))
            if page is not None:
                self._world.put(page)
        findings = repair_plan.findings(found, way, pages=len(payloads), digest=digest_of(payloads), within=step.ranges)
        self._world.ask(
            rr.FindingsReported(*self._head(), row.session, row.index, step.number, tuple(attempts), findings)
        )

    def _pages(self, row: SegmentRow, of: t.TaskId, kind: PageKind) -> list[bytes]:
        """Those of whichever life is whole, and what the log has a digest of."""
        task = next(task for task in row.tasks if task.replica == of.replica)
        assert task.result is not None
        by_life: dict[int, dict[int, TreePage]] = {}
        for page in (each for each in self._world.pages() if each.task == of):
            by_life.setdefault(page.life, {})[page.page] = page
        for pages in by_life.values():
            if len(pages) == task.result.pages and pages[len(pages) - 1].is_last:
                payloads = [pages[number].payload for number in range(len(pages))]
                if kind is PageKind.LEAVES or digest_of(payloads) == task.result.digest:
                    return payloads
        raise Incomplete(f"no life has sent all of {of}")

    def _head(self) -> tuple[RequestId, bytes, str, str]:
        self._asked += 1
        return RequestId("rendezvous-1", self._asked), self._world.log_id, "rendezvous", ""


class _Memory:
    """A world as the rendezvous sees it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ask = world.ask

    @property
    def log_id(self) -> bytes:
        return self._world.log_id

    @property
    def state(self) -> State:
        return self._world.state

    def pages(self) -> Iterable[TreePage]:
        for number in range(PARTITIONS[Topic.TREES]):
            for entry in self._world.log.entries(Topic.TREES, number):
                page = CODEC.read(entry.value)
                if isinstance(page, TreePage):
                    yield page

    def put(self, page: TreePage) -> None:
        self._world.log.put(Topic.TREES, str(page.task.session), CODEC.encode(page))


class Site:
    """A cluster of one coordinator, with a rendezvous and any number of validators of table `orders`."""

    def __init__(self, cadence: Cadence = Cadence(positions=0)) -> None:  # noqa: B008 (frozen value)
        self.world = World(["c1"], cadence=cadence)
        self.replicas: dict[str, MemoryReplica] = {}
        self.validators: dict[str, Validator] = {}
        self.trees = _Memory(self.world)
        self.rendezvous = Rendezvous(self.trees)
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
        self.rendezvous.step()

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
