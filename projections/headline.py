"""What is wrong in a cluster, the worst first, each in one sentence: the same for whoever asks, and wherever.

Order: that this reader has stopped, for then all that is known is of a moment ago; partitions that are lost, then those
that are paused; a cold cluster; a coordinator that is not there or silent;
joins that are refused; members that are silent; exchanges that are overdue. What only waits is not wrong, and comes
behind all of that in one sentence.
"""

from collections.abc import Iterator, Sequence

import msgspec

from topolog.events.groups import GroupRow
from topolog.projections import partitions
from topolog.projections.baseline_resources import Cold
from topolog.projections.durations import ago
from topolog.projections.packed import Condition
from topolog.projections.pending_resources import Pending, PendingKind
from topolog.projections.sentences import counted, listed
from topolog.projections.store import Reading

_PARTITIONS = (
    (Condition.LOST, "lost: no copy that is whole is present"),
    (Condition.PAUSED, "paused: neither read nor written"),
)
_BAD: tuple[PendingKind, ...] = ("LOST", "PAUSED", "COLD", "COORDINATOR", "REFUSED-JOIN", "SILENT")
_BY_TIME: tuple[PendingKind, ...] = ("SCHEDULE",)
"""What comes round by itself keeps nobody waiting."""

_WAITS_MAX = 3


class Headline(msgspec.Struct, frozen=True):
    """`news`: what is wrong, a sentence each, the worst first; `waits`: one sentence, empty if nothing waits."""

    news: tuple[str, ...]
    waits: str

    @property
    def sentences(self) -> tuple[str, ...]:
        return (*self.news, self.waits) if self.waits else self.news


class Stopped(msgspec.Struct, frozen=True):
    """How many partitions of a group are in a condition in which nobody acts for them."""

    group: str
    condition: Condition
    count: int


def stopped(reading: Reading) -> list[Stopped]:
    """Groups with partitions that are lost or paused, the lost first."""
    totals = [(row.name, partitions.condition_totals(reading, row.name)) for _, row in reading.rows(GroupRow)]
    return [
        Stopped(group, condition, counts[condition])
        for condition, _ in _PARTITIONS
        for group, counts in totals
        if counts.get(condition)
    ]


def headline(
    found: Sequence[Pending], held_up: Sequence[Stopped], cold: Cold | None, reads_no_further: str | None
) -> Headline:
    """Of all that is pending, of `stopped`, of a cluster that is cold, and of why this reader reads no further."""
    news = [*_of_reader(reads_no_further), *_of_partitions(held_up), *_of_cold(cold), *_of_coordinator(found)]
    news += [*_of_joins(found), *_of_silent(found), *(each.sentence for each in found if is_overdue(each))]
    waiting = [each for each in found if each.kind not in (*_BAD, *_BY_TIME) and not is_overdue(each)]
    names = listed([f"{each.name} ({ago(each.waited_ms)})" for each in waiting], _WAITS_MAX)
    return Headline(tuple(news), f"Waiting: {names}." if waiting else "")


def is_overdue(each: Pending) -> bool:
    """Whether it is an exchange that waits for longer than it should."""
    return each.kind == "EXCHANGE" and each.is_overdue


def is_bad(each: Pending) -> bool:
    """Whether something is wrong, and not only under way."""
    return each.kind in _BAD or is_overdue(each)


def _of_reader(reads_no_further: str | None) -> Iterator[str]:
    if reads_no_further:
        yield f"This reader has stopped, and nobody's silence can be judged: {reads_no_further}"


def _of_partitions(held_up: Sequence[Stopped]) -> Iterator[str]:
    for condition, words in _PARTITIONS:
        alike = [each for each in held_up if each.condition is condition]
        count, groups = sum(each.count for each in alike), [each.group for each in alike]
        where = f"of group {groups[0]}" if len(groups) == 1 else f"of {len(groups)} groups ({listed(groups)})"
        if alike:
            yield f"{counted(count, 'partition')} {where} {'is' if count == 1 else 'are'} {words}."


def _of_cold(cold: Cold | None) -> Iterator[str]:
    if cold is not None:
        yield (
            f"COLD since position {cold.since}: {len(cold.online)} of {len(cold.online) + len(cold.awaited)} members "
            f"of the baseline are online, {cold.quorum} are needed, awaited: {listed(cold.awaited)}."
        )


def _of_coordinator(found: Sequence[Pending]) -> Iterator[str]:
    yield from (each.sentence for each in found if each.kind == "COORDINATOR")


def _of_joins(found: Sequence[Pending]) -> Iterator[str]:
    refused = [each for each in found if each.kind == "REFUSED-JOIN"]
    if len(refused) == 1:
        yield refused[0].sentence
    elif refused:
        yield f"{len(refused)} nodes are refused: {listed(_nodes(refused))}. {refused[0].sentence}"


def _of_silent(found: Sequence[Pending]) -> Iterator[str]:
    silent = [each for each in found if each.kind == "SILENT"]
    if len(silent) == 1:
        yield silent[0].sentence
    elif silent:
        heard = [f"{held.node} (heard {ago(held.heard_ms or 0)} ago)" for each in silent for held in each.waits_for]
        yield f"{len(silent)} members are not renewed any more: {listed(heard)}."


def _nodes(found: Sequence[Pending]) -> list[str]:
    return [held.node for each in found for held in each.waits_for]
