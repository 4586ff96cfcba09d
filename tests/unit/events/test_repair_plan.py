"""Which rows differ on which replicas, and what a policy does about each (RE2)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.ids import Position
from topolog.events.repair_definition import Policy, SessionDefinition, SessionKind
from topolog.events.repair_plan import (
    Difference,
    Direction,
    Kind,
    Planned,
    Version,
    differences,
    direction,
    findings,
    is_purged,
    kind,
    planned,
    version_order,
)
from topolog.events.repair_tasks import RANGES_MAX, Copy
from topolog.events.replica import ReplicaDefinition, RowDigest
from topolog.events.replicas import ReplicaRow, replica_key
from topolog.events.sessions import SegmentRow, SegmentStatus, SessionRow, SessionStatus
from topolog.events.state import State
from topolog.events.token_range import FULL, RING, TokenRange, cells, contains
from topolog.events.tree_spec import Column, TreeSpec

DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS
COLUMNS = (Column("id", "long"), Column("v", "timestamp"), Column("gone", "boolean"))


def way(
    policy: Policy = Policy.REPORT,
    *,
    key: tuple[str, ...] = ("id",),
    source: str = "",
    deletes_extra: bool = False,
    tombstones: bool = False,
    grace_ms: int = 0,
    version_column: str = "v",
    read_only: frozenset[str] = frozenset(),
) -> Direction:
    definition = SessionDefinition(
        "orders",
        SessionKind.REPAIR,
        policy,
        source,
        version_column,
        "gone" if tombstones else "",
        grace_ms,
        NOW_MS,
        deletes_extra,
    )
    return Direction(definition, TreeSpec("orders", COLUMNS, key, 8), "R1", read_only)


def micros(age_ms: int) -> str:
    return str((NOW_MS - age_ms) * 1000)


def row(key: int, content: int = 1, version: str | None = None, *, is_tombstone: bool = False) -> RowDigest:
    return RowDigest(key * 1000, f"[{key}]", content, -content, version, is_tombstone)


def rows(*keys: int) -> list[RowDigest]:
    return [row(key) for key in keys]


def only(found: Sequence[Difference]) -> Difference:
    assert len(found) == 1, found
    return found[0]


def test_a_row_that_one_replica_has_otherwise_is_changed() -> None:
    """RE2."""
    found = only(differences({"R1": rows(6, 7, 8), "R2": [*rows(6, 8), row(7, 2)], "R3": rows(8, 7, 6)}))
    assert found.key == "[7]"
    assert [each.replicas for each in found.versions] == [("R1", "R3"), ("R2",)]
    assert found.missing == ()
    assert kind(found, way()) is Kind.CHANGED


def test_a_row_that_one_replica_lacks_is_missing() -> None:
    """RE2."""
    found = only(differences({"R1": rows(6, 7), "R2": rows(6), "R3": rows(6, 7)}))
    assert found.missing == ("R2",)
    assert kind(found, way()) is Kind.MISSING


def test_a_row_that_one_replica_alone_has_is_extra_and_nothing_is_done() -> None:
    """RE2."""
    found = only(differences({"R1": rows(1), "R2": rows(1, 2000), "R3": rows(1)}))
    assert [each.replicas for each in found.versions] == [("R2",)]
    assert kind(found, way()) is Kind.EXTRA
    assert planned(found, way()) == Planned(reason="REPORT")


@pytest.mark.parametrize(("holder", "expected"), [("R1", Kind.MISSING), ("R2", Kind.EXTRA)])
def test_of_two_replicas_the_initiator_says_what_is_extra(holder: str, expected: Kind) -> None:
    """RE2: a vote of one against one."""
    found = only(differences({"R1": [], "R2": [], holder: rows(7)}))
    assert kind(found, way()) is expected


def test_what_the_source_of_truth_lacks_is_extra_however_many_have_it() -> None:
    """RE2."""
    found = only(differences({"R1": rows(7), "R2": [], "R3": rows(7)}))
    pull = way(Policy.PULL, source="R2")
    assert kind(found, pull) is Kind.EXTRA
    assert planned(found, pull) == Planned(reason="EXTRA")
    wanted = way(Policy.PULL, source="R2", deletes_extra=True)
    assert planned(found, wanted) == Planned("R2", ("R1", "R3"), deletes=True)


@pytest.mark.parametrize("policy", [Policy.PULL, Policy.UNION])
@pytest.mark.parametrize("second", [1, 2])
def test_a_key_that_a_replica_has_twice_is_left_alone(policy: Policy, second: int) -> None:
    """RE2: equal or not, nothing chooses between the two."""
    found = only(differences({"R1": rows(7), "R2": [row(7), row(7, second)], "R3": rows(7)}))
    assert found.has_duplicates
    assert kind(found, way(policy, source="R1")) is Kind.DUPLICATE_KEY
    assert planned(found, way(policy, source="R1")) == Planned(reason="DUPLICATE_KEY")


def test_rows_of_a_table_without_key_are_counted() -> None:
    """RE2: {A, A} against {B, B}, and {C, C} on both sides, which is no difference."""
    keyless = way(Policy.UNION, key=())
    found = differences({"R1": [row(1), row(1), *rows(3, 3)], "R2": [row(2, 2), row(2, 2), *rows(3, 3)]})
    assert [(each.key, each.versions[0].rows, each.missing) for each in found] == [
        ("[1]", 2, ("R2",)),
        ("[2]", 2, ("R1",)),
    ]
    assert [kind(each, keyless) for each in found] == [Kind.MISSING, Kind.EXTRA]
    assert {planned(each, keyless).reason for each in found} == {"NO_KEY"}


def test_other_counts_of_a_row_differ() -> None:
    """RE2: two against three of the same."""
    found = only(differences({"R1": rows(3, 3), "R2": rows(3, 3, 3)}))
    assert [(each.replicas, each.rows) for each in found.versions] == [(("R1",), 2), (("R2",), 3)]


def test_a_deletion_is_carried_within_grace() -> None:
    """RE23: deleted on R1, a tombstone on R2, still alive on R3."""
    dead, alive = row(7, 2, micros(DAY_MS), is_tombstone=True), row(7, 1, micros(2 * DAY_MS))
    found = only(differences({"R1": [], "R2": [dead], "R3": [alive]}))
    assert planned(found, way(Policy.UNION, tombstones=True, grace_ms=10 * DAY_MS)) == Planned("R2", ("R1", "R3"))


@pytest.mark.parametrize(("age_days", "is_kept"), [(9, True), (10, False), (11, False)])
def test_a_tombstone_that_is_old_enough_is_not_brought_back(age_days: int, *, is_kept: bool) -> None:
    """RE23, CASSANDRA-4905: R1 may have removed it by now."""
    asked = way(Policy.UNION, tombstones=True, grace_ms=10 * DAY_MS)
    dead = row(7, 2, micros(age_days * DAY_MS), is_tombstone=True)
    found = only(differences({"R1": [], "R2": [dead], "R3": [dead]}))
    assert planned(found, asked) == (Planned("R2", ("R1",)) if is_kept else Planned(reason="PURGED"))
    assert is_purged(found, asked) is not is_kept


def test_an_old_tombstone_still_deletes_a_row_that_is_alive() -> None:
    """RE23: R3 has never heard of it, and R1 gets it again, once."""
    dead, alive = row(7, 2, micros(80 * DAY_MS), is_tombstone=True), row(7, 1, micros(90 * DAY_MS))
    found = only(differences({"R1": [], "R2": [dead], "R3": [alive]}))
    assert planned(found, way(Policy.UNION, tombstones=True, grace_ms=DAY_MS)) == Planned("R2", ("R1", "R3"))


def test_a_tombstone_whose_age_nobody_knows_is_carried() -> None:
    """RE23: rather one too many than a row that comes back."""
    found = only(differences({"R1": [], "R2": [row(7, 2, "5", is_tombstone=True)]}))
    by_id = way(Policy.UNION, tombstones=True, grace_ms=DAY_MS, version_column="id")
    assert planned(found, by_id) == Planned("R2", ("R1",))


@pytest.mark.parametrize(("age_days", "reason"), [(9, ""), (10, "RESURRECTION_RISK"), (11, "RESURRECTION_RISK")])
def test_a_row_as_old_as_forgotten_deletions_is_not_brought_back(age_days: int, reason: str) -> None:
    """RE23: the tombstone may have been removed everywhere."""
    found = only(differences({"R1": [], "R2": [], "R3": [row(7, 1, micros(age_days * DAY_MS))]}))
    plan = planned(found, way(Policy.UNION, tombstones=True, grace_ms=10 * DAY_MS))
    assert plan == (Planned(reason=reason) if reason else Planned("R3", ("R1", "R2")))


def test_a_row_whose_age_nobody_knows_is_not_brought_back() -> None:
    """RE23: a version that is no time, or none at all."""
    found = only(differences({"R1": [], "R2": rows(7)}))
    assert planned(found, way(Policy.UNION, tombstones=True, grace_ms=DAY_MS)).reason == "RESURRECTION_RISK"
    counted = only(differences({"R1": [], "R2": [row(7, 1, "5")]}))
    by_id = way(Policy.UNION, tombstones=True, grace_ms=DAY_MS, version_column="id")
    assert planned(counted, by_id).reason == "RESURRECTION_RISK"


def test_a_row_that_nobody_lacks_cannot_have_been_forgotten() -> None:
    """RE23: an old row, but everybody has it or its tombstone."""
    found = only(differences({"R1": [row(7, 1, micros(90 * DAY_MS))], "R2": [row(7, 2, micros(80 * DAY_MS))]}))
    plan = planned(found, way(Policy.UNION, tombstones=True, grace_ms=10 * DAY_MS))
    assert plan == Planned("R2", ("R1",))


def test_without_tombstones_union_gives_everybody_all_rows() -> None:
    """RE2: rows of such a table are never deleted."""
    found = only(differences({"R1": [], "R2": rows(7)}))
    assert planned(found, way(Policy.UNION)) == Planned("R2", ("R1",))


def test_the_newest_version_wins_whatever_the_votes_say() -> None:
    """RE2: a majority is a hint."""
    old, new = row(7, 1, "900"), row(7, 2, "1000")
    found = only(differences({"R1": [old], "R2": [old], "R3": [new], "R4": []}))
    assert found.versions[0].replicas == ("R1", "R2")
    assert planned(found, way(Policy.UNION)) == Planned("R3", ("R1", "R2", "R4"))


def test_the_initiator_sends_what_many_have() -> None:
    """RE2: each distinct version is fetched once."""
    old, new = row(7, 1, "1"), row(7, 2, "2")
    found = only(differences({"R0": [new], "R1": [new], "R2": [old], "R3": [new], "R4": [old]}))
    assert planned(found, way(Policy.UNION)) == Planned("R1", ("R2", "R4"))


@pytest.mark.parametrize(
    ("one", "other", "column", "reason"),
    [
        ("5", "5", "v", "CONFLICT"),
        ("5", None, "v", "NO_VERSION"),
        ("5", "6", "", "NO_VERSION"),
        ("true", "false", "gone", "NO_VERSION"),
        ("5", "soon", "v", "NO_VERSION"),
    ],
)
def test_contents_of_which_none_is_known_to_be_newer_are_left_alone(
    one: str, other: str | None, column: str, reason: str
) -> None:
    """RE2."""
    found = only(differences({"R1": [row(7, 1, one)], "R2": [row(7, 2, other)]}))
    assert planned(found, way(Policy.UNION, version_column=column)) == Planned(reason=reason)


def test_the_source_of_truth_gives_its_row_to_all_others() -> None:
    """RE2: newer or not."""
    old, new = row(7, 1, "1"), row(7, 2, "2")
    found = only(differences({"R1": [new], "R2": [old], "R3": [], "R4": [old]}))
    assert planned(found, way(Policy.PULL, source="R2")) == Planned("R2", ("R1", "R3"))


@pytest.mark.parametrize("deletes", [False, True])
def test_a_source_that_was_not_compared_lacks_nothing(deletes: bool) -> None:
    """RE2: no delete is inferred from its silence."""
    found = only(differences({"R1": rows(7), "R2": []}))
    assert planned(found, way(Policy.PULL, source="R9", deletes_extra=deletes)) == Planned(reason="NO_SOURCE")


def test_a_replica_that_cannot_be_written_to_is_told_of() -> None:
    """RE2: the others get the row all the same."""
    found = only(differences({"R1": rows(7), "R2": [], "R3": []}))
    one = way(Policy.UNION, read_only=frozenset({"R2"}))
    assert planned(found, one) == Planned("R1", ("R3",), reason="NOT_WRITABLE")
    both = way(Policy.UNION, read_only=frozenset({"R2", "R3"}))
    assert planned(found, both) == Planned(reason="NOT_WRITABLE")


def test_contents_are_named_as_they_were_compared() -> None:
    """A row that is something else by the time it is written to is left as it is."""
    found = only(differences({"R1": rows(7), "R2": [row(7, 5)], "R3": []}))
    assert [found.content_of(name) for name in ("R1", "R2", "R3")] == [(1, -1), (5, -5), None]


def test_findings_sum_up_what_is_wrong_and_what_would_be_sent() -> None:
    """RE2 together."""
    found = differences(
        {"R1": [*rows(1, 2, 5), row(3, 1, "1")], "R2": [*rows(1, 5, 5), row(3, 2, "2")], "R3": [*rows(1, 2, 5, 9)]}
    )
    told = findings(found, way(Policy.UNION))
    assert told.kinds == {"CHANGED": 1, "DUPLICATE_KEY": 1, "EXTRA": 1, "MISSING": 1}
    assert told.copies == (
        Copy("R1", "R2", 1),
        Copy("R2", "R1", 1),
        Copy("R2", "R3", 1),
        Copy("R3", "R1", 1),
        Copy("R3", "R2", 1),
    )
    assert told.unresolved == {"DUPLICATE_KEY": 1}
    assert told.rows == 4
    assert told.ranges == tuple(TokenRange(key * 1000, key * 1000 + 1) for key in (2, 3, 5, 9))


def test_deletions_are_counted_among_the_copies() -> None:
    """RE2: a plan is shown before it runs, with what it deletes."""
    found = differences({"R1": rows(1), "R2": rows(2, 3), "R3": rows(1, 2)})
    told = findings(found, way(Policy.PULL, source="R1", deletes_extra=True))
    assert told.copies == (Copy("R1", "R2", 3, 2), Copy("R1", "R3", 1, 1))


def test_many_tokens_become_few_ranges_that_do_not_leave_what_was_compared() -> None:
    """RE12 (CASSANDRA-13052)."""
    within = (TokenRange(0, 4_000_001), TokenRange(8_000_000, RING))
    found = differences({"R1": rows(*range(4000), *range(8000, 12_000)), "R2": []})
    told = findings(found, way(), within=within)
    assert len(told.ranges) == RANGES_MAX
    assert contains(within, told.ranges)
    assert contains(told.ranges, [TokenRange(each.token, each.token + 1) for each in found])


def test_no_differences_are_found_where_there_are_none() -> None:
    """RE2."""
    assert differences({"R1": [], "R2": []}) == []
    assert findings([], way()).ranges == ()


@pytest.mark.parametrize(
    ("type_", "smaller", "larger"),
    [
        ("long", "9", "10"),
        ("double", "-1.5E300", "2"),
        ("double", "1e308", "Infinity"),
        ("decimal(12,2)", "9.99", "10.00"),
        ("string", "10", "9"),
        ("timestamp", "999", "1000"),
        ("timestamp", "2026-01-01T00:00:00", "2026-01-01T00:00:00.000001Z"),
        ("timestamp_ntz", "2026-01-01 23:59:59", "2026-01-02 00:00:00"),
        ("date", "9999", "10000"),
        ("date", "2026-01-31", "2026-02-01"),
        ("date", "2026-01-31", "20485"),
    ],
)
def test_versions_have_the_order_of_their_type(type_: str, smaller: str, larger: str) -> None:
    """RE2: newest by value, not by letters."""
    one, other = version_order(type_, smaller), version_order(type_, larger)
    assert one is not None
    assert other is not None
    assert type(one) is type(other)
    assert one < other  # type: ignore[operator]  # both are of one type


@pytest.mark.parametrize("text", [None, "NaN", "sNaN", "", "1e999999999", "9" * 500, "soon", "\ud800"])
@pytest.mark.parametrize("type_", ["long", "timestamp", "boolean", "array<long>", ""])
def test_what_has_no_order_is_no_version(type_: str, text: str | None) -> None:
    """Whatever a replica says, a plan is made."""
    assert version_order(type_, text) is None


def test_a_direction_is_read_from_the_state() -> None:
    """The rendezvous and validators come to the same plan."""
    state, way_ = State(), way(Policy.UNION)
    for name, is_writable in (("R1", True), ("R2", False)):
        definition = ReplicaDefinition("orders", name, COLUMNS, ("id",), is_writable=is_writable)
        state.put(replica_key("orders", name), ReplicaRow(definition, 1, Position(3)))
    session = SessionRow(Position(9), way_.definition, SessionStatus.RUNNING, way_.spec, 1)
    segment = SegmentRow(Position(9), 0, (FULL,), ("R1", "R2", "R3"), SegmentStatus.RUNNING)
    assert direction(state, session, segment) == msgspec.structs.replace(way_, read_only=frozenset({"R2"}))


# Properties over random tables.

NAMES = ("R1", "R2", "R3", "R4")


@dataclass
class Table:
    """A replica's rows by key; `apply` does what a validator would."""

    rows: dict[int, list[RowDigest]] = field(default_factory=dict)

    def digests(self) -> list[RowDigest]:
        return [each for held in self.rows.values() for each in held]


one_row = st.builds(
    lambda content, days: (content, None if days is None else micros(days * DAY_MS), content == 3),
    st.integers(1, 3),
    st.none() | st.integers(0, 3),
)
replicas = st.dictionaries(st.integers(0, 5), st.lists(one_row, min_size=1, max_size=2), max_size=6)
tables = st.lists(replicas, min_size=2, max_size=4)
ways = st.builds(
    way,
    st.sampled_from([Policy.REPORT, Policy.PULL, Policy.UNION]),
    key=st.sampled_from([("id",), ()]),
    source=st.sampled_from([*NAMES, "R9"]),
    deletes_extra=st.booleans(),
    tombstones=st.booleans(),
    grace_ms=st.integers(0, 3 * DAY_MS),
    version_column=st.sampled_from(["v", ""]),
    read_only=st.frozensets(st.sampled_from(NAMES)),
)


def made(given_tables: list[dict[int, list[tuple[int, str | None, bool]]]]) -> dict[str, Table]:
    return {
        name: Table(
            {
                key: [row(key, content, version, is_tombstone=dead) for content, version, dead in held]
                for key, held in each.items()
            }
        )
        for name, each in zip(NAMES, given_tables, strict=False)
    }


def apply(plan: Planned, key: int, made_tables: Mapping[str, Table]) -> None:
    for target in plan.targets:
        if plan.deletes:
            del made_tables[target].rows[key]
        else:
            made_tables[target].rows[key] = list(made_tables[plan.source].rows[key])


@given(tables, ways)
def test_a_plan_makes_replicas_equal_where_it_leaves_nothing(
    given_tables: list[dict[int, list[tuple[int, str | None, bool]]]], one_way: Direction
) -> None:
    """RE2: every row that the plan does not leave alone is the same everywhere once it is done."""
    there = made(given_tables)
    left = set()
    for each in differences({name: table.digests() for name, table in there.items()}):
        plan = planned(each, one_way)
        assert plan.reason or plan.targets
        apply(plan, each.token // 1000, there)
        if plan.reason:
            left.add(each.key)
    again = differences({name: table.digests() for name, table in there.items()})
    assert {each.key for each in again} == left


@given(tables, ways)
def test_no_delete_is_ever_inferred(
    given_tables: list[dict[int, list[tuple[int, str | None, bool]]]], one_way: Direction
) -> None:
    """RE2: only what a declared source was seen to lack is deleted, and only on demand."""
    there = made(given_tables)
    definition = one_way.definition
    for each in differences({name: table.digests() for name, table in there.items()}):
        plan = planned(each, one_way)
        if plan.deletes:
            assert definition.policy is Policy.PULL
            assert definition.deletes_extra
            assert definition.source in each.missing
            assert plan.source == definition.source
        elif plan.targets:
            assert each.content_of(plan.source) is not None
        assert not set(plan.targets) & one_way.read_only
        assert definition.policy is not Policy.REPORT or not plan.targets


@given(tables, ways, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_replicas_changes_nothing(
    given_tables: list[dict[int, list[tuple[int, str | None, bool]]]], one_way: Direction, order: random.Random
) -> None:
    """RE22."""
    digests = {name: table.digests() for name, table in made(given_tables).items()}
    mixed = [(name, order.sample(held, len(held))) for name, held in digests.items()]
    order.shuffle(mixed)
    assert differences(dict(mixed)) == differences(digests)
    told = findings(differences(digests), one_way)
    assert told.rows == sum(told.kinds.values())
    assert cells(told.ranges) == len({each.token for each in differences(digests)})


@given(tables)
def test_votes_name_each_replica_once(given_tables: list[dict[int, list[tuple[int, str | None, bool]]]]) -> None:
    """RE2: by content."""
    there = made(given_tables)
    for each in differences({name: table.digests() for name, table in there.items()}):
        voters = {name for version in each.versions for name in version.replicas}
        assert voters | set(each.missing) == set(there)
        assert not voters & set(each.missing)
        assert sum(version.rows * len(version.replicas) for version in each.versions) == sum(
            len(table.rows.get(each.token // 1000, [])) for table in there.values()
        )


def test_a_difference_survives_its_page() -> None:
    """What is written to `trees` is read back."""
    whole = Difference("[7]", 7, (Version(("R1",), 1, -1, None, False),), ("R2",))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([whole]), type=list[Difference]) == [whole]
