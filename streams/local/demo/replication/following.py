"""A copy that another node leads: it takes what that one holds, then each of its writes.

The intake is a load if the copy is MOVING and a reconciliation if it is OWNING (DS4); the difference is that an owner
takes no writes before it is over, because none are made, while a copy that loads takes them from its listing on.
"""

from collections.abc import Callable

from topolog.events.ids import NodeId
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo.replication.content import Content
from topolog.streams.local.demo.replication.messages import (
    Ask,
    Cell,
    Output,
    Page,
    Probe,
    Replicate,
    Row,
    Send,
    Stored,
    Supply,
    Synced,
    Version,
)
from topolog.streams.node.copies import PartitionId
from topolog.streams.node.views import CopyView, PartitionView


class Following:
    """One listing of this node's copy under one token (DS5). `content` is the copy's; `fresh` what the intake brings.

    The methods that take a message answer whether it concerns this copy as it is now.
    """

    def __init__(
        self, view: PartitionView, own: CopyView, content: Content, fresh: Content, out: Callable[[Output], None]
    ) -> None:
        assert view.primary is not None, "somebody leads"
        self.token = view.token
        self.own = own
        self.content = content
        self.is_synced = False
        self._place: PartitionId = (view.group, view.partition)
        self._primary: NodeId = view.primary
        self._fresh = fresh
        self._after = ""
        self._settled = 0
        self._out = out

    def goes_on(self, view: PartitionView, own: CopyView) -> bool:
        """Whether the map as it is now is about this very life: under the same token the same listing, or the one
        that its finished load has led to."""
        if view.token != self.token:
            return False
        has_become_owner = (self.own.state, own.state) == (PartitionState.MOVING, PartitionState.OWNING)
        return own.since == self.own.since or (has_become_owner and self.is_synced)

    def is_loaded(self, view: PartitionView, own: CopyView) -> bool:
        """Whether the copy of this listing is whole, under the token of this map."""
        return self.is_synced and self.goes_on(view, own)

    def ask(self) -> None:
        """Ask for the next page, or again for it."""
        if not self.is_synced:
            have = self.content.versions(self._after)
            self._send(self._primary, Ask(*self._place, self.token, self.own.since, self._after, have))

    def store(self, message: Replicate) -> bool:
        """A write of the primary (DS9: the token and the listing are checked by whoever calls)."""
        if self.is_synced:
            if message.number > self._settled:
                self.content.put(message.key, self._cell(message))
                self._settled = max(self._settled, message.settled)
                self.content.forget_deletions(self.token, self._settled)
        elif self.own.state is PartitionState.MOVING:
            self._fresh.put(message.key, self._cell(message))
        else:
            return False
        self._send(self._primary, Stored(*self._place, self.token, self.own.since, message.number))
        return True

    def take(self, message: Page) -> bool:
        """The page that was asked for; any other is an old one."""
        if self.is_synced or message.after != self._after:
            return False
        cells = {row.key: self._cell_of(row) for row in message.rows}
        if None in cells.values():
            return False
        for key, cell in cells.items():
            assert cell is not None, "seen above"
            self._fresh.put(key, cell)
        if message.through is None:
            self.content, self.is_synced = self._replaced(), True
            self.tell()
        else:
            self._after = message.through
            self.ask()
        return True

    def tell(self) -> None:
        """Say that this copy is synced; the primary asks until it has heard it."""
        self._send(self._primary, Synced(*self._place, self.token, self.own.since))

    def answer(self, message: Probe) -> bool:
        if self.is_synced:
            self.tell()
        return True

    def supply(self, message: Supply) -> bool:
        """Stand in for the primary; only after the reconciliation (DS4)."""
        if not self._may_supply():
            return False
        rows, through = self.content.page(message.after, message.have)
        page = Page(*self._place, self.token, message.since, message.after, through, rows)
        self._send(message.demander, page)
        return True

    def unfinished(self) -> Content | None:
        """What an intake that will never end has brought."""
        return None if self.is_synced else self._fresh

    def _may_supply(self) -> bool:
        return self.is_synced and self.own.state is PartitionState.OWNING

    def _replaced(self) -> Content:
        """The copy after its intake: what came, and nothing else (DS7)."""
        return self._fresh

    def _cell(self, message: Replicate) -> Cell:
        return Cell(Version(self.token, message.number), message.value)

    def _cell_of(self, row: Row) -> Cell | None:
        """The row whole; its value may be one that this copy told it has. None if it has not: nonsense."""
        if row.value is not None:
            return Cell(row.version, row.value)
        held = self.content.get(row.key)
        return held if held is not None and held.version == row.version else None

    def _send(self, to: NodeId, message: Ask | Stored | Synced | Page) -> None:
        self._out(Send(to, message))
