"""Rules of groups: one definition of each name, a number of its own for each, and what never changes stays (EX1)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.rules.cluster import LOG_ID, Cluster, join_request, joiner, new_id

from topolog.events import groups as g
from topolog.events import requests as q
from topolog.events.asked import Request
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.group_definition import BACKUPS_MAX, FILTER_ENTRIES_MAX, PARTITIONS_MAX, TEXT_CHARS_MAX
from topolog.events.ids import TopologyVersion
from topolog.events.leases import FENCING
from topolog.events.terms import cluster

ORDERS = g.GroupDefinition("orders", 64, 1, g.Affinity(node_filter={"zone": "eu"}), persistent=True)
CAPABILITIES = (FENCING,)


def of_one() -> Cluster:
    """A cluster of one server, in view 1.0."""
    return Cluster("n1")


def creation(group: g.GroupDefinition = ORDERS) -> g.GroupCreationRequested:
    return g.GroupCreationRequested(new_id(), LOG_ID, "t", "", group)


def alteration(name: str = "orders", **changes: Any) -> g.GroupAlterationRequested:
    return g.GroupAlterationRequested(new_id(), LOG_ID, "t", "", name, **changes)


def drop(name: str = "orders") -> g.GroupDropRequested:
    return g.GroupDropRequested(new_id(), LOG_ID, "t", "", name)


def with_orders() -> Cluster:
    found = of_one()
    found.ask(creation())
    return found


def row(of: Cluster, name: str = "orders") -> g.GroupRow:
    found = g.group_row(of.state, name)
    assert found is not None
    return found


def view(of: Cluster) -> TopologyVersion:
    return cluster(of.state).topology_version


def refusal(of: Cluster, request: Request) -> Refused:
    """The refusal of a request, which changes nothing."""
    before = of.state.hash()
    with pytest.raises(Refused) as raised:
        of.decide(request)
    assert of.state.hash() == before, "an illegal request changes nothing"
    return raised.value


def kinds(decided: list[Decision]) -> list[type]:
    return [type(event) for event in decided]


# What is granted.


def test_a_group_is_what_was_asked_for_and_knows_when_it_came() -> None:
    found = with_orders()
    assert row(found).definition == ORDERS
    assert (row(found).created_at, row(found).altered_at) == (found.position, None)


def test_each_change_of_groups_is_a_new_view_of_the_same_members() -> None:
    """EX21: joins and leaves of servers raise the major number, changes of groups the minor one."""
    found = of_one()
    views = [view(found)]
    for request in (creation(), alteration(backups=2), drop()):
        found.ask(request)
        views.append(view(found))
    assert [str(each) for each in views] == ["1.0", "1.1", "1.2", "1.3"]
    found.ask(join_request(joiner("n2", capabilities=CAPABILITIES)))
    assert str(view(found)) == "2.0"


def test_a_number_belongs_to_one_life_of_one_group() -> None:
    """What names a group by its number never means the next group of the same name."""
    found = with_orders()
    found.ask(creation(g.GroupDefinition("carts")))
    numbers = [row(found).number, row(found, "carts").number]
    for name in ("carts", "orders"):
        found.ask(drop(name))
    found.ask(creation())
    assert [*numbers, row(found).number] == [1, 2, 3]


def test_a_dropped_group_leaves_no_row() -> None:
    """Its history is the log's."""
    found = with_orders()
    found.ask(drop())
    assert g.group_row(found.state, "orders") is None


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"backups": 0}, {"backups"}),
        ({"backups": 2}, set()),
        ({"node_filter": {"zone": "eu", "disk": "ssd"}}, {"node_filter"}),
        ({"node_filter": {}}, set()),
        ({"backup_filter": "rack"}, {"backup_filter"}),
        ({"exclude_neighbours_by": "host"}, set()),
        ({"loss_policy": g.LossPolicy.READ_ONLY_SAFE}, set()),
    ],
)
def test_what_is_to_do_no_harm_is_refused_where_copies_could_be_lost(changes: dict[str, Any], lost: set[str]) -> None:
    """Who asks had looked at what stood before, and has no right to give up copies."""
    found = with_orders()
    assert kinds(found.decide(alteration(**changes))) == [g.GroupAltered]
    if lost:
        refused = refusal(found, alteration(harmless=True, **changes))
        assert (refused.code, set(refused.facts)) == ("PLAN_IS_OLD", lost)
    else:
        assert kinds(found.decide(alteration(harmless=True, **changes))) == [g.GroupAltered]


def test_an_alteration_changes_what_it_names_and_nothing_else() -> None:
    found = with_orders()
    (altered,) = found.ask(alteration(backups=2, backup_filter="rack"))
    assert isinstance(altered, g.GroupAltered)
    affinity = g.Affinity(node_filter={"zone": "eu"}, backup_filter="rack")
    assert row(found).definition == g.GroupDefinition("orders", 64, 2, affinity, persistent=True)
    assert row(found).altered_at == found.position


def test_what_is_empty_takes_a_filter_away() -> None:
    found = with_orders()
    found.ask(alteration(backup_filter="rack"))
    found.ask(alteration(node_filter={}, backup_filter="", exclude_neighbours_by="host"))
    assert row(found).affinity == g.Affinity(exclude_neighbours_by="host")


# The same again.


def test_a_service_may_declare_its_group_at_every_start() -> None:
    found = with_orders()
    before = view(found)
    assert kinds(found.ask(creation())) == [q.RequestUnchanged]
    assert view(found) == before


def test_an_alteration_to_what_holds_already_changes_nothing() -> None:
    found = with_orders()
    assert kinds(found.decide(alteration())) == [q.RequestUnchanged]
    assert kinds(found.decide(alteration(backups=1, partitions=64, persistent=True))) == [q.RequestUnchanged]


# What is refused.


def test_a_second_declaration_that_differs_is_refused_with_what_differs() -> None:
    """Two services must not share out one group in two ways."""
    other = g.GroupDefinition("orders", 64, 2, g.Affinity(), g.LossPolicy.READ_ONLY_SAFE, persistent=True)
    refused = refusal(with_orders(), creation(other))
    assert refused.code == "GROUP_EXISTS"
    assert refused.facts == {
        "backups": "1, asked for: 2",
        "loss_policy": "READ_WRITE_SAFE, asked for: READ_ONLY_SAFE",
        "node_filter": "zone=eu, asked for: none",
    }
    assert "alter group orders" in refused.hint


def test_filters_that_read_alike_are_not_taken_for_the_same() -> None:
    """It is values that are compared, not what is shown of them."""
    found = of_one()
    found.ask(creation(g.GroupDefinition("g", affinity=g.Affinity(node_filter={"a": "1 b=2"}))))
    refused = refusal(found, creation(g.GroupDefinition("g", affinity=g.Affinity(node_filter={"a": "1", "b": "2"}))))
    assert set(refused.facts) == {"node_filter"}


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"partitions": 128}, {"partitions": "64, asked for: 128"}),
        ({"persistent": False, "backups": 3}, {"persistent": "yes, asked for: no"}),
    ],
)
def test_where_a_key_belongs_never_changes_under_one_number(changes: dict[str, Any], facts: dict[str, str]) -> None:
    """EX2: a key's partition depends on their number; whether a copy can come back, on its disk."""
    refused = refusal(with_orders(), alteration(**changes))
    assert (refused.code, refused.facts) == ("GROUP_FIXED", facts)
    assert "drop it" in refused.hint


@pytest.mark.parametrize("request_", [alteration("carts", backups=1), drop("carts")])
def test_a_group_that_is_not_there_is_neither_altered_nor_dropped(request_: Request) -> None:
    assert refusal(with_orders(), request_).code == "GROUP_UNKNOWN"


@pytest.mark.parametrize(
    ("group", "rule"),
    [
        (g.GroupDefinition(""), "EX3"),
        (g.GroupDefinition("  "), "EX3"),
        (g.GroupDefinition("a/b"), "EX3"),
        (g.GroupDefinition("a b"), "EX3"),
        (g.GroupDefinition("a\nb"), "EX3"),
        (g.GroupDefinition("x" * 201), "EX3"),
        (g.GroupDefinition("g", 0), "EX3"),
        (g.GroupDefinition("g", PARTITIONS_MAX + 1), "EX3"),
        (g.GroupDefinition("g", backups=-1), "EX3"),
        (g.GroupDefinition("g", backups=BACKUPS_MAX + 1), "EX3"),
        (g.GroupDefinition("g", affinity=g.Affinity("host", {}, "rack")), "EX7"),
        (g.GroupDefinition("g", affinity=g.Affinity(" ")), "EX7"),
        (g.GroupDefinition("g", affinity=g.Affinity(node_filter={"": "eu"})), "EX7"),
        (g.GroupDefinition("g", affinity=g.Affinity(node_filter={"zone": "x" * (TEXT_CHARS_MAX + 1)})), "EX7"),
        (
            g.GroupDefinition(
                "g", affinity=g.Affinity(node_filter={str(n): "" for n in range(FILTER_ENTRIES_MAX + 1)})
            ),
            "EX7",
        ),
        (g.GroupDefinition("g", loss_policy=g.LossPolicy.UNKNOWN), "EX18"),
        (g.GroupDefinition("g", loss_policy=g.LossPolicy.IGNORE, persistent=True), "EX18"),
    ],
)
def test_what_cannot_be_a_group_is_refused_by_the_rule_it_breaks(group: g.GroupDefinition, rule: str) -> None:
    refused = refusal(of_one(), creation(group))
    assert (refused.code, refused.rule) == ("BAD_GROUP", rule)


@pytest.mark.parametrize(
    "group",
    [
        g.GroupDefinition("x" * 200, 1, BACKUPS_MAX),
        g.GroupDefinition("é-日本", PARTITIONS_MAX, 0, g.Affinity("host", {"zone": ""})),
        g.GroupDefinition("g", loss_policy=g.LossPolicy.IGNORE),
    ],
)
def test_the_limits_themselves_are_allowed(group: g.GroupDefinition) -> None:
    assert kinds(of_one().ask(creation(group))) == [g.GroupCreated]


def test_an_alteration_is_held_to_the_same_limits() -> None:
    """EX18: lost partitions of a persistent group may come back, so they do not begin again empty."""
    found = with_orders()
    assert refusal(found, alteration(backups=-1)).rule == "EX3"
    assert refusal(found, alteration(loss_policy=g.LossPolicy.IGNORE)).rule == "EX18"


# Whatever is asked.

names = st.sampled_from(("orders", "carts", "stock"))
maybe = st.none()
definitions = st.builds(
    g.GroupDefinition,
    names,
    st.sampled_from((1, 64, 65_000, 0)),
    st.integers(-1, 2),
    st.builds(
        g.Affinity,
        st.sampled_from(("", "host")),
        st.sampled_from(({}, {"zone": "eu"})),
        st.sampled_from(("", "rack")),
    ),
    st.sampled_from(g.LossPolicy),
    st.booleans(),
)
requests = st.one_of(
    definitions.map(creation),
    st.builds(
        alteration,
        names,
        backups=maybe | st.integers(-1, 2),
        backup_filter=maybe | st.sampled_from(("", "rack")),
        loss_policy=maybe | st.sampled_from(g.LossPolicy),
        partitions=maybe | st.just(64),
    ),
    names.map(drop),
)


@given(st.lists(requests, max_size=15))
def test_numbers_and_views_rise_and_what_is_fixed_stays(asked: list[Request]) -> None:
    """The invariant of `events/groups.py`, and that a repeat of what was granted gives nothing."""
    found = of_one()
    fixed: dict[int, tuple[str, int, bool]] = {}
    for request in asked:
        before, highest = view(found), cluster(found.state).next_group
        try:
            (decided,) = found.ask(request)
        except Refused:
            continue
        assert (view(found) == before) == isinstance(decided, q.RequestUnchanged)
        for name, each in found.state.rows(g.GroupRow):
            is_new = each.number not in fixed
            assert not is_new or each.number == highest
            assert fixed.setdefault(each.number, (name, each.partitions, each.persistent)) == (
                name,
                each.partitions,
                each.persistent,
            )
        if not isinstance(decided, g.GroupDropped):
            assert kinds(found.decide(request)) == [q.RequestUnchanged]
