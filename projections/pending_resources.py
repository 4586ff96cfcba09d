"""What is seen of things that wait: items as in `resources.py`."""

from typing import Literal

import msgspec

PendingKind = Literal[
    "LOST",
    "PAUSED",
    "COLD",
    "COORDINATOR",
    "REFUSED-JOIN",
    "SILENT",
    "EXCHANGE",
    "ACTIVATION",
    "STATE",
    "REMOVAL",
    "JOIN",
    "HAND-OVER",
    "CHANGE",
    "PROPOSAL",
    "TYPE-REMOVAL",
    "TERMS",
    "DRAIN",
    "ADJUSTMENT",
    "QUEUE",
    "LOADING",
    "DELETION",
    "SESSION",
    "SCHEDULE",
]
"""The worst first: what loses or stops data, what stops decisions, who cannot serve, what others wait behind, what goes
on by itself."""


class PendingHolder(msgspec.Struct, frozen=True):
    """Somebody who is waited for, since position `since`, and for `at_most_ms` more from now (None: until it acts or is
    removed). It may have answered already: the log shows the verdict, not the answers it rests on.

    `heard_ms`: how long ago it was last heard, `lease`: the state of its lease; both None as of the past, or where it
    is no member. Of anti-entropy `node` is a replica, and `heard_ms` since it came further.
    """

    node: str
    since: int
    heard_ms: int | None = None
    lease: str | None = None
    at_most_ms: int | None = None


class Pending(msgspec.Struct, frozen=True):
    """Something in the cluster that is not over.

    `name` is `kind` in small letters and what it is about, as `proposal/Customer/3`; kinds, the worst first:

    LOST and PAUSED (partitions), COLD, COORDINATOR (nobody leads, or nothing is decided), REFUSED-JOIN (a disk of
    another history), SILENT (a member whose lease is not renewed any more), EXCHANGE, ACTIVATION, STATE, REMOVAL (of a
    node), JOIN, HAND-OVER, CHANGE (of definitions), PROPOSAL and TYPE-REMOVAL, TERMS (of leases), DRAIN, ADJUSTMENT (of
    the baseline), QUEUE (exchanges to come), LOADING (copies), DELETION (of data), SESSION, SCHEDULE.

    It waits since position `since`, which `sentence` says what for, in `waits_for` whom for. `at_most_ms`: it ends
    within that; None where no time ends it, 0 where that time is over and the coordinator has yet to say so. `ends` is
    the same in words, with the reason if nothing bounds it. `about`: what `topolog explain` takes; `next`: at most
    three commands that show more or help, the best first. `is_overdue`: an exchange that waits for longer than it
    should.
    """

    name: str
    kind: PendingKind
    sentence: str
    since: int
    since_time: str
    waited_ms: int
    waits_for: tuple[PendingHolder, ...]
    at_most_ms: int | None
    ends: str
    about: str
    next: tuple[str, ...]
    is_overdue: bool = False
