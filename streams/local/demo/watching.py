"""A reader of all tables who proves that each is answered as it is defined, while definitions change.

What he knows is his own reading of the log. Before he asks he looks: what is answered then must be shown by the
definition at that moment or by a later one, and a table that was dropped by then only if it was created again. So he
finds a row of a dropped table, a column that is committed and missing, and one that is dropped and shown. A node may
know of a change before he does: what looks wrong is looked at again for as long as he may lie behind.
"""

import itertools
import threading
import time

import msgspec

from topolog.events.errors import NotFound, Retriable, TopologError
from topolog.events.objects import ObjectStatus
from topolog.streams.local.demo.ledger import Definitions
from topolog.streams.local.demo.others import Connections, Response, path_of
from topolog.streams.local.demo.shards import GROUP
from topolog.streams.local.stopping import Stop
from topolog.streams.node.client import Node
from topolog.streams.node.objects import Table

KEYS = 25
"""The rows that are asked for have the keys 0 up to this."""

PAUSE_S = 0.02
AGAIN_S = 0.01
ANSWER_S = 1.0
HEARSAY_S = 5.0
"""How far our own reading of the log may lie behind that of a node which has answered us."""

_SHOWN, _NONE = 200, 404


class Watcher:
    """One of them, a thread. Make it before its node, a client, is entered."""

    def __init__(self, node: Node, stopping: Stop) -> None:
        self.found = Definitions()
        self.failure: TopologError | None = None
        self._node = node
        self._stopping = stopping
        self._defined: dict[str, list[Table | None]] = {}
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        node.on_table(self._on_table)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _on_table(self, name: str, table: Table | None) -> None:
        self._defined.setdefault(name, []).append(table)

    def _run(self) -> None:
        try:
            with Connections(ANSWER_S) as nodes:
                for key in itertools.cycle(map(str, range(KEYS))):
                    for name in list(self._defined):
                        if self._stopping.wait(PAUSE_S):
                            return
                        self._look_at(nodes, name, key)
        except TopologError as error:
            self.failure = error
        except BaseException as error:  # a defect of ours: nobody may take the tables for looked at
            self.failure = TopologError(f"The reader of tables failed: {error!r}.")
            raise

    def _look_at(self, nodes: Connections, name: str, key: str) -> None:
        since, table = self._since(name), self._at_rest(name)
        try:
            endpoint = self._node.route(GROUP.name, key).endpoint
            response = nodes.follow(endpoint, "GET", path_of(name, key))
        except (Retriable, NotFound):
            if self._node.failure:
                raise self._node.failure from None
            return
        if response.status == _SHOWN:
            self.found.rows += 1
            self.found.tables.add(name)
            self._judge_row(f"{name}/{key}", name, since, response)
        elif response.status == _NONE and f"There is no table {name!r}" in response.detail:
            self._judge_absence(name, table)

    def _since(self, name: str) -> int:
        """From where on in the definitions of this name one may be in use by now."""
        told = self._defined[name]
        count = len(told)  # before the look: what comes in between is later
        try:
            table = self._node.table(name)
        except NotFound:
            return count
        except Retriable:
            table = None
        if table in told and _rests(table):
            return told.index(table)
        rests = [number for number in range(count) if _rests(told[number])]
        return rests[-1] if rests else 0

    def _at_rest(self, name: str) -> Table | None:
        try:
            table = self._node.table(name)
        except (Retriable, NotFound):
            return None
        return table if _rests(table) else None

    def _judge_row(self, row: str, name: str, since: int, response: Response) -> None:
        shown = set(msgspec.json.decode(response.body, type=dict[str, object]))
        deadline = time.monotonic() + HEARSAY_S
        while not any(shown == _columns(each) for each in self._defined[name][since:] if each):
            if time.monotonic() >= deadline:
                defined = [", ".join(sorted(_columns(each))) for each in self._defined[name][since:] if each]
                self.found.wrong[row] = f"shows {', '.join(sorted(shown))}; defined is {defined or 'no such table'}"
                return
            time.sleep(AGAIN_S)

    def _judge_absence(self, name: str, table: Table | None) -> None:
        deadline = time.monotonic() + HEARSAY_S
        while table is not None and self._at_rest(name) == table:
            if time.monotonic() >= deadline:
                self.found.wrong[name] = "is committed, and a node says that there is no such table"
                return
            time.sleep(AGAIN_S)
        self.found.gone.add(name)


def _rests(table: Table | None) -> bool:
    return table is not None and table.status is ObjectStatus.USING


def _columns(table: Table) -> set[str]:
    return {each.name for each in table.columns}
