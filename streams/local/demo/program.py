"""One process of the example service: join, make its tables, load rows and agree on their types, serve, leave.

A node loads its share of the rows, each into the partition that it falls into, wherever that is served. A row that is
there already stays as it is: a node that comes back must not undo what clients have written meanwhile.

What a service does with each kind of trouble is in `Loader._insist`; what it must do when the cluster has put it out
for good is to end, as `run_demo_node` does.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path

import msgspec

from topolog.events.errors import BadInput, Changing, Fenced, NotFound, NotPrimary, Refused, Retriable, TopologError
from topolog.streams.local.demo.agreement import Agreement, Say, Shape
from topolog.streams.local.demo.disk import NAME as JOURNAL
from topolog.streams.local.demo.disk import Journal
from topolog.streams.local.demo.founding import column_names, found_tables
from topolog.streams.local.demo.others import Others
from topolog.streams.local.demo.rows import Share, Table, read_tables
from topolog.streams.local.demo.serving import Listener
from topolog.streams.local.demo.shards import ATTRIBUTES, Shards
from topolog.streams.local.demo.store import Store
from topolog.streams.local.demo.tpch import tpch_rows
from topolog.streams.local.demo.types_of_rows import Document
from topolog.streams.local.stopping import Stop, Stopping, Told
from topolog.streams.node.client import Node

PASSING = ("STALE_INCARNATION", "TYPE_REMOVING", "BEING_DELETED")
"""Refusals that end by themselves: the node is joining again, type or database are on their way out."""

TRY_AGAIN_S = 0.2


class Loading(msgspec.Struct, frozen=True):
    """What a node loads: its share among `nodes` of the rows in `data`, of TPC-H's if that is None.

    A pause of `pause_s` after every `batch_rows` makes it slow enough to be watched: as it stands, 40 rows a second.
    """

    data: Path | None = None
    nodes: int = 5
    batch_rows: int = 20
    pause_s: float = 0.5


def run_demo_node(  # noqa: PLR0913 (what one process is told, all of it explained below)
    cluster: str,
    name: str,
    kafka: Mapping[str, str],
    *,
    sentinel: bool = True,
    stopping: Stopping,
    say: Say,
    folder: Path | None = None,
    loading: Loading = Loading(),  # noqa: B008 (frozen value)
    host: str = "127.0.0.1",
    may_rot: bool = False,
    telling: Callable[[Node], AbstractContextManager[object]] = nullcontext,
) -> int:
    """Be node `name` (n1, n2 …) until told to stop, and release the lease; returns 0. One beyond those that load only
    holds and serves.

    `folder` is the node's own, on a local disk: with it a node that comes back after a crash has its rows, and need not
    wait for its former lease. Raises LeftCluster when the node has been removed, Unreachable if it cannot join,
    BadInput for rows that cannot be read, MissingExtra. `host` is this machine as the other nodes reach it, `loading`
    what to load. With `may_rot` it lets its rows be damaged by whoever asks (`copies.py`). `telling` is
    entered with the node, to tell others of it.
    """
    share = share_of(name, loading.nodes)
    tables = read_tables(loading.data or tpch_rows(say), share) if share else []
    with suppress(Told), ExitStack() as stack:
        listener = stack.enter_context(Listener(host))
        node = Node(
            cluster,
            name,
            kafka=kafka,
            endpoint=listener.endpoint,
            attributes=ATTRIBUTES,
            folder=folder,
            sentinel=sentinel,
        )
        node.on_left(lambda reason: say(f"{name} is out of the cluster: {reason.value}"))
        journal = Journal(folder / JOURNAL) if folder else None
        if journal:
            stack.callback(journal.close)
        shards = Shards(node, journal=journal)
        store = Store(shards, Agreement(node, say))
        with stopping.interrupting():
            stack.enter_context(node)
            listener.serve(store, shards, may_rot=may_rot)
            stack.enter_context(shards)
        stack.enter_context(telling(node))
        say(f"{name} is a member and answers at {listener.endpoint}")
        with Others() as others:
            if share:
                Loader(node, store, others, stopping, say, loading).run(tables, share)
        while not stopping.wait(1.0):
            _check(node)
        say(f"{name} leaves")
    return 0


def share_of(name: str, nodes: int) -> Share | None:
    """n3 of 5 has the third fifth of the rows, n6 none; raises BadInput for any other name."""
    match = re.fullmatch(r"n([1-9]\d*)", name)
    if match is None:
        raise BadInput(
            f"{name!r} is no node of the demo.", hint=f"They are n1, n2 …, of which n1 to n{nodes} load rows."
        )
    number = int(match[1])
    return Share(number - 1, nodes) if number <= nodes else None


def _check(node: Node) -> None:
    """Raise what has ended this node for good, if something has."""
    if node.failure:
        raise node.failure


class Loader:
    """Walks the rows of one node, and knows what to do when a row cannot be stored now."""

    def __init__(self, node: Node, store: Store, others: Others, stopping: Stop, say: Say, loading: Loading) -> None:
        self._node = node
        self._store = store
        self._others = others
        self._stopping = stopping
        self._say = say
        self._loading = loading

    def run(self, tables: list[Table], share: Share) -> None:
        """Load every table that is there, or until told to stop. Raises what ends the node."""
        self._insist(partial(found_tables, self._node, tables))
        for table in tables:
            try:
                self._load(table, share)
            except (Refused, NotFound) as error:
                self._say(f"{table.name} from {table.path.name} is not loaded: {error}")
            if self._stopping.is_set():
                return
        self._say("all rows are loaded")

    def _load(self, table: Table, share: Share) -> None:
        stored, aside = 0, 0
        for number, document in enumerate(table.documents(share), 1):
            shape = Shape.of(table.name, table.key, table.types, document)
            try:
                self._insist(partial(self._put, table.table, shape, document))
                stored += 1
            except BadInput as error:
                aside += 1
                if aside == 1:
                    self._say(str(error))
            if self._stopping.wait(0 if number % self._loading.batch_rows else self._loading.pause_s):
                return
        self._say(f"{table.name}: {stored} rows from {table.path.name}{f', {aside} put aside' if aside else ''}")

    def _put(self, table: str, shape: Shape, document: Document) -> None:
        """Agree on what it is, and store it where it belongs."""
        agreed, columns = self._store.as_agreed(shape, document), column_names(document)
        row = msgspec.json.encode({columns[field]: value for field, value in agreed.items()})
        key = str(document[shape.key])
        try:
            self._store.put(table, key, row, if_absent=True)
        except NotPrimary as error:
            if not error.endpoint:
                raise
            self._others.put_if_absent(error.endpoint, table, key, row)

    def _insist(self, act: Callable[[], None]) -> None:
        """Act until it works or the process is told to stop; what hinders is said once, and when it is over.

        Fenced: wait, the lease comes back once the log has been read. OutcomeUnknown and the other Retriable: the same
        again. Whatever is permanent is not tried again.
        """
        hindered_by = ""
        while not self._stopping.is_set():
            _check(self._node)
            try:
                act()
            except (Retriable, Refused) as error:
                if isinstance(error, Refused) and error.code not in PASSING:
                    raise
                if error.code != hindered_by:
                    self._say(f"waiting: {error}")
                hindered_by = error.code
                self._stopping.wait(_pause_s(error))
            else:
                if hindered_by:
                    self._say("going on")
                return


def _pause_s(error: TopologError) -> float:
    return max(TRY_AGAIN_S, error.retry_after_ms / 1000) if isinstance(error, Fenced | Changing) else TRY_AGAIN_S
