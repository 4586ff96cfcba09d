"""Heartbeats for tests of lease health: of one node on a topic of one partition, with a fence of 20 s and 1 s beats."""

from collections.abc import Iterable, Iterator

import msgspec

from topolog.events.ids import Incarnation, NodeId, Offset, Position
from topolog.events.leases import FENCING
from topolog.events.membership import Applied, Heartbeat
from topolog.streams.lease_health.windows import Account, Heard, Terms, count

LOG_ID = bytes(range(16))
TERMS = Terms(LOG_ID, 20_000, 1_000)
START_MS = 1_800_000_000_000
Beat = tuple[Heartbeat, Heard]


def heartbeat(
    sequence: int,
    incarnation: int = 1,
    *,
    node: str = "n1",
    fenced: bool = False,
    release: bool = False,
    log_id: bytes = LOG_ID,
) -> Heartbeat:
    applied = Applied(log_id, Position(3), bytes(16))
    return Heartbeat(
        *(NodeId(node), Incarnation(incarnation), sequence, applied, Position(-1), None, (FENCING,), fenced),
        secret=b"shown" if release else b"",
    )


def after(*gaps_ms: int, incarnation: int = 1, start_ms: int = START_MS, offset: int = 0) -> list[Beat]:
    """A first heartbeat at `start_ms`, then one after each of these gaps."""
    beats = [(heartbeat(1, incarnation), Heard(0, Offset(offset), start_ms))]
    for gap_ms in gaps_ms:
        before = beats[-1][1]
        heard = Heard(0, Offset(before.offset + 1), before.appended_ms + gap_ms)
        beats.append((heartbeat(len(beats) + 1, incarnation), heard))
    return beats


def put(beats: Iterable[Beat]) -> Iterator[Beat]:
    """The same, at the offsets that a topic gives them in this order."""
    for offset, (beat, heard) in enumerate(beats):
        yield beat, msgspec.structs.replace(heard, offset=Offset(offset))


def account_of(beats: Iterable[Beat], before: Account | None = None) -> Account:
    """The account after all of these have been counted."""
    account = before
    for beat, heard in beats:
        account = count(account, beat, heard, TERMS) or account
    assert account is not None
    return account
