"""Rendezvous affinity as Apache Ignite computes it: EX5, EX6, EX7.

The golden file holds what Ignite's own class computed, without neighbours and filters; for these `by_hand` follows the
rules word by word, one partition and one node at a time, and shares nothing with the code but the numbers.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.errors import BadInput
from topolog.events.group_definition import Affinity, GroupDefinition
from topolog.events.ids import NodeId
from topolog.streams.rules import affinity
from topolog.streams.rules.affinity import NOBODY, Candidate, Placement, assign, ideal, ideal_after, partition_of

GOLDEN = Path(__file__).parents[3] / "golden" / "ignite" / "affinity.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
KEY_TYPES: dict[str, affinity.KeyType] = {"Integer": "int", "Long": "long", "String": "long"}
INT64 = (1 << 64) - 1


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def java_hash(text: str) -> int:
    """String.hashCode as its documentation has it: s[0]*31^(n-1) + s[1]*31^(n-2) + … + s[n-1] over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = [high << 8 | low for high, low in zip(units[::2], units[1::2], strict=True)]
    return sum(number * pow(31, power, 1 << 32) for power, number in enumerate(reversed(numbers))) & 0xFFFFFFFF


def mixed(node: str, partition: int) -> int:
    """EX6: Wang's mix, shift by shift, as a signed number."""
    k = java_hash(node) | partition << 32
    k = (~k + (k << 21)) & INT64
    k ^= k >> 24
    k = (k + (k << 3) + (k << 8)) & INT64
    k ^= k >> 14
    k = (k + (k << 2) + (k << 4)) & INT64
    k ^= k >> 28
    return signed(k + (k << 31), 64)


def by_hand(candidates: Sequence[Candidate], placement: Placement, partition: int) -> list[NodeId]:
    """EX6, EX7 as they are written."""
    fit = [one for one in candidates if all(one.attributes.get(name) == value for name, value in placement.node_filter)]
    order = sorted(fit, key=lambda one: (mixed(one.node, partition), one.node))
    copies = min(placement.backups + 1, len(order))
    neighbours = placement.exclude_neighbours_by
    chosen: list[Candidate] = []
    for one in order:
        names = (neighbours,) if neighbours else placement.backup_filter
        if len(chosen) < copies and not any(alike(one, other, names) for other in chosen):
            chosen.append(one)
    if neighbours:
        chosen += [one for one in order if one not in chosen][: copies - len(chosen)]
    return [one.node for one in chosen]


def alike(one: Candidate, other: Candidate, names: Sequence[str]) -> bool:
    """As Ignite's attribute filter: an attribute that either of them lacks does not match."""
    return bool(names) and all(
        name in one.attributes and one.attributes.get(name) == other.attributes.get(name) for name in names
    )


def nodes_of(candidates: Sequence[Candidate], assignment: affinity.Indexes) -> list[list[NodeId]]:
    return [[candidates[index].node for index in row if index != NOBODY] for row in assignment.tolist()]


def nodes(*names: str, **attributes: str) -> list[Candidate]:
    return [Candidate(NodeId(name), attributes) for name in names]


def named(count: int) -> list[Candidate]:
    return nodes(*(f"n{number}" for number in range(count)))


ATTRIBUTES = st.dictionaries(st.sampled_from(["host", "rack", "room"]), st.sampled_from("ab"), max_size=3)
NAMES = st.sampled_from(["Aa", "BB", "AaAa", "AaBB", "BBAa", "BBBB", "n1", "n2", "n3", "n4", "名前", "𝄞"])
"""Few, so that a node comes back; the first two are equal in Java's hash, and so are the next four."""

CANDIDATES = st.lists(st.builds(Candidate, NAMES, ATTRIBUTES), max_size=9, unique_by=lambda one: one.node)
PLACEMENTS = st.builds(
    Placement,
    partitions=st.sampled_from([1, 7, 16]),
    backups=st.integers(0, 4),
    node_filter=st.lists(st.tuples(st.just("room"), st.sampled_from("ab")), max_size=1).map(tuple),
    exclude_neighbours_by=st.sampled_from(["", "", "host"]),
    backup_filter=st.sampled_from([(), ("rack",), ("rack", "host")]),
)


@pytest.mark.parametrize("line", LINES)
def test_every_assignment_is_the_one_ignite_computes(line: dict[str, Any]) -> None:
    """EX6: nodes of each partition, primary first."""
    assert assign(line["nodes"], line["partitions"], line["backups"]) == line["assignment"]


@pytest.mark.parametrize("line", LINES)
def test_every_key_lies_where_ignite_puts_it(line: dict[str, Any]) -> None:
    """EX5: String, Integer and Long keys; the count of partitions is a power of two or not."""
    for key in line["keys"]:
        value = key["key"] if key["kind"] == "String" else int(key["key"])
        assert partition_of(value, line["partitions"], key_type=KEY_TYPES[key["kind"]]) == key["partition"]


def test_the_golden_file_holds_what_it_must() -> None:
    """A file without numbers of both sorts, negative keys and texts outside ASCII would prove little."""
    assert len(LINES) == 24
    counts = {line["partitions"] for line in LINES}
    keys = [key for line in LINES for key in line["keys"]]
    assert {7, 16, 1000, 1024} <= counts
    assert {key["kind"] for key in keys} == set(KEY_TYPES)
    assert any(key["key"].startswith("-") for key in keys)
    assert any(not key["key"].isascii() for key in keys)


@given(st.text(max_size=5))
def test_a_text_is_hashed_as_java_hashes_it(text: str) -> None:
    """EX5: over UTF-16 units, so a character outside the basic plane counts as two."""
    assert partition_of(text, 65_000) == abs(signed(java_hash(text), 32)) % 65_000


def test_texts_at_the_edges_of_java() -> None:
    """String.hashCode of "" is 0, of a lone surrogate its unit, of «𝄞» 31 * 0xD834 + 0xDD1E."""
    assert partition_of("", 1000) == 0
    assert partition_of("\ud834", 65_000) == 0xD834
    assert partition_of("𝄞", 65_000) == (31 * 0xD834 + 0xDD1E) % 65_000


def test_integer_min_value_has_no_absolute_value_in_java_but_its_remainder_has() -> None:
    """EX5: Integer.MIN_VALUE, as a key and as a text's hash; no partition is ever negative."""
    least = -(1 << 31)
    assert partition_of(least, 1000, key_type="int") == 648
    assert partition_of(least, 1024, key_type="int") == (1 << 31 >> 16) & 1023
    assert java_hash("polygenelubricants") == 1 << 31
    assert partition_of("polygenelubricants", 1000) == 648


def test_an_int_is_a_java_long_unless_it_is_said_to_be_an_int() -> None:
    """EX5: Long.hashCode folds the upper half in, so the two differ for negative numbers."""
    assert partition_of(-1, 1000) == 0
    assert partition_of(-1, 1000, key_type="int") == 1
    assert partition_of(1 << 32, 1000) == 1
    assert partition_of(-(1 << 63), 1000) == 648


@pytest.mark.parametrize(
    ("key", "partitions", "key_type", "complaint"),
    [
        (None, 16, "long", "not None"),
        (True, 16, "long", "not True"),
        (1.0, 16, "long", "not 1.0"),
        (b"k", 16, "long", "not b'k'"),
        (1 << 63, 16, "long", "does not fit a Java long"),
        (1 << 31, 16, "int", "does not fit a Java int"),
        (-(1 << 31) - 1, 16, "int", "does not fit a Java int"),
        (1, 16, "short", "no type of key 'short'"),
        ("k", 0, "long", "cannot have 0 partitions"),
        ("k", 65_001, "long", "cannot have 65001 partitions"),
    ],
)
def test_what_has_no_partition_is_bad_input(key: Any, partitions: int, key_type: Any, complaint: str) -> None:
    """EX5: a null key is an error, and so is whatever Java would hash in another way."""
    with pytest.raises(BadInput, match=complaint):
        partition_of(key, partitions, key_type=key_type)


@pytest.mark.parametrize(
    ("names", "partitions", "backups", "complaint"),
    [
        (["a"], 0, 0, "cannot have 0 partitions"),
        (["a"], -1, 0, "cannot have -1 partitions"),
        (["a"], 65_001, 0, "cannot have 65001 partitions"),
        (["a"], 16, -1, "cannot have -1 backups"),
        (["a", "b", "a"], 16, 1, "'a' is given twice"),
        ([f"n{number}" for number in range(32_768)], 1, 0, "32768 nodes are more than"),
    ],
)
def test_what_cannot_be_shared_out_is_bad_input(
    names: list[str], partitions: int, backups: int, complaint: str
) -> None:
    """EX3: from 1 to 65,000 partitions; each node counts once."""
    with pytest.raises(BadInput, match=complaint):
        assign(names, partitions, backups)


def test_few_nodes_take_what_there_is() -> None:
    """EX6: nobody, or one node, as it is; more backups than nodes are as many as there are nodes."""
    assert assign([], 3, 2) == [[], [], []]
    assert assign(["a"], 3, 2) == [[0], [0], [0]]
    assert [sorted(row) for row in assign(["a", "b"], 3, 10**9)] == [[0, 1]] * 3


def test_the_most_partitions_there_can_be() -> None:
    """EX3: 65,000; each answer is the one for its partition, wherever the work was cut in two."""
    candidates, placement = named(5), Placement(partitions=65_000, backups=1)
    found = nodes_of(candidates, ideal(candidates, placement))
    assert len(found) == 65_000
    for partition in [*range(0, 65_000, 997), 7_999, 8_000, 64_999]:
        assert found[partition] == by_hand(candidates, placement, partition)


def test_equal_hashes_are_ordered_by_node_id() -> None:
    """EX6: the Java hashes of «Aa» and «BB» are equal, so these tie in each partition, whoever is given first."""
    assert java_hash("Aa") == java_hash("BB")
    for given_ids in (["Aa", "BB", "C"], ["C", "BB", "Aa"]):
        for row in assign(given_ids, 64, 2):
            assert row.index(given_ids.index("Aa")) + 1 == row.index(given_ids.index("BB"))


def test_no_candidate_has_the_hash_that_means_struck_out() -> None:
    """The mix is one-to-one: turned round, the greatest number belongs to a partition far above 65,000."""

    def unshifted(value: int, by: int) -> int:
        found = value
        for _ in range(64 // by):
            found = value ^ found >> by
        return found

    def divided(value: int, by: int) -> int:
        return value * pow(by, -1, 1 << 64) & INT64

    k = unshifted(divided(affinity._STRUCK_OUT, (1 << 31) + 1), 28)
    k = unshifted(divided(unshifted(divided(k, 21), 14), 265), 24)
    k = divided(k + 1, (1 << 21) - 1)
    partition, hash_of_id = k >> 32, k & 0xFFFFFFFF
    found = affinity._mixed(np.array([hash_of_id], np.uint64), np.array([partition], np.uint64))
    assert found.tolist() == [affinity._STRUCK_OUT]
    assert partition == 1_224_901_242


@given(CANDIDATES, PLACEMENTS)
def test_every_assignment_follows_the_rules_by_hand(candidates: list[Candidate], placement: Placement) -> None:
    """EX6, EX7: order, node filter, neighbours with their second pass, backup filter; colliding ids included."""
    expected = [by_hand(candidates, placement, partition) for partition in range(placement.partitions)]
    assert nodes_of(candidates, ideal(candidates, placement)) == expected


@given(CANDIDATES, PLACEMENTS)
def test_the_array_has_the_shape_that_is_promised(candidates: list[Candidate], placement: Placement) -> None:
    """Rows of min(backups + 1, candidates) indexes of 16 bits, nobody twice, NOBODY only behind the nodes."""
    found = ideal(candidates, placement)
    assert found.shape == (placement.partitions, min(placement.backups + 1, len(candidates)))
    assert found.dtype == np.int16
    assert not found.flags.writeable
    for row in found.tolist():
        chosen = [index for index in row if index != NOBODY]
        assert row == chosen + [NOBODY] * (len(row) - len(chosen))
        assert len(set(chosen)) == len(chosen)


@given(CANDIDATES, PLACEMENTS, st.randoms(use_true_random=False))
def test_the_order_of_candidates_means_nothing(candidates: list[Candidate], placement: Placement, random: Any) -> None:
    """EX6: a pure function of the node set."""
    shuffled = random.sample(candidates, len(candidates))
    assert nodes_of(shuffled, ideal(shuffled, placement)) == nodes_of(candidates, ideal(candidates, placement))


@given(CANDIDATES, CANDIDATES, PLACEMENTS)
def test_to_go_on_from_the_last_assignment_is_to_compute_it_anew(
    before: list[Candidate], other: list[Candidate], placement: Placement
) -> None:
    """Whatever changes: nodes that come, go, do both at once, or come back with other attributes."""
    names = {one.node for one in other}
    for now in (other, [*other, *(one for one in before if one.node not in names)], before[1:], list(reversed(before))):
        found = ideal_after(ideal(before, placement), before, now, placement)
        assert nodes_of(now, found) == nodes_of(now, ideal(now, placement))
        assert not found.flags.writeable


@pytest.mark.parametrize(
    ("about", "old", "new"),
    [
        ({"backups": 0}, nodes("BB", "C"), nodes("Aa")),
        ({"backups": 1, "exclude_neighbours_by": "host"}, nodes("a", "b", host="x"), nodes("c", host="y")),
        ({"backups": 1, "backup_filter": ("host",)}, nodes("a", "b", host="x"), nodes("c", host="y")),
        ({"backups": 1, "node_filter": (("host", "x"),)}, [*nodes("a", host="x"), *nodes("b")], nodes("c", host="x")),
    ],
    ids=["equal hash", "neighbours", "backup filter", "node filter"],
)
def test_a_node_that_joins_is_seen_where_its_hash_alone_would_not_tell(
    about: Mapping[str, Any], old: list[Candidate], new: list[Candidate]
) -> None:
    """It ties with the last and comes before it by id, or takes the place of a neighbour or of nobody."""
    placement = Placement(partitions=64, **about)
    found = ideal_after(ideal(old, placement), old, old + new, placement)
    np.testing.assert_array_equal(found, ideal(old + new, placement))
    assert not (found == NOBODY).any()


@pytest.mark.parametrize(
    "about",
    [{}, {"backup_filter": ("rack",)}, {"exclude_neighbours_by": "rack"}, {"node_filter": (("disk", "ssd"),)}],
    ids=["plain", "backup filter", "neighbours", "node filter"],
)
def test_one_node_of_many_changes_only_what_it_must(about: Mapping[str, Any]) -> None:
    """`ideal_after` at a size where most partitions stay: join, loss, and a node that comes back another."""
    placement = Placement(partitions=1024, backups=2, **about)
    cluster = [
        Candidate(NodeId(f"n{number}"), {"rack": f"r{number % 7}", "disk": "ssd" if number % 3 else "hdd"})
        for number in range(30)
    ]
    others, lost = cluster[:10] + cluster[11:], cluster[10]
    moved, worn = Candidate(lost.node, {"rack": "r6", "disk": "ssd"}), Candidate(lost.node, {"rack": "r3"})
    for before, now in (
        (cluster, others),
        (others, cluster),
        (cluster, [*others, moved]),
        (cluster, [*others, worn]),
        ([*others, worn], cluster),
    ):
        found = ideal_after(ideal(before, placement), before, now, placement)
        np.testing.assert_array_equal(found, ideal(now, placement))


def test_only_the_partitions_that_may_change_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of one node of 50 with 2 backups costs the partitions it held, a join those it now holds."""
    cluster, placement = named(50), Placement(partitions=1024, backups=2)
    computed: list[int] = []
    choose = affinity._choose

    def counted(*arguments: Any) -> affinity.Indexes:
        computed.append(len(arguments[1]))
        return choose(*arguments)

    full, rest = ideal(cluster, placement), ideal(cluster[1:], placement)
    held = int((full == 0).any(axis=1).sum())
    monkeypatch.setattr(affinity, "_choose", counted)
    ideal_after(full, cluster, cluster[1:], placement)
    ideal_after(rest, cluster[1:], cluster, placement)
    assert computed == [held, held]
    assert 30 < held < 100


@given(st.integers(2, 12), st.integers(0, 3))
def test_a_node_that_joins_takes_its_share_and_moves_nothing_else(count: int, backups: int) -> None:
    """EX6: in each partition the order of the others stays; about 1/N of the partitions get it as primary."""
    placement = Placement(partitions=2048, backups=backups)
    old, new = named(count), named(count + 1)
    newcomer = new[-1].node
    before, after = nodes_of(old, ideal(old, placement)), nodes_of(new, ideal(new, placement))
    for was, now in zip(before, after, strict=True):
        assert [node for node in now if node != newcomer] == was[: len(now) - (newcomer in now)]
    taken = sum(now[0] == newcomer for now in after)
    assert 0.7 < taken * (count + 1) / 2048 < 1.3


def test_primaries_are_shared_about_evenly() -> None:
    """EX6: 300 nodes hold 65,000 partitions; nobody has twice its share or half of it."""
    counts = np.bincount(ideal(named(300), Placement(partitions=65_000, backups=2))[:, 0], minlength=300)
    assert counts.min() * 300 / 65_000 > 0.7
    assert counts.max() * 300 / 65_000 < 1.4


def test_groups_of_one_placement_can_share_one_assignment() -> None:
    """Placements that say the same are one key; with fewer partitions the assignment is the beginning of the other."""
    cluster = named(7)
    assert len({Placement(partitions=16, backups=1), Placement(partitions=16, backups=1)}) == 1
    longer = ideal(cluster, Placement(partitions=1000, backups=1))
    np.testing.assert_array_equal(ideal(cluster, Placement(partitions=16, backups=1)), longer[:16])


def test_what_a_group_says_is_its_placement() -> None:
    """Every field counts; in which order its node filter was written does not."""
    asked = Affinity(exclude_neighbours_by="host", node_filter={"b": "2", "a": "1"})
    expected = Placement(partitions=7, backups=2, exclude_neighbours_by="host", node_filter=(("a", "1"), ("b", "2")))
    assert Placement.of(GroupDefinition("g", 7, 2, asked)) == expected
    assert Placement.of(GroupDefinition("h", 7, 2, Affinity(backup_filter="rack"), persistent=True)) == Placement(
        partitions=7, backups=2, backup_filter=("rack",)
    )


def test_neighbours_share_a_partition_only_where_they_must() -> None:
    """EX7: with two hosts one backup is always on the other; with three copies the third is a neighbour, and last."""
    cluster = nodes("a1", "a2", "a3", host="a") + nodes("b1", "b2", host="b")
    for row in nodes_of(cluster, ideal(cluster, Placement(partitions=64, backups=1, exclude_neighbours_by="host"))):
        assert row[0][0] != row[1][0]
    for row in nodes_of(cluster, ideal(cluster, Placement(partitions=64, backups=2, exclude_neighbours_by="host"))):
        assert len(row) == 3
        assert row[0][0] != row[1][0]


def test_a_backup_filter_rather_leaves_a_copy_out() -> None:
    """EX7: as Ignite's filter by attributes, two racks give two copies, however many nodes there are."""
    cluster = nodes("a1", "a2", rack="a") + nodes("b1", "b2", rack="b")
    found = ideal(cluster, Placement(partitions=64, backups=2, backup_filter=("rack",)))
    assert (found[:, 2] == NOBODY).all()
    assert all(one[0] != other[0] for one, other in nodes_of(cluster, found))


def test_a_backup_filter_compares_all_its_attributes() -> None:
    """EX7: nodes are alike only if they agree in every attribute; one that lacks an attribute is like no other."""
    cluster = [*nodes("a", "b", rack="r", room="x"), *nodes("c", rack="r", room="y"), *nodes("d", "e", rack="r")]
    found = nodes_of(cluster, ideal(cluster, Placement(partitions=64, backups=4, backup_filter=("rack", "room"))))
    assert {frozenset(row) for row in found} == {frozenset("acde"), frozenset("bcde")}


def test_neighbours_switch_the_backup_filter_off() -> None:
    """EX7: the filter is ignored with neighbour exclusion."""
    cluster = nodes("a", "b", "c", rack="r")
    plain = ideal(cluster, Placement(partitions=64, backups=2))
    both = Placement(partitions=64, backups=2, exclude_neighbours_by="host", backup_filter=("rack",))
    np.testing.assert_array_equal(ideal(cluster, both), plain)


def test_a_node_filter_asks_for_all_its_values() -> None:
    """A node passes if each attribute has the value; where nobody does, the partition has nobody."""
    cluster = [*nodes("a", disk="ssd"), *nodes("b", disk="ssd", zone="z"), *nodes("c", zone="z")]
    both = Placement(partitions=16, backups=1, node_filter=(("disk", "ssd"), ("zone", "z")))
    assert nodes_of(cluster, ideal(cluster, both)) == [["b"]] * 16
    nowhere = Placement(partitions=16, backups=1, node_filter=(("disk", "tape"),))
    assert (ideal(cluster, nowhere) == NOBODY).all()
