"""Clients of the store that run while nodes come, go and die, and prove that none of their acknowledged writes is lost.

Each has a row in every partition, of a table of their own, reads it, and writes the next number into it. It goes to the
node that the log names, on to wherever that one sends it, and asks again what is not answered. In the end every
acknowledged write is read back. What counts as lost is in ledger.py. Beside them somebody reads the other tables, and
proves that each is answered as it is defined (`watching.py`).

They are one client node of the cluster: it holds no lease and causes no exchange, and knows by the log who
acts and what is lost.
"""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

import msgspec

from topolog.events.errors import BadInput, NotFound, Retriable, TopologError, Unreachable
from topolog.events.object_definition import Column, ColumnType, Definition, ObjectKind, Statement, Verb
from topolog.streams.local.demo.ledger import Definitions, Ledger, Pause, Row, Verdict
from topolog.streams.local.demo.others import Connections, path_of
from topolog.streams.local.demo.shards import GROUP
from topolog.streams.local.demo.watching import Watcher
from topolog.streams.local.stopping import Stop
from topolog.streams.node.client import Node
from topolog.streams.node.views import PartitionView
from topolog.streams.rules.affinity import partition_of

Say = Callable[[str], None]

DATABASE, TABLE = "load", "load.numbers"
TABLES = (
    Statement(Verb.CREATE, ObjectKind.DATABASE, DATABASE, Definition(), if_needed=True),
    Statement(
        Verb.CREATE,
        ObjectKind.TABLE,
        TABLE,
        Definition((Column("id", ColumnType.STRING), Column("number", ColumnType.INT64)), "id"),
        if_needed=True,
    ),
)
VISIT_PAUSE_S = 0.05
AGAIN_S = 0.01
"""Between two attempts at what is not answered, so that a pause is measured to this."""

PATIENCE_S = 1.0
"""For how long a client stays with a row that is not answered, before it looks after others meanwhile."""

LOOK_BACK_S = 0.5
"""How long it does that."""

ANSWER_S = 1.0
"""How long a node may take to answer: one that is paused never does."""

CHECK_S = 30.0
"""How long a row may take to be read back in the end."""

HEARSAY_S = 5.0
"""How far our own reading of the log may lie behind that of a node which has answered us."""

GROUP_S = 10.0
"""How long the first node may take to make the store's group: `up` says that it is up before its nodes are."""

CHANGE_S = 1.0
"""How long to wait for our table before we look whether we are to stop."""

TELL_S, LOOK_S = 5.0, 0.1

_DONE, _NONE, _SENSELESS = (200, 204), 404, 400


class Losses(msgspec.Struct, frozen=True):
    """Of one partition: how often it has been lost, for how long until then, and since when it is, if it is now."""

    times: int = 0
    seconds: float = 0.0
    since: float | None = None


class Cluster:
    """What the clients know by the log. `node` is entered by whoever made it, behind this."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._losses: dict[int, Losses] = {}
        self._table: int | None = None
        node.on_map(self._on_map)

    def make_table(self, stopping: Stop) -> None:
        """Return when our table is there. Asked for once: while a node hangs it takes that node's lease until it is.
        Raises as `Node.change` does."""
        while not stopping.is_set():
            try:
                self._table = self._node.table(TABLE).incarnation
            except NotFound:
                self._ask_for_table()
            except Retriable:
                self.check()
                stopping.wait(LOOK_S)
            else:
                return

    def _ask_for_table(self) -> None:
        try:
            self._node.change(*TABLES, timeout_s=CHANGE_S, reason="the rows of topolog demo load")
        except Retriable:
            self.check()

    def check_table(self) -> None:
        """Raise NotFound if it is no more: what was in it is neither kept nor lost."""
        try:
            found = self._node.table(TABLE).incarnation
        except Retriable:
            return
        except NotFound:
            found = None
        if found != self._table:
            raise NotFound(f"Somebody has dropped table {TABLE!r}, in which these clients write.", hint="Begin again.")

    def _on_map(self, found: Sequence[PartitionView]) -> None:
        for each in found:
            if each.group != GROUP.name or each.is_lost == self.is_lost(each.partition):
                continue
            if each.is_lost:
                known = self._of(each.partition)
                self._losses[each.partition] = Losses(known.times + 1, known.seconds, time.monotonic())
            else:
                self._losses[each.partition] = Losses(self.life(each.partition), self.lost_s(each.partition))

    def life(self, partition: int) -> int:
        """How often it has been lost."""
        return self._of(partition).times

    def is_lost(self, partition: int) -> bool:
        return self._of(partition).since is not None

    def lost_s(self, partition: int) -> float:
        """For how long it has been lost, all in all."""
        known = self._of(partition)
        return known.seconds + (0.0 if known.since is None else time.monotonic() - known.since)

    def _of(self, partition: int) -> Losses:
        return self._losses.get(partition, Losses())

    def endpoint(self, key: str) -> str:
        """Where a row is. Raises what Node.route raises."""
        return self._node.route(GROUP.name, key).endpoint

    def check(self) -> None:
        if self._node.failure:
            raise self._node.failure


class Client:
    """One of them, a thread."""

    def __init__(self, name: str, cluster: Cluster, stopping: Stop) -> None:
        self.ledger = Ledger()
        self.failure: TopologError | None = None
        self._name = name
        self._cluster = cluster
        self._stopping = stopping
        self._numbers = itertools.count(1)
        self._rows = [self._fresh(partition) for partition in range(GROUP.partitions)]
        self._former: list[Row] = []
        self._hindered: dict[int, tuple[float, float]] = {}
        self._not_before: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, name=f"client {name}", daemon=True)

    @property
    def hindered(self) -> list[int]:
        """The partitions in which nothing is written now."""
        return list(self._hindered)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            with Connections(ANSWER_S) as nodes:
                for partition in itertools.cycle(range(GROUP.partitions)):
                    if self._stopping.wait(VISIT_PAUSE_S):
                        break
                    if self._not_before.get(partition, 0) <= time.monotonic():
                        self._visit(nodes, partition)
                self._check(nodes)
        except TopologError as error:
            self.failure = error
        except BaseException as error:  # a defect of ours: nobody may take its rows for checked
            self.failure = TopologError(f"Client {self._name} failed: {error!r}.")
            raise

    def _visit(self, nodes: Connections, partition: int) -> None:
        """Read the row, and write the next number into it; begin another one if that is no longer told apart."""
        row = self._rows[partition]
        begun, lost_s = time.monotonic(), self._cluster.lost_s(partition)
        while not self._stopping.is_set():
            try:
                if row.acknowledged and not self._is_kept(nodes, row):
                    self._rows[partition] = self._fresh(partition)
                    return
                self._write(nodes, row)
            except (Retriable, NotFound):
                self._cluster.check()
                self._cluster.check_table()
                self._hindered.setdefault(partition, (begun, lost_s))
                if time.monotonic() >= begun + PATIENCE_S:
                    self._not_before[partition] = time.monotonic() + LOOK_BACK_S
                    return
                self._stopping.wait(AGAIN_S)
            else:
                self._answered(partition, *self._hindered.pop(partition, (begun, lost_s)))
                if row.in_doubt:
                    self._former.append(row)
                    self._rows[partition] = self._fresh(partition)
                return

    def _write(self, nodes: Connections, row: Row) -> None:
        number = row.send(self._cluster.life(row.partition))
        endpoint = self._cluster.endpoint(row.key)
        body = msgspec.json.encode({"id": row.key, "number": number})
        try:
            self._ask(nodes, endpoint, "PUT", row.key, body)
        except Retriable:
            row.in_doubt = True
            raise
        row.acknowledge()
        self.ledger.writes += 1

    def _read(self, nodes: Connections, row: Row) -> int | None:
        body = self._ask(nodes, self._cluster.endpoint(row.key), "GET", row.key)
        self.ledger.reads += 1
        return None if body is None else int(msgspec.json.decode(body)["number"])

    def _ask(self, nodes: Connections, endpoint: str, method: str, key: str, body: bytes = b"") -> bytes | None:
        """What is answered in the end, None for no row. Raises Unreachable: ask again, BadInput: never again."""
        response = nodes.follow(endpoint, method, path_of(TABLE, key), body)
        if response.status in _DONE:
            return response.body
        if response.status == _NONE:
            self._cluster.check_table()
            if method == "GET":
                return None
        if response.status == _SENSELESS:
            raise BadInput(f"{endpoint} answers to a {method}: {response.detail}")
        raise Unreachable(f"{endpoint} answers {response.status}.")

    # What it means.

    def _is_kept(self, nodes: Connections, row: Row) -> bool:
        life = self._cluster.life(row.partition)
        found = self._read(nodes, row)
        verdict = self._judged(row, found)
        if verdict is Verdict.KEPT:
            row.see(found, life)
        return verdict is Verdict.KEPT

    def _judged(self, row: Row, found: int | None) -> Verdict:
        """A node may know of a loss before our own reading of the log does: what looks lost is looked at again."""
        deadline = time.monotonic() + HEARSAY_S
        while row.judge(found, life := self._cluster.life(row.partition)) is Verdict.LOST:
            self._cluster.check_table()
            if time.monotonic() >= deadline:
                break
            time.sleep(AGAIN_S)
        return self.ledger.judged(row, found, life)

    def _answered(self, partition: int, since: float, lost_s: float) -> None:
        """The time that a partition was lost is no pause of the store's: only a reset, or an owner, ends it."""
        seconds = time.monotonic() - since - (self._cluster.lost_s(partition) - lost_s)
        self.ledger.paused(Pause(partition, max(0.0, seconds)))

    def _check(self, nodes: Connections) -> None:
        """Read back whatever was acknowledged."""
        deadline = time.monotonic() + CHECK_S
        for row in [*self._former, *self._rows]:
            if row.acknowledged and row.key not in self.ledger.lost:
                self._check_row(nodes, row, deadline)

    def _check_row(self, nodes: Connections, row: Row, deadline: float) -> None:
        while not self._cluster.is_lost(row.partition):
            try:
                self._judged(row, self._read(nodes, row))
                return
            except (Retriable, NotFound):
                self._cluster.check_table()
                if time.monotonic() >= deadline:
                    self.ledger.unread += 1
                    return
                time.sleep(AGAIN_S)
        self.ledger.judged(row, None, self._cluster.life(row.partition))

    def _fresh(self, partition: int) -> Row:
        """A row of ours that lies in this partition."""
        while True:
            key = f"{self._name}-{next(self._numbers)}"
            if partition_of(key, GROUP.partitions) == partition:
                return Row(key, partition)


def run_clients(node: Node, count: int, stopping: Stop, say: Say, *, for_s: float | None = None) -> Ledger:
    """Be `count` clients until told to stop, or for `for_s` seconds; what became of what they wrote.

    `node` is a client of the cluster that is not entered yet. Raises what ends a client: a store that refuses what it
    has to take, or a cluster that the node is out of; NotFound if there is no store.
    """
    cluster, ending = Cluster(node), threading.Event()
    watcher = Watcher(node, ending)
    with ExitStack() as stack:
        stack.enter_context(node)
        _await_group(node, stopping)
        cluster.make_table(stopping)
        begun = time.monotonic()
        clients = [Client(f"{node.incarnation:x}-{number}", cluster, ending) for number in range(1, count + 1)]
        threads: list[Client | Watcher] = [*clients, watcher]
        stack.callback(ending.set)
        for each in threads:
            each.start()
        say(f"{count} clients write and read; Ctrl-C ends them and tells whether they lost anything")
        told = begun
        while not stopping.wait(LOOK_S) and not any(each.failure for each in threads):
            now = time.monotonic()
            if for_s is not None and now >= begun + for_s:
                break
            if now >= told + TELL_S:
                told = now
                say(_progress(clients, now - begun))
        ending.set()
        say("reading back every acknowledged write")
        for each in threads:
            each.join()
        if failure := next((each.failure for each in threads if each.failure), None):
            raise failure
        return replace(_all(clients), definitions=watcher.found)


def _await_group(node: Node, stopping: Stop) -> None:
    """Raise NotFound without it: clients that were never answered would find that nothing is lost."""
    deadline = time.monotonic() + GROUP_S
    while GROUP.name not in node.groups():
        if stopping.wait(LOOK_S) or time.monotonic() >= deadline:
            raise NotFound(
                f"There is no group {GROUP.name!r}, so there is no store to write to.",
                hint="A node of the store makes it when it starts: topolog up --demo, or topolog demo add-node.",
            )


def report(ledger: Ledger) -> str:
    """What the clients have to say in the end."""
    pause = ledger.longest
    lines = [
        f"writes         {ledger.writes} acknowledged",
        f"reads          {ledger.reads}",
        f"longest pause  {pause.seconds:.2f} s, of {_place(pause.partition)}"
        if pause.seconds
        else "longest pause  none",
    ]
    lines += _report_on_tables(ledger.definitions)
    if ledger.gone:
        places = [_place(each) for each in sorted(ledger.gone_with)]
        more = f" and {len(places) - 4} more" if len(places) > 4 else ""
        lines.append(f"gone           {ledger.gone} rows, with the last copy of {', '.join(places[:4])}{more}")
    if ledger.unread:
        lines.append(f"not answered   {ledger.unread} rows, so nobody knows what became of them")
    lines.append(f"lost           {'none while a copy lived' if not ledger.lost else f'{len(ledger.lost)} rows:'}")
    lines += [f"               {key}: {what}" for key, what in itertools.islice(ledger.lost.items(), 10)]
    return "\n".join(lines)


def _report_on_tables(found: Definitions) -> list[str]:
    if found.wrong:
        told = [f"               {row}: {what}" for row, what in itertools.islice(found.wrong.items(), 10)]
        return [f"tables         {len(found.wrong)} answers are not as defined:", *told]
    if not found.rows:
        return []
    gone = f", nothing of {len(found.gone)} that are gone" if found.gone else ""
    return [f"tables         {found.rows} rows of {len(found.tables)} as they are defined{gone}"]


def _progress(clients: Sequence[Client], seconds: float) -> str:
    ledger, hindered = _all(clients), {each for client in clients for each in client.hindered}
    parts = [f"{ledger.writes} writes", f"{ledger.reads} reads", f"longest pause {ledger.longest.seconds:.2f} s"]
    if hindered:
        parts.append(f"{len(hindered)} of {GROUP.partitions} partitions not written now")
    if ledger.lost:
        parts.append(f"LOST {len(ledger.lost)} rows")
    return f"{seconds:.0f} s: {', '.join(parts)}"


def _all(clients: Sequence[Client]) -> Ledger:
    total = Ledger()
    for client in clients:
        total.add(client.ledger)
    return total


def _place(partition: int) -> str:
    return f"{GROUP.name}/{partition}"
