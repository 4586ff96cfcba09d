"""Two trees, and the rows of all replicas: what is told of them (RE21, RE2)."""

import random
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from tests.unit.streams.rendezvous.site import COLUMNS, KEY, Rows, cut, digests

from topolog.events.errors import BadInput
from topolog.events.merkle import Leaf
from topolog.events.repair_definition import Policy, SessionDefinition, SessionKind
from topolog.events.repair_plan import Difference, Direction, Version
from topolog.events.repair_tasks import RANGES_MAX
from topolog.events.token_range import FULL, RING, Ranges, TokenRange, contains, overlap
from topolog.events.tree_answers import item_pages, items
from topolog.events.tree_pages import PAGE_BYTES_MAX, digest_of
from topolog.events.tree_spec import TreeSpec
from topolog.streams.rendezvous import answers, comparing
from topolog.streams.rendezvous.comparing import compared, found

WAY = Direction(SessionDefinition("t", SessionKind.PREVIEW, Policy.REPORT), TreeSpec("t", COLUMNS, KEY, 8), "R1")
MANY: Mapping[str, Rows] = {
    "R1": dict.fromkeys(range(300), 1),
    "R2": {key: 1 + (key % 7 == 0) for key in range(300)},
    "R3": {key: 1 for key in range(300) if key % 11},
}


def sent(rows: Mapping[str, Rows], ranges: Ranges = (FULL,)) -> dict[str, list[bytes]]:
    return {
        name: [msgspec.msgpack.encode(some) for some in cut(digests(each, ranges), 40)] for name, each in rows.items()
    }


def leaf(bucket: int, rows: int, content: int = 1) -> Leaf:
    return Leaf(bucket, rows, content, 0, 0, 0)


def test_leaves_and_rows_that_differ_are_counted() -> None:
    """RE17, RE21: of a leaf the larger of both sides' rows."""
    one = [leaf(1, 5), leaf(2, 9), leaf(3, 7), leaf(9, 1)]
    other = [leaf(1, 5), leaf(2, 20), leaf(3, 7, 2)]
    told = compared("a", "b", one, other, 8, (FULL,))
    assert (told.left, told.right) == ("a", "b")
    assert (told.leaves, told.leaves_compared, told.rows, told.leaf_rows_max) == (3, 4, 28, 20)
    assert told.ranges == (TokenRange(2 << 24, 4 << 24), TokenRange(9 << 24, 10 << 24))


def test_the_ranges_of_a_pair_are_few_and_within_what_was_asked() -> None:
    """RE12 (CASSANDRA-13052): 2^16 leaves of which every other differs."""
    asked = (TokenRange(5, RING // 2 + 7), TokenRange(RING // 2 + 9, RING))
    told = compared("a", "b", [leaf(bucket, 1) for bucket in range(0, 1 << 16, 2)], [], 16, asked)
    assert told.leaves == 1 << 15
    assert len(told.ranges) == RANGES_MAX
    assert contains(asked, told.ranges)


def test_rows_between_leaves_that_differ_count_if_they_would_be_sent() -> None:
    """RE21: ranges that were made fewer hold more rows than what differs."""
    one = [leaf(bucket, 3) for bucket in range(1 << 14)]
    other = [leaf(bucket, 3, 1 + (bucket % 3 == 0)) for bucket in range(1 << 14)]
    told = compared("a", "b", one, other, 14, (FULL,))
    sent = sum(each.cells >> (32 - 14) for each in told.ranges)
    assert told.leaves == 5_462
    assert told.rows == 3 * sent > 3 * told.leaves
    assert told.leaf_rows_max == 3


@pytest.mark.parametrize("at_once", [10, 64, 10_000])
def test_many_rows_are_compared_part_by_part(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded; what is found is the same, to the byte."""
    whole = found(sent(MANY), None, (FULL,), 10, WAY)
    assert whole.findings.rows == len({key for key in range(300) if key % 7 == 0 or key % 11 == 0})
    monkeypatch.setattr(comparing, "ROWS_AT_ONCE", at_once)
    assert found(sent(MANY), None, (FULL,), 900, WAY) == whole


def test_parts_are_cut_within_the_ranges_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow these are."""
    ranges = (TokenRange(0, RING // 100), TokenRange(RING // 2, RING // 2 + RING // 50))
    many = {name: {key: rows.get(key % 300, 1) for key in range(3000)} for name, rows in MANY.items()}
    monkeypatch.setattr(comparing, "ROWS_AT_ONCE", 20)
    told = found(sent(many, ranges), None, ranges, 270, WAY)
    assert told.findings.rows > 5
    assert overlap(told.findings.ranges, ranges) == told.findings.ranges


def test_the_pages_hold_what_the_findings_sum_up() -> None:
    """RE8: with their digest."""
    told = found(sent(MANY), None, (FULL,), 900, WAY)
    differences = list(items(told.payloads, Difference))
    assert len(differences) == told.findings.rows
    assert [each.token for each in differences] == sorted(each.token for each in differences)
    assert told.findings.digest == digest_of(told.payloads)
    assert told.findings.pages == len(told.payloads) == 1


def test_no_differences_take_no_page() -> None:
    """RE17."""
    told = found(sent({"R1": MANY["R1"], "R2": MANY["R1"]}), None, (FULL,), 600, WAY)
    assert (told.findings.rows, told.findings.pages, told.payloads) == (0, 0, ())
    assert told.findings.digest == digest_of(())


@pytest.mark.parametrize("rows", [0, 1, 20, 20_000])
def test_pages_are_as_full_as_they_may_be(rows: int) -> None:
    """RE8: a record has a limit."""
    many = [
        Difference(f"[{key}]", key, (Version(("R1",), key, -key, "v" * 40, False),), ("R2",)) for key in range(rows)
    ]
    payloads = list(item_pages(many))
    assert list(items(payloads, Difference)) == many
    assert all(PAGE_BYTES_MAX * 0.99 < len(payload) <= PAGE_BYTES_MAX for payload in payloads[:-1])


def test_a_difference_that_no_page_has_room_for_is_refused() -> None:
    """Its key is as long as a page."""
    with pytest.raises(BadInput):
        list(item_pages([Difference("k" * PAGE_BYTES_MAX, 1, (), ())]))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x91\x01",
        msgspec.msgpack.encode([["a", "b", "c", "d"]]),
        msgspec.msgpack.encode([[-1, "k", 1, 1]]),
        msgspec.msgpack.encode([[RING, "k", 1, 1]]),
        msgspec.msgpack.encode([[50, "k", 1, 1]]),
        msgspec.msgpack.encode([[5, b"\xff", 1, 1]]),
        b"\x91" * 3000,
    ],
)
def test_bytes_that_are_no_rows_or_not_these_are_refused(payload: bytes) -> None:
    """RE12: tokens that nobody has asked for, too."""
    with pytest.raises(BadInput):
        answers.digests(payload, (TokenRange(0, 50), TokenRange(60, 70)))


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_and_pages_makes_no_difference(seed: int) -> None:
    """RE22: validators scan as they like."""
    order, mixed = random.Random(seed), dict[str, Sequence[bytes]]()
    for name, rows in order.sample(list(MANY.items()), len(MANY)):
        one_by_one = digests(rows, (FULL,))
        order.shuffle(one_by_one)
        mixed[name] = [msgspec.msgpack.encode(some) for some in cut(one_by_one, order.randrange(1, 50))]
    assert found(mixed, None, (FULL,), 900, WAY) == found(sent(MANY), None, (FULL,), 900, WAY)
