"""Pages on the topic `trees`: what validators and the rendezvous send each other besides the log (RE8).

Leaves, digests, rows and findings are too large for decisions. All of a session goes to one partition, so one process
sees all of it. A page names the attempt that it belongs to; pages of one attempt count from 0, and the last says so.
The answer in the log has a digest over them (`digest_of`), so pages that were tampered with or mixed are found out.
"""

import hashlib
from collections.abc import Iterable
from enum import Enum

import msgspec

from topolog.events.repair_tasks import TaskId

PAGE_BYTES_MAX = 700_000


class PageKind(Enum):
    """FINDINGS come from the rendezvous (its TaskId names no replica), the others from validators."""

    UNKNOWN = "UNKNOWN"
    LEAVES = "LEAVES"
    DIGESTS = "DIGESTS"
    ROWS = "ROWS"
    FINDINGS = "FINDINGS"


class TreePage(msgspec.Struct, frozen=True):
    """One page of one attempt. `life` is that of the process that sends it: two of one replica may be at work.

    `payload`: `merkle.encode`, or msgpack of a list of RowDigest, SentRow, or Difference.
    """

    task: TaskId
    life: int
    spec_id: bytes
    kind: PageKind
    page: int
    is_last: bool
    payload: bytes


def digest_of(payloads: Iterable[bytes]) -> bytes:
    """32 bytes over the pages of one attempt, in their order."""
    return digest_of_hashes(hashlib.sha256(payload).digest() for payload in payloads)


def digest_of_hashes(hashes: Iterable[bytes]) -> bytes:
    """The same of the SHA-256 of each page: whoever has no room for pages keeps those."""
    whole = hashlib.sha256()
    for each in hashes:
        whole.update(each)
    return whole.digest()
