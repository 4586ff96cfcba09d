"""A cluster in which much has happened, for tests of lists: members, types, partitions, exchanges, definitions."""

from pathlib import Path

from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.sharing import Sharing, shared_out
from tests.unit.streams.rules.cluster import join_request, joiner
from tests.unit.streams.rules.exchanging import CAPABILITIES

from topolog.events.leases import NodeKind
from topolog.events.log import Entry, InMemoryLog
from topolog.events.object_types import ObjectType
from topolog.events.topics import Topic
from topolog.projections.projector import Projector


def lively(chronicle: Chronicle) -> Chronicle:
    """Partitions are shared out several times and types agreed on; it ends with an exchange that is open."""
    cluster = shared_out(chronicle, "n1", "n2", "n10")
    cluster.ask(join_request(joiner("watcher", kind=NodeKind.CLIENT, capabilities=CAPABILITIES)))
    for name in ("Customer", "Order", "Order2"):
        chronicle.propose(name, {"id": "long"})
        chronicle.accept(name, "n1", "n2", "n10")
    chronicle.propose("Customer", {"id": "long", "email": "String"}, actor="bob", reason="mails")
    chronicle.remove_type("Order")
    chronicle.reject("Order2", ObjectType("Order2", {"id": "long"}), ObjectType("Order2", {"id": "String"}))
    chronicle.lead("c2")
    for step in (_grow, _shrink, _begin_to_grow):
        cluster.position = chronicle.position
        step(cluster)
    return chronicle


def _grow(cluster: Sharing) -> None:
    cluster.join("n3", rack="r1")
    cluster.renew("n3")
    cluster.rest()
    cluster.create("parts", 7, 0)
    cluster.rest()


def _shrink(cluster: Sharing) -> None:
    cluster.leave("n2")
    cluster.rest()
    cluster.drop("parts")
    cluster.rest()


def _begin_to_grow(cluster: Sharing) -> None:
    cluster.join("n4", rack="r2")
    cluster.renew("n4")
    cluster.settle_exchange()


class Rereading:
    """A second log into which the records of the first are put one set after the other, and a projector of it."""

    def __init__(self, entries: list[Entry], folder: Path) -> None:
        self._entries = entries
        self._now_ms = 0
        self._log = InMemoryLog(lambda: self._now_ms)
        self.projector = Projector(self._log.reader(), folder, "main", wall_ms=lambda: self._now_ms)

    def go_to(self, position: int) -> None:
        """Read on until this position is known."""
        while self.projector.meta.position < position:
            entry = self._entries.pop(0)
            self._now_ms = entry.appended_at_ms
            self._log.put(Topic.DECISIONS, "main", entry.value, entry.headers)
            self.projector.step()
