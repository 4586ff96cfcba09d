"""Rules of membership: who joins, whose lease is renewed, who is out and why (docs/design/leases.md)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.rules.cluster import ASKED_AT_MS, Cluster, heard, join_request, joiner, node_removal, secret

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events import terms
from topolog.events.asked import SUBJECT_CHARS_MAX, Request
from topolog.events.codec import CODEC
from topolog.events.errors import Refused
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position, TopologyVersion
from topolog.events.leases import LeaveReason, NodeKind, Standing, lease_of, members
from topolog.events.object_types import DeclaredType
from topolog.events.topics import RECORD_BYTES_MAX
from topolog.streams.rules import membership, requesters

N1 = NodeId("n1")
ALIVE = {N1: heard(9, applied=99)}


def view(cluster: Cluster) -> TopologyVersion:
    return terms.cluster(cluster.state).topology_version


def refusal(cluster: Cluster, request: Request) -> Refused:
    """The refusal of a request, which changes nothing."""
    before = cluster.state.hash()
    with pytest.raises(Refused) as raised:
        cluster.decide(request)
    assert cluster.state.hash() == before, "an illegal request changes nothing"
    return raised.value


def waiting_cluster() -> tuple[Cluster, m.JoinRequested]:
    """n1 is a member, and a second process of n1 waits for its lease."""
    cluster, request = Cluster("n1"), join_request(joiner("n1", 2))
    cluster.ask(request)
    return cluster, request


def outcome(cluster: Cluster, request: Request) -> q.OutcomeRow | None:
    return q.outcome_of(cluster.state, request.id)


# Joining.


def test_a_server_that_joins_makes_a_new_view_and_holds_no_lease_yet() -> None:
    """A node starts fenced: sequence 0 is no renewal."""
    cluster = Cluster("n1", "n2")
    row = cluster.node("n2")
    assert view(cluster) == TopologyVersion(2, 0)
    assert (row.standing, row.slot, row.joined_at) == (Standing.MEMBER, 1, cluster.position)
    assert lease_of(cluster.state, row).sequence == 0


def test_a_client_raises_nothing() -> None:
    """Joins and leaves of clients make no new view."""
    cluster = Cluster("n1")
    cluster.ask(join_request(joiner("web", kind=NodeKind.CLIENT)))
    assert view(cluster) == TopologyVersion(1, 0)
    cluster.settle_membership({NodeId("web"): heard(1, release=True)})
    assert view(cluster) == TopologyVersion(1, 0)


def test_joining_again_as_the_same_incarnation_is_unchanged() -> None:
    """The same process under another request: it is a member already."""
    (answer,) = Cluster("n1").ask(join_request(joiner("n1")))
    assert isinstance(answer, q.RequestUnchanged)


@pytest.mark.parametrize(
    "name",
    ["", " ", "a/b", "n" * 201, "a\nn2", "a n2", "a\xa0n2", "\x1b]0;evil\x07", "n\x9b2J", "n\u202e2", "n\u200b2"],
)
def test_a_bad_name_is_no_node(name: str) -> None:
    """A node's id stands in keys and lines: not empty, no slash, not endless; one word, of what can be seen, or a list
    of names has one more than there are nodes (LE20)."""
    found = refusal(Cluster(), join_request(joiner(name)))
    assert found.code == "BAD_NODE"
    assert found.message.isprintable()


@pytest.mark.parametrize("name", ["n1", "Nœud-é", "节点1", "a.b:9092", "=n"])
def test_what_can_be_seen_is_a_name_in_any_writing(name: str) -> None:
    assert isinstance(Cluster().ask(join_request(joiner(name)))[0], m.NodeJoined)


@pytest.mark.parametrize(
    "attributes", [{"": "x"}, {"a b": "x"}, {"rack\n": "x"}, {"rack": "r1\x1b[2J"}, {"rack": "\u202er1"}]
)
def test_what_a_node_says_of_itself_can_be_shown(attributes: dict[str, str]) -> None:
    """Attributes are printed beside each other: their names are words, their values can be seen."""
    assert refusal(Cluster(), join_request(joiner("n1", attributes=attributes))).code == "BAD_NODE"
    said = {"rack": "rack 1, left", "host": ""}
    assert isinstance(Cluster().ask(join_request(joiner("n1", attributes=said)))[0], m.NodeJoined)


@pytest.mark.parametrize("said", [{"endpoint": "h:1\x1b[2J"}, {"folder": "f\n"}, {"capabilities": ("FENCING", "\x07")}])
def test_an_endpoint_a_folder_and_capabilities_can_be_shown(said: dict[str, object]) -> None:
    found = msgspec.structs.replace(joiner("n1"), **said)
    assert refusal(Cluster(), join_request(found)).code == "BAD_NODE"


@pytest.mark.parametrize(
    "said",
    [
        {"endpoint": "h" * 10_001},
        {"folder": "f" * 10_001},
        {"capabilities": ("FENCING", "c" * 10_000)},
        {"attributes": {f"a{number}": "v" * 100 for number in range(100)}},
    ],
)
def test_who_says_too_much_of_itself_is_refused(said: dict[str, object]) -> None:
    """It stands in the log, and in the memory of every process, for ever."""
    found = msgspec.structs.replace(joiner("n1"), **said)
    assert refusal(Cluster(), join_request(found)).code == "TOO_LARGE"
    assert isinstance(Cluster().ask(join_request(joiner("n1", attributes={"a": "v" * 9_000})))[0], m.NodeJoined)


def test_a_node_of_a_kind_that_this_version_does_not_know_is_refused() -> None:
    """A later version's kind reads as UNKNOWN."""
    assert refusal(Cluster(), join_request(joiner("n1", kind=NodeKind.UNKNOWN))).code == "BAD_NODE"


def test_an_incarnation_that_has_left_never_comes_back() -> None:
    """STALE_INCARNATION: a process life is a member once."""
    cluster = Cluster("n1")
    cluster.settle_membership({N1: heard(1, release=True)})
    stale = refusal(cluster, join_request(joiner("n1")))
    assert (stale.code, stale.facts) == ("STALE_INCARNATION", {"left_at": str(cluster.position)})
    assert isinstance(cluster.ask(join_request(joiner("n1", 2)))[0], m.NodeJoined)


def test_a_lease_slot_is_never_used_again() -> None:
    """A renewal names slots, so a slot must mean one incarnation for ever."""
    cluster = Cluster("n1")
    cluster.settle_membership({N1: heard(1, release=True)})
    cluster.ask(join_request(joiner("n1", 2)))
    assert cluster.node("n1").slot == 1


def test_more_types_than_a_set_can_count_are_refused() -> None:
    """One set holds a join and its proposals; a stamp counts them in 16 bits."""
    declared = tuple(DeclaredType(md.ObjectType(f"T{number}", {}), 0) for number in range(10_001))
    assert refusal(Cluster(), join_request(joiner("n1", types=declared))).code == "TOO_LARGE"


# Waiting for a former life.


def test_a_returning_node_waits_for_the_lease_of_its_former_life() -> None:
    """To wait is itself a decision, a row; it is no outcome (K4)."""
    cluster, request = waiting_cluster()
    assert cluster.node("n1").incarnation == 1
    assert cluster.state.count(m.WaitingJoinRow) == 1
    assert outcome(cluster, request) is None
    assert cluster.settle_membership({}) == []


@pytest.mark.parametrize(
    ("hearing", "lapses", "reason"),
    [({N1: heard(1, release=True)}, False, LeaveReason.LEFT), ({}, True, LeaveReason.FENCED)],
)
def test_when_the_former_lease_is_over_the_waiting_process_joins(
    hearing: membership.Hearing, lapses: bool, reason: LeaveReason
) -> None:
    """Released or run out: NodeLeft first, then NodeJoined, and the request has its outcome."""
    cluster, request = waiting_cluster()
    left, joined = cluster.settle_membership(hearing, {cluster.lapse_of("n1")} if lapses else set())
    assert isinstance(left, m.NodeLeft)
    assert left.reason is reason
    assert isinstance(joined, m.NodeJoined)
    assert cluster.node("n1").incarnation == 2
    assert cluster.state.count(m.WaitingJoinRow) == 0
    granted = outcome(cluster, request)
    assert granted is not None
    assert granted.status is q.Status.GRANTED


def test_a_second_process_is_refused_when_the_first_proves_alive() -> None:
    """DUPLICATE_ID: renewed while the second waited, by a process that has applied the decision to wait."""
    cluster, request = waiting_cluster()
    cluster.renew(n1=9)
    withdrawn, refused = cluster.settle_membership(ALIVE)
    assert isinstance(withdrawn, m.JoinWithdrawn)
    assert isinstance(refused, q.RequestRefused)
    assert (refused.code, refused.facts["incarnation"]) == ("DUPLICATE_ID", "1")
    assert cluster.node("n1").standing is Standing.MEMBER
    refused_row = outcome(cluster, request)
    assert refused_row is not None
    assert refused_row.status is q.Status.REFUSED


def test_a_heartbeat_from_before_the_request_proves_nothing() -> None:
    """It may have been sent by the life that the request says has ended."""
    cluster, _ = waiting_cluster()
    cluster.renew(n1=9)
    early = membership.Heard(Incarnation(1), 9, NOWHERE, False, False, ASKED_AT_MS)
    assert cluster.settle_membership({N1: early}) == []


def test_a_renewal_from_before_the_request_proves_nothing() -> None:
    """The renewal must stand behind the wait, or it may echo the former life's last heartbeat."""
    cluster = Cluster("n1")
    cluster.renew(n1=9)
    cluster.ask(join_request(joiner("n1", 2)))
    assert cluster.settle_membership(ALIVE) == []


def test_a_newer_process_supersedes_the_one_that_waits() -> None:
    """SUPERSEDED: the older request gets its outcome, the newer one waits in its place."""
    cluster, older = waiting_cluster()
    newer = join_request(joiner("n1", 3))
    withdrawn, refused, waiting = cluster.ask(newer)
    assert isinstance(withdrawn, m.JoinWithdrawn)
    assert isinstance(refused, q.RequestRefused)
    assert isinstance(waiting, m.JoinWaiting)
    assert refused.code == "SUPERSEDED"
    assert outcome(cluster, older) is not None
    assert outcome(cluster, newer) is None


def test_the_lock_on_the_folder_proves_the_former_life_gone() -> None:
    """REPLACED, one set: the old incarnation leaves and the new one joins; who waited is superseded."""
    cluster, _ = waiting_cluster()
    left, withdrawn, refused, joined = cluster.ask(join_request(joiner("n1", 3, replaces=1)))
    assert isinstance(left, m.NodeLeft)
    assert left.reason is LeaveReason.REPLACED
    assert isinstance(withdrawn, m.JoinWithdrawn)
    assert isinstance(refused, q.RequestRefused)
    assert isinstance(joined, m.NodeJoined)
    assert (view(cluster), joined.topology_version) == (TopologyVersion(3, 0), TopologyVersion(3, 0))


def test_whose_incarnation_somebody_else_has_taken_is_told_so() -> None:
    """LE21: it counts only a joining with its own seal for its own, and would wait for that for ever."""
    cluster = Cluster()
    cluster.ask(join_request(msgspec.structs.replace(joiner("n1", 1), seal=b"another one's")))
    with pytest.raises(Refused) as refused:
        cluster.ask(join_request(joiner("n1", 1)))
    assert refused.value.code == "STALE_INCARNATION"


@pytest.mark.parametrize("proof", [b"", b"what a liar shows", secret(2)])
def test_who_does_not_show_the_secret_of_the_former_life_replaces_nobody(proof: bytes) -> None:
    """LE34: the folder's id stands in the log, so whoever reads can name it; the secret lies in the folder."""
    cluster = Cluster()
    cluster.ask(join_request(joiner("n1", 1)))
    forged = msgspec.structs.replace(joiner("n1", 2, replaces=1), proof=proof)
    (waiting,) = cluster.ask(join_request(forged))
    assert isinstance(waiting, m.JoinWaiting)


def test_the_lock_replaces_only_the_life_it_was_held_against() -> None:
    """A dead process's join that lands late must not replace a living node."""
    cluster = Cluster("n1")
    cluster.ask(join_request(joiner("n1", 2, replaces=1)))
    (waiting,) = cluster.ask(join_request(joiner("n1", 3, replaces=1)))
    assert isinstance(waiting, m.JoinWaiting)


def test_no_lock_on_either_side_proves_nothing() -> None:
    """Two processes without a folder have nothing in common that could prove one of them gone."""
    cluster = Cluster()
    cluster.ask(join_request(joiner("n1", 1, folder="")))
    (waiting,) = cluster.ask(join_request(joiner("n1", 2, folder="", replaces=1)))
    assert isinstance(waiting, m.JoinWaiting)


@pytest.mark.parametrize("folder", ["", "another disk"])
def test_a_lock_on_another_folder_proves_nothing(folder: str) -> None:
    """Two machines may each hold a lock of their own: the new process waits for the lease like any other."""
    cluster = Cluster("n1")
    (waiting,) = cluster.ask(join_request(joiner("n1", 2, folder=folder, replaces=1)))
    assert isinstance(waiting, m.JoinWaiting)
    assert cluster.node("n1").incarnation == 1


def test_a_waiting_process_whose_types_have_come_to_conflict_is_refused() -> None:
    """What was sound when it asked may contradict the cluster when it gets in (ME28)."""
    cluster = Cluster("n1")
    declared = (DeclaredType(md.ObjectType("T", {"id": "String"}), 0),)
    request = join_request(joiner("n1", 2, types=declared))
    cluster.ask(request)
    cluster.propose("T", "id")
    _, _, refused = cluster.settle_membership({N1: heard(1, release=True)})
    assert isinstance(refused, q.RequestRefused)
    assert refused.code == "METADATA_CONFLICT"
    assert not cluster.node("n1").is_member


# Leaving.


def test_a_release_ends_the_membership_at_once() -> None:
    """LEFT: this incarnation has stopped for good, so nobody waits for its lease."""
    cluster = Cluster("n1")
    cluster.renew(n1=4)
    renewed_at = cluster.position
    (left,) = cluster.settle_membership({N1: heard(5, release=True)})
    assert isinstance(left, m.NodeLeft)
    assert (left.reason, left.last_sequence, left.renewed_at) == (LeaveReason.LEFT, 4, renewed_at)
    assert view(cluster) == TopologyVersion(2, 0)


def test_a_release_of_a_former_life_releases_nobody() -> None:
    """A late heartbeat of an incarnation that is gone says nothing about the present one."""
    cluster = Cluster("n1")
    assert cluster.settle_membership({N1: heard(5, 99, release=True)}) == []


@pytest.mark.parametrize("sequence", [4, 5])
def test_a_release_that_a_renewal_has_overtaken_releases_nobody(sequence: int) -> None:
    """It was sent before the heartbeat that was renewed last: whoever has sent that one may act on its echo."""
    cluster = Cluster("n1")
    cluster.renew(n1=5)
    assert cluster.settle_membership({N1: heard(sequence, release=True)}) == []


def test_a_released_node_is_not_renewed() -> None:
    """Whatever the release's sequence is, it is no sign of life."""
    cluster = Cluster("n1")
    assert membership.renew(cluster.state, {N1: heard(5, release=True)}, NOWHERE).renewals == b""


def test_a_lease_that_ran_out_ends_the_membership() -> None:
    """FENCED: its last renewal was read back proceed_ms ago."""
    cluster = Cluster("n1")
    (left,) = cluster.settle_membership({}, {cluster.lapse_of("n1")})
    assert isinstance(left, m.NodeLeft)
    assert left.reason is LeaveReason.FENCED


def test_a_deadline_of_an_earlier_renewal_ends_nothing() -> None:
    """A key names the position it counts from: renewed since, it is not due."""
    cluster = Cluster("n1")
    stale = cluster.lapse_of("n1")
    cluster.renew(n1=1)
    assert cluster.settle_membership({}, {stale}) == []


def test_a_deadline_of_another_node_with_a_longer_name_ends_nothing() -> None:
    """Keys are compared to their end, or n1 would leave with n11."""
    cluster = Cluster("n1", "n11")
    (left,) = cluster.settle_membership({}, {cluster.lapse_of("n11")})
    assert isinstance(left, m.NodeLeft)
    assert left.node == "n11"


def test_silence_proves_nothing_about_a_server_that_does_not_fence_itself() -> None:
    """LE18: an old version that never fences is not declared fenced after proceed_ms."""
    cluster = Cluster()
    cluster.ask(join_request(joiner("old", capabilities=())))
    assert cluster.settle_membership({}, {cluster.lapse_of("old")}) == []
    assert cluster.settle_membership({NodeId("old"): heard(1, release=True)}) != []


def test_a_client_is_gone_after_fence_ms_a_server_after_proceed_ms() -> None:
    """There is no lease of a client to wait for; a server's must be provably over."""
    cluster = Cluster("n1")
    cluster.ask(join_request(joiner("web", kind=NodeKind.CLIENT, capabilities=())))
    waits = {
        row.node: membership.deadlines(cluster.state, lease_of(cluster.state, row), 0)[0].after_ms
        for row in members(cluster.state)
    }
    assert waits == {"n1": 2_500, "web": 2_000}
    assert len(cluster.settle_membership({}, {cluster.lapse_of("web")})) == 1


def test_a_gap_in_hearing_makes_another_deadline() -> None:
    """Silence must be heard to count: the same lease has another key after a gap."""
    cluster = Cluster("n1")
    lease = lease_of(cluster.state, cluster.node("n1"))
    before, after = (membership.deadlines(cluster.state, lease, gaps)[0] for gaps in (0, 1))
    assert before.key != after.key
    assert before.position == after.position == lease.renewed_at


# Removal by an operator.


def test_a_removed_node_is_renewed_no_more_and_stays_a_member_until_its_lease_is_over() -> None:
    """LeaseStopped, then (a) release or (b) silence; never NodeLeft before."""
    cluster = Cluster("n1")
    (stopped,) = cluster.ask(node_removal("n1"))
    assert isinstance(stopped, m.LeaseStopped)
    assert cluster.node("n1").standing is Standing.STOPPING
    assert membership.renew(cluster.state, ALIVE, NOWHERE).renewals == b""
    assert cluster.settle_membership(ALIVE) == []


@pytest.mark.parametrize("releases", [True, False])
def test_a_removed_node_leaves_as_removed(releases: bool) -> None:
    """Whichever way its lease ends, by release or in silence, the reason is the operator's."""
    cluster = Cluster("n1")
    cluster.ask(node_removal("n1"))
    hearing = {N1: heard(9, release=True)} if releases else {}
    (left,) = cluster.settle_membership(hearing, () if releases else {cluster.lapse_of("n1")})
    assert isinstance(left, m.NodeLeft)
    assert left.reason is LeaveReason.REMOVED


def test_removing_twice_changes_nothing_more() -> None:
    """STOPPING or LEFT: what was asked holds already."""
    cluster = Cluster("n1")
    cluster.ask(node_removal("n1"))
    assert isinstance(cluster.ask(node_removal("n1"))[0], q.RequestUnchanged)
    cluster.settle_membership({N1: heard(1, release=True)})
    assert isinstance(cluster.ask(node_removal("n1"))[0], q.RequestUnchanged)


def test_a_node_that_nobody_knows_is_not_removed() -> None:
    """NODE_UNKNOWN says where to look."""
    unknown = refusal(Cluster("n1"), node_removal("n7"))
    assert unknown.code == "NODE_UNKNOWN"
    assert "get nodes" in unknown.hint


# Renewals.


def test_an_echo_is_the_newest_sequence_of_each_member_that_grew() -> None:
    """Members whose sequence did not grow are left out; an empty echo is written all the same."""
    cluster = Cluster("n1", "n2", "n3")
    cluster.renew(n1=2, n2=2)
    echo = membership.renew(cluster.state, {N1: heard(7), NodeId("n2"): heard(2), NodeId("n3"): heard(1)}, NOWHERE)
    assert m.unpack_renewals(echo.renewals) == [(0, 5), (2, 1)]
    assert membership.renew(cluster.state, {}, NOWHERE).renewals == b""


def test_a_former_lifes_heartbeat_renews_nothing() -> None:
    """The echo is of exactly (incarnation, sequence)."""
    cluster = Cluster("n1")
    assert membership.renew(cluster.state, {N1: heard(7, 99)}, NOWHERE).renewals == b""


def test_a_member_that_lags_is_not_renewed() -> None:
    """LE14: a node whose heartbeats are fine and that applies nothing must fence itself, or it blocks everybody."""
    cluster = Cluster("n1", "n2")
    hearing = {N1: heard(7, applied=4), NodeId("n2"): heard(7, applied=5)}
    assert m.unpack_renewals(membership.renew(cluster.state, hearing, Position(5)).renewals) == [(1, 7)]


@given(st.lists(st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), st.integers(1, 500))))
def test_after_any_renewals_each_lease_has_the_newest_sequence(rounds: list[dict[str, int]]) -> None:
    """Growths add up to what was heard, whatever was heard in which order."""
    cluster = Cluster("n1", "n2", "n3")
    newest = dict.fromkeys(("n1", "n2", "n3"), 0)
    for sequences in rounds:
        cluster.renew(**sequences)
        newest = {node: max(sequence, sequences.get(node, 0)) for node, sequence in newest.items()}
    assert {row.node: lease_of(cluster.state, row).sequence for row in members(cluster.state)} == newest


def test_a_member_without_a_valid_echo_is_urgent() -> None:
    """It is renewed at once: it is new, says that it is fenced, or its lease would end now."""
    cluster = Cluster("n1")

    def urgent(heartbeat: membership.Heard, *lapsed: str) -> bool:
        return membership.is_urgent(cluster.state, {N1: heartbeat}, [N1], NOWHERE, lapsed)

    assert urgent(heard(1))
    cluster.renew(n1=1)
    assert not urgent(heard(2))
    assert not urgent(heard(1), cluster.lapse_of("n1"))
    assert urgent(heard(2), cluster.lapse_of("n1"))
    assert urgent(heard(2, fenced=True))
    assert not membership.is_urgent(cluster.state, {N1: heard(2, fenced=True)}, [], NOWHERE, ())
    assert membership.is_urgent(cluster.state, {N1: heard(2)}, [], NOWHERE, [cluster.lapse_of("n1")])


# Everything at once.


@pytest.mark.parametrize(
    ("hearing", "lapsed"), [({N1: heard(5, release=True)}, ()), ({}, ("lease/n1/1/1/0",)), (ALIVE, ())]
)
def test_settling_twice_gives_nothing_the_second_time(hearing: membership.Hearing, lapsed: tuple[str, ...]) -> None:
    """What follows from evidence follows once."""
    cluster, _ = waiting_cluster()
    cluster.renew(n1=9)
    cluster.settle_membership(hearing, lapsed)
    assert cluster.settle_membership(hearing, lapsed) == []


def test_idle_requesters_are_forgotten_by_one_decision() -> None:
    """K19: the deadline's key names the requester and its last outcome; a requester may contain slashes."""
    row = q.RequesterRow(highest=3, last_at=Position(17))
    (deadline,) = requesters.deadlines("ops/ada", row)
    assert (deadline.position, deadline.after_ms) == (17, q.IDLE_REQUESTER_MS)
    assert requesters.settle([deadline.key, "idle/4/cli"]) == [q.RequestersForgotten(("cli", "ops/ada"))]
    assert requesters.settle([]) == []


def test_many_idle_requesters_are_forgotten_by_several_decisions() -> None:
    """Their names stand in one record, which Kafka takes only up to its limit: the longest that there may be fit."""
    names = [f"{number:04}{chr(0x10FFFF) * (SUBJECT_CHARS_MAX - 4)}" for number in range(requesters.FORGOTTEN_MAX + 7)]
    idle = {requesters.deadlines(name, q.RequesterRow(1, Position(5)))[0].key: name for name in reversed(names)}
    (first,) = requesters.settle(idle)
    assert isinstance(first, q.RequestersForgotten)
    (rest,) = requesters.settle(key for key, name in idle.items() if name not in first.requesters)
    assert isinstance(rest, q.RequestersForgotten)
    assert [*first.requesters, *rest.requesters] == names
    assert len(rest.requesters) == 7
    assert len(CODEC.encode(first)) <= RECORD_BYTES_MAX
