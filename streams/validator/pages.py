"""What stands on pages of the topic `trees`, and how whoever reads them knows that they are the right ones (D.5.8).

Threats. Two processes answer one task, and their pages mix; a page is missing, comes twice, or is of another spec; a
page says what its sender never sent.

Invariant. What is read from pages is what the answer in the log has a digest of, or nothing.

Argument. Pages are put together by the life that has sent them, from 0 to the last. Lives that are not complete do not
count, and of those that are only one whose digest is the log's.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from topolog.events import merkle
from topolog.events.errors import ReplicaFailed
from topolog.events.merkle import Leaf
from topolog.events.repair_tasks import TaskId
from topolog.events.tree_pages import PAGE_BYTES_MAX, PageKind, TreePage, digest_of

T = TypeVar("T")

LIVES_MAX = 16
"""Processes whose pages of one attempt are looked at: more are not at work on it."""

_LEAF_BYTES_MAX = 81
_ARRAY32 = 0xDD
_HEAD_BYTES = 5


def leaf_pages(leaves: Sequence[Leaf], bytes_max: int = PAGE_BYTES_MAX) -> Iterator[bytes]:
    """The payloads for these leaves, in the order of buckets; one that is empty for none."""
    in_order = sorted(leaves, key=lambda each: each.bucket)
    size = max(1, bytes_max // _LEAF_BYTES_MAX)
    for start in range(0, max(1, len(in_order)), size):
        yield merkle.encode(in_order[start : start + size])


def item_pages(items: Iterable[msgspec.Struct], bytes_max: int = PAGE_BYTES_MAX) -> Iterator[bytes]:
    """The payloads for these: msgpack of lists of them; one of an empty list for none.

    Raises ReplicaFailed ROW_TOO_LARGE for one that no page has room for.
    """
    encoder = msgspec.msgpack.Encoder()
    parts: list[bytes] = []
    size, count = _HEAD_BYTES, 0
    for item in items:
        part = encoder.encode(item)
        if len(part) + _HEAD_BYTES > bytes_max:
            raise ReplicaFailed("ROW_TOO_LARGE", f"A row takes {len(part)} bytes; a page has {bytes_max}.")
        if size + len(part) > bytes_max:
            yield _array(parts)
            parts, size, count = [], _HEAD_BYTES, count + 1
        parts.append(part)
        size += len(part)
    if parts or not count:
        yield _array(parts)


def _array(parts: Sequence[bytes]) -> bytes:
    return bytes([_ARRAY32]) + len(parts).to_bytes(_HEAD_BYTES - 1, "big") + b"".join(parts)


def with_last(payloads: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Each, and whether it is the last."""
    rest = iter(payloads)
    for held in rest:
        present = held
        for following in rest:
            yield present, False
            present = following
        yield present, True


class Expected(msgspec.Struct, frozen=True):
    """The pages that an answer in the log speaks of."""

    task: TaskId
    kind: PageKind
    spec_id: bytes
    digest: bytes
    pages: int


class Assembly:
    """The pages of one attempt, as they come in. `digest` makes of them what the log names; of leaves it is a root."""

    def __init__(self, expected: Expected, digest: Callable[[Sequence[bytes]], bytes] = digest_of) -> None:
        self.expected = expected
        self._digest = digest
        self._by_life: dict[int, dict[int, TreePage]] = {}
        self.payloads: Sequence[bytes] | None = None
        self.is_damaged = False

    def add(self, page: TreePage) -> None:
        """One page more; what is none of these is left out. A page that comes again is what it was."""
        expected = self.expected
        named = (page.task, page.kind, page.spec_id)
        if self.payloads is not None or named != (expected.task, expected.kind, expected.spec_id):
            return
        if not 0 <= page.page < expected.pages or page.is_last != (page.page == expected.pages - 1):
            return
        if page.life not in self._by_life and len(self._by_life) >= LIVES_MAX:
            return
        pages = self._by_life.setdefault(page.life, {})
        pages.setdefault(page.page, page)
        if len(pages) == expected.pages:
            self._conclude(page.life)

    def _conclude(self, life: int) -> None:
        pages = self._by_life.pop(life)
        payloads = [pages[number].payload for number in range(self.expected.pages)]
        if self._digest(payloads) == self.expected.digest:
            self.payloads = payloads
            self._by_life.clear()
        else:
            self.is_damaged = True


def whole(assembly: Assembly) -> Sequence[bytes]:
    """Its payloads; raises ReplicaFailed PAGES_DAMAGED or PAGES_MISSING if they are not those that the log names."""
    if assembly.payloads is not None:
        return assembly.payloads
    of = assembly.expected.task
    if assembly.is_damaged:
        raise ReplicaFailed("PAGES_DAMAGED", f"The pages of {of} are not those that its answer in the log names.")
    raise ReplicaFailed("PAGES_MISSING", f"Not all of the {assembly.expected.pages} pages of {of} are in `trees`.")


def items(payloads: Iterable[bytes], type_: type[T]) -> Iterator[T]:
    """What stands on pages that are lists of `type_`; raises ReplicaFailed PAGES_DAMAGED for any other bytes."""
    decoder: Any = msgspec.msgpack.Decoder(list[type_])  # type: ignore[valid-type]
    for payload in payloads:
        try:
            yield from decoder.decode(payload)
        except msgspec.MsgspecError as error:
            raise ReplicaFailed("PAGES_DAMAGED", f"A page is no list of {type_.__name__}: {error}.") from error
