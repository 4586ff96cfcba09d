"""A node process of the example store that keeps its rows on disk, for tests that kill everybody at once.

    python -m tests.broker.keeper CLUSTER NODE BOOTSTRAP FOLDER

It holds three groups: `rows`, persistent, by the example store's own replicas over HTTP; `safe` and `scratch`, of which
nothing outlives its process. Says "member" when it is one. Then it writes row after row wherever it acts, and each that
was acknowledged it notes in FOLDER/NODE.stored. Obeys {"do": "rows"}: what it holds of each partition that it owns;
{"do": "read", "key": …}; {"do": "quiet"}: write no more.
"""

import itertools
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from tests.broker.member import say
from tests.unit.streams.node.shard import Shard

from topolog.events import failpoints
from topolog.events.errors import TopologError
from topolog.events.group_definition import GroupDefinition, LossPolicy
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo.agreement import Agreement
from topolog.streams.local.demo.disk import NAME, Journal
from topolog.streams.local.demo.serving import Listener
from topolog.streams.local.demo.shards import Shards
from topolog.streams.local.demo.store import Store
from topolog.streams.node.client import Node
from topolog.streams.node.views import PartitionView

ROWS = GroupDefinition("rows", partitions=16, backups=1, persistent=True)
SAFE = GroupDefinition("safe", partitions=8, backups=1)
SCRATCH = GroupDefinition("scratch", partitions=8, backups=1, loss_policy=LossPolicy.IGNORE)
PATIENCE_S = 30.0
PAUSE_S = 0.02


class KeptShards(Shards):
    """The example store's side of a node, which says what it has."""

    def rows(self) -> dict[int, dict[str, str]]:
        """What is in each copy that this node owns, by the log and as it says itself."""
        with self._lock:
            return {
                number: {key: (cell.value or b"").decode() for key, cell in partition.content.rows()}
                for (_, number), partition in self._replica.partitions()
                if partition.is_whole and partition.state is PartitionState.OWNING
            }


class Forgetful(Shard):
    """Holds the other groups: nothing, which is loaded and cleared at once."""

    def _finish(self, found: Sequence[PartitionView]) -> None:
        super()._finish([each for each in found if each.group != ROWS.name])


class Writer:
    """Writes rows wherever this node acts, and notes those that were acknowledged."""

    def __init__(self, name: str, shards: KeptShards, path: Path) -> None:
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


def obey(shards: KeptShards, writer: Writer, order: Mapping[str, Any]) -> None:
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
    failpoints.arm(os.environ)
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
        shards = KeptShards(node, ROWS, Journal(own / NAME))
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
