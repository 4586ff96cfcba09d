"""A node process that acts all the time for whatever it may, and keeps a diary of it, for tests that kill.

    python -m tests.broker.actor CLUSTER NODE BOOTSTRAP FOLDER

Obeys lines of JSON: {"do": "enter"} joins, and says "member" when it is one; {"do": "leave"} leaves in order and says
"left"; {"do": "arm", "entry": …} arms a failpoint; {"do": "hold"} makes its next hook about partitions wait for
{"do": "go"}, {"do": "mute"} only that of an exchange that asks for its map, while its heartbeats go on; {"do":
"fingerprint"} tells position and state hash. FOLDER is for all nodes.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.broker.diary import Diary, act
from tests.broker.member import say
from tests.unit.streams.node.shard import Shard

from topolog.events import failpoints
from topolog.streams.node.client import Node
from topolog.streams.node.views import PartitionView

GROUP = "orders"
HOLD_S = 0.005
PAUSE_S = 0.001
PATIENCE_S = 30.0


class Actor:
    """One life of the node after another in one process."""

    def __init__(self, cluster: str, name: str, bootstrap: str, folder: Path) -> None:
        self._cluster = cluster
        self._name = name
        self._kafka = {"bootstrap.servers": bootstrap}
        self._folder = folder
        self._diary = Diary(folder / f"{name}.{os.getpid()}.diary")
        self._may_answer, self._may_take_note = threading.Event(), threading.Event()
        self._may_answer.set()
        self._may_take_note.set()
        self._life: Life | None = None

    def obey(self, order: Mapping[str, Any]) -> None:
        match order["do"]:
            case "enter":
                self._life = Life(self._node(), self._diary, self._may_answer, self._may_take_note)
                say("member", incarnation=self._life.node.incarnation)
            case "leave":
                self.leave()
                say("left")
            case "arm":
                failpoints.arm({failpoints.VARIABLE: order["entry"]})
                say("armed")
            case "hold":
                self._may_take_note.clear()
                say("holds")
            case "mute":
                self._may_answer.clear()
                say("mute")
            case "go":
                self._go()
            case "fingerprint":
                assert self._life is not None, "it is no member"
                position, state_hash = self._life.node.fingerprint()
                say("fingerprint", position=position, hash=state_hash.hex())

    def _go(self) -> None:
        self._may_answer.set()
        self._may_take_note.set()

    def leave(self) -> None:
        self._go()
        if self._life is not None:
            self._life.end()
        self._life = None

    def _node(self) -> Node:
        folder = self._folder / self._name
        return Node(self._cluster, self._name, kafka=self._kafka, folder=folder, join_timeout_s=PATIENCE_S)


class Life:
    """The node from its joining to its end."""

    def __init__(self, node: Node, diary: Diary, may_answer: threading.Event, may_take_note: threading.Event) -> None:
        self.node = node
        self._diary = diary
        self._mine: set[int] = set()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._act)
        self._may_answer, self._may_take_note = may_answer, may_take_note
        node.on_exchange(self._answer)
        node.on_map(self._take_note)
        node.on_left(lambda reason: say("out", reason=reason.value))
        Shard(node)
        node.__enter__()
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join()
        self.node.__exit__(None, None, None)

    def _answer(self) -> None:
        self._may_answer.wait()

    def _take_note(self, found: Sequence[PartitionView]) -> None:
        self._may_take_note.wait()
        for each in found:
            (self._mine.add if each.primary == self.node.name else self._mine.discard)(each.partition)

    def _act(self) -> None:
        while not self._ending.wait(PAUSE_S):
            act(self.node, GROUP, set(self._mine), self._diary, HOLD_S)


def main(cluster: str, name: str, bootstrap: str, folder: str) -> None:
    actor = Actor(cluster, name, bootstrap, Path(folder))
    say("ready")
    for line in sys.stdin:
        actor.obey(json.loads(line))
    actor.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
