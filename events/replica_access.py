"""How the rows of a replica are read and written, wherever they are kept: the one interface to a table."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from topolog.events.merkle import Leaf
from topolog.events.replica import Cut, ReplicaDefinition, RowDigest, SentRow, Written
from topolog.events.token_range import Ranges
from topolog.events.tree_spec import TreeSpec

Progress = Callable[[int, int], None]
"""Told now and then how many rows and bytes have been read or written so far. It raises when the task is no longer
wanted; that ends the call."""

Fence = Callable[[], None]
"""Asked before each effect; it raises if the log no longer asks for it, and then nothing more may be written."""


class Replica(Protocol):
    """One replica of one table. One thread at a time calls it.

    Whatever it cannot do it says by ReplicaFailed; any other error fails the task as well, with less to say. `cut` None
    means the rows as they are now. Reading at a cut that is no longer there raises ReplicaFailed CUT_LOST.
    """

    def describe(self) -> ReplicaDefinition:
        """What it is now, asked anew by each session; its table and its name never change."""

    def cut(self, progress: Progress, shared: Cut | None = None) -> Cut | None:
        """Fix a read point now, None if the rows have none. One that is fixed twice under one name is released once.

        Where it is a copy of the table, `progress` is told of what has been copied. `shared`, which the same session
        has fixed before, is given again if it is still there: then all of it reads one moment.

        Whoever dies before its answer is in the log leaves one behind that nobody knows of.
        """

    def leaves(self, spec: TreeSpec, ranges: Ranges, bits: int, cut: Cut | None, progress: Progress) -> Iterable[Leaf]:
        """The leaves of a tree of 2^bits with rows in these ranges, each once, in any order."""

    def digests(self, spec: TreeSpec, ranges: Ranges, cut: Cut | None, progress: Progress) -> Iterable[RowDigest]:
        """One digest for each row in these ranges, in any order."""

    def rows(self, spec: TreeSpec, keys: Sequence[str], cut: Cut | None) -> Iterable[tuple[str, str]]:
        """(key, JSON of the canonical values of the spec's columns by name) of those of these rows that are there."""

    def write(
        self, spec: TreeSpec, rows: Sequence[SentRow], cut: Cut | None, fence: Fence, progress: Progress
    ) -> Written:
        """Write those of these rows that are for this replica and still are here what they were when compared at `cut`.

        A row that is something else by now is skipped. One that is already what it is to become counts as written: it
        is, by a life that has died before it could say so. `progress` is told of no rows but those that are written; of
        bytes it may count what was looked at.
        """

    def release(self, cut: Cut) -> None:
        """Nobody reads at this cut any more; one that is not there is none of an error."""
