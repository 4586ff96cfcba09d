"""What a service is told as definitions change, in the order of the log, and what it may use from then on."""

from collections.abc import Callable, Sequence

from topolog.events.objects import ObjectRow
from topolog.events.state import Key
from topolog.streams.node.core import NodeCore
from topolog.streams.node.objects import Objects, Published, Table

TableHook = Callable[[str, Table | None], None]


class ObjectHooks:
    def __init__(self) -> None:
        self.on_table: list[TableHook] = []
        self.objects = Objects()

    def begin(self, core: NodeCore) -> None:
        """The state begins anew: what was said is taken back, and what is there is said."""
        self._show(Published({}, {}, 1), list(self.objects.now.rows))
        self.adopt(core, core.state.keys())

    def adopt(self, core: NodeCore, keys: Sequence[Key]) -> None:
        """These rows have changed. Nobody uses what a hook is told of before the hook has returned."""
        found = self.objects.adopt(core.state, keys)
        if found is not self.objects.now:
            self._show(found, [name for kind, name in keys if kind == ObjectRow.KIND])

    def _show(self, found: Published, names: Sequence[str]) -> None:
        before = self.objects.now
        told = [(name, found.usable_table(name)) for name in names]
        news = [(name, table) for name, table in told if before.usable_table(name) != table]
        if news and self.on_table:
            self.objects.withhold(frozenset(name for name, _ in news))
            for name, table in news:
                for hook in self.on_table:
                    hook(name, table)
        self.objects.publish(found)
