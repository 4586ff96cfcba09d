"""A cluster stepped by hand, for schedules of schema change: the real coordinator and the real nodes, one log.

Each process has a clock of its own, and can be stopped, be deaf, or have its sends held. Nothing happens but in `run`,
which lets all the others take turns of 20 ms of true time.
"""

import random
from collections.abc import Sequence

from tests.unit.streams.rules.changing import INT, TEXT, change, database, table

from topolog.events.asked import Request, RequestId
from topolog.events.codec import CODEC, Record
from topolog.events.errors import Fenced, TopologError
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.ids import Position
from topolog.events.leases import FENCING, NodeKind
from topolog.events.log import InMemoryLog
from topolog.events.membership import Joiner
from topolog.events.object_definition import Statement
from topolog.events.object_requests import SchemaChangeRequested
from topolog.events.objects import ChangeRow, SchemaChangeCommitted, SchemaChangeRolledBack, change_row
from topolog.events.proof import SECRET_BYTES
from topolog.events.topics import Topic
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver, LeaseTerms
from topolog.streams.node.guards import LeaseGuard
from topolog.streams.node.hooks import Hooks
from topolog.streams.node.objects import Table
from topolog.streams.node.schema import Schema
from topolog.streams.node.session import Session
from topolog.streams.simulation.processes import Definitions
from topolog.streams.simulation.timeline import NS_PER_MS

TERMS = LeaseTerms(fence_ms=1_000, margin_ms=100, heartbeat_ms=200)
PROCEED_MS = TERMS.fence_ms + TERMS.margin_ms
TURN_MS = 20
OWED_MS = 400
"""Longer than what is under way between processes that are well takes to come to its end."""


class OwnClock:
    """The clocks of one machine: `ppm` too fast, and asleep for as long as somebody says."""

    def __init__(self, log_clock: "TrueTime", ppm: int = 0) -> None:
        self._true = log_clock
        self._ppm = ppm
        self._asleep_ns = 0

    def monotonic_ns(self) -> int:
        return self._own(self._true.now_ns - self._asleep_ns)

    def boottime_ns(self) -> int:
        return self._own(self._true.now_ns)

    def wall_ms(self) -> int:
        return self._true.wall_ms()

    def slept(self, ms: float) -> None:
        """The machine was suspended for so long, until now."""
        self._asleep_ns += int(ms * NS_PER_MS)

    def _own(self, true_ns: int) -> int:
        return true_ns + true_ns * self._ppm // 1_000_000


class TrueTime:
    """One time for all; only tests know it."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * NS_PER_MS

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ns // NS_PER_MS


class Server:
    """One process of one server. `is_stopped`: SIGSTOP. While it `is_deaf` it reads nothing, while it `is_mute` what it
    sends is held."""

    def __init__(self, shop: "Shop", name: str, *, fences: bool = True, ppm: int = 0, folder: str = "") -> None:
        self.name = name
        self.is_stopped = self.is_deaf = self.is_mute = False
        self.clock = OwnClock(shop.time, ppm)
        self.reader = shop.log.reader()
        self.writer = shop.log.writer(prompt=False)
        self.hooks = Hooks()
        joiner = Joiner(name, 0, NodeKind.SERVER, "", {}, (FENCING,) if fences else (), folder)
        chance = shop.chance
        self.session = Session(
            self.reader,
            self.writer,
            self.clock,
            joiner,
            self.hooks,
            chance=lambda: chance.getrandbits(63),
            key=folder.encode() or chance.randbytes(SECRET_BYTES),
        )
        self.guard = LeaseGuard(self.clock, self.session)
        self.schema: Schema = Definitions(joiner, self.clock, self.hooks, self.session, self.guard)

    def turn(self) -> None:
        if self.is_stopped:
            return
        self.reader.batch_max = 0 if self.is_deaf else 1_000_000
        self.session.step(0)
        self.session.beat_if_due()
        if not self.is_mute:
            self.writer.land()
        self.writer.serve()

    def read_one(self) -> None:
        """Take in one record, and nothing else."""
        self.reader.batch_max = 1
        self.session.step(0)

    def look(self, name: str = "shop.orders") -> Table | str:
        """What a reader gets at this moment: the table, or the code of the error."""
        try:
            with self.schema.using(name) as found:
                return found
        except TopologError as error:
            return error.code

    @property
    def is_fenced(self) -> bool:
        try:
            self.guard.require()
        except Fenced:
            return True
        return False


class Shop:
    """Servers, and a table `shop.orders` with `id`, `sum` and `note`, committed and known to all."""

    def __init__(self, *names: str, ppm: int = 0) -> None:
        self.time = TrueTime()
        self.chance = random.Random(1)
        self.log = InMemoryLog(self.time.wall_ms)
        self.drivers: list[Driver] = []
        self.servers: list[Server] = []
        self.stopped: set[Driver] = set()
        self.asked = 0
        self.coordinator_clock = OwnClock(self.time, ppm)
        self.start_coordinator()
        self.run(OWED_MS)
        for name in names or ("n1", "n2", "n3"):
            self.start(name)
        self.run(2 * OWED_MS)
        self.change(database(), table(sum=INT, note=TEXT))
        self.run(OWED_MS)
        assert self.ends() == {"committed": 1}

    def start_coordinator(self) -> Driver:
        driver = Driver(
            self.log.reader(),
            self.log.writer(),
            self.coordinator_clock,
            "shop",
            f"c{len(self.drivers)}",
            terms=TERMS,
            chance=self.chance,
        )
        self.drivers.append(driver)
        return driver

    def start(self, name: str, *, fences: bool = True, ppm: int = 0, folder: str = "") -> Server:
        server = Server(self, name, fences=fences, ppm=ppm, folder=folder)
        self.servers.append(server)
        return server

    def kill(self, server: Server) -> None:
        """Nothing of it comes any more, not even its death certificate."""
        self.servers.remove(server)

    def run(self, ms: float) -> None:
        until_ns = self.time.now_ns + int(ms * NS_PER_MS)
        while self.time.now_ns < until_ns:
            self.time.now_ns += TURN_MS * NS_PER_MS
            for driver in [each for each in self.drivers if each not in self.stopped]:
                driver.step(0)
                if driver.role is Role.RETIRED:
                    self.drivers.remove(driver)
            for server in list(self.servers):
                server.turn()

    def pass_time(self, ms: float) -> None:
        """Nobody does anything."""
        self.time.now_ns += int(ms * NS_PER_MS)

    def send(self, request: Request) -> None:
        self.log.put(Topic.OPERATIONS, request.id.requester, CODEC.encode(request))

    def change(self, *statements: Statement, deadline_ms: int | None = None) -> SchemaChangeRequested:
        """Ask for a change in the right log."""
        self.asked += 1
        asked = change(*statements, deadline_ms=deadline_ms)
        log_id = self.fold().header.log_id
        assert log_id is not None
        asked = SchemaChangeRequested(
            RequestId("ada", self.asked), log_id, "ada", "", asked.statements, asked.deadline_ms
        )
        self.send(asked)
        return asked

    def fold(self) -> Fold:
        fold = Fold()
        for entry in self.log.entries(Topic.DECISIONS):
            fold.read(entry.stamp, entry.value)
        return fold

    def decided(self) -> list[Folded]:
        fold, found = Fold(), list[Folded]()
        for entry in self.log.entries(Topic.DECISIONS):
            folded = fold.read(entry.stamp, entry.value)
            found += [] if isinstance(folded, Ignored) else folded
        return found

    def newest(self, kind: type[Record]) -> Record | None:
        """The newest decision of this kind."""
        return next((each.event for each in reversed(self.decided()) if isinstance(each.event, kind)), None)

    def row(self) -> ChangeRow:
        """The newest change; one is there already."""
        rows = [row for _, row in self.fold().state.rows(ChangeRow)]
        return max(rows, key=lambda row: row.number)

    def status(self) -> str:
        """Where the newest change is; ASKED as long as nobody has decided anything of it."""
        is_decided = self.fold().state.count(ChangeRow) == self.asked
        return self.row().status.value if is_decided else "ASKED"

    def ends(self) -> dict[str, int]:
        """How many changes were committed and how many rolled back; each ends once (TA14)."""
        found: list[tuple[str, Position]] = []
        for each in self.decided():
            match each.event:
                case SchemaChangeCommitted(changes=changes):
                    found += [("committed", number) for number in changes]
                case SchemaChangeRolledBack(change=number):
                    found.append(("rolled back", number))
        numbers: Sequence[Position] = [number for _, number in found]
        assert len(set(numbers)) == len(numbers), f"a change has ended twice: {found}"
        assert all(change_row(self.fold().state, number) for number in numbers)
        kinds = [kind for kind, _ in found]
        return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
