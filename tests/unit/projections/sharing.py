"""A cluster that shares partitions out, written into a log for readers: `Shared` of the rules' tests over a Chronicle.

Nodes answer, load, drain and clear when they are told; the real rules decide, and each set is checked as it is there.
"""

from tests.unit.projections.chronicle import Chronicle
from tests.unit.streams.rules.exchanging import Answer, Shared

from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.ids import Incarnation, NodeId, Position, Term
from topolog.events.membership import Applied
from topolog.events.single_maps import split_map
from topolog.events.topics import Topic
from topolog.streams.node.copies import NodeCopies
from topolog.streams.rules.membership import Heard


class Sharing(Shared):
    """Decides by the rules, logs what was decided set by set."""

    def __init__(self, chronicle: Chronicle) -> None:
        self.chronicle = chronicle
        self.state = chronicle.fold.state
        self.position = chronicle.position
        self.disks: dict[str, dict[tuple[str, int], int]] = {}
        self.passed: set[str] = set()
        self._incarnations: dict[str, int] = {}
        self._answers: dict[NodeId, Answer] = {}
        self._heard: dict[NodeId, Heard] = {}
        self._senders: dict[str, NodeCopies] = {}

    def log(self, *events: Decision) -> Position:
        if events:
            self.position = self.chronicle.decide(*events, cause="as the test has it")
        return self.position

    def send_map(self, *nodes: str) -> None:
        """These nodes say on `maps` what they hold, as they do when they have applied all decisions so far."""
        applied = Applied(self.chronicle.log_id, self.position, self.chronicle.chain)
        for node in nodes:
            sender = self._senders.setdefault(node, NodeCopies(NodeId(node)))
            incarnation = Incarnation(self._incarnations[node])
            sender.begin(incarnation, {})
            whole = sender.next_map(self.state, incarnation, applied, {}, Term(1))
            for part in split_map(whole):
                self.chronicle.log.put(Topic.MAPS, node, CODEC.encode(part))

    def renew(self, *nodes: str) -> None:  # type: ignore[override]  # of members as they are
        self.position = self.chronicle.renew(*nodes)


def shared_out(
    chronicle: Chronicle, *nodes: str, partitions: int = 16, backups: int = 1, persistent: bool = False
) -> Sharing:
    """A cluster at rest with the group orders."""
    cluster = Sharing(chronicle)
    cluster.join(*nodes)
    cluster.renew(*nodes)
    cluster.create("orders", partitions, backups, persistent=persistent)
    cluster.rest()
    return cluster
