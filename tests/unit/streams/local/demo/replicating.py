"""Replicas of a few nodes over a bad network, under maps that the pure rules of the topology decide, with clients.

Everything that a node does is the real code (`replication/`), everything that the log says is decided by the real rules
(`tests/unit/streams/rules/exchanging.py`). What lies between is here: each node reads the log at its own speed,
messages are lost, delayed, doubled and overtake each other, leases run out, processes stop, come back with what they
had in memory or die with it. A seed gives the whole story again.

After every step the owners of the log hold what was acknowledged, and each read has what was acknowledged, or read,
before it began; at rest all owners are equal and every partition that is not lost serves.
"""

import random
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple

import msgspec
from tests.unit.streams.rules.exchanging import Shared

from topolog.events import exchange as x
from topolog.events.decision import Decision
from topolog.events.groups import GroupRow
from topolog.events.ids import NOWHERE, NodeId, Position
from topolog.events.leases import NodeRow
from topolog.events.membership import NodeJoined, NodeLeft
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState, When
from topolog.streams.local.demo.replication import messages as m
from topolog.streams.local.demo.replication.replica import Replica
from topolog.streams.node.copies import PartitionId
from topolog.streams.node.views import PartitionView, of_group
from topolog.streams.rules import copies
from topolog.streams.rules.affinity import partition_of

GROUP = "rows"
NODES = tuple(NodeId(name) for name in ("n1", "n2", "n3", "n4"))
KEYS = tuple(f"k{number}" for number in range(6))
PAGE_ROWS = 2
IN_FLIGHT_MAX = 150
ROUNDS_MAX = 60

Lives = dict[str, tuple[int, Position]]
"""Of each member: its incarnation, and where that joined."""


class Rule(Enum):
    """What must hold."""

    HELD = "owners hold what was acknowledged"
    READS = "no read is older than what was acknowledged or read before"
    AHEAD = "no copy has what its primary has not"
    EQUAL = "owners are equal at rest"
    ENDS = "no operation waits for ever"
    SERVES = "what is not lost serves at rest"
    RESTS = "it comes to rest"
    LEGAL = "every decision is legal (`exchanging.py`)"


class Violation(AssertionError):
    """A rule does not hold."""

    def __init__(self, rule: Rule, facts: str) -> None:
        super().__init__(f"{rule.value}: {facts}")
        self.rule = rule


class Entry(NamedTuple):
    """What one set of decisions has changed for those that read it."""

    position: Position
    views: tuple[PartitionView, ...]
    lives: Lives
    leaving: frozenset[tuple[str, PartitionId]]
    joined: frozenset[tuple[str, int]]
    left: frozenset[tuple[str, int]]


class Log(Shared):
    """The cluster, and what its nodes read of it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.views: dict[PartitionId, PartitionView] = {}
        self._rows: list[OwnershipRow] = []
        super().__init__()

    def _log_set(self, decided: list[Decision], when: When) -> None:
        try:
            if decided:
                super()._log_set(decided, when)
        except AssertionError as error:
            raise Violation(Rule.LEGAL, str(error)) from error

    def log(self, *events: Decision) -> Position:
        position = super().log(*events)
        if not events:
            return position
        rows = [row for _, row in self.state.rows(OwnershipRow)]
        changed: list[PartitionView] = []
        if rows != self._rows:
            self._rows = rows
            for _, group in self.state.rows(GroupRow):
                for view in of_group(self.state, group):
                    if self.views.get((view.group, view.partition)) != view:
                        changed.append(view)
                        self.views[view.group, view.partition] = view
        lives: Lives = {row.node: (row.incarnation, row.joined_at) for _, row in self.members()}
        leaving = frozenset(
            (row.node, (move.group, partition))
            for _, row in self.state.rows(x.HandOverRow)
            for move in row.moves
            for partition in move.partitions
        )
        joiners = [event.joiner for event in events if isinstance(event, NodeJoined)]
        joined = frozenset((each.node, each.incarnation) for each in joiners)
        left = frozenset((event.node, event.incarnation) for event in events if isinstance(event, NodeLeft))
        self.entries.append(Entry(position, tuple(changed), lives, leaving, joined, left))
        return position

    def members(self) -> Iterator[tuple[str, NodeRow]]:
        return ((key, row) for key, row in self.state.rows(NodeRow) if row.is_member)

    def is_member(self, node: str) -> bool:
        return any(row.node == node for _, row in self.members())

    def incarnation(self, node: str) -> int:
        return self._incarnations.get(node, 0)

    def answer_with(self, node: NodeId, whole: dict[tuple[str, int], int]) -> None:
        self.disks[node] = whole
        self.answer(node)

    def report(self, reports: list[copies.Report]) -> None:
        self._between(copies.settle(self.state, reports))


class Operation(NamedTuple):
    """What a client waits for; `value`: what it writes, `floor`: what it must see at least if it reads."""

    key: str
    place: PartitionId
    is_read: bool
    value: bytes | None
    floor: m.Version | None


class Process:
    """One process life. `born`: what the log lists from before that belonged to its predecessor."""

    def __init__(self, node: NodeId, incarnation: int, born: Position) -> None:
        self.node = node
        self.replica = Replica(node, page_rows=PAGE_ROWS)
        self.incarnation = incarnation
        self.born = born
        self.cursor = 0
        self.entry: Entry | None = None
        self.is_fenced = True
        self.is_frozen = False
        self.reads_log = True
        self.reports: dict[tuple[str, int, Position], copies.Report] = {}
        self.operations: dict[int, Operation] = {}

    @property
    def joined_at(self) -> Position | None:
        """Where its present incarnation joined, as far as it has read."""
        life = self.entry.lives.get(self.node) if self.entry else None
        return life[1] if life and life[0] >= self.incarnation else None

    def is_among(self, lives: frozenset[tuple[str, int]]) -> bool:
        """Whether an incarnation of this very process is."""
        return any(node == self.node and incarnation >= self.incarnation for node, incarnation in lives)


class Packet(NamedTuple):
    source: NodeId
    to: NodeId
    message: m.AnyMessage


class Setting(msgspec.Struct, frozen=True):
    """What a seed draws first: a narrow budget of faults reaches further into one of them."""

    backups: int
    partitions: int
    steps: int
    loss: float
    crashes: int
    lapses: int
    slow: str
    starters: int
    trouble: int
    resend: int
    keys: int
    joins_late: bool = False
    """One of the starters joins when the group is there and is being shared out without it."""


class World:
    """`budget`: what of the setting is not left to the seed."""

    def __init__(self, seed: int, **budget: Any) -> None:
        self.random = random.Random(seed)
        self.setting = msgspec.structs.replace(self._draw(), **budget)
        self.log = Log()
        self.processes: dict[NodeId, Process] = {}
        self.network: list[Packet] = []
        self.issued: dict[str, dict[m.Version, bytes | None]] = {key: {} for key in KEYS}
        self.floors: dict[str, m.Version] = {}
        self.acknowledged = 0
        self.read = 0
        self._operations = 0
        self._crashes = 0
        self._lapses = 0
        self._is_calm = False
        self._places = {key: (GROUP, partition_of(key, self.setting.partitions)) for key in KEYS}
        self._checked = 0
        self._performed = 0

    def _draw(self) -> Setting:
        draw = self.random
        return Setting(
            backups=draw.choice((0, 1, 1, 1, 2)),
            partitions=draw.choice((1, 1, 2)),
            steps=draw.choice((200, 500, 1000)),
            loss=draw.choice((0.0, 0.02, 0.2)),
            crashes=draw.choice((0, 0, 1, 2)),
            lapses=draw.choice((2, 4, 8)),
            slow=draw.choice(("", *NODES)),
            starters=draw.choice((2, 3, 3)),
            trouble=draw.choice((4, 8, 16)),
            resend=draw.choice((1, 4)),
            keys=draw.choice((2, len(KEYS))),
        )

    # The story.

    def run(self) -> None:
        """Raises Violation."""
        starters = self.random.sample(NODES, self.setting.starters)
        late = starters[-1:] if self.setting.joins_late else []
        for node in starters:
            self._start(node)
            if node not in late:
                self.log.join(node)
        self.log.create(GROUP, self.setting.partitions, self.setting.backups)
        if late:
            self.log.settle_exchange()
            self.log.join(*late)
        self._exchange_calmly()
        for _ in range(self.setting.steps):
            self._step()
            self._check_owners()
        self.rest()

    def _step(self) -> None:
        acts: tuple[tuple[Callable[[], None], int], ...] = (
            (self._deliver, 32),
            (self._adopt, 22),
            (self._operate, 14),
            (self._resend, self.setting.resend),
            (self._abandon, 1),
            (self._decide, 18),
            (self._trouble, self.setting.trouble),
        )
        (act,) = self.random.choices([act for act, _ in acts], [weight for _, weight in acts])
        act()

    def _decide(self) -> None:
        """The coordinator does some of the things that may be due."""
        self._exchange()
        self.random.choice((self._report, self._hand_over, self.log.rent))()

    def _trouble(self) -> None:
        self.random.choice(
            (self._join, self._join, self._lapse, self._leave, self._leave, self._recover, self._crash)
        )()

    def _exchange_calmly(self) -> None:
        """The group begins."""
        for _ in range(3):
            for process in self.processes.values():
                self._read(process, len(self.log.entries))
            self._exchange()

    # The network and the log.

    def _deliver(self) -> None:
        if not self.network:
            return
        index = self.random.randrange(len(self.network))
        packet = self.network[index]
        if self._is_calm or self.random.random() > 0.05:  # else it comes again
            del self.network[index]
        if not self._is_calm and self.random.random() < self.setting.loss:
            return
        process = self.processes.get(packet.to)
        if process is not None and not process.is_frozen:
            self._perform(process, process.replica.receive(packet.source, packet.message))

    def _adopt(self) -> None:
        awake = [each for each in self.processes.values() if self._may_read(each)]
        if awake:
            process = self.random.choice(awake)
            if process.node != self.setting.slow or self.random.random() < 0.2:
                self._read(process, self.random.choice((1, 1, 2, 5)))

    def _may_read(self, process: Process) -> bool:
        return not process.is_frozen and process.reads_log and process.cursor < len(self.log.entries)

    def _read(self, process: Process, count: int) -> None:
        for entry in self.log.entries[process.cursor : process.cursor + count]:
            process.cursor += 1
            process.entry = entry
            if process.is_among(entry.joined):
                self._perform(process, process.replica.enter())
            if process.is_among(entry.left):
                self._perform(process, process.replica.leave())
            self._perform(process, process.replica.adopt(entry.views))
        if process.cursor == len(self.log.entries) and process.joined_at is not None:
            process.is_fenced = False

    def _resend(self) -> None:
        awake = [each for each in self.processes.values() if not each.is_frozen]
        if awake and len(self.network) < IN_FLIGHT_MAX:
            process = self.random.choice(awake)
            self._perform(process, process.replica.resend())

    def _perform(self, process: Process, outputs: list[m.Output]) -> None:
        self._performed += 1
        for output in outputs:
            match output:
                case m.Send(to=to, message=message):
                    if isinstance(message, m.Replicate):
                        self.issued[message.key][m.Version(message.token, message.number)] = message.value
                    self.network.append(Packet(process.node, to, message))
                case m.Answered():
                    self._answered(process, output)
                case m.Failed(id=operation):
                    process.operations.pop(operation, None)
                case m.Loaded() as done:
                    self._note(process, copies.Loaded(process.node, done.group, done.partition, done.since, done.token))
                case m.Cleared() as done:
                    self._note(process, copies.Cleared(process.node, done.group, done.partition, done.since))

    def _note(self, process: Process, report: copies.Report) -> None:
        process.reports[report.group, report.partition, report.since] = report

    # Clients.

    def _operate(self) -> None:
        key = self.random.choice(KEYS[: self.setting.keys])
        place = self._places[key]
        able = [each for each in self.processes.values() if self._token(each, place) is not None]
        if able:
            self._begin(self.random.choice(able), key, place, self.random.choice(("put", "put", "delete", "get")))

    def _token(self, process: Process, place: PartitionId) -> Position | None:
        """What the node's guard says at entry."""
        partition = process.replica.partition(place)
        view = partition.view if partition else None
        if process.is_fenced or process.is_frozen or process.joined_at is None or view is None or not process.entry:
            return None
        if view.primary != process.node or (process.node, place) in process.entry.leaving:
            return None
        return view.token

    def _begin(self, process: Process, key: str, place: PartitionId, kind: str) -> int:
        self._operations += 1
        number = self._operations
        token = self._token(process, place)
        assert token is not None
        value = b"%d" % number if kind == "put" else None
        process.operations[number] = Operation(key, place, kind == "get", value, self.floors.get(key))
        is_read = kind == "get"
        operation = m.Read(number, *place, token, key) if is_read else m.Write(number, *place, token, key, value)
        self._perform(process, process.replica.begin(operation))
        return number

    def _abandon(self) -> None:
        """A client goes away, or its time is over."""
        running = [(each, number) for each in self.processes.values() for number in each.operations]
        if running:
            process, number = self.random.choice(running)
            process.replica.abandon(process.operations.pop(number).place, number)

    def _answered(self, process: Process, answered: m.Answered) -> None:
        """The guard looks at the lease once more; then the client has its answer."""
        operation = process.operations.pop(answered.id, None)
        if operation is None:
            return
        if not operation.is_read and answered.version is not None:
            self.issued[operation.key][answered.version] = operation.value
        if process.is_fenced:
            return
        if operation.is_read:
            self.read += 1
            is_shown = self._is_shown(operation.key, answered.version, operation.floor)
            self._check(is_shown, Rule.READS, f"{operation}, {answered}")
        else:
            self.acknowledged += 1
        if answered.version is not None:
            floor = self.floors.get(operation.key)
            self.floors[operation.key] = max(answered.version, floor) if floor else answered.version

    # Members.

    def _start(self, node: NodeId) -> Process:
        """A new process, with nothing in memory; it begins with a snapshot or with the whole log."""
        process = self.processes[node] = Process(node, self.log.incarnation(node) + 1, self.log.position)
        if self.log.entries and self.random.random() < 0.5:
            process.cursor = len(self.log.entries)
            process.entry = self.log.entries[-1]
            self._perform(process, process.replica.adopt(self.log.views.values()))
        return process

    def _join(self) -> None:
        outside = [node for node in NODES if not self.log.is_member(node)]
        if outside:
            self._bring_in(self.random.choice(outside))

    def _bring_in(self, node: NodeId) -> None:
        process = self.processes.get(node) or self._start(node)
        process.is_frozen, process.reads_log = False, True
        self.log.join(node)

    def _lapse(self) -> None:
        """A lease runs out: the process stands still, or has lost the log and hears only its peers."""
        live = [each for each in self.processes.values() if not each.is_fenced]
        if live and self._lapses < self.setting.lapses:
            process = self.random.choice(live)
            self._lapses += 1
            process.is_fenced = True
            process.reads_log = False
            process.is_frozen = self.random.random() < 0.5

    def _recover(self) -> None:
        """It goes on where it stopped; it is fenced until it has read the log."""
        for process in self.processes.values():
            process.is_frozen, process.reads_log = False, True

    def _crash(self) -> None:
        live = [each for each in self.processes.values() if self.log.is_member(each.node)]
        if live and self._crashes < self.setting.crashes:
            self._crashes += 1
            del self.processes[self.random.choice(live).node]

    def _leave(self) -> None:
        over = [node for node in NODES if self.log.is_member(node) and self._is_over(node)]
        if over:
            self.log.leave(self.random.choice(over))

    def _is_over(self, node: NodeId) -> bool:
        """Whether no lease runs: the process is gone, or knows that it may not act."""
        process = self.processes.get(node)
        return process is None or (process.is_fenced and not process.reads_log)

    # The coordinator.

    def _exchange(self) -> None:
        row = x.open_exchange(self.log.state)
        if row is not None:
            for awaited in row.awaited:
                process = self.processes.get(awaited.node)
                if process is not None and self._has_read(process, row.started_at):
                    whole = process.replica.whole()
                    disk = {(GROUP, number): each for held in whole.values() for number, each in held.items()}
                    self.log.answer_with(awaited.node, disk)
        self.log.settle_exchange()

    def _has_read(self, process: Process, position: Position) -> bool:
        return process.joined_at is not None and process.entry is not None and process.entry.position >= position

    def _report(self) -> None:
        self.log.report([each for process in self.processes.values() for each in process.reports.values()])

    def _hand_over(self) -> None:
        rows = [row for _, row in self.log.state.rows(x.HandOverRow)]
        drained = [row.node for row in rows if self._has_drained(row)]
        is_over = rows and all(self._is_over(NodeId(row.node)) for row in rows)
        self.log.hand_over(*drained, waited_through=self.log.position if is_over else NOWHERE)

    def _has_drained(self, row: x.HandOverRow) -> bool:
        process = self.processes.get(NodeId(row.node))
        if process is None or process.is_frozen or not process.entry or process.entry.position < row.prepared_at:
            return False
        places = {(move.group, partition) for move in row.moves for partition in move.partitions}
        return not any(each.place in places for each in process.operations.values())

    # What must hold.

    def _check(self, holds: bool, rule: Rule, facts: str) -> None:
        if not holds:
            raise Violation(rule, facts)

    def _check_owners(self) -> None:
        """Each copy in the log's owner row whose process lives shows all that was acknowledged or read."""
        if self._checked == self._performed + len(self.log.entries):
            return
        self._checked = self._performed + len(self.log.entries)
        for place, view in self.log.views.items():
            for copy in view.copies:
                process = self.processes.get(copy.node)
                if copy.state is PartitionState.OWNING and process is not None and copy.since > process.born:
                    self._check_copy(process, place)
                    self._check_against_primary(process, place)

    def _check_copy(self, process: Process, place: PartitionId) -> None:
        partition = process.replica.partition(place)
        for key, floor in self.floors.items():
            if self._places[key] == place:
                cell = partition.content.get(key) if partition else None
                shown = cell.version if cell and cell.value is not None else None
                self._check(self._is_shown(key, shown, floor), Rule.HELD, f"{process.node} of {key} {floor}: {cell}")

    def _check_against_primary(self, process: Process, place: PartitionId) -> None:
        """A copy that is synced under the token of a live primary has nothing more than that one (DS4, DS7, DS9)."""
        partition = process.replica.partition(place)
        following = partition.following if partition else None
        if partition is None or partition.view is None or following is None or not following.is_synced:
            return
        primary = self.processes.get(partition.view.primary or NodeId(""))
        leader = primary.replica.partition(place) if primary else None
        if leader is None or leader.leading is None or leader.leading.token != following.token:
            return
        for key, cell in partition.content.rows():
            theirs = leader.content.get(key)
            is_behind = theirs is not None and theirs.version >= cell.version
            self._check(is_behind, Rule.AHEAD, f"{process.node} of {key}: {cell}, its primary {theirs}")

    def _is_shown(self, key: str, version: m.Version | None, floor: m.Version | None) -> bool:
        """Whether this is as new as `floor`, or newer; no row at all is so behind a deletion that is."""
        if floor is None:
            return True
        if version is not None:
            return version >= floor
        return any(value is None and issued >= floor for issued, value in self.issued[key].items())

    # Rest.

    def rest(self) -> None:
        """Nothing more fails; everybody who can comes back; then all owners are equal and serve."""
        self._is_calm = True
        quiet = 0
        for _ in range(ROUNDS_MAX):
            before = len(self.log.entries)
            self._calm_round()
            quiet = quiet + 1 if len(self.log.entries) == before else 0
            if quiet == 2:
                break
        self._check(quiet == 2, Rule.RESTS, f"not in {ROUNDS_MAX} rounds")
        waiting = [(each.node, *each.operations.values()) for each in self.processes.values() if each.operations]
        self._check(not waiting, Rule.ENDS, f"{waiting}")
        self._check_equal()
        self._check_served()
        self._check_equal()

    def _calm_round(self) -> None:
        for node in NODES:
            process = self.processes.get(node)
            if self.log.is_member(node) and (process is None or not self._is_ours(process)):
                self.log.leave(node)
            if not self.log.is_member(node):
                self._bring_in(node)
        self._recover()
        self._flush()
        for act in (self._exchange, self._exchange, self._report, self._hand_over, self.log.rent):
            act()
            self._flush()
            self._check_owners()

    def _is_ours(self, process: Process) -> bool:
        return self.log.incarnation(process.node) >= process.incarnation

    def _flush(self) -> None:
        """Everybody reads everything; then what is missing is sent again, and all arrives."""
        for process in list(self.processes.values()):
            self._read(process, len(self.log.entries))
        for _ in range(2):
            while self.network:
                self._deliver()
            for process in self.processes.values():
                self._perform(process, process.replica.resend())
        while self.network:
            self._deliver()

    def _check_equal(self) -> None:
        for place, view in self.log.views.items():
            if view.primary is not None:
                owners = [copy.node for copy in view.copies if copy.state is PartitionState.OWNING]
                held = {node: self._rows(node, place) for node in owners}
                self._check(all(rows == held[view.primary] for rows in held.values()), Rule.EQUAL, f"{held}")

    def _rows(self, node: NodeId, place: PartitionId) -> dict[str, m.Cell]:
        partition = self.processes[node].replica.partition(place)
        return dict(partition.content.rows()) if partition else {}

    def _check_served(self) -> None:
        """A write and a read of each partition that is not lost."""
        for key in KEYS:
            place = self._places[key]
            primary = self.log.views[place].primary
            if primary is not None:
                before = self.acknowledged, self.read
                for kind in ("put", "get"):
                    self._begin(self.processes[primary], key, place, kind)
                    self._flush()
                is_served = (self.acknowledged, self.read) == (before[0] + 1, before[1] + 1)
                self._check(is_served, Rule.SERVES, f"{place}")
