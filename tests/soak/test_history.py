"""The checker rejects every illegal history it is there for, and accepts the legal one each of them is made of."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.soak.history import Decided, History, Kill, Rule
from tests.soak.judge import judge
from tests.soak.operations import AnyLine, Asked, Ended, Held, Read, Sent, Stood, Told, fields_crc

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events.asked import RequestId, RequestRef
from topolog.events.evidence import Evidence
from topolog.events.ids import Incarnation, NodeId, Position, Slot, TopologyVersion, Version
from topolog.events.leases import LeaveReason, NodeKind

FENCE_MS, MARGIN_MS = 2_000, 500
S = 1_000_000_000
FIELDS: Mapping[int, Mapping[str, str]] = {1: {"id": "long"}, 2: {"id": "long", "name": "String"}}


def ref(text: str, digest: bytes = b"d") -> RequestRef:
    requester, _, sequence = text.rpartition("/")
    return RequestRef(requester, int(sequence), digest)


def decided(position: int, at_s: float, event: Any) -> Decided:
    return Decided(position, int(at_s * S), int(at_s * 1000), event)


def joined(request: str, node: str, incarnation: int, slot: int) -> m.NodeJoined:
    joiner = m.Joiner(node, incarnation, NodeKind.SERVER, "", {}, ())
    return m.NodeJoined(ref(request), joiner, Slot(slot), TopologyVersion(1, 0))


def proposed(request: str, version: int) -> md.MetadataUpdateProposed:
    return md.MetadataUpdateProposed(ref(request), "T", Version(version), md.ObjectType("T", FIELDS[version]))


def accepted(version: int) -> md.MetadataUpdateAccepted:
    return md.MetadataUpdateAccepted("T", Version(version), Evidence())


def left(node: str, incarnation: int, reason: LeaveReason) -> m.NodeLeft:
    return m.NodeLeft(NodeId(node), Incarnation(incarnation), reason, 1, Position(0), TopologyVersion(2, 0))


def asks(request: str, fields: Mapping[str, str]) -> md.UpdateRequested:
    return md.UpdateRequested(RequestId.parse(request), b"", "", "", md.ObjectType("T", fields), 0)


REFUSAL = md.MetadataUpdateRejected(
    ref("a/3"), "T", "METADATA_CONFLICT", "ME8", "no", {}, md.ObjectType("T", FIELDS[2]), md.ObjectType("T", {})
)

DECIDED = (
    decided(2, 1.0, joined("ja/1", "a", 11, 0)),
    decided(3, 1.1, joined("jb/1", "b", 12, 1)),
    decided(4, 2.0, m.LeasesRenewed(m.pack_renewals([(Slot(0), 1), (Slot(1), 1)]))),
    decided(5, 3.0, proposed("a/1", 1)),
    decided(6, 3.1, accepted(1)),
    decided(7, 4.0, proposed("b/1", 2)),
    decided(8, 4.2, accepted(2)),
    decided(9, 4.3, REFUSAL),
    decided(10, 4.6, left("b", 12, LeaveReason.FENCED)),
    decided(11, 6.0, q.RequestUnchanged(ref("a/9"), "type T", 2)),
)

LINES: tuple[AnyLine, ...] = (
    Asked("a", 1, int(2.9 * S), operation=1, type_name="T", fields={"id": "long"}),
    Sent("a", 1, int(2.91 * S), operation=1, request="a/1"),
    Told("a", 1, int(3.2 * S), operation=1, request="a/1", status="GRANTED", version=1, position=5, accepted=True),
    Asked("b", 2, int(3.9 * S), operation=1, type_name="T", fields={"name": "String"}),
    Sent("b", 2, int(3.91 * S), operation=1, request="b/1"),  # nobody ever told b: it is out
    Asked("a", 1, int(4.1 * S), operation=2, type_name="T", fields={"name": "long"}),
    Sent("a", 1, int(4.11 * S), operation=2, request="a/3"),
    Told("a", 1, int(4.4 * S), operation=2, request="a/3", status="REFUSED", code="METADATA_CONFLICT"),
    Held("a", 1, int(3.5 * S), incarnation=11, position=6),
    Held("b", 2, int(3.9 * S), incarnation=12, position=6),
    Held("a", 1, int(7.0 * S), incarnation=11, position=10),
    Read("a", 1, int(3.3 * S), 11, int(3.4 * S), "T", 1, fields_crc(FIELDS[1].items())),
    Read("a", 1, int(4.25 * S), 11, int(4.3 * S), "T", 2, fields_crc(FIELDS[2].items())),
    Stood("a", 1, int(5 * S), position=10, state_hash="aa"),
    Asked("a", 1, int(5.5 * S), operation=3, type_name="T", fields={"name": "String"}),
    Sent("a", 1, int(5.51 * S), operation=3, request=None),
    Told("a", 1, int(5.52 * S), operation=3, request=None, status="UNCHANGED", version=2, position=7, accepted=True),
    Asked("a", 1, int(5.9 * S), operation=4, type_name="T", fields={"id": "long"}),
    Sent("a", 1, int(5.91 * S), operation=4, request="a/9"),
    Told("a", 1, int(6.1 * S), operation=4, request="a/9", status="UNCHANGED", version=2, position=11, accepted=True),
)

LEGAL = History(
    fence_ms=FENCE_MS,
    margin_ms=MARGIN_MS,
    decided=DECIDED,
    requests={
        "ja/1": asks("ja/1", {}),
        "jb/1": asks("jb/1", {}),
        "a/1": asks("a/1", {"id": "long"}),
        "b/1": asks("b/1", {"name": "String"}),
        "a/3": asks("a/3", {"name": "long"}),
        "a/9": asks("a/9", {"id": "long"}),
    },
    digests=dict.fromkeys(("ja/1", "jb/1", "a/1", "b/1", "a/3", "a/9"), b"d"),
    state_hashes={10: "aa", 11: "bb"},
    lines=LINES,
)


def without(*positions: int) -> tuple[Decided, ...]:
    return tuple(each for each in DECIDED if each.position not in positions)


def changed(position: int, **changes: Any) -> tuple[Decided, ...]:
    return tuple(msgspec.structs.replace(each, **changes) if each.position == position else each for each in DECIDED)


def instead(line: int, **changes: Any) -> tuple[AnyLine, ...]:
    return (*LINES[:line], msgspec.structs.replace(LINES[line], **changes), *LINES[line + 1 :])


def test_a_legal_history_is_accepted() -> None:
    """An answer nobody heard, a refusal and a node that was put out are all legal."""
    assert judge(LEGAL, at_rest=True) == []


LATE_READ = Read("b", 2, int(9 * S), 11, int(9.1 * S), "T", 2, fields_crc(FIELDS[2].items()))

DIED = changed(10, appended_ms=4_000, event=left("b", 12, LeaveReason.DIED))

ILLEGAL: dict[str, tuple[Rule, dict[str, Any]]] = {
    "a second outcome": (Rule.ONE_OUTCOME, {"decided": (*DECIDED, decided(12, 6.5, proposed("a/1", 1)))}),
    "an outcome of nothing": (Rule.ONE_OUTCOME, {"digests": {**LEGAL.digests, "b/1": None}}),
    "an outcome of another content": (Rule.ONE_OUTCOME, {"digests": {**LEGAL.digests, "b/1": b"e"}}),
    "a success that is lost": (Rule.TOLD_THE_TRUTH, {"decided": without(5)}),
    "a refusal that was granted": (Rule.TOLD_THE_TRUTH, {"lines": instead(2, status="REFUSED", code="X")}),
    "a success that was refused": (Rule.TOLD_THE_TRUTH, {"lines": instead(7, status="GRANTED", code="")}),
    "another version than was given": (Rule.TOLD_THE_TRUTH, {"lines": instead(2, version=2)}),
    "another place than it has": (Rule.TOLD_THE_TRUTH, {"lines": instead(2, position=4)}),
    "an acceptance that is not there": (Rule.TOLD_THE_TRUTH, {"decided": without(6, 8)}),
    "an effect before what was known": (Rule.REAL_TIME, {"lines": instead(2, at_ns=int(2.95 * S), position=7)}),
    "a read behind an acceptance": (Rule.FRESH_READ, {"lines": instead(12, version=1)}),
    "a read of nothing behind it": (Rule.FRESH_READ, {"lines": instead(11, version=0, fields_crc=0)}),
    "a read behind what another read": (
        Rule.FRESH_READ,
        {
            "lines": (
                *instead(12, version=1),
                Read("b", 2, 4 * S, 12, int(4.1 * S), "T", 2, fields_crc(FIELDS[2].items())),
            )
        },
    ),
    "a read of a version that is not": (Rule.TRUE_READ, {"lines": instead(12, version=3)}),
    "a read of another content": (Rule.TRUE_READ, {"lines": instead(12, fields_crc=7)}),
    "a read of what was never accepted": (Rule.TRUE_READ, {"decided": without(8)}),
    "a read outside": (Rule.MEMBER_LEASE, {"lines": (*LINES, msgspec.structs.replace(LATE_READ, incarnation=12))}),
    "a read of nobody": (Rule.MEMBER_LEASE, {"lines": (*LINES, msgspec.structs.replace(LATE_READ, incarnation=99))}),
    "a read in another's name": (Rule.MEMBER_LEASE, {"lines": (*LINES, LATE_READ)}),
    "nothing to do for what is nowhere": (
        Rule.VERSIONS,
        {"requests": {**LEGAL.requests, "a/9": asks("a/9", {"brand_new": "int"})}},
    ),
    "nothing to do for an old version": (
        Rule.VERSIONS,
        {"decided": changed(11, event=q.RequestUnchanged(ref("a/9"), "type T", 1)), "lines": instead(19, version=1)},
    ),
    "nothing to send for a version that is not": (Rule.TOLD_THE_TRUTH, {"lines": instead(16, version=77)}),
    "nothing to send for another place": (Rule.TOLD_THE_TRUTH, {"lines": instead(16, position=6)}),
    "nothing to send for what is nowhere": (Rule.TOLD_THE_TRUTH, {"lines": instead(14, fields={"brand_new": "int"})}),
    "nothing to send and not accepted": (Rule.TOLD_THE_TRUTH, {"decided": without(8), "lines": LINES[:17]}),
    "a lease older than the fence": (Rule.FRESH_LEASE, {"lines": instead(10, position=9)}),
    "an acceptance that a holder lacks": (Rule.ACCEPTED, {"lines": instead(8, position=4)}),
    "a lease outside": (Rule.MEMBER_LEASE, {"lines": instead(9, at_ns=int(4.7 * S), position=10)}),
    "a lease of nobody": (Rule.MEMBER_LEASE, {"lines": instead(9, incarnation=99)}),
    "a leaving before the lease is over": (Rule.LEGAL_LEAVING, {"decided": changed(10, appended_ms=4_400)}),
    "a death of the living": (
        Rule.LEGAL_LEAVING,
        {"decided": DIED, "kills": (Kill("a", int(4.4 * S)),), "certified_ms": {12: 3_900}},
    ),
    "a release after the leaving": (
        Rule.LEGAL_LEAVING,
        {"decided": changed(10, appended_ms=4_450), "released_ms": {12: 5_000}},
    ),
    "a death without a certificate": (Rule.LEGAL_LEAVING, {"decided": DIED, "kills": (Kill("b", int(4.5 * S)),)}),
    "a death certified after the leaving": (
        Rule.LEGAL_LEAVING,
        {"decided": DIED, "kills": (Kill("b", int(4.5 * S)),), "certified_ms": {12: 4_200}},
    ),
    "two lives at once": (
        Rule.ONE_LIFE,
        {
            "decided": (*DECIDED, decided(12, 6.5, joined("ja/2", "a", 99, 2))),
            "requests": {**LEGAL.requests, "ja/2": asks("ja/2", {})},
            "digests": {**LEGAL.digests, "ja/2": b"d"},
        },
    ),
    "a leaving of nobody": (
        Rule.ONE_LIFE,
        {"decided": (*DECIDED, decided(12, 9, left("b", 12, LeaveReason.FENCED)))},
    ),
    "an acceptance said again": (Rule.ACCEPTANCES, {"decided": (*DECIDED, decided(12, 6.5, accepted(2)))}),
    "an acceptance backwards": (Rule.ACCEPTANCES, {"decided": (*DECIDED, decided(12, 6.5, accepted(1)))}),
    "an acceptance of nothing": (Rule.ACCEPTANCES, {"decided": (*DECIDED, decided(12, 6.5, accepted(3)))}),
    "a refusal without a reason": (
        Rule.REFUSALS,
        {"requests": {**LEGAL.requests, "a/3": asks("a/3", {"id": "long"})}},
    ),
    "a version left out": (Rule.VERSIONS, {"decided": without(5), "lines": LINES[3:]}),
    "a content nobody asked for": (
        Rule.VERSIONS,
        {"requests": {**LEGAL.requests, "b/1": asks("b/1", {"other": "String"})}},
    ),
    "another state": (Rule.ONE_FOLD, {"lines": instead(13, state_hash="bb")}),
    "a state inside a set": (Rule.ONE_FOLD, {"lines": instead(13, position=9)}),
    "a state behind the log": (Rule.ONE_FOLD, {"lines": instead(13, position=12)}),
    "an end for good": (Rule.NO_END, {"lines": (*LINES, Ended("a", 1, 0, code="log_diverged", message="x"))}),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_history_is_rejected(name: str) -> None:
    """Each is the legal one with one thing changed, and the rule that it breaks is among those named."""
    rule, changes = ILLEGAL[name]
    found = judge(msgspec.structs.replace(LEGAL, **changes), at_rest=True)
    assert rule in {each.rule for each in found}, found


def test_what_is_under_way_may_lack_its_outcome() -> None:
    """Its producer may have held it back until after the cluster came to rest."""
    waiting = msgspec.structs.replace(LEGAL, requests={**LEGAL.requests, "x/1": asks("x/1", {})})
    assert judge(waiting, at_rest=True) == []


def test_a_node_that_said_so_may_be_out_at_once() -> None:
    """A release that came before it ends a lease early."""
    early = changed(10, appended_ms=4_000)
    assert judge(msgspec.structs.replace(LEGAL, decided=early, released_ms={12: 3_990}), at_rest=True) == []


def test_a_node_that_is_dead_may_be_out_at_once() -> None:
    """A certified death ends a lease early, if the process was killed in that life."""
    kills = (Kill("b", int(4.4 * S)),)
    died = msgspec.structs.replace(LEGAL, decided=DIED, certified_ms={12: 3_990}, kills=kills)
    assert judge(died, at_rest=True) == []


def test_a_node_that_gave_up_while_it_joined_may_be_out_at_once() -> None:
    """It renounces its incarnation by a certificate; if the join was decided first, nobody was killed.

    The same certificate about an incarnation that has held a lease is a lie.
    """
    renounced = msgspec.structs.replace(LEGAL, decided=DIED, certified_ms={12: 3_990})
    silent = tuple(line for line in LINES if not (isinstance(line, Held) and line.client == "b"))
    assert judge(msgspec.structs.replace(renounced, lines=silent), at_rest=True) == []
    assert {each.rule for each in judge(renounced, at_rest=True)} == {Rule.LEGAL_LEAVING}


def test_a_read_during_which_the_incarnation_changed_is_judged_by_what_it_shows() -> None:
    """Nobody can say whose lease it was, so only its content and its freshness are judged."""
    read = msgspec.structs.replace(LATE_READ, incarnation=None)
    assert judge(msgspec.structs.replace(LEGAL, lines=(*LINES, read)), at_rest=True) == []


def test_every_rule_has_a_history_that_breaks_it() -> None:
    """All but the two that no history can break: the auditor finds the one, the round itself the other."""
    assert {rule for rule, _ in ILLEGAL.values()} == set(Rule) - {Rule.ONE_LOG, Rule.REST}
