"""What people and programs see of a projector's stores: the items of `projections`. They are of one process, and of
now."""

from collections.abc import Sequence

import msgspec

from topolog.projections.upkeep.compared import Compared
from topolog.projections.upkeep.tasks import Finding


class ScrubNow(msgspec.Struct, frozen=True):
    """The last time all of a store was read, or that it is being read: `bytes` of about `of`. Times are UTC."""

    state: str
    bytes: int
    of: int
    time: str | None
    findings: Sequence[Finding] = ()


class Generation(msgspec.Struct, frozen=True):
    """One store of the projector that answers.

    `name` is its number, or `building`, or `refused`. `state` is SHOWN (it answers), PAUSED (it answers and reads no
    further), DAMAGED (it answers with what can be read of it, or was set aside), BUILDING, FORMER (`back` shows it
    again), REFUSED (it came to nothing). `position` is as far as it has folded, of about `of`, at `rate` records per
    second for another `eta_s`. `phase` of a build is FOLDING, COMPARING, OFFERED or WAITING. `hash` is that of its
    rows, `shape` that of their fields; `why` and `by` say what it was made for and by whom, or what is the matter with
    it; `compared` is what it and the one that was shown when it was made have of the past.
    """

    name: str
    state: str
    position: int | None
    of: int | None
    rate: float | None
    eta_s: int | None
    age_ms: int | None
    hash: str
    shape: str
    bytes: int
    started_at: str | None
    why: str
    by: str = ""
    phase: str | None = None
    compared: Compared | None = None
    scrub: ScrubNow | None = None
