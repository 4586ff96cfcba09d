"""A cluster's state made by decisions alone, without a log: what the rules are asked about."""

import itertools
from collections.abc import Iterable, Mapping

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import terms
from topolog.events.asked import Request, RequestId, RequestRef
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.fold import evolve
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Place, Position, Term
from topolog.events.leases import FENCING, NodeKind, NodeRow, lease_of
from topolog.events.levels import FIRST_LEVEL
from topolog.events.object_types import DeclaredType
from topolog.events.proof import seal_of, secret_of
from topolog.events.stamp import NO_CHAIN, chain_after
from topolog.events.state import State
from topolog.events.topics import RECORD_BYTES_MAX
from topolog.events.views import Past
from topolog.streams.rules import membership, metadata, requests
from topolog.streams.rules.membership import Heard
from topolog.streams.rules.requests import Circumstances

LOG_ID = bytes(16)
EMPTY: Mapping[str, str] = {}
ASKED_AT_MS = 1_000
LATER_MS = 2_000
_sequences = itertools.count(1)


def secret(life: int) -> bytes:
    """That of this life of any node here."""
    return secret_of(b"the key of these tests", "", Incarnation(life))


def new_id() -> RequestId:
    return RequestId("t", next(_sequences))


def joiner(
    node: str,
    incarnation: int = 1,
    *,
    kind: NodeKind = NodeKind.SERVER,
    capabilities: tuple[str, ...] = (FENCING,),
    folder: str | None = None,
    replaces: int | None = None,
    types: tuple[DeclaredType, ...] = (),
    attributes: Mapping[str, str] = EMPTY,
) -> m.Joiner:
    return m.Joiner(
        node,
        incarnation,
        kind,
        "",
        attributes,
        capabilities,
        f"disk of {node}" if folder is None else folder,
        replaces,
        types,
        seal_of(secret(incarnation)),
        b"" if replaces is None else secret(replaces),
    )


def join_request(who: m.Joiner, past: Past | None = None) -> m.JoinRequested:
    return m.JoinRequested(new_id(), LOG_ID, who.node, "", who, past)


def update(definition: md.ObjectType, based_on: int = 0, node: str | None = None, life: int = 1) -> md.UpdateRequested:
    return md.UpdateRequested(new_id(), LOG_ID, "t", "", definition, based_on, node, life if node else None)


def type_removal(name: str) -> md.TypeRemovalRequested:
    return md.TypeRemovalRequested(new_id(), LOG_ID, "t", "", name)


def node_removal(name: str) -> m.NodeRemovalRequested:
    return m.NodeRemovalRequested(new_id(), LOG_ID, "t", "", name)


def heard(
    sequence: int, incarnation: int = 1, *, applied: int = 0, fenced: bool = False, release: bool = False
) -> Heard:
    return Heard(Incarnation(incarnation), sequence, Position(applied), fenced, release, LATER_MS)


class Cluster:
    """Decides and folds; `position` is that of the last decision, `chain` the hash behind it, `newest_level` what the
    leader's build knows."""

    newest_level = FIRST_LEVEL

    def __init__(self, *servers: str) -> None:
        self.state = State()
        self.position = NOWHERE
        self.chain = NO_CHAIN
        self.log(terms.LogStarted(LOG_ID, "demo", 2_000, 500, 200, FIRST_LEVEL))
        for name in servers:
            self.ask(join_request(joiner(name)))

    def log(self, *events: Decision) -> Position:
        """Fold decisions, as a leader does when it has made them."""
        for event in events:
            value = CODEC.encode(event)
            assert len(value) <= RECORD_BYTES_MAX
            self.position, self.chain = Position(self.position + 1), chain_after(self.chain, b"", value)
            evolve(self.state, event, Place(self.position, self.chain, Term(1)))
        return self.position

    def decide(self, request: Request) -> list[Decision]:
        """What the rules answer; nothing is folded. Raises Refused."""
        ref = RequestRef(request.id.requester, request.id.sequence, bytes(8))
        given = Circumstances(ASKED_AT_MS, self.position, newest_level=self.newest_level)
        return requests.decide(self.state, request, ref, given)

    def ask(self, request: Request) -> list[Decision]:
        decided = self.decide(request)
        self.log(*decided)
        return decided

    def propose(self, name: str, *fields: str) -> Position:
        """Propose fields of type long; gives the position of the proposal."""
        self.ask(update(md.ObjectType(name, dict.fromkeys(fields, "long"))))
        return self.position

    def renew(self, **sequences: int) -> None:
        """Echo these sequences of first incarnations."""
        hearing = {NodeId(node): heard(sequence) for node, sequence in sequences.items()}
        self.log(membership.renew(self.state, hearing, NOWHERE))

    def settle_membership(self, hearing: membership.Hearing, lapsed: Iterable[str] = ()) -> list[Decision]:
        """Decide and fold until nothing more follows."""
        lapsed = set(lapsed)
        followed: list[Decision] = []
        while decided := membership.settle(self.state, hearing, lapsed, end=self.position, joins=metadata.declare):
            followed += decided
            self.log(*decided)
        return followed

    def lapse_of(self, node: str) -> str:
        """The key of the lease's deadline."""
        row = self.node(node)
        (deadline,) = membership.deadlines(self.state, lease_of(self.state, row), 0)
        return deadline.key

    def node(self, name: str) -> NodeRow:
        row = self.state.get(NodeRow, name)
        assert row is not None
        return row

    def type(self, name: str) -> md.TypeRow:
        row = md.type_row(self.state, name)
        assert row is not None
        return row
