"""Rules of metadata agreement, by their names in docs/rules.md."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.rules.cluster import Cluster, join_request, joiner, type_removal, update

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events.asked import Request
from topolog.events.decision import Decision
from topolog.events.errors import MergeConflict, Refused
from topolog.events.evidence import Evidence
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position, Version
from topolog.events.leases import NodeRow, members
from topolog.events.object_types import DEFINITION_BYTES_MAX, NAME_BYTES_MAX, DeclaredType
from topolog.streams.rules import metadata
from topolog.streams.rules.verdict import Reports

CUSTOMER = md.ObjectType("Customer", {"id": "long"})
NAMED = md.ObjectType("Customer", {"name": "String"})
CONFLICTING = md.ObjectType("Customer", {"id": "String"})


def applied(cluster: Cluster, **positions: int) -> Reports:
    """Reports of first incarnations; those who are not named have applied everything."""
    return {
        row.node: (row.incarnation, Position(positions.get(row.node, cluster.position)))
        for row in members(cluster.state)
    }


def settle(cluster: Cluster, reports: Reports, waited_through: int = NOWHERE) -> list[Decision]:
    decided = metadata.settle(cluster.state, reports, Position(waited_through))
    cluster.log(*decided)
    return decided


def kinds(decided: Sequence[Decision]) -> list[str]:
    return [type(each).__name__ for each in decided]


def refusal(cluster: Cluster, request: Request) -> Refused:
    """The refusal of a request, which changes nothing."""
    before = cluster.state.hash()
    with pytest.raises(Refused) as raised:
        cluster.decide(request)
    assert cluster.state.hash() == before, "an illegal request changes nothing"
    return raised.value


def agreed(*definitions: md.ObjectType) -> Cluster:
    """One server, on which these definitions have been accepted one after another."""
    cluster = Cluster("n1")
    for definition in definitions:
        cluster.ask(update(definition))
        settle(cluster, applied(cluster))
    return cluster


def versions(cluster: Cluster, name: str = "Customer") -> tuple[int, int]:
    row = cluster.type(name)
    return row.accepted_version, row.pending_version


# Proposals.


def test_u5_the_first_proposal_is_version_1_and_nothing_is_accepted() -> None:
    """ME11: an unknown type gets P = 1, A = 0."""
    cluster = Cluster("n1")
    (proposed,) = cluster.ask(update(CUSTOMER))
    assert isinstance(proposed, md.MetadataUpdateProposed)
    assert (proposed.version, proposed.definition) == (1, CUSTOMER)
    assert versions(cluster) == (0, 1)
    assert cluster.type("Customer").accepted is None


def test_u5_a_proposal_is_merged_into_what_is_pending() -> None:
    """ME11: P + 1, and the merge base is the pending content, not the accepted one."""
    cluster = Cluster("n1")
    cluster.ask(update(CUSTOMER))
    (proposed,) = cluster.ask(update(NAMED))
    assert isinstance(proposed, md.MetadataUpdateProposed)
    assert (proposed.version, dict(proposed.definition.fields)) == (2, {"id": "long", "name": "String"})
    assert versions(cluster) == (0, 2)


def test_u6_a_type_that_is_being_removed_takes_no_proposal() -> None:
    """ME24: refused without a version."""
    cluster = agreed(CUSTOMER)
    cluster.ask(type_removal("Customer"))
    refused = refusal(cluster, update(NAMED))
    assert (refused.code, refused.rule) == ("TYPE_REMOVING", "ME24")


def test_u7_a_conflict_is_rejected_with_both_sides_and_takes_no_number() -> None:
    """ME13: nothing changes but the request's outcome, and the next proposal uses the number."""
    cluster = agreed(CUSTOMER)
    before = cluster.type("Customer")
    (rejected,) = cluster.ask(update(CONFLICTING))
    assert isinstance(rejected, md.MetadataUpdateRejected)
    assert (rejected.code, rejected.rule) == ("METADATA_CONFLICT", "ME8")
    assert (rejected.current, rejected.proposed) == (CUSTOMER, CONFLICTING)
    assert rejected.facts == {"what": "field id", "current": "long", "proposed": "String"}
    assert cluster.type("Customer") == before
    cluster.ask(update(NAMED))
    assert versions(cluster) == (1, 2)


def test_u7_a_conflict_with_what_is_only_pending_is_a_conflict() -> None:
    """A stamped proposal is never taken back, so it is safe to refuse for its sake."""
    cluster = Cluster("n1")
    cluster.ask(update(CUSTOMER))
    (rejected,) = cluster.ask(update(CONFLICTING))
    assert isinstance(rejected, md.MetadataUpdateRejected)
    assert rejected.current == CUSTOMER


def test_u8_a_proposal_that_changes_nothing_takes_no_version() -> None:
    """ME9: there is a no-op check at the coordinator; the outcome names the pending version."""
    cluster = agreed(CUSTOMER)
    cluster.ask(update(NAMED))
    request = update(CUSTOMER)
    (unchanged,) = cluster.ask(request)
    assert isinstance(unchanged, q.RequestUnchanged)
    assert unchanged.version == 2
    assert versions(cluster) == (1, 2)


def test_a_stale_incarnation_does_not_propose() -> None:
    """ME31: a process that is out of the membership is told to join again."""
    cluster = Cluster("n1")
    assert refusal(cluster, update(CUSTOMER, node="n1", life=9)).code == "STALE_INCARNATION"
    assert refusal(cluster, update(CUSTOMER, node="n7")).code == "STALE_INCARNATION"
    assert len(cluster.ask(update(CUSTOMER, node="n1"))) == 1


def test_a_definition_that_contradicts_itself_is_refused() -> None:
    """BAD_DEFINITION says what is wrong; Avro can carry what the rules cannot use."""
    wrong = md.ObjectType("Customer", {"id": "long"}, schemas={"1": ("id",)})
    assert refusal(Cluster(), update(wrong)).code == "BAD_DEFINITION"


@pytest.mark.parametrize("based_on", [-1, 2])
def test_a_version_that_never_was_is_refused(based_on: int) -> None:
    """VERSION_UNKNOWN: built on a version of another cluster, or of a log that was lost."""
    refused = refusal(agreed(CUSTOMER), update(NAMED, based_on))
    assert (refused.code, refused.facts) == ("VERSION_UNKNOWN", {"based_on": str(based_on), "newest": "1"})


def big(name: str, fields: int) -> md.ObjectType:
    return md.ObjectType(name, {f"{name}_{number}_".ljust(NAME_BYTES_MAX, "x"): "long" for number in range(fields)})


def test_a_definition_over_the_limit_is_too_large() -> None:
    """TOO_LARGE: the definition itself, or what it would be merged to."""
    most = DEFINITION_BYTES_MAX // (NAME_BYTES_MAX + 44)
    assert refusal(Cluster(), update(big("T", most + 1))).code == "TOO_LARGE"
    cluster = Cluster()
    cluster.ask(update(big("T", most)))
    other = msgspec.structs.replace(big("S", most), name="T")
    assert refusal(cluster, update(other)).code == "TOO_LARGE"


def test_the_largest_rejection_fits_a_record() -> None:
    """Both sides at their limit, in conflict: `Cluster.log` checks the size of every decision."""
    most = DEFINITION_BYTES_MAX // (NAME_BYTES_MAX + 44)
    current = big("T", most)
    cluster = Cluster()
    cluster.ask(update(current))
    contradicting = msgspec.structs.replace(current, fields=dict.fromkeys(current.fields, "text"))
    (rejected,) = cluster.ask(update(contradicting))
    assert isinstance(rejected, md.MetadataUpdateRejected)


# Acceptance.


def test_u12_an_acceptance_is_cumulative() -> None:
    """ME16: every pending version up to the accepted one is accepted by one decision."""
    cluster = Cluster("n1")
    for field in "abc":
        cluster.propose("T", field)
    (accepted,) = settle(cluster, applied(cluster))
    assert accepted == md.MetadataUpdateAccepted("T", Version(3), Evidence(applied=("n1",)))
    assert versions(cluster, "T") == (3, 3)
    assert cluster.state.count(md.ProposalRow) == 0
    assert cluster.type("T").accepted == cluster.type("T").pending


def test_what_is_accepted_is_the_content_of_exactly_that_version() -> None:
    """ME16: later proposals to the type stay pending; nobody is shown their fields."""
    cluster = Cluster("n1")
    first = cluster.propose("T", "a")
    cluster.propose("T", "b")
    settle(cluster, applied(cluster, n1=first))
    row = cluster.type("T")
    assert versions(cluster, "T") == (1, 2)
    assert row.accepted is not None
    assert list(row.accepted.fields) == ["a"]
    assert list(row.pending.fields) == ["a", "b"]


def test_the_slowest_member_decides_how_far_acceptance_comes() -> None:
    """The first proposal that must wait ends the pass: everything at or below the minimum is accepted."""
    cluster = Cluster("n1", "n2")
    cluster.propose("T", "a")
    middle = cluster.propose("S", "a")
    cluster.propose("T", "b")
    decided = settle(cluster, applied(cluster, n2=middle))
    assert [each.type_name for each in decided if isinstance(each, md.MetadataUpdateAccepted)] == ["T", "S"]
    assert versions(cluster, "T") == (1, 2)


def test_what_is_older_does_not_wait_for_what_is_newer_of_either_kind() -> None:
    """Proposals and removals are looked at in one order, that of the log: the verdict on a removal comes first here."""
    cluster = agreed(CUSTOMER)
    cluster.ask(type_removal("Customer"))
    removal = cluster.position
    cluster.propose("T", "a")
    assert kinds(settle(cluster, applied(cluster, n1=removal))) == ["MetadataRemoveAccepted"]


def test_after_the_wait_acceptance_names_the_presumed_fenced() -> None:
    """ME15: waited through the position, so the silent one is no obstacle."""
    cluster = Cluster("n1", "n2")
    at = cluster.propose("T", "a")
    (accepted,) = settle(cluster, applied(cluster, n2=0), at)
    assert isinstance(accepted, md.MetadataUpdateAccepted)
    assert accepted.evidence == Evidence(applied=("n1",), presumed_fenced=("n2",))


def test_settling_twice_gives_nothing_the_second_time() -> None:
    """The same reports lead to nothing more."""
    cluster = Cluster("n1")
    cluster.propose("T", "a")
    assert settle(cluster, applied(cluster))
    assert settle(cluster, applied(cluster)) == []


@given(st.lists(st.tuples(st.sampled_from("TS"), st.sampled_from("abcd")), max_size=12), st.data())
def test_p_and_a_only_grow_and_each_version_belongs_to_one_proposal(
    proposals: list[tuple[str, str]], data: st.DataObject
) -> None:
    """ME14: A <= P, neither decreases, numbers have no gaps, content only grows."""
    cluster = Cluster("n1", "n2")
    given_out: dict[str, list[int]] = {"T": [], "S": []}
    before = {"T": (0, 0), "S": (0, 0)}
    for name, field in proposals:
        (decided,) = cluster.ask(update(md.ObjectType(name, {field: "long"})))
        if isinstance(decided, md.MetadataUpdateProposed):
            given_out[name].append(decided.version)
        settle(cluster, applied(cluster, n2=data.draw(st.integers(0, cluster.position))))
        for each in given_out:
            if row := md.type_row(cluster.state, each):
                now = row.accepted_version, row.pending_version
                assert now[0] <= now[1]
                assert now[0] >= before[each][0]
                assert now[1] >= before[each][1]
                before[each] = now
    for numbers in given_out.values():
        assert numbers == list(range(1, len(numbers) + 1))
    settle(cluster, applied(cluster))
    assert all(row.accepted == row.pending for _, row in cluster.state.rows(md.TypeRow))


# Removal.


def test_x2_an_unknown_type_is_not_removed() -> None:
    """ME23: nor one whose name only has the same id."""
    cluster = agreed(CUSTOMER)
    assert refusal(cluster, type_removal("Order")).code == "TYPE_UNKNOWN"
    assert refusal(cluster, type_removal("CUSTOMER")).code == "TYPE_UNKNOWN"


def test_x2_a_type_that_is_being_updated_is_not_removed() -> None:
    """ME23: P and A must be equal; the refusal names both."""
    cluster = agreed(CUSTOMER)
    cluster.ask(update(NAMED))
    refused = refusal(cluster, type_removal("Customer"))
    assert (refused.code, refused.facts) == ("TYPE_BUSY", {"pending_version": "2", "accepted_version": "1"})


def test_x2_a_type_is_removed_once() -> None:
    """ME23: a second removal meanwhile is refused."""
    cluster = agreed(CUSTOMER)
    cluster.ask(type_removal("Customer"))
    assert refusal(cluster, type_removal("Customer")).code == "TYPE_REMOVING"


def test_a_removal_is_accepted_by_the_same_verdict() -> None:
    """ME25: until then the row is there, flagged; then it is gone, its last version is the floor."""
    cluster = agreed(CUSTOMER, NAMED)
    cluster.ask(type_removal("Customer"))
    assert settle(cluster, applied(cluster, n1=0)) == []
    assert cluster.type("Customer").removing
    (accepted,) = settle(cluster, applied(cluster))
    assert accepted == md.MetadataRemoveAccepted("Customer", Version(2), Evidence(applied=("n1",)))
    assert md.type_row(cluster.state, "Customer") is None
    assert md.floor_of(cluster.state, "Customer") == 2


def removed() -> Cluster:
    """A cluster whose type Customer was removed at version 2."""
    cluster = agreed(CUSTOMER, NAMED)
    cluster.ask(type_removal("Customer"))
    settle(cluster, applied(cluster))
    return cluster


@pytest.mark.parametrize("based_on", [1, 2])
def test_x5_what_was_built_on_a_removed_version_never_comes_back(based_on: int) -> None:
    """ME26: the floor refuses it, and the refusal says where the floor is."""
    refused = refusal(removed(), update(CUSTOMER, based_on))
    assert (refused.code, refused.facts) == ("STALE_METADATA", {"based_on": str(based_on), "floor": "2"})


def test_x6_the_name_may_be_defined_anew_with_other_fields() -> None:
    """ME27: that is what removal is for; numbers go on above the floor."""
    cluster = removed()
    (proposed,) = cluster.ask(update(CONFLICTING))
    assert isinstance(proposed, md.MetadataUpdateProposed)
    assert (proposed.version, proposed.definition) == (3, CONFLICTING)
    settle(cluster, applied(cluster))
    assert refusal(cluster, update(CUSTOMER, 2)).code == "STALE_METADATA"
    assert len(cluster.ask(update(NAMED, 3))) == 1


# Types that a joining node declares.


def join(cluster: Cluster, *declared: tuple[md.ObjectType, int]) -> list[Decision]:
    types = tuple(DeclaredType(definition, version) for definition, version in declared)
    return cluster.ask(join_request(joiner("n9", types=types)))


def test_j2_types_that_a_joining_node_knows_are_proposed_in_its_own_set() -> None:
    """ME29: metadata never changes without a version; what is known already takes none."""
    cluster = agreed(CUSTOMER)
    order = md.ObjectType("Order", {"id": "long"})
    joined, proposed = join(cluster, (CUSTOMER, 1), (order, 0))
    assert isinstance(joined, m.NodeJoined)
    assert joined.joiner.types == ()
    assert proposed == md.MetadataUpdateProposed(None, "Order", Version(1), order)
    assert versions(cluster) == (1, 1)


def test_j2_a_joining_node_adds_to_a_type_like_any_proposal() -> None:
    """ME29: the merged content is pending at the next version, and accepted by the same verdict."""
    cluster = agreed(CUSTOMER)
    join(cluster, (NAMED, 1))
    assert versions(cluster) == (1, 2)
    settle(cluster, {**applied(cluster), NodeId("n9"): (Incarnation(1), cluster.position)})
    assert versions(cluster) == (2, 2)


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ((CONFLICTING, 0), "METADATA_CONFLICT"),
        ((CUSTOMER, 7), "VERSION_UNKNOWN"),
        ((md.ObjectType(" ", {}), 0), "BAD_DEFINITION"),
    ],
)
def test_j1_a_node_whose_types_contradict_stays_out(declared: tuple[md.ObjectType, int], code: str) -> None:
    """ME28: a trial merge of each of the joiner's types; any conflict refuses the join whole."""
    cluster = agreed(CUSTOMER)
    types = (DeclaredType(md.ObjectType("Order", {}), 0), DeclaredType(*declared))
    request = join_request(joiner("n9", types=types))
    assert refusal(cluster, request).code == code
    assert cluster.state.get(NodeRow, "n9") is None


def test_j1_a_conflict_tells_both_sides() -> None:
    """ME28: the operator sees what the cluster has and what the node brings."""
    request = join_request(joiner("n9", types=(DeclaredType(CONFLICTING, 0),)))
    refused = refusal(agreed(CUSTOMER), request)
    assert isinstance(refused, MergeConflict)
    assert (refused.facts["current"], refused.facts["proposed"]) == ("long", "String")


def test_j1_a_type_is_declared_once() -> None:
    """Two declarations of one type would make two proposals from one base."""
    with pytest.raises(Refused, match="declared twice"):
        join(Cluster("n1"), (CUSTOMER, 0), (NAMED, 0))


def test_x5_a_node_that_was_away_during_a_removal_stays_out_with_the_old_type() -> None:
    """ME26: the returning node is the classic way by which a removed type came back."""
    request = join_request(joiner("n9", types=(DeclaredType(CUSTOMER, 2),)))
    assert refusal(removed(), request).code == "STALE_METADATA"
