"""The coordinator's core, record by record: it believes what it has read back and nothing else (K4, K6, K7)."""

import msgspec
import pytest
from tests.unit.streams.coordinator.desk import LOG_ID, STARTED, Desk
from tests.unit.streams.rules.cluster import heard, joiner

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events import terms
from topolog.events.asked import Request, RequestId
from topolog.events.codec import CODEC, Codec, Record
from topolog.events.errors import Undecodable
from topolog.events.fold import Fold, Ignored
from topolog.events.group_definition import Affinity, GroupDefinition
from topolog.events.groups import GroupAlterationRequested, GroupCreationRequested, GroupDropRequested
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Offset, Position, Slot
from topolog.events.leases import LeaseRow, NodeRow
from topolog.events.levels import FIRST_LEVEL
from topolog.events.object_types import DeclaredType
from topolog.events.single_maps import GroupMap, SinglePartitionMap
from topolog.events.stamp import decode_stamp
from topolog.events.topics import RECORD_BYTES_MAX, Topic
from topolog.streams.coordinator.core import Core, Outgoing, Role
from topolog.streams.rules import requests

OPERATIONS = (Topic.OPERATIONS, 0)


# Claiming a term (K5, K6).


def test_it_leads_when_the_first_record_of_its_term_is_its_own() -> None:
    """K5: the answer to a claim is read from the log."""
    desk = Desk.leading()
    assert desk.core.confirmed.term == 1
    assert terms.cluster(desk.core.state).coordinator == "c1"
    assert desk.core.unread == 0


def test_it_follows_on_when_another_was_quicker() -> None:
    """K5: of two claims of one term the first in the log wins; the loser goes on as a stand-by."""
    first = Desk.leading()
    second = Desk(first.log, "c2")
    second.follow()
    rival = Desk(first.log, "c3")
    rival.follow()
    second.core.claim()
    rival.core.claim()
    second.send(second.take())
    rival.send(rival.take())
    second.follow()
    rival.follow()
    assert (second.role(), rival.role()) == (Role.LEADING, Role.FOLLOWING)
    assert rival.core.unread == 0
    first.follow()
    assert first.role() is Role.DEPOSED


def test_a_claim_waits_while_records_of_the_old_term_still_land() -> None:
    """K5: they count as long as the claim has not landed, and the new leader has folded them."""
    first = Desk.leading()
    second = Desk(first.log, "c2")
    second.follow()
    second.core.claim()
    first.ask(first.update("T", id="long"))
    first.land()
    second.follow()
    assert second.role() is Role.CLAIMING
    second.land()
    assert second.role() is Role.LEADING
    assert md.type_row(second.core.state, "T") is not None


def test_its_first_record_is_folded_by_a_reader_as_by_itself() -> None:
    """K6: a leader folds ahead what others fold when they read it: one state."""
    desk = Desk.leading()
    desk.join("n1")
    desk.ask(desk.update("T", id="long"))
    desk.land()
    other = Fold()
    for entry in desk.log.entries(Topic.DECISIONS):
        other.read(entry.stamp, entry.value)
    assert other.header.position == desk.core.confirmed.position
    assert other.header.chain == desk.core.confirmed.chain
    assert other.state.hash() == desk.core.state.hash()


# What deposes it (K6).


def test_an_accepted_record_that_is_not_its_own_deposes_it() -> None:
    """K6: another coordinator leads; nothing this one has decided ahead counts."""
    first = Desk.leading()
    second = Desk(first.log, "c2")
    second.follow()
    second.core.claim()
    second.land()
    first.ask(first.update("T", id="long"))
    first.follow()
    assert first.role() is Role.DEPOSED


def test_v1_a_deposed_core_emits_nothing() -> None:
    """K6: its own term is superseded in the log, so what it has not sent it never sends."""
    desk = Desk.leading()
    desk.ask(desk.update("T", id="long"))
    assert desk.core.outbox
    desk.core.depose()
    assert desk.take() == []


def test_its_own_gap_deposes_it() -> None:
    """K3, K6: a send that was lost without a word closes its term; it must start again under a new one."""
    desk = Desk.leading()
    desk.ask(desk.update("T", id="long"))
    desk.ask(desk.update("S", id="long"))
    lost, behind = desk.take()
    desk.send([behind])
    assert desk.follow() == [Ignored.GAP]
    assert desk.role() is Role.DEPOSED
    assert lost != behind


def test_a_record_of_its_term_that_it_did_not_write_deposes_it() -> None:
    """K6: compared byte for byte, in order."""
    desk = Desk.leading()
    twin = Desk(desk.log)
    twin.core = Core("c1", 1)
    header = desk.core.confirmed
    desk.ask(desk.update("T", id="long"))
    (own,) = desk.take()
    stamp = decode_stamp(own.stamp)
    assert (stamp.term, stamp.chain) == (header.term, header.chain)
    desk.send([Outgoing(own.stamp, CODEC.encode(m.LeasesRenewed(b"")))])
    desk.follow()
    assert desk.role() is Role.DEPOSED


def test_ignored_records_of_others_do_not_disturb_it() -> None:
    """K3: late writes of those it has deposed, repeats and noise are passed over."""
    first = Desk.leading()
    first.ask(first.update("T", id="long"))
    late = first.take()
    second = Desk(first.log, "c2")
    second.follow()
    second.core.claim()
    second.land()
    second.send(late)
    second.log.put(Topic.DECISIONS, "demo", b"noise")
    second.ask(second.update("S", id="long"))
    sends = second.take()
    second.send([*sends, *sends])
    assert second.follow() == [Ignored.OLD_TERM, Ignored.NO_STAMP, Ignored.REPEAT]
    assert (second.role(), second.core.unread) == (Role.LEADING, 0)


def test_retiring_ends_the_term_and_is_over_when_the_end_is_read_back() -> None:
    """A planned hand-over: TermEnded is the last record of the term."""
    desk = Desk.leading()
    desk.ask(desk.update("T", id="long"))
    desk.core.retire()
    assert desk.role() is Role.RETIRING
    assert desk.decided()[-1] == terms.TermEnded(1)
    desk.land()
    assert desk.role() is Role.RETIRED


# Where inputs resume (K4).


def resume_of(desk: Desk) -> Offset | None:
    """Where a successor that has read the same log would read requests on."""
    successor = Desk(desk.log, "c2")
    successor.follow()
    return successor.core.resume_at()[OPERATIONS]


def test_k4_inputs_resume_behind_what_accepted_sets_have_read() -> None:
    """K4: nothing read is the oldest record kept; then what each set says it has read through."""
    desk = Desk.leading()
    assert resume_of(desk) is None
    desk.ask(desk.update("T", id="long"))
    assert resume_of(desk) is None, "decided and not yet in the log"
    desk.land()
    assert resume_of(desk) == 1
    assert desk.core.resume_at()[OPERATIONS] == 1


def test_k4_what_a_cut_set_had_read_is_read_again() -> None:
    """K4: a set that was cut by the end of its term never happened, nor did its reading."""
    desk = Desk.leading()
    desk.ask(desk.update("T", id="long"))
    desk.land()
    types = (DeclaredType(md.ObjectType("S", {}), 0),)
    desk.ask(m.JoinRequested(desk.new_id(), LOG_ID, "n1", "", msgspec.structs.replace(joiner("n1"), types=types)))
    first, _second = desk.take()
    desk.send([first])
    successor = Desk(desk.log, "c2")
    successor.follow()
    successor.core.claim()
    successor.land()
    assert successor.core.resume_at()[OPERATIONS] == 1
    assert successor.core.state.get(NodeRow, "n1") is None
    successor.core.ask(desk.log.entries(Topic.OPERATIONS)[1])
    successor.land()
    assert successor.core.state.get(NodeRow, "n1") is not None


def test_k4_a_claim_says_how_far_the_inputs_have_been_read() -> None:
    """K4: a TermStarted carries on what the accepted sets before it have read through."""
    desk = Desk.leading()
    desk.ask(desk.update("T", id="long"))
    desk.land()
    successor = Desk(desk.log, "c2")
    successor.follow()
    successor.core.claim()
    (claim,) = successor.take()
    assert [each.next_offset for each in decode_stamp(claim.stamp).inputs] == [1]


def test_k4_input_that_led_to_nothing_is_noted_with_the_next_decision() -> None:
    """K4: reading it again does no harm, so it needs no decision of its own."""
    desk = Desk.leading()
    desk.core.hear(desk.log.put(Topic.HEARTBEATS, "nobody", CODEC.encode(desk.beat(1, node="nobody"))))
    desk.core.settle()
    assert desk.core.outbox == []
    desk.core.renew()
    assert [each.topic for each in decode_stamp(desk.core.outbox[0].stamp).inputs] == [Topic.HEARTBEATS.code]


# One outcome for each request (K7).


def test_k7_a_repeat_is_decided_once() -> None:
    """K7: sent again, or read again after a take-over, it has its outcome already."""
    desk = Desk.leading()
    entry = desk.ask(desk.update("T", id="long"))
    desk.core.ask(entry)
    assert len(desk.decided()) == 1
    desk.land()
    desk.core.ask(entry)
    assert desk.decided() == []


def test_k7_other_content_under_the_same_id_has_no_effect() -> None:
    """K7: the outcome stays that of the first; its digest tells the asker that it was other content."""
    desk = Desk.leading()
    first = desk.update("T", id="long")
    desk.ask(first)
    before = desk.outcome(first)
    other = msgspec.structs.replace(desk.update("S", id="long"), id=first.id)
    desk.ask(other)
    assert len(desk.decided()) == 1
    assert md.type_row(desk.core.state, "S") is None
    assert desk.outcome(other) == before
    assert before is not None


def test_k7_a_waiting_join_is_not_decided_again() -> None:
    """K7, K4: the wait is a row; the request gets its one outcome when the row goes."""
    desk = Desk.leading()
    desk.join("n1", 1)
    waiting = desk.join("n1", 2)
    desk.core.ask(desk.log.entries(Topic.REQUESTS)[1])
    assert sum(isinstance(each, m.JoinWaiting) for each in desk.decided()) == 1
    desk.land()
    desk.hear(desk.beat(1, release=True))
    desk.land()
    outcome = desk.outcome(waiting)
    assert outcome is not None
    assert outcome.status is q.Status.GRANTED


def test_k7_a_request_whose_outcome_is_no_longer_kept_is_not_decided() -> None:
    """K19: nobody can say whether it had one, so it must not have a second effect."""
    desk = Desk.leading()
    entry = desk.ask(desk.update("T", id="long"))
    desk.ask(msgspec.structs.replace(desk.update("T", id="long"), id=RequestId("t", 65)))
    assert desk.outcome(desk.update("T")) is None
    before = len(desk.decided())
    desk.core.ask(entry)
    assert len(desk.decided()) == before


@pytest.mark.parametrize("kind", ["join", "node removal", "update", "type removal", "group"])
def test_every_kind_of_request_gives_nothing_the_second_time(kind: str) -> None:
    """The same input twice gives nothing the second time."""
    desk = Desk.leading()
    desk.join("n1")
    desk.ask(desk.update("T", id="long"))
    desk.hear(desk.beat(1))
    requests: dict[str, Request] = {
        "join": m.JoinRequested(desk.new_id(), LOG_ID, "n2", "", joiner("n2")),
        "node removal": m.NodeRemovalRequested(desk.new_id(), LOG_ID, "ada", "", "n1"),
        "update": desk.update("S", id="long"),
        "type removal": md.TypeRemovalRequested(desk.new_id(), LOG_ID, "ada", "", "T"),
        "group": GroupCreationRequested(desk.new_id(), LOG_ID, "ada", "", GroupDefinition("G")),
    }
    desk.take()
    desk.ask(requests[kind])
    assert len(desk.take()) == 1
    desk.ask(requests[kind])
    assert desk.take() == []


def test_a_request_for_another_log_is_refused() -> None:
    """FOREIGN_LOG: the topic was restored beside another cluster's log, or the asker's settings are wrong."""
    desk = Desk.leading()
    desk.ask(msgspec.structs.replace(desk.update("T", id="long"), log_id=bytes(16)))
    (refused,) = desk.decided()
    assert isinstance(refused, q.RequestRefused)
    assert (refused.code, refused.facts["expected"]) == ("FOREIGN_LOG", LOG_ID.hex())


def test_a_decision_says_what_it_answers_and_who_asked_why() -> None:
    """K12: cause, actor and reason stand in the stamp."""
    desk = Desk.leading()
    desk.ask(desk.update("T", id="long"))
    stamp = decode_stamp(desk.core.outbox[0].stamp)
    assert (stamp.cause, stamp.actor, stamp.reason) == ("operations@0 t/1", "ada", "why not")


LONG = "x" * 400_000


@pytest.mark.parametrize(
    "request_",
    [
        m.NodeRemovalRequested(RequestId("t", 1), LOG_ID, LONG, "", LONG),
        md.TypeRemovalRequested(RequestId("t", 1), LOG_ID, "", "", LONG + LONG),
        GroupCreationRequested(RequestId("t", 1), LOG_ID, "", "", GroupDefinition(LONG)),
        GroupCreationRequested(
            RequestId("t", 1), LOG_ID, "", "", GroupDefinition("G", affinity=Affinity(LONG, {LONG: ""}))
        ),
        GroupAlterationRequested(RequestId("t", 1), LOG_ID, "", "", LONG, node_filter={"a": LONG}),
        GroupDropRequested(RequestId("t", 1), LOG_ID, "", LONG, LONG),
        m.JoinRequested(RequestId("t", 1), LOG_ID, "", "", joiner(LONG)),
        md.UpdateRequested(RequestId("t", 1), LOG_ID, "", "", md.ObjectType(LONG, {}), 0),
        md.UpdateRequested(RequestId("t", 1), LOG_ID, "", "", md.ObjectType("T", {LONG: "int"}), 0),
        md.UpdateRequested(RequestId("t", 1), LOG_ID, "", "", md.ObjectType("T", {}, schemas={LONG: (LONG,)}), 0),
        md.UpdateRequested(RequestId("t", 1), LOG_ID, "", "", md.ObjectType("T", {}), 0, LONG, 1),
        md.TypeRemovalRequested(RequestId("t", 1), LOG_ID, "", "", "x" * (q.REQUEST_BYTES_MAX + 1)),
    ],
    ids=[
        "node",
        "type",
        "group",
        "filter",
        "altered",
        "dropped",
        "joiner",
        "definition",
        "field",
        "schema",
        "proposer",
        "over the limit",
    ],
)
def test_a_request_full_of_long_names_gets_a_short_refusal(request_: Request) -> None:
    """What a refusal repeats must fit a record, or one request would stop every coordinator that reads it."""
    desk = Desk.leading()
    desk.ask(request_)
    (refused,) = desk.decided()
    assert isinstance(refused, q.RequestRefused)
    (outgoing,) = desk.core.outbox
    assert len(outgoing.value) + len(outgoing.stamp) < 40_000
    assert RECORD_BYTES_MAX > 40_000


# Input that is none.


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"garbage", "no single-object marker"),
        (CODEC.encode(STARTED), "LogStarted with this id is no request"),
        (CODEC.encode(md.TypeRemovalRequested(RequestId("", 1), LOG_ID, "", "", "T")), "with this id"),
        (CODEC.encode(md.TypeRemovalRequested(RequestId("t", 0), LOG_ID, "", "", "T")), "with this id"),
        (CODEC.encode(md.TypeRemovalRequested(RequestId("t" * 201, 1), LOG_ID, "", "", "T")), "with this id"),
        (CODEC.encode(md.TypeRemovalRequested(RequestId("t\nu", 1), LOG_ID, "", "", "T")), "with this id"),
    ],
)
def test_a_request_that_is_none_is_dead_and_work_goes_on(value: bytes, reason: str) -> None:
    """It goes to `dead` with the reason, and is read through like any other."""
    desk = Desk.leading()
    desk.core.ask(desk.log.put(Topic.OPERATIONS, "t", value))
    (dead,) = desk.core.dead
    assert (dead.entry.value, reason in dead.reason) == (value, True)
    desk.ask(desk.update("T", id="long"))
    desk.land()
    assert desk.core.resume_at()[OPERATIONS] == 2
    assert md.type_row(desk.core.state, "T") is not None


def test_a_map_in_which_something_is_wrong_is_dead_and_one_that_is_late_is_not() -> None:
    """EX28, EX29: ignored, and to be seen: the exchange that its node keeps waiting is not at fault."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    applied = m.Applied(LOG_ID, desk.core.confirmed.position, desk.core.confirmed.chain)
    good = SinglePartitionMap(NodeId("n1"), Incarnation(1), None, 1, applied, 0, 1, ())
    unknown = msgspec.structs.replace(good, update_sequence=2, groups=(GroupMap("a", b"", 7, b"", b""),))
    records = (good, msgspec.structs.replace(good, update_sequence=0), unknown, good)
    late = msgspec.structs.replace(good, incarnation=Incarnation(9))
    for record in (*records, late):
        desk.core.hear_map(desk.log.put(Topic.MAPS, "n1", CODEC.encode(record)))
    assert [each.entry.offset for each in desk.core.dead] == [1, 2]
    assert [each.reason.split("(")[1].split(")")[0] for each in desk.core.dead] == ["IMPOSSIBLE_SEQUENCE", "MALFORMED"]


def test_a_heartbeat_that_is_none_is_dead() -> None:
    """Undecodable bytes and other records alike."""
    desk = Desk.leading()
    for value in (b"garbage", CODEC.encode(STARTED)):
        desk.core.hear(desk.log.put(Topic.HEARTBEATS, "n1", value))
    assert [each.reason.split(" ")[-1] for each in desk.core.dead] == ["knows.", "heartbeat"]


# What members report (K9).


def member() -> Desk:
    """A leader with one member that holds its first echo."""
    desk = Desk.leading()
    desk.join("n1")
    desk.hear(desk.beat(1))
    desk.land()
    return desk


def applied_by_n1(desk: Desk) -> int:
    return desk.core.reports.applied()[NodeId("n1")][1]


def read_by_others(desk: Desk) -> m.Applied:
    """How far a member is that has read all that is in the log."""
    reader = Fold()
    for entry in desk.log.entries(Topic.DECISIONS):
        reader.read(entry.stamp, entry.value)
    return m.Applied(LOG_ID, reader.header.position, reader.header.chain)


def test_k9_a_report_counts_if_its_hash_is_the_logs() -> None:
    """K9: position and chain hash prove that the member has folded this log."""
    desk = member()
    at = desk.core.confirmed.position
    desk.hear(desk.beat(2, at))
    assert applied_by_n1(desk) == at


def test_k9_a_report_with_another_hash_does_not_count() -> None:
    """K9: the member has folded another history; what it applied says nothing here."""
    desk = member()
    at, before = desk.core.confirmed.position, applied_by_n1(desk)
    desk.hear(desk.beat(2, applied=m.Applied(LOG_ID, at, bytes(16))))
    desk.hear(desk.beat(3, applied=m.Applied(bytes(16), at, desk.core.confirmed.chain)))
    assert applied_by_n1(desk) == before < at
    assert desk.core.reports.diverged == 2


def test_k9_a_report_ahead_of_the_read_back_counts_only_later() -> None:
    """K6: a member may have read what its coordinator has not; it is believed when that is read back."""
    desk = member()
    desk.core.renew()
    sends = desk.take()
    desk.send(sends)
    ahead, before = read_by_others(desk), applied_by_n1(desk)
    desk.hear(desk.beat(2, applied=ahead))
    assert applied_by_n1(desk) == before < ahead.position
    desk.follow()
    desk.core.settle()
    assert applied_by_n1(desk) == ahead.position


def test_nobody_has_drained_what_it_has_not_provably_applied() -> None:
    """EX14, K9: a hand-over that a node has not read is none that it could have drained, whatever it says."""
    desk = member()
    at, before = desk.core.confirmed.position, applied_by_n1(desk)
    assert before < at
    ahead = desk.beat(2, applied=m.Applied(LOG_ID, at, bytes(16)))
    desk.hear(msgspec.structs.replace(ahead, drained=Position(at + 9)))
    assert desk.core.reports.drained() == {NodeId("n1"): (1, before)}
    desk.hear(msgspec.structs.replace(desk.beat(3, at), drained=Position(before + 1)))
    assert desk.core.reports.drained() == {NodeId("n1"): (1, before + 1)}


def test_a_late_heartbeat_takes_nothing_back() -> None:
    """Sequences order heartbeats of an incarnation, whatever order they arrive in."""
    desk = member()
    at = desk.core.confirmed.position
    desk.hear(desk.beat(5, at))
    desk.hear(desk.beat(3, release=True))
    assert desk.core.reports.hearing[NodeId("n1")] == heard(5, applied=at)
    assert applied_by_n1(desk) == at


@pytest.mark.parametrize(("node", "life"), [("n7", 1), ("n1", 99)])
def test_a_heartbeat_of_nobody_present_says_nothing(node: str, life: int) -> None:
    """Neither a stranger nor a former life is heard."""
    desk = member()
    before = dict(desk.core.reports.hearing)
    desk.hear(desk.beat(9, node=node, life=life))
    assert desk.core.reports.hearing == before
    assert desk.core.outbox == []


def test_a_member_is_echoed_once_its_report_counts_though_it_says_no_more() -> None:
    """LE5: it may have read that it has joined before this coordinator reads that back."""
    desk = Desk.leading()
    desk.join("n1")
    desk.send(desk.take())
    desk.hear(desk.beat(1, applied=read_by_others(desk), fenced=True))
    assert desk.decided() == []
    desk.follow()
    desk.core.settle()
    assert desk.decided() == [m.LeasesRenewed(m.pack_renewals([(Slot(0), 1)]))]


def test_a_new_member_is_echoed_at_once_and_then_with_the_beat() -> None:
    """A member without a valid echo waits for it; the others' renewals go together."""
    desk = Desk.leading()
    desk.join("n1")
    desk.take()
    desk.hear(desk.beat(1, fenced=True))
    assert desk.decided() == [m.LeasesRenewed(m.pack_renewals([(Slot(0), 1)]))]
    desk.land()
    desk.hear(desk.beat(2))
    assert desk.decided() == []
    desk.core.renew()
    assert desk.decided() == [m.LeasesRenewed(m.pack_renewals([(Slot(0), 1)]))]


def test_a_member_is_renewed_when_it_has_applied_the_start_of_the_term() -> None:
    """A heartbeat from before may have been renewed by another leader, of another copy of the log (events/views.py)."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    desk.hear(desk.beat(1, NOWHERE, fenced=True))
    began = terms.cluster(desk.core.state).led_since
    desk.hear(desk.beat(2, applied=m.Applied(LOG_ID, began, bytes(16)), fenced=True))
    desk.core.renew()
    assert desk.decided() == [m.LeasesRenewed(b"")]
    desk.land()
    desk.hear(desk.beat(3, began, fenced=True))
    assert desk.decided() == [m.LeasesRenewed(m.pack_renewals([(Slot(0), 3)]))]


# Deadlines.


def lapse(desk: Desk) -> str:
    lease = desk.core.state.get(LeaseRow, "0")
    assert lease is not None
    return f"lease/n1/1/{lease.renewed_at}/{desk.core.agenda.gaps}"


def test_a_lease_whose_deadline_passed_ends_unless_a_heartbeat_came() -> None:
    """A heartbeat that was heard before the decision is a sign of life, however late."""
    desk = member()
    desk.core.pass_deadline(lapse(desk))
    desk.hear(desk.beat(2))
    assert [type(each) for each in desk.decided()] == [m.LeasesRenewed]
    desk.land()
    desk.core.pass_deadline(lapse(desk))
    desk.core.settle()
    assert [type(each) for each in desk.decided()] == [m.NodeLeft]
    assert decode_stamp(desk.core.outbox[0].stamp).cause.startswith("deadline lease/n1/")


def test_a_deadline_that_is_no_longer_due_is_ignored() -> None:
    """A renewal, even one that is appended and unread, makes another key."""
    desk = member()
    stale = lapse(desk)
    desk.hear(desk.beat(2))
    desk.core.renew()
    desk.core.pass_deadline(stale)
    desk.core.settle()
    assert [type(each) for each in desk.decided()] == [m.LeasesRenewed]


def test_after_a_gap_in_hearing_an_old_deadline_ends_nothing() -> None:
    """Silence must be heard to count: the wait starts again."""
    desk = member()
    stale = lapse(desk)
    desk.core.interrupt_hearing()
    desk.core.pass_deadline(stale)
    desk.core.settle()
    assert desk.decided() == []
    desk.core.pass_deadline(lapse(desk))
    desk.core.settle()
    assert [type(each) for each in desk.decided()] == [m.NodeLeft]


def test_a_new_leader_has_every_wait_before_it() -> None:
    """A take-over restarts the waits: all deadlines are new to its driver."""
    desk = member()
    desk.ask(desk.update("T", id="long"))
    desk.land()
    successor = Desk(desk.log, "c2")
    successor.follow()
    successor.core.claim()
    successor.land()
    kinds = {key.partition("/")[0] for key in successor.core.agenda.drain()}
    assert kinds == {"lease", "idle"}
    assert successor.core.agenda.waited_through == NOWHERE


def test_idle_requesters_are_forgotten_when_their_day_has_passed() -> None:
    """K19: by a decision, so that every reader forgets them at the same place."""
    desk = Desk.leading()
    desk.ask(desk.update("T", id="long"))
    desk.land()
    (key,) = [each for each in desk.core.agenda.drain() if each.startswith("idle/")]
    desk.core.pass_deadline(key)
    desk.core.settle()
    desk.land()
    assert desk.core.state.count(q.RequesterRow) == 0


# What is written is what was decided.


def test_a_decision_that_would_be_read_otherwise_ends_the_leader_and_not_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K8, K10: it folds the object and not the bytes, so it would be the only one to go on behind that record."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    forgotten = q.RequestersForgotten(["r"])  # type: ignore[arg-type]  # read back as a tuple
    monkeypatch.setattr(requests, "decide", lambda *_: [forgotten])
    state = desk.core.state.hash()
    with pytest.raises(Undecodable, match="would not be read as it was decided"):
        desk.ask(desk.update("T", id="long"))
    assert desk.role() is Role.DEPOSED
    assert desk.take() == []
    assert desk.core.state.hash() == state


def test_a_claim_is_written_at_the_level_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers may be of the oldest version that the level allows."""
    levels: list[int | None] = []
    encode = Codec.encode

    def noting(codec: Codec, record: Record, level: int | None = None) -> bytes:
        levels.append(level)
        return encode(codec, record, level)

    desk = Desk()
    desk.core.found(STARTED)
    desk.land()
    monkeypatch.setattr(Codec, "encode", noting)
    desk.core.claim()
    assert levels == [FIRST_LEVEL]
