"""The pages of one attempt at a task: when they are whole, and whether they are what the log says of them (D.5.8).

Threats. Two processes answer the same attempt, and their pages mix; a page is missing, comes twice, or says something
else the second time; pages of another spec are compared, and a difference is reported that is none; a page holds bytes
that nobody has encoded, or tokens that nobody has asked for.

Invariant. What is compared is the content of pages 0 to the last of one sender, all with the spec, the number and the
digest that the log has for this attempt; or nothing is.

Argument. Pages are kept by sender: life, spec and kind together. A sender that contradicts itself is given up, whatever
comes later, so the order in which pages come makes no difference. Of senders that are whole, those with another digest
than the log's are given up. Nothing here raises anything but BadInput, with the reason.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TypeVar

import msgspec

from topolog.events import merkle
from topolog.events.errors import BadInput
from topolog.events.merkle import Leaf
from topolog.events.repair_plan import Difference
from topolog.events.replica import RowDigest
from topolog.events.token_range import Ranges, buckets
from topolog.events.tree_pages import PAGE_BYTES_MAX, PageKind, TreePage, digest_of

T = TypeVar("T")

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
    """The pages of one attempt, by sender. `cost`: the bytes that it holds."""

    def __init__(self) -> None:
        self.cost = 0
        self._senders: dict[Sender, _Sent] = {}

    def add(self, page: TreePage) -> Aside | None:
        """One page more; why it is put aside, if it is. A repeat changes nothing (scenario 17)."""
        malformed = _malformed(page)
        if malformed:
            return malformed
        sender = Sender(page.life, page.spec_id, page.kind)
        sent = self._senders.get(sender)
        if sent is None:
            if len(self._senders) >= SENDERS_MAX:
                return Aside.TOO_MANY_SENDERS
            sent = self._senders[sender] = _Sent()
            self.cost += PAGE_COST
        if sent.pages is None or _contradicts(sent, page):
            self.give_up(sender)
            return Aside.CONFLICT
        if page.page not in sent.pages:
            sent.pages[page.page] = page.payload
            self.cost += len(page.payload) + PAGE_COST
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
        """In the order of their pages."""
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


def _contradicts(sent: _Sent, page: TreePage) -> bool:
    """Whether the page cannot stand beside those that came before it."""
    pages = sent.pages or {}
    if page.page in pages:
        return pages[page.page] != page.payload or page.is_last is not (sent.last == page.page)
    newest = max(pages, default=-1)
    return (sent.last is not None and (page.is_last or page.page > sent.last)) or (page.is_last and page.page < newest)


# What stands on them.


def leaves(payloads: Sequence[bytes], spec_id: bytes, bits: int, ranges: Ranges, digest: bytes) -> list[Leaf]:
    """The leaves of a tree of 2^bits over these ranges; raises BadInput if it is not the one with this root."""
    found: list[Leaf] = []
    for payload in payloads:
        found += merkle.decode(payload)
    spans = list(buckets(ranges, bits))
    at = 0
    for before, leaf in zip([None, *found], found, strict=False):
        if before is not None and leaf.bucket <= before.bucket:
            raise BadInput(f"Leaf {leaf.bucket} stands behind leaf {before.bucket}.")
        while at < len(spans) and spans[at].stop <= leaf.bucket:
            at += 1
        if at == len(spans) or leaf.bucket not in spans[at]:
            raise BadInput(f"Nobody has asked for leaf {leaf.bucket}.")
    if merkle.root(spec_id, bits, found) != digest:
        raise BadInput("The root of these leaves is another one.")
    return found


def check_digest(payloads: Iterable[bytes], digest: bytes) -> None:
    """Raises BadInput if these are not the payloads that have this digest."""
    if digest_of(payloads) != digest:
        raise BadInput("The digest of these pages is another one.")


def digests(payload: bytes, ranges: Ranges) -> list[RowDigest]:
    """The rows of one page; raises BadInput if one of them was not asked for."""
    rows = _decoded(_DIGESTS, payload)
    starts, ends = [each.start for each in ranges], [each.end for each in ranges]
    for row in rows:
        at = bisect_right(starts, row.token) - 1
        if at < 0 or row.token >= ends[at]:
            raise BadInput(f"Nobody has asked for token {row.token}.")
    return rows


def differences(payloads: Iterable[bytes]) -> Iterator[Difference]:
    """Those on pages of findings; raises BadInput if they hold anything else."""
    for payload in payloads:
        yield from _decoded(_DIFFERENCES, payload)


_DIGESTS = msgspec.msgpack.Decoder(list[RowDigest])
_DIFFERENCES = msgspec.msgpack.Decoder(list[Difference])


def _decoded(decoder: msgspec.msgpack.Decoder[list[T]], payload: bytes) -> list[T]:
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"A page cannot be read: {error}.") from error
