"""A store and the fold that goes on from where it stands: what a projector shows, or reads on beside it."""

from collections.abc import Callable, Sequence

from topolog.events.errors import LogDiverged, Poisoned, Undecodable
from topolog.events.failpoints import reach
from topolog.events.fold import Ignored
from topolog.events.ids import Offset
from topolog.events.log import Entry
from topolog.events.lookahead import LookAhead
from topolog.events.stamp import NO_CHAIN, chain_after, decode_stamp
from topolog.events.state import State
from topolog.events.terms import ClusterRow
from topolog.events.topics import Topic
from topolog.projections.layout import Meta, WholeSet
from topolog.projections.store import Store
from topolog.projections.whole_sets import WholeSets

Counted = Callable[[Entry, int], None]
"""Told of each record that counts, and of fence_ms in force there."""

Written = Callable[[Sequence[WholeSet]], None]
"""Told of the sets that have been written."""

_BATCH_RECORDS = 2_000
"""Records per write at most: enough to spread the cost of a write thin, few enough that readers see progress."""


class Projection:
    """`is_proven`: the log holds the record that was stored last, so what follows it can be folded. `read_at` is the
    offset of the record that was folded last, or could not be."""

    def __init__(self, store: Store, state: State) -> None:
        self.store = store
        self.sets = WholeSets(state, store.meta)
        self.is_proven = store.meta.last_offset is None
        self.read_at = Offset(0)

    @property
    def meta(self) -> Meta:
        return self.store.meta

    @property
    def fence_ms(self) -> int:
        """What is in force where the fold stands, which may be ahead of the store; 0 while nothing has been decided."""
        cluster = self.sets.fold.state.get(ClusterRow, "")
        return cluster.fence_ms if cluster else 0

    def again(self) -> "Projection":
        """The same from where the store stands, for a reader that has been elsewhere."""
        return Projection(self.store, self.sets.fold.state)

    def take(self, entries: Sequence[Entry], reader: LookAhead, written: Written) -> bool:
        """Fold and store what `reader` has given; returns whether any record counts.

        At a record that cannot be folded the reader looks ahead for its voiding; what came before it is stored.
        """
        new = self.prove(entries, reader.counted, at_end=reader.at_end(Topic.DECISIONS))
        has_counted = len(new) < len(entries)
        for start in range(0, len(new), _BATCH_RECORDS):
            try:
                has_counted |= self.project(new[start : start + _BATCH_RECORDS], reader.counted, written)
            except Poisoned as poisoned:
                reader.look_ahead(self.sets.fold, poisoned, self.read_at)
                break
        return has_counted

    def prove(self, entries: Sequence[Entry], counted: Counted, *, at_end: bool) -> Sequence[Entry]:
        """The entries behind the last one stored, which must come first; raises LogDiverged if it does not.

        `at_end`: no more will come for now.
        """
        if self.is_proven or (not entries and not at_end):
            return entries
        if not entries or not self._is_last_stored(entries[0]):
            raise LogDiverged(
                f"Offset {self.meta.last_offset} of decisions does not hold the decision at position "
                f"{self.meta.position} that this store has folded from it.",
                hint="The topic was cut short, made again or swapped for a copy. If the log is right as it is, move "
                f"{self.store.path} away and start again: the store is built anew.",
            )
        self.is_proven = True
        counted(entries[0], self.fence_ms)
        return entries[1:]

    def project(self, entries: Sequence[Entry], counted: Counted, written: Written) -> bool:
        """Fold and store; what was folded before an error is stored all the same. Returns whether any record counts."""
        has_counted = False
        sets: list[WholeSet] = []
        try:
            for entry in entries:
                self.read_at = entry.offset
                found = self.sets.read(entry)
                if isinstance(found, Ignored):
                    continue
                has_counted = True
                counted(entry, self.fence_ms)
                if found:
                    sets.append(found)
        finally:
            if sets:
                reach("projector.folded")
                self.store.write(sets)
                reach("projector.written")
                written(sets)
        return has_counted

    def _is_last_stored(self, entry: Entry) -> bool:
        try:
            stamp = decode_stamp(entry.stamp or b"")
        except Undecodable:
            return False
        with self.store.reading() as reading:
            before = reading.decision(self.meta.position - 1)
        chain = stamp.chain if stamp.sequence else before.chain if before else NO_CHAIN
        return chain_after(chain, entry.stamp or b"", entry.value) == self.meta.header.chain
