"""What a service is told as definitions change, in the order of the log, and what it may use from then on."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from topolog.events.errors import CannotApply, HookFailed
from topolog.events.ids import Position
from topolog.events.membership import Blocked
from topolog.events.objects import ChangeRow, ChangeStatus, ObjectRow
from topolog.events.requests import shortened
from topolog.events.state import Key
from topolog.streams.node.confirming import newly_owed
from topolog.streams.node.core import NodeCore
from topolog.streams.node.deletions import Deletion, closed_by
from topolog.streams.node.lazy import Lazy
from topolog.streams.node.objects import EMPTY, Published, Table

TableHook = Callable[[str, Table | None], None]
ChangeHook = Callable[[ChangeRow], None]
DeletionHook = Callable[[Deletion], None]


class ObjectHooks:
    """All of it runs on the thread that applies the log; any thread may look at `now`."""

    def __init__(self) -> None:
        self.on_table: list[TableHook] = []
        self.on_change: list[ChangeHook] = []
        self.on_deletion: list[DeletionHook] = []
        self.lazy: list[Lazy[Any]] = []
        self.now = EMPTY
        self._asked: set[Position] = set()
        self._blocked: dict[Position, Blocked] = {}
        self._has_begun = False

    def begin(self, core: NodeCore) -> None:
        """The state begins anew: what was said is taken back, and what is there is said."""
        self._asked.clear()
        self._blocked.clear()
        core.block(None)
        self._has_begun = False
        self._show(EMPTY, list(self.now.rows))
        self.adopt(core, core.state.keys())

    def adopt(self, core: NodeCore, keys: Sequence[Key]) -> None:
        """These rows have changed. Nobody uses what a hook is told of before the hook has returned.

        Until this process asks to join, what it reads is history: changes that are long over, tables as they were. Then
        it is told all that is there at once, before it can hold a lease.
        """
        if core.has_never_asked:
            return
        if not self._has_begun:
            self._has_begun, keys = True, core.state.keys()
        changes = [Position(int(key)) for kind, key in keys if kind == ChangeRow.KIND]
        names = [key for kind, key in keys if kind == ObjectRow.KIND]
        if not changes and not names:
            return
        before, rows = self.now, [core.state.get(ChangeRow, str(number)) for number in changes]
        for number, row in zip(changes, rows, strict=True):
            self._ask(core, number, row)
        core.block(min(self._blocked.values(), key=lambda each: each.position, default=None))
        self._show(self.now.adopting(core.state, names, frozenset(self._blocked)), names)
        for change in newly_owed(core, keys):
            for hook in self.on_deletion:
                hook(closed_by(change, before))
            if not self.on_deletion:
                core.deletions.done(change.number)

    def _ask(self, core: NodeCore, number: Position, change: ChangeRow | None) -> None:
        """Whether this node can apply the change, asked once; what it has answered is over with the change."""
        if change is not None and change.status is ChangeStatus.PREPARED:
            if number not in self._asked:
                self._asked.add(number)
                self._ask_hooks(change)
            return
        self._asked.discard(number)
        blocked = self._blocked.pop(number, None)
        is_committed = change is None or change.status is ChangeStatus.COMMITTED
        if blocked and is_committed:
            raise HookFailed(
                f"Change {number} is committed, and this node cannot apply it: {blocked.code}: {blocked.message}",
                hint="The node is fenced. Start it with a build that can.",
            )

    def _ask_hooks(self, change: ChangeRow) -> None:
        assert change.prepared_at is not None, "a prepared change was prepared somewhere"
        try:
            for hook in self.on_change:
                hook(change)
        except CannotApply as no:
            self._blocked[change.number] = Blocked(change.prepared_at, shortened(no.code), shortened(no.message))

    def _show(self, found: Published, names: Iterable[str]) -> None:
        before = self.now
        told = [(name, found.usable_table(name)) for name in names]
        news = [(name, table) for name, table in told if before.usable_table(name) != table]
        for lazy in self.lazy:
            lazy.forget(name for name, _ in news)
        if news and self.on_table:
            self.now = before.without(frozenset(name for name, _ in news))
            for name, table in news:
                for hook in self.on_table:
                    hook(name, table)
        self.now = found
