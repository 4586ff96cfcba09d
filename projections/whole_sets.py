"""What a reader of `decisions` keeps of each set: the fold, and what a store says of itself beside the rows.

The projector and the rebuild that a store is checked against (`self_check/`) are both made of it. So two stores of one
log at one position hold the same bytes, wherever their readers stopped, started and cut their batches.
"""

from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.ids import Offset
from topolog.events.log import Entry
from topolog.events.state import State
from topolog.projections.layout import Meta, WholeSet


class WholeSets:
    """Folds entries, the first one that which follows `meta.last_offset`, on the rows that `meta` belongs to."""

    def __init__(self, state: State, meta: Meta) -> None:
        self.fold = Fold(state, meta.header)
        self._cluster = meta.cluster
        self._ignored = meta.ignored
        self._logged_at_ms = meta.logged_at_ms

    def read(self, entry: Entry) -> WholeSet | Ignored | None:
        """The set that this entry completes, None while one is open, or why it is ignored; raises what `Fold.read` does
        and can be given the entry again then."""
        self._logged_at_ms = max(self._logged_at_ms, entry.appended_at_ms)
        folded = self.fold.read(entry.stamp, entry.value)
        if isinstance(folded, Ignored):
            self._ignored = {**self._ignored, folded.name: self._ignored.get(folded.name, 0) + 1}
            return folded
        return self._whole(folded, entry.offset) if folded else None

    def _whole(self, decisions: list[Folded], offset: Offset) -> WholeSet:
        state = self.fold.state
        rows = {key: state.lookup(key) for key in state.drain()}
        meta = Meta(self._cluster, self.fold.header, offset, state.hash(), self._logged_at_ms, self._ignored)
        return WholeSet(meta, decisions, rows)
