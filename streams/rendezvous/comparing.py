"""Two trees, or the rows of all replicas, compared: what the rendezvous reports (RE21, RE2). Pure.

What is reported depends on what was sent alone, not on the order in which it came, so whoever compares the same again
comes to the same, to the byte: findings are sorted, and cut into pages always alike.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from topolog.events.merkle import Leaf, differing
from topolog.events.repair_plan import Difference, Direction, is_purged
from topolog.events.repair_plan import differences as differences_of
from topolog.events.repair_plan import findings as findings_of
from topolog.events.repair_tasks import RANGES_MAX, Findings, Pair
from topolog.events.replica import RowDigest
from topolog.events.token_range import RING_BITS, Ranges, coarsened, of_buckets, split
from topolog.events.tree_answers import Packer, array, items
from topolog.events.tree_pages import digest_of
from topolog.streams.rendezvous import answers

ROWS_AT_ONCE = 500_000
"""Digests that are compared in one go, of all replicas together: about 200 MB. More are taken part by part."""


def compared(left: str, right: str, one: Sequence[Leaf], other: Sequence[Leaf], bits: int, ranges: Ranges) -> Pair:
    """Two trees of 2^bits leaves over these ranges."""
    rows_of = [{leaf.bucket: leaf.rows for leaf in leaves} for leaves in (one, other)]
    numbers = differing(one, other)
    largest = {number: max(each.get(number, 0) for each in rows_of) for number in numbers}
    exact = of_buckets(numbers, bits)
    told = coarsened(exact, RANGES_MAX, ranges)
    return Pair(
        left,
        right,
        told,
        len(numbers),
        len(rows_of[0].keys() | rows_of[1].keys()),
        sum(largest.values()) if told == exact else _rows_in(told, rows_of, bits),
        max(largest.values(), default=0),
    )


def _rows_in(ranges: Ranges, rows_of: Sequence[Mapping[int, int]], bits: int) -> int:
    """Of the leaves that hold some of these tokens: ranges that were made fewer hold more than what differs."""
    shift = RING_BITS - bits
    starts, ends = [each.start >> shift for each in ranges], [(each.end - 1) >> shift for each in ranges]
    places = ((number, bisect_right(starts, number) - 1) for leaves in rows_of for number in leaves)
    inside = {number for number, place in places if place >= 0 and number <= ends[place]}
    return sum(max(each.get(number, 0) for each in rows_of) for number in inside)


class Found(msgspec.Struct, frozen=True):
    """What the rows of all replicas have come to, and the pages that say it in full."""

    findings: Findings
    payloads: tuple[bytes, ...]


def found(
    sent: Mapping[str, Sequence[bytes]], before: Sequence[bytes] | None, ranges: Ranges, rows: int, way: Direction
) -> Found:
    """The digests of all replicas over these ranges, about so many rows, compared.

    `before`: the pages of findings that are looked at again, None for none: what differs only now is left out then.
    Raises BadInput if a page cannot be read.
    """
    former = None if before is None else {each.key for each in items(before, Difference)}
    packer, full, purged = Packer(), list[bytes | None](), 0

    def packed() -> Iterator[Difference]:
        nonlocal purged
        for difference in _differences(sent, ranges, rows):
            if is_purged(difference, way):
                purged += 1
            elif former is None or difference.key in former:
                full.append(packer.add(difference))
                yield difference

    told = findings_of(packed(), way, within=ranges)
    payloads = tuple(page for page in (*full, packer.rest()) if page is not None)
    gone = 0 if former is None else len(former) - told.rows
    told = msgspec.structs.replace(told, pages=len(payloads), digest=digest_of(payloads), gone=gone, purged=purged)
    return Found(told, payloads)


def _differences(sent: Mapping[str, Sequence[bytes]], ranges: Ranges, rows: int) -> Iterator[Difference]:
    """In the order of tokens."""
    parts = split(ranges, -(-rows // ROWS_AT_ONCE)) if rows > ROWS_AT_ONCE else []
    if len(parts) < 2:
        yield from differences_of({name: _rows(payloads, ranges) for name, payloads in sent.items()})
        return
    starts = [part[0].start for part in parts[1:]]
    cut = {name: _cut(payloads, starts, ranges) for name, payloads in sent.items()}
    for number in range(len(parts)):
        yield from differences_of({name: _rows([parted[number]], ranges) for name, parted in cut.items()})


def _rows(payloads: Iterable[bytes], ranges: Ranges) -> list[RowDigest]:
    return list(chain.from_iterable(answers.digests(payload, ranges) for payload in payloads))


def _cut(payloads: Iterable[bytes], starts: Sequence[int], ranges: Ranges) -> list[bytes]:
    """The rows of these pages by the part in which their token is, a payload for each part."""
    encoder = msgspec.msgpack.Encoder()
    parts, counts = [bytearray() for _ in range(len(starts) + 1)], [0] * (len(starts) + 1)
    for payload in payloads:
        for row in answers.digests(payload, ranges):
            part = bisect_right(starts, row.token)
            parts[part] += encoder.encode(row)
            counts[part] += 1
    return [array(count, bytes(part)) for count, part in zip(counts, parts, strict=True)]
