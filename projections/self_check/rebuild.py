"""A store built anew from the log, up to exactly the position where another store stands.

It is made by what the projector is made of, `WholeSets` and `Store.write`, in a folder of its own, and stands between
two calls of `to`; it goes forward cheaply and back only by beginning again.
"""

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from topolog.events.errors import DamagedStore, Permanent, Poisoned, Unreachable
from topolog.events.fold import Header, Ignored
from topolog.events.ids import Offset, Position
from topolog.events.log import Entry, LogReader
from topolog.events.lookahead import LookAhead
from topolog.events.state import State
from topolog.events.terms import ClusterRow
from topolog.events.topics import Topic
from topolog.projections import layout
from topolog.projections.layout import Decided, Meta, WholeSet
from topolog.projections.rocks import View
from topolog.projections.self_check.buckets import Buckets, cut
from topolog.projections.self_check.opened import beside, rows_of_log
from topolog.projections.store import Store
from topolog.projections.whole_sets import WholeSets

_DECISIONS = (Topic.DECISIONS, 0)
_WRITE_SETS = 1_000
_POLL_S = 0.1
PATIENCE_S = 30.0
"""How long the log may say nothing at all before the check gives up."""


class ScratchDamaged(Permanent):
    """What was just written for a rebuild cannot be read: of the stores that are checked this says nothing."""

    code = "scratch_damaged"


class Rebuild:
    """One at a time stands in `folder`, which is its own. `now_s` is a monotonic clock; `told` hears of progress."""

    def __init__(
        self, reader: LogReader, cluster: str, folder: Path, now_s: Callable[[], float], told: Callable[[str], None]
    ) -> None:
        self.cluster = cluster
        self._reader = reader
        self._folder = folder
        self._now_s = now_s
        self._told = told
        self._store: Store | None = None
        self._buckets: Buckets | None = None
        self._view: View | None = None
        self._reading = ExitStack()
        self._begin()

    @property
    def meta(self) -> Meta:
        assert self._store is not None
        return self._store.meta

    @property
    def position(self) -> Position:
        return self.meta.position

    def to(self, position: int) -> bool:
        """Stand at this position; False, and standing elsewhere, if no set of the log ends there.

        Raises Poisoned for a record before it that cannot be folded and is not voided, Unreachable for a silent log.
        """
        if position < self.position:
            self._begin()
        self._ask_anew()
        while self.position < position and self._advance(position):
            pass
        return self.position == position

    def to_end(self) -> Poisoned | None:
        """Stand at the end of what can be folded; returns what ends it before the end of the log, if anything does."""
        self._ask_anew()
        try:
            while self._advance(None):
                pass
        except Poisoned as poisoned:
            return poisoned
        return None

    def buckets(self) -> Buckets:
        """The digests of its rows, with borders of its own."""
        if self._buckets is None:
            self._buckets = cut(self.rows())
        return self._buckets

    def rows(self, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) from `start` to before `end`; one loop at a time, and none across a call of `to`."""
        with self._scratch():
            yield from rows_of_log(self._opened_view(), start, end)

    def decisions(self) -> Iterator[tuple[bytes, Decided]]:
        """(key, decision) for all of them, in order; as `rows`."""
        with self._scratch():
            for key, value in self.rows(*layout.DECISIONS_SPAN):
                yield key, layout.decode(value, Decided)

    def close(self) -> None:
        """The folder is left to whoever has given it."""
        self._close_view()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _begin(self) -> None:
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        with self._scratch():
            self._store = Store(self._folder, self.cluster)
        self._sets = WholeSets(State(), self._store.meta)
        self._waiting: deque[Entry] = deque()
        self._ahead = LookAhead(self._reader)
        self._ahead.assign({_DECISIONS: Offset(0)})

    def _advance(self, position: int | None) -> bool:
        """Some records nearer to this position, or to the end; False at the end of the log."""
        if self._waiting:
            self._fold(position)
            return True
        looked_at = self._looked_at()
        self._waiting.extend(self._ahead.poll(_POLL_S))
        if self._waiting or self._looked_at() != looked_at:
            self._heard_at_s = self._now_s()
            return True
        if self._ahead.at_end(Topic.DECISIONS) and self._ahead.hears(Topic.DECISIONS):
            return False
        if self._now_s() - self._heard_at_s > PATIENCE_S:
            raise Unreachable(f"The log has said nothing for {PATIENCE_S:g} s.", hint="Is the broker up? Try again.")
        return True

    def _looked_at(self) -> Header | None:
        """Where a look ahead for a voiding has come, which gives no records meanwhile."""
        search = self._ahead.search
        return search.judge.header if search else None

    def _ask_anew(self) -> None:
        """The end that was heard before is none any more: a store that was opened since may be ahead of it."""
        self._heard_at_s = self._now_s()
        self._ahead.hears(Topic.DECISIONS)

    def _fold(self, position: int | None) -> None:
        """Fold what has been read, up to this position, and write it; what comes before an error is written too."""
        assert self._store is not None
        fold = self._sets.fold
        sets: list[WholeSet] = []
        try:
            while self._waiting and len(sets) < _WRITE_SETS and (position is None or fold.header.position < position):
                entry = self._waiting.popleft()
                found = self._sets.read(entry)
                if not isinstance(found, Ignored):
                    self._ahead.counted(entry, self._fence_ms())
                if isinstance(found, WholeSet):
                    sets.append(found)
        except Poisoned as poisoned:
            self._waiting.clear()
            self._ahead.look_ahead(fold, poisoned, entry.offset)
        finally:
            if sets:
                self._close_view()
                with self._scratch():
                    self._store.write(sets)
                self._told(f"rebuilding from the log: position {self.position}")

    def _fence_ms(self) -> int:
        row = self._sets.fold.state.get(ClusterRow, "")
        return row.fence_ms if row else 0

    def _opened_view(self) -> View:
        """Of the rows at this position; kept until something is written."""
        if self._view is None:
            assert self._store is not None
            self._view = self._reading.enter_context(beside(self._store.path))
        return self._view

    @contextmanager
    def _scratch(self) -> Iterator[None]:
        """Damage of the rebuild must not pass for damage of the store that it is compared with."""
        try:
            yield
        except DamagedStore as error:
            raise ScratchDamaged(
                f"The rebuild in {self._folder} cannot be read: {error.message}",
                hint="Look for a failing disk; TMPDIR names another one.",
            ) from error

    def _close_view(self) -> None:
        self._view, self._buckets = None, None
        self._reading.close()
