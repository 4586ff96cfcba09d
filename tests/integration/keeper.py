"""A node process of the example store that keeps its rows on disk, for tests that kill everybody at once.

    python -m tests.integration.keeper CLUSTER NODE BOOTSTRAP FOLDER

It holds three groups: `rows`, persistent, by the example store's own replicas over HTTP; `safe` and `scratch`, of which
nothing outlives its process. Says "member" when it is one. Then it writes row after row wherever it acts, and each that
was acknowledged it notes in FOLDER/NODE.stored. Obeys {"do": "rows"}: what it holds of each partition that it owns;
{"do": "read", "key": …}; {"do": "quiet"}: write no more.

The disk is a journal: each change of a row, and which content each partition has when it is whole. Nothing is sent or
answered before what it rests on is written; the kernel keeps that whatever becomes of the process.
"""

import itertools
import json
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.integration.member import say
from tests.streams.node.shard import Shard

from topolog.events.errors import TopologError
from topolog.events.group_definition import GroupDefinition, LossPolicy
from topolog.events.ids import NodeId, Position
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo.agreement import Agreement
from topolog.streams.local.demo.replication.content import Content
from topolog.streams.local.demo.replication.messages import Cell, Output, Version
from topolog.streams.local.demo.replication.replica import Replica
from topolog.streams.local.demo.serving import Listener
from topolog.streams.local.demo.shards import Shards
from topolog.streams.local.demo.store import Store
from topolog.streams.node.client import Node
from topolog.streams.node.copies import Disk
from topolog.streams.node.views import PartitionView

ROWS = GroupDefinition("rows", partitions=16, backups=1, persistent=True)
SAFE = GroupDefinition("safe", partitions=8, backups=1)
SCRATCH = GroupDefinition("scratch", partitions=8, backups=1, loss_policy=LossPolicy.IGNORE)
PATIENCE_S = 30.0
PAUSE_S = 0.005


class Put(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A row of one content."""

    content: int
    key: str
    token: int
    number: int
    value: bytes | None


class Whole(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """From here on this content is a whole copy of the partition; None: nothing is."""

    partition: int
    group_number: int
    content: int | None


class Journal:
    """One file of lines, appended to; nothing in it is for sure before `flush`. What was cut was never written."""

    def __init__(self, path: Path) -> None:
        self.contents: dict[int, dict[str, Cell]] = {}
        self.whole: dict[int, Whole] = {}
        decoder = msgspec.json.Decoder(Put | Whole)
        for line in path.read_bytes().splitlines() if path.exists() else []:
            with suppress(msgspec.DecodeError):
                self._take(decoder.decode(line))
        named = [*self.contents, *(each.content or 0 for each in self.whole.values())]
        self._numbers = itertools.count(max(named, default=0) + 1)
        self._file = path.open("ab")
        self._file.write(b"\n")

    def new_content(self) -> "DiskContent":
        return DiskContent(self, next(self._numbers))

    def write(self, entry: Put | Whole) -> None:
        self._file.write(msgspec.json.encode(entry) + b"\n")

    def flush(self) -> None:
        self._file.flush()

    def _take(self, entry: Put | Whole) -> None:
        match entry:
            case Put():
                version = Version(Position(entry.token), entry.number)
                self.contents.setdefault(entry.content, {})[entry.key] = Cell(version, entry.value)
            case Whole():
                self.whole[entry.partition] = entry


class DiskContent(Content):
    """Rows that are in the journal too. There are no deletions here: markers are not."""

    def __init__(self, journal: Journal, number: int) -> None:
        super().__init__()
        self.number = number
        self._journal = journal

    def put(self, key: str, cell: Cell) -> None:
        before = self.get(key)
        super().put(key, cell)
        if self.get(key) is not before:
            self._journal.write(Put(self.number, key, cell.version.token, cell.version.number, cell.value))


class DiskReplica(Replica):
    """The example store's copies, on disk."""

    def __init__(self, node: str, journal: Journal) -> None:
        super().__init__(NodeId(node))
        self._journal = journal
        self._written: dict[int, Whole] = {}

    def come_back(self) -> None:
        """Take up what the former process had; the log is read, and this process has not asked to join."""
        found, self._journal.whole = self._journal.whole, {}
        for number, whole in found.items():
            partition = self.partition((ROWS.name, number))
            if whole.content is None or partition is None or partition.view is None:
                continue
            if partition.view.group_number != whole.group_number:
                continue
            for key, cell in self._journal.contents.get(whole.content, {}).items():
                partition.content.put(key, cell)
            partition.is_whole = True

    def write_down(self) -> None:
        """Which content is a whole copy now; then all of it is in the kernel's hands."""
        for (_, number), partition in self.partitions():
            assert isinstance(partition.content, DiskContent)
            content = partition.content.number if partition.is_whole else None
            whole = Whole(number, partition.view.group_number if partition.view else 0, content)
            if self._written.get(number, Whole(number, whole.group_number, None)) != whole:
                self._written[number] = whole
                self._journal.write(whole)
        self._journal.flush()

    def _new_content(self) -> Content:
        return self._journal.new_content()


class DiskShards(Shards):
    """The example store's side of a node, whose replica is on disk."""

    def __init__(self, node: Node, journal: Journal) -> None:
        super().__init__(node, ROWS)
        self._replica = self.disk = DiskReplica(node.name, journal)

    def rows(self) -> dict[int, dict[str, str]]:
        """What is in each copy that this node owns, by the log and as it says itself."""
        with self._lock:
            return {
                number: {key: (cell.value or b"").decode() for key, cell in partition.content.rows()}
                for (_, number), partition in self.disk.partitions()
                if partition.is_whole and partition.state is PartitionState.OWNING
            }

    def _whole(self) -> Disk:
        with self._lock:
            self.disk.come_back()
            self.disk.write_down()
        return super()._whole()

    def _perform(self, outputs: Iterable[Output]) -> None:
        wanted = list(outputs)
        self.disk.write_down()
        super()._perform(wanted)


class Forgetful(Shard):
    """Holds the other groups: nothing, which is loaded and cleared at once."""

    def _finish(self, found: Sequence[PartitionView]) -> None:
        super()._finish([each for each in found if each.group != ROWS.name])


class Writer:
    """Writes rows wherever this node acts, and notes those that were acknowledged."""

    def __init__(self, name: str, shards: DiskShards, path: Path) -> None:
        self._name = name
        self._shards = shards
        self._path = path
        self._is_quiet = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_quiet.set()
        self._thread.join()

    def _run(self) -> None:
        with self._path.open("a") as noted:
            for number in itertools.count():
                if self._is_quiet.wait(PAUSE_S):
                    return
                key, value = f"{self._name}-{os.getpid()}-{number}", str(number)
                with suppress(TopologError):
                    self._shards.write(key, value.encode())
                    noted.write(f"{key} {value}\n")
                    noted.flush()


def obey(shards: DiskShards, writer: Writer, order: Mapping[str, Any]) -> None:
    match order["do"]:
        case "quiet":
            writer.stop()
            say("quiet")
        case "rows":
            say("rows", rows=shards.rows())
        case "read":
            try:
                row = shards.read(order["key"])
                say("read", value=row.decode() if row else None)
            except TopologError as error:
                say("read", code=error.code)


def main(cluster: str, name: str, bootstrap: str, folder: str) -> None:
    own = Path(folder) / name
    own.mkdir(exist_ok=True)
    with ExitStack() as stack:
        listener = stack.enter_context(Listener())
        node = Node(
            cluster,
            name,
            kafka={"bootstrap.servers": bootstrap},
            endpoint=listener.endpoint,
            folder=own,
            join_timeout_s=PATIENCE_S,
        )
        shards = DiskShards(node, Journal(own / "journal"))
        Forgetful(node)
        stack.enter_context(node)
        node.create_group(SAFE)
        node.create_group(SCRATCH)
        listener.serve(Store(shards, Agreement(node, lambda _: None)), shards)
        stack.enter_context(shards)
        writer = Writer(name, shards, Path(folder) / f"{name}.stored")
        say("member")
        for line in sys.stdin:
            obey(shards, writer, json.loads(line))
        writer.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
