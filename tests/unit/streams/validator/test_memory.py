"""The replica in memory: what its leaves and digests tell apart, and what it writes."""

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.validator.site import COLUMNS, contents, rows

from topolog.events import merkle
from topolog.events.errors import ReplicaFailed
from topolog.events.merkle import Leaf
from topolog.events.replica import Cut, ReplicaDefinition, SentRow, Written
from topolog.events.token_range import FULL, RING, Ranges, TokenRange
from topolog.events.tree_spec import Column, Strength, TokenMode, TreeSpec
from topolog.streams.validator.memory import MemoryReplica, Values

SPEC = TreeSpec("orders", COLUMNS, ("id",), 8)


def nothing(*_: object) -> None:
    pass


def table(held: Iterable[Values], **changes: Any) -> MemoryReplica:
    definition = ReplicaDefinition("orders", "r1", COLUMNS, ("id",))
    return MemoryReplica(msgspec.structs.replace(definition, **changes), held)


def leaves(held: Iterable[Values], spec: TreeSpec = SPEC, bits: int = 8, ranges: Ranges = (FULL,)) -> list[Leaf]:
    found = table(held).leaves(spec, ranges, bits, None, nothing)
    return sorted(found, key=lambda leaf: leaf.bucket)


def root(held: Iterable[Values], spec: TreeSpec = SPEC) -> bytes:
    return merkle.root(spec.id, 8, leaves(held, spec))


def of(**columns: str) -> TreeSpec:
    """A spec of key `id` and these columns."""
    added = (Column(name, type_) for name, type_ in columns.items())
    return TreeSpec("t", (Column("id", "long"), *added), ("id",), 8)


def test_the_order_of_rows_does_not_matter() -> None:
    """RE17."""
    held = rows(*range(100))
    assert root(held) == root(random.Random(1).sample(held, len(held)))


def test_one_changed_row_makes_one_leaf_another() -> None:
    """RE17: the leaf of its key and no other."""
    held = rows(*range(100))
    for changed in ([*held[1:], {**held[0], "name": "other"}], held[1:]):
        (bucket,) = merkle.differing(leaves(held), leaves(changed))
        (digest,) = table(held[:1]).digests(SPEC, (FULL,), None, nothing)
        assert bucket == digest.token >> 24


def test_a_row_that_is_there_twice_counts_twice() -> None:
    """RE17."""
    held = rows(1, 2)
    assert sum(leaf.rows for leaf in leaves([*held, held[0]])) == 3
    assert root([*held, held[0]]) != root(held)


def test_two_of_one_row_are_not_two_of_another() -> None:
    """RE17, in a table without a key: an XOR would say that both have nothing."""
    spec = TreeSpec("t", (Column("name", "string"),), (), 8)
    assert root([{"name": "A"}] * 2, spec) != root([{"name": "B"}] * 2, spec)


def test_values_that_two_rows_have_exchanged_are_found() -> None:
    """RE17: the key is hashed with them."""
    one = [{"id": 7, "name": "a", "changed": 1}, {"id": 8, "name": "b", "changed": 1}]
    other = [{"id": 7, "name": "b", "changed": 1}, {"id": 8, "name": "a", "changed": 1}]
    assert root(one) != root(other)


def test_an_empty_table_has_a_root() -> None:
    """RE17."""
    assert leaves([]) == []
    assert root([]) == root([])
    assert root([]) != root(rows(1))


@pytest.mark.parametrize(
    ("type_", "one", "other", "is_equal"),
    [
        ("string", None, "", False),
        ("array<long>", None, [], False),
        ("array<array<long>>", [[1], [2]], [[1, 2], []], False),
        ("double", 0.0, -0.0, True),
        ("double", float("nan"), -float("nan"), True),
        ("double", float("inf"), float("nan"), False),
        ("double", 1, 1.0, True),
        ("decimal(12,4)", "1.50", 1.5, True),
        ("decimal(12,4)", "1.50", "1.5001", False),
        ("long", "5", 5, True),
        ("long", "5.0000", 5, True),
        ("binary", b"\1", b"\2", False),
        ("double", float("nan"), None, False),
        ("array<double>", [float("nan")], [None], False),
        ("array<double>", [-0.0, 1], [0.0, 1.0], True),
        ("decimal(38,2)", "123456789012345678901234567890123456.00", "123456789012345678901234567890123456.01", False),
        ("decimal(12,8)", 0, "-0.00000000", True),
    ],
)
def test_what_is_equal_by_the_spec_and_what_is_not(type_: str, one: object, other: object, is_equal: bool) -> None:
    """RE16."""
    spec = of(value=type_)
    assert (root([{"id": 1, "value": one}], spec) == root([{"id": 1, "value": other}], spec)) is is_equal


def test_null_in_one_column_is_not_null_in_another() -> None:
    """RE16: (NULL, 1) is not (1, NULL)."""
    spec = of(a="long", b="long")
    assert root([{"id": 1, "a": None, "b": 1}], spec) != root([{"id": 1, "a": 1, "b": None}], spec)


def test_a_value_that_is_not_of_its_type_fails_the_task() -> None:
    """RE7."""
    with pytest.raises(ReplicaFailed, match="'x' is no long") as raised:
        leaves([{"id": "x"}])
    assert raised.value.code == "CORRUPT"


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("long", 1.9),
        ("long", 1 << 63),
        ("long", True),
        ("double", 10**400),
        ("decimal(12,2)", "1.004"),
        ("decimal(4,2)", "100.00"),
        ("decimal(4,2)", float("nan")),
        ("binary", "ab"),
        ("string", "\ud800"),
    ],
    ids=ascii,
)
def test_nothing_is_rounded_to_be_of_its_type(type_: str, value: object) -> None:
    """RE16, RE7: two rows that differ are not made equal."""
    with pytest.raises(ReplicaFailed) as raised:
        root([{"id": 1, "value": value}], of(value=type_))
    assert raised.value.code == "CORRUPT"


def test_what_is_written_is_what_the_source_has() -> None:
    """Bytes, and what JSON has no numbers for, come as text and are none."""
    columns = tuple(Column(name, name) for name in ("long", "binary", "double", "decimal(38,2)"))
    spec, defined = TreeSpec("t", columns, ("long",), 8), {"columns": columns, "key": ("long",)}
    held: list[Values] = [
        {"long": 1, "binary": b"\1\xff", "double": float("nan"), "decimal(38,2)": "1" * 36 + ".00"},
        {"long": 2, "binary": b"", "double": float("-inf"), "decimal(38,2)": None},
        {"long": 3, "binary": None, "double": 1.5, "decimal(38,2)": "-0.50"},
    ]
    source, target = table(held, **defined), table([], **defined)
    sent = [SentRow(*each, (("r1", None),)) for each in source.rows(spec, ["[1]", "[2]", "[3]"], None)]
    assert target.write(spec, sent, None, nothing, nothing).rows == 3
    assert repr(target.rows_now) == repr([dict(sorted(row.items())) for row in held])
    assert sorted(target.digests(spec, (FULL,), None, nothing)) == sorted(source.digests(spec, (FULL,), None, nothing))


def test_a_row_that_has_no_place_in_the_own_columns_is_left_and_the_rest_is_written() -> None:
    """RE16: 1.50 is no long, whatever the session compares it as."""
    wide = TreeSpec("orders", (Column("id", "long"), Column("changed", "decimal(21,2)")), ("id",), 8)
    sent = [
        SentRow(f"[{id_}]", f'{{"changed":"{at}","id":{id_}}}', (("r1", None),))
        for id_, at in ((1, "1.50"), (2, "3.00"))
    ]
    replica = table([])
    assert replica.write(wide, sent, None, nothing, nothing) == Written(1, len(sent[1].values), 1)
    assert replica.rows_now == [{"id": 2, "changed": 3}]


@given(st.sets(st.integers(0, 10_000), max_size=60))
def test_finer_leaves_of_some_ranges_are_those_of_the_whole_tree(ids: set[int]) -> None:
    """RE21: refined 8 + 8 gives what 16 give directly, leaf for leaf."""
    held = rows(*ids)
    fine = leaves(held, bits=16)
    half: Ranges = (TokenRange(RING // 4, RING // 2),)
    assert leaves(held, bits=16, ranges=half) == [leaf for leaf in fine if (1 << 14) <= leaf.bucket < (1 << 15)]
    sums = {leaf.bucket: leaf for leaf in leaves(held)}
    for leaf in fine:
        number = leaf.bucket >> 8
        sums[number] = sums[number] - msgspec.structs.replace(leaf, bucket=number)
    assert all(leaf == merkle.empty(leaf.bucket) for leaf in sums.values())


def test_rows_of_a_table_without_key_are_found_by_the_name_that_their_digests_give_them() -> None:
    """RE17: two hashes without a sign, as everywhere."""
    spec = TreeSpec("t", (Column("name", "string"),), (), 8)
    held = table([{"name": "a"}, {"name": "a"}, {"name": "b"}], key=())
    names = [each.key for each in held.digests(spec, (FULL,), None, nothing)]
    assert len(set(names)) == 2
    assert [key for key, _ in held.rows(spec, names, None)] == names


def test_numbers_are_ordered_as_numbers() -> None:
    """RE15: 10 comes behind 9; a key that is NULL comes first."""
    spec = TreeSpec("t", COLUMNS, ("id",), 8, mode=TokenMode.ORDERED, boundaries=("-5", "9", "10"))
    held = rows(-7, 8, 9, 10, 100)
    found = table([*held, {"id": None, "name": "", "changed": 1}]).digests(spec, (FULL,), None, nothing)
    parts = {each.key: each.token * 4 // RING for each in found}
    assert parts == {"[null]": 0, "[-7]": 0, "[8]": 1, "[9]": 2, "[10]": 3, "[100]": 3}


def test_ordered_tokens_follow_the_first_column_of_the_key() -> None:
    """RE15: boundaries cut the ring into equal parts."""
    columns = (Column("id", "string"),)
    spec = TreeSpec("t", columns, ("id",), 8, mode=TokenMode.ORDERED, boundaries=("f", "p"))
    replica = MemoryReplica(ReplicaDefinition("t", "r1", columns, ("id",)), [{"id": each} for each in "apzf"])
    parts = {row.key: row.token * 3 // RING for row in replica.digests(spec, (FULL,), None, nothing)}
    assert parts == {'["a"]': 0, '["f"]': 1, '["p"]': 2, '["z"]': 2}


def test_a_proof_is_a_hash_over_the_rows_of_a_leaf() -> None:
    """RE18: of its strength only, and in whatever order they come."""
    spec = msgspec.structs.replace(SPEC, strength=Strength.PROOF)
    held = rows(*range(2_000))
    assert leaves(held, spec) == leaves(held[::-1], spec)
    assert all(len(leaf.proof) == 32 for leaf in leaves(held, spec))
    assert not any(leaf.proof for leaf in leaves(held))


def test_a_read_point_stays_what_it_is() -> None:
    """RE19: whoever reads it twice reads the same, and equal rows have equal names."""
    replica = table(rows(1, 2, 3))
    first = replica.cut(nothing)
    assert first is not None
    before = list(replica.digests(SPEC, (FULL,), first, nothing))
    replica.put({"id": 1, "name": "other", "changed": 2})
    second = replica.cut(nothing)
    assert second != first
    assert list(replica.digests(SPEC, (FULL,), first, nothing)) == before
    replica.put(rows(1)[0])
    assert replica.cut(nothing) == first


def test_two_read_points_of_different_rows_have_different_names() -> None:
    """RE19: NaN is not NULL, which JSON would make of it."""
    columns = (Column("id", "long"), Column("x", "double"))
    replica = table([{"id": 1, "x": float("nan")}], columns=columns)
    first = replica.cut(nothing)
    replica.put({"id": 1, "x": None})
    assert replica.cut(nothing) != first


def test_a_read_point_that_is_gone_is_said_to_be() -> None:
    """RE4; if the rows still are what they were, nothing is lost."""
    replica = table(rows(1, 2, 3))
    cut = replica.cut(nothing)
    assert cut is not None
    replica.release(cut)
    replica.release(Cut("never", b""))
    assert len(list(replica.digests(SPEC, (FULL,), cut, nothing))) == 3
    replica.drop(1)
    with pytest.raises(ReplicaFailed) as raised:
        list(replica.digests(SPEC, (FULL,), cut, nothing))
    assert raised.value.code == "CUT_LOST"


def sent_from(source: MemoryReplica, key: str, compared: tuple[int, int] | None) -> SentRow:
    ((_, values),) = source.rows(SPEC, [key], None)
    return SentRow(key, values, (("r1", compared), ("r9", (1, 1))))


def content(replica: MemoryReplica, key: str) -> tuple[int, int]:
    return next(row.content for row in replica.digests(SPEC, (FULL,), None, nothing) if row.key == key)


def test_rows_are_written_over_what_was_compared_and_over_nothing_else() -> None:
    """Inserted where there was none, changed, deleted; each of them skipped if something else is there by now."""
    source = table([{"id": 1, "name": "new", "changed": 2}, {"id": 2, "name": "two", "changed": 1}])
    replica = table(rows(1, 3))
    changed = sent_from(source, "[1]", content(replica, "[1]"))
    inserted = sent_from(source, "[2]", None)
    deleted = SentRow("[3]", "", (("r1", content(replica, "[3]")),))
    everything = [changed, inserted, deleted]
    assert replica.write(SPEC, everything, None, nothing, nothing) == Written(
        3, len(changed.values + inserted.values), 0
    )
    assert contents(replica) == contents(source)
    assert replica.write(SPEC, everything, None, nothing, nothing).rows == 3, "what is so already counts"
    for row in rows(1, 2, 3, name="meanwhile"):
        replica.put(row)
    assert replica.write(SPEC, everything, None, nothing, nothing) == Written(0, 0, 3)
    assert contents(replica) == rows(1, 2, 3, name="meanwhile")


def test_columns_that_are_not_compared_keep_their_values() -> None:
    """A session of some columns writes those."""
    spec = TreeSpec("orders", COLUMNS[:2], ("id",), 8)
    source, replica = table([{"id": 1, "name": "new", "changed": 9}]), table(rows(1))
    (before,) = replica.digests(spec, (FULL,), None, nothing)
    ((key, values),) = source.rows(spec, ["[1]"], None)
    replica.write(spec, [SentRow(key, values, (("r1", before.content),))], None, nothing, nothing)
    assert contents(replica) == [{"id": 1, "name": "new", "changed": 1}]


def test_the_fence_is_asked_before_each_row() -> None:
    """RE3."""
    replica, source = table([]), table(rows(1, 2, 3))
    asked: list[None] = []

    def fence() -> None:
        if len(asked) == 2:
            raise ReplicaFailed("FENCED", "enough")
        asked.append(None)

    with pytest.raises(ReplicaFailed, match="enough"):
        replica.write(SPEC, [sent_from(source, f"[{number}]", None) for number in (1, 2, 3)], None, fence, nothing)
    assert contents(replica) == rows(1, 2)


def test_a_replica_that_is_not_writable_says_so() -> None:
    with pytest.raises(ReplicaFailed) as raised:
        table([], is_writable=False).write(SPEC, [], None, nothing, nothing)
    assert raised.value.code == "NOT_WRITABLE"


def test_progress_counts_what_was_read() -> None:
    """All of it, whatever ranges were asked for: a scan reads the table."""
    told: list[tuple[int, int]] = []
    list(table(rows(*range(2_500))).leaves(SPEC, (TokenRange(0, 1),), 8, None, lambda *each: told.append(each)))
    assert [count for count, _ in told] == [1_000, 2_000, 2_500]
    assert told == sorted(told)
