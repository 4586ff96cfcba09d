"""Pages: packed small enough, and put together only if they are what the log names."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events import merkle
from topolog.events.errors import ReplicaFailed, RowTooLarge
from topolog.events.ids import Position
from topolog.events.merkle import Leaf
from topolog.events.repair_tasks import TaskId
from topolog.events.replica import SentRow
from topolog.events.tree_answers import SENDERS_MAX, hash_of, item_pages, leaf_pages
from topolog.events.tree_pages import PageKind, TreePage, digest_of
from topolog.streams.validator.pages import Assembly, Expected, InOrder, items, with_last

TASK = TaskId(Position(5), 0, 3, "r1", 1)
SPEC = b"s" * 16


def sent(number: int, size: int = 10) -> SentRow:
    return SentRow(f"[{number}]", "x" * size, (("r2", (1, 2)), ("r3", None)))


def pages(payloads: Sequence[bytes], life: int = 7) -> list[TreePage]:
    last = len(payloads) - 1
    return [
        TreePage(TASK, life, SPEC, PageKind.ROWS, number, number == last, payload)
        for number, payload in enumerate(payloads)
    ]


def expected(payloads: Sequence[bytes]) -> Expected:
    return Expected(TASK, PageKind.ROWS, SPEC, digest_of(payloads), len(payloads))


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(350, 2_000))
def test_items_come_back_in_their_order_from_pages_that_are_small_enough(sizes: list[int], bytes_max: int) -> None:
    """RE8: no page is larger than a record may be, and none is empty but the only one."""
    wanted = [sent(number, size) for number, size in enumerate(sizes)]
    payloads = list(item_pages(wanted, bytes_max))
    assert list(items(payloads, SentRow)) == wanted
    assert all(len(payload) <= bytes_max for payload in payloads)
    assert len(payloads) == 1 or all(list(items([payload], SentRow)) for payload in payloads)


@given(st.sets(st.integers(0, 255)), st.booleans())
def test_leaves_come_back_in_the_order_of_buckets(buckets: set[int], has_proofs: bool) -> None:
    """All pages together are the leaves, and at least one page says that there are none."""
    leaves = [Leaf(bucket, 1, 2, 3, 4, 5, bytes(32) if has_proofs else b"") for bucket in buckets]
    payloads = list(leaf_pages(leaves, 500))
    assert payloads
    assert all(len(payload) <= 500 for payload in payloads)
    found = [leaf for payload in payloads for leaf in merkle.decode(payload)]
    assert found == sorted(leaves, key=lambda leaf: leaf.bucket)


def test_a_row_that_no_page_has_room_for_is_an_answer() -> None:
    """It is said, and not cut."""
    with pytest.raises(RowTooLarge, match="takes 1021 bytes; a page has 500"):
        list(item_pages([sent(1), sent(2, 1_000)], 500))


def test_only_the_last_is_the_last() -> None:
    assert list(with_last("abc")) == [("a", False), ("b", False), ("c", True)]
    assert list(with_last("a")) == [("a", True)]
    assert list(with_last("")) == []


@given(st.permutations(range(6)), st.integers(0, 5))
def test_pages_are_put_together_in_any_order_and_however_often_they_come(order: list[int], again: int) -> None:
    payloads = list(item_pages([sent(number, 100) for number in range(6)], 150))
    there = pages(payloads)
    assembly = Assembly(expected(payloads))
    for number in (order[again], *order):
        assembly.add(there[number])
    assert assembly.found() == list(map(hash_of, payloads))


@given(st.permutations(range(6)), st.integers(0, 5))
def test_pages_that_were_found_are_read_in_their_order(order: list[int], again: int) -> None:
    """Whatever comes between them: those of other lives, of other bytes, and a page that comes again."""
    payloads = list(item_pages([sent(number, 100) for number in range(6)], 150))
    in_order = InOrder(expected(payloads), list(map(hash_of, payloads)))
    there, others = pages(payloads), pages(list(item_pages([sent(9, 100)] * 6, 150)), 8)
    found = [
        payload
        for number in (again, *order)
        for page in (others[number], there[number])
        for payload in in_order.taken(page)
    ]
    assert found == payloads
    assert in_order.is_done


def test_pages_of_two_lives_are_never_mixed() -> None:
    """Each life has sent half: nothing is complete, and then one of them is."""
    payloads = list(item_pages([sent(number, 100) for number in range(4)], 150))
    assembly = Assembly(expected(payloads))
    for page in (*pages(payloads, 1)[:2], *pages(payloads, 2)[2:]):
        assembly.add(page)
    with pytest.raises(ReplicaFailed, match="Not all of the 4 pages") as raised:
        assembly.found()
    assert raised.value.code == "PAGES_MISSING"
    for page in pages(payloads, 1)[2:]:
        assembly.add(page)
    assert assembly.found() == list(map(hash_of, payloads))


def test_of_several_whole_lives_the_one_counts_that_the_log_has_the_digest_of() -> None:
    """However many others there are."""
    payloads = list(item_pages([sent(1)]))
    assembly = Assembly(expected(payloads))
    for life in range(SENDERS_MAX + 3):
        for page in pages(list(item_pages([sent(2)])), life):
            assembly.add(page)
    with pytest.raises(ReplicaFailed) as raised:
        assembly.found()
    assert raised.value.code == "PAGES_DAMAGED"
    for page in pages(payloads, 100):
        assembly.add(page)
    assert assembly.found() == list(map(hash_of, payloads))


@pytest.mark.parametrize(
    "change",
    [
        {"spec_id": bytes(16)},
        {"kind": PageKind.DIGESTS},
        {"task": msgspec.structs.replace(TASK, attempt=2)},
        {"page": -1},
        {"page": 1},
        {"is_last": False},
    ],
    ids=str,
)
def test_a_page_of_something_else_is_none_of_these(change: dict[str, object]) -> None:
    """RE13, and what a defect or a stranger sends."""
    payloads = list(item_pages([sent(1)]))
    assembly = Assembly(expected(payloads))
    assembly.add(msgspec.structs.replace(pages(payloads)[0], **change))
    with pytest.raises(ReplicaFailed) as raised:
        assembly.found()
    assert raised.value.code == "PAGES_MISSING"


@given(st.binary(max_size=60))
def test_bytes_that_are_no_list_of_rows_are_told_from_one(payload: bytes) -> None:
    """They are rows, or they fail the task; nothing else comes out."""
    codes = []
    try:
        assert all(isinstance(row, SentRow) for row in items([payload], SentRow))
    except ReplicaFailed as error:
        codes.append(error.code)
    assert codes in ([], ["PAGES_DAMAGED"])
