"""What stands on the pages of an answer, and whether it is what the log says of it (RE8).

Nothing here raises anything but BadInput, with the reason: a difference that is none is never reported.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from topolog.events import merkle
from topolog.events.errors import BadInput
from topolog.events.merkle import Leaf
from topolog.events.replica import RowDigest
from topolog.events.token_range import Ranges, buckets
from topolog.events.tree_answers import items
from topolog.events.tree_pages import digest_of


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
    rows = list(items([payload], RowDigest))
    starts, ends = [each.start for each in ranges], [each.end for each in ranges]
    for row in rows:
        at = bisect_right(starts, row.token) - 1
        if at < 0 or row.token >= ends[at]:
            raise BadInput(f"Nobody has asked for token {row.token}.")
    return rows
