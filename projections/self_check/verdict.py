"""What is said of one store."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import msgspec

from topolog.events.errors import DamagedStore
from topolog.projections.self_check.comparing import Comparison
from topolog.projections.self_check.findings import Finding, finding

FINDINGS_MAX = 1_000
"""So many differences of a store are told in detail, the others are counted."""


class State(StrEnum):
    """MENDED: it differed, was written, and is equal now. REBUILT: nothing could read it, another one is in its place.
    OTHER_LOG: it is no store of this log, and is not touched."""

    EQUAL = "EQUAL"
    DIFFERENT = "DIFFERENT"
    UNREADABLE = "UNREADABLE"
    OTHER_LOG = "OTHER_LOG"
    MENDED = "MENDED"
    REBUILT = "REBUILT"

    @property
    def is_well(self) -> bool:
        return self in (State.EQUAL, State.MENDED, State.REBUILT)


class Verdict(msgspec.Struct, frozen=True):
    """`position` is where it was compared, `rows` how many rows it has, `digest` (hex) the root over all of them, equal
    for equal stores at one position wherever they are. `findings` are the first of the `differences` there are;
    `behind` counts positions to the furthest store that was checked with it."""

    folder: str
    state: State
    position: int | None = None
    behind: int = 0
    rows: int = 0
    buckets: int = 0
    differing_buckets: int = 0
    differences: int = 0
    digest: str = ""
    findings: tuple[Finding, ...] = ()
    why: str = ""
    hint: str = ""


def unreadable(folder: Path, error: DamagedStore) -> Verdict:
    return Verdict(str(folder), State.UNREADABLE, why=error.message, hint="--mend puts a rebuild in its place.")


def told_of(folder: Path, position: int, comparison: Comparison, others: Iterable[Finding] = ()) -> Verdict:
    """What a comparison at this position has shown, and what else was found."""
    findings: list[Finding] = []
    count = 0
    for mismatch in comparison.mismatches():
        count += 1
        if len(findings) < FINDINGS_MAX:
            findings.append(finding(mismatch.key, mismatch.expected, mismatch.found))
    for other in others:
        count += 1
        findings += [other] if len(findings) < FINDINGS_MAX else []
    return Verdict(
        folder=str(folder),
        state=State.DIFFERENT if count else State.EQUAL,
        position=position,
        rows=comparison.buckets.rows,
        buckets=len(comparison.buckets.borders),
        differing_buckets=len(comparison.spans),
        differences=count,
        digest=comparison.buckets.root.hex(),
        findings=tuple(findings),
    )


def with_distances(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Each with how far it is behind the furthest of them."""
    given = list(verdicts)
    furthest = max((each.position for each in given if each.position is not None), default=0)
    return [
        each if each.position is None else msgspec.structs.replace(each, behind=furthest - each.position)
        for each in given
    ]
