"""The pages of one attempt: how they are filled, when they are whole, and what stands on them (RE8).

Threats. Two processes answer the same attempt, and their pages mix; a page is missing, comes twice, or says something
else the second time; pages of another spec are put together; a page holds bytes that nobody has encoded.

Invariant. What is put together are pages 0 to the last of one sender, all with one spec and kind; whoever reads them
then compares their digest with that in the log.

Argument. Pages are kept by sender: life, spec and kind together. A sender that contradicts itself is given up, whatever
comes later, so the order in which pages come makes no difference.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, TypeVar

import msgspec

from topolog.events import merkle
from topolog.events.errors import BadInput, RowTooLarge
from topolog.events.merkle import Leaf
from topolog.events.tree_pages import PAGE_BYTES_MAX, PageKind, TreePage

T = TypeVar("T", bound=msgspec.Struct)

_LEAF_BYTES_MAX = 81
_ARRAY32 = 0xDD
_HEAD_BYTES = 5
"""msgpack's head of an array of up to 2^32 items."""

PAGES_MAX = 4096
SENDERS_MAX = 16
"""Processes that may answer one attempt; more are not at work on it."""

PAGE_COST = 1_000
"""Bytes that a page takes besides its payload, about."""


class Aside(Enum):
    """Why a page, or all that one sender has sent, is put aside."""

    NOT_A_PAGE = "it is no page"
    TOO_LARGE = "its payload is larger than a page may be"
    BAD_NUMBER = "it is numbered as no page can be"
    CONFLICT = "its sender contradicts itself"
    TOO_MANY_SENDERS = "too many processes answer this attempt"
    OTHER_SPEC = "it is of another spec"
    OTHER_KIND = "it answers another question"
    UNKNOWN_SESSION = "there is no such session"
    LATE = "the log no longer asks for it"
    NO_ROOM = "there is no room for it now"
    DAMAGED = "it is not what the log says of it"


class Sender(msgspec.Struct, frozen=True):
    """Whose pages may be put together."""

    life: int
    spec_id: bytes
    kind: PageKind


class _Sent:
    """The pages of one sender; None once it is given up."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] | None = {}
        self.last: int | None = None


class Answer:
    """The pages of one attempt, by sender. `cost`: the bytes that it holds. `kept`: what it holds of a payload."""

    def __init__(self, kept: Callable[[bytes], bytes] = bytes) -> None:
        self.cost = 0
        self._kept = kept
        self._senders: dict[Sender, _Sent] = {}

    def add(self, page: TreePage) -> Aside | None:
        """One page more; why it is put aside, if it is. A repeat changes nothing (RE5)."""
        malformed = _malformed(page)
        if malformed:
            return malformed
        sender = Sender(page.life, page.spec_id, page.kind)
        sent = self._senders.get(sender)
        if sent is None:
            if len(self.senders()) >= SENDERS_MAX:
                return Aside.TOO_MANY_SENDERS
            sent = self._senders[sender] = _Sent()
            self.cost += PAGE_COST
        kept = self._kept(page.payload)
        if sent.pages is None or _contradicts(sent, page, kept):
            self.give_up(sender)
            return Aside.CONFLICT
        if page.page not in sent.pages:
            sent.pages[page.page] = kept
            self.cost += len(kept) + PAGE_COST
        if page.is_last:
            sent.last = page.page
        return None

    def give_up(self, sender: Sender) -> None:
        """Nothing that it has sent, or sends later, counts."""
        sent = self._senders[sender]
        self.cost -= sum(len(payload) + PAGE_COST for payload in (sent.pages or {}).values())
        sent.pages = None

    def senders(self, *, but: Sender | None = None) -> list[Sender]:
        """Those that are not given up."""
        return [each for each, sent in self._senders.items() if sent.pages is not None and each != but]

    def is_given_up(self, kind: PageKind, spec_id: bytes) -> bool:
        """Whether pages of this kind have come, and none of their senders counts any more."""
        counts = [sent.pages is not None for each, sent in self._senders.items() if each.kind is kind]
        return bool(counts) and not any(each.spec_id == spec_id and each.kind is kind for each in self.senders())

    def whole(self, kind: PageKind, spec_id: bytes, pages: int) -> list[Sender]:
        """Who has sent all of so many pages."""
        return [
            each for each in self.senders() if (each.kind, each.spec_id) == (kind, spec_id) and self._is(each, pages)
        ]

    def payloads(self, sender: Sender) -> list[bytes]:
        """What is kept of them, in the order of their pages."""
        sent = self._senders[sender].pages or {}
        return [sent[number] for number in sorted(sent)]

    def _is(self, sender: Sender, pages: int) -> bool:
        sent = self._senders[sender]
        return sent.pages is not None and sent.last == pages - 1 and len(sent.pages) == pages


def _malformed(page: TreePage) -> Aside | None:
    if page.kind is PageKind.UNKNOWN:
        return Aside.OTHER_KIND
    if not 0 <= page.page < PAGES_MAX:
        return Aside.BAD_NUMBER
    return Aside.TOO_LARGE if len(page.payload) > PAGE_BYTES_MAX else None


def _contradicts(sent: _Sent, page: TreePage, kept: bytes) -> bool:
    """Whether the page cannot stand beside those that came before it."""
    pages = sent.pages or {}
    if page.page in pages:
        return pages[page.page] != kept or page.is_last is not (sent.last == page.page)
    newest = max(pages, default=-1)
    return (sent.last is not None and (page.is_last or page.page > sent.last)) or (page.is_last and page.page < newest)


class Packer:
    """Fills pages with items, as full as they may be: msgpack of lists of them."""

    def __init__(self, bytes_max: int = PAGE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._encoder = msgspec.msgpack.Encoder()
        self._page, self._count = bytearray(), 0

    def add(self, item: msgspec.Struct) -> bytes | None:
        """The payload that was full before this one; raises RowTooLarge for an item that no page has room for."""
        part = self._encoder.encode(item)
        if len(part) + _HEAD_BYTES > self._bytes_max:
            raise RowTooLarge(f"A row takes {len(part)} bytes; a page has {self._bytes_max}.")
        full = self.rest() if len(self._page) + len(part) + _HEAD_BYTES > self._bytes_max else None
        self._page += part
        self._count += 1
        return full

    def rest(self) -> bytes | None:
        """The payload that is not full yet, None if nothing stands on it."""
        if not self._count:
            return None
        payload = array(self._count, bytes(self._page))
        self._page, self._count = bytearray(), 0
        return payload


def item_pages(
    items: Iterable[msgspec.Struct],
    bytes_max: int = PAGE_BYTES_MAX,
    *,
    too_large: Callable[[RowTooLarge], None] | None = None,
) -> Iterator[bytes]:
    """The payloads for these; one of an empty list for none. An item that no page has room for is told to `too_large`
    and left out; without that, RowTooLarge is raised."""
    packer, count = Packer(bytes_max), 0
    for item in items:
        try:
            payload = packer.add(item)
        except RowTooLarge as error:
            if too_large is None:
                raise
            too_large(error)
            continue
        if payload is not None:
            yield payload
            count += 1
    if (payload := packer.rest()) is not None or not count:
        yield array(0, b"") if payload is None else payload


def leaf_pages(leaves: Sequence[Leaf], bytes_max: int = PAGE_BYTES_MAX) -> Iterator[bytes]:
    """The payloads for these leaves, in the order of buckets; one that is empty for none."""
    in_order = sorted(leaves, key=lambda each: each.bucket)
    size = max(1, bytes_max // _LEAF_BYTES_MAX)
    for start in range(0, max(1, len(in_order)), size):
        yield merkle.encode(in_order[start : start + size])


def array(count: int, items: bytes) -> bytes:
    """The payload of so many encoded items."""
    return bytes([_ARRAY32]) + count.to_bytes(_HEAD_BYTES - 1, "big") + items


def items(payloads: Iterable[bytes], type_: type[T]) -> Iterator[T]:
    """What stands on pages that are lists of `type_`; raises BadInput for any other bytes."""
    decoder: Any = msgspec.msgpack.Decoder(list[type_])  # type: ignore[valid-type]  # made when it runs
    for payload in payloads:
        try:
            found = decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadInput(f"A page is no list of {type_.__name__}: {error}.") from error
        yield from found


def hash_of(payload: bytes) -> bytes:
    """32 bytes: what `digest_of_hashes` goes over."""
    return hashlib.sha256(payload).digest()
