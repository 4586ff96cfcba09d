"""One partition on one node: what each new map makes of the copy, and which messages concern it."""

from collections import Counter, deque
from collections.abc import Callable
from enum import Enum

from topolog.events.ids import NOWHERE, NodeId, Position
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo.replication.content import Content
from topolog.streams.local.demo.replication.following import Following
from topolog.streams.local.demo.replication.leading import Leading, Supplier
from topolog.streams.local.demo.replication.messages import (
    AnyMessage,
    Ask,
    Cleared,
    Failed,
    Loaded,
    Operation,
    Output,
    Page,
    Probe,
    Replicate,
    Stored,
    Supply,
    Synced,
)
from topolog.streams.node.copies import PartitionId
from topolog.streams.node.views import CopyView, PartitionView

PARKED_MAX = 256
"""Messages that wait for the map; who sent more says them again."""

_KEEP_THEIR_ROWS = (PartitionState.OWNING, PartitionState.MOVING, PartitionState.LOST)
"""When they become OWNING: it has loaded, or is what was chosen of a loss, or is listed anew."""


class CopyRole(Enum):
    """As what a copy is compared with others: the one that acts, or the first of the others that own."""

    ACTING = "acting"
    BACKUP = "backup"


class Life:
    """What all partitions of a node share: how far it knows the map, and since when this process takes part.

    `applied` is the newest position that any listing or token in the map has: whatever names a later one is ahead.
    `entered_at`: of the map from before that, what is said of this node is about a process that is no more.
    """

    def __init__(self, node: NodeId) -> None:
        self.node = node
        self.applied = NOWHERE
        self.entered_at: Position | None = None
        self.refused: Counter[str] = Counter()


class Partition:
    """`is_whole`: `content` is all of a copy that the log lists as OWNING, or will once the load is reported."""

    def __init__(
        self,
        life: Life,
        place: PartitionId,
        new_content: Callable[[], Content],
        supplier: Supplier,
        out: Callable[[Output], None],
    ) -> None:
        self.content = new_content()
        self.is_whole = False
        self.view: PartitionView | None = None
        self.leading: Leading | None = None
        self.following: Following | None = None
        self._life = life
        self._place = place
        self._new_content = new_content
        self._supplier = supplier
        self._out = out
        self._own: CopyView | None = None
        self._cleared: Position | None = None
        self._parked: deque[tuple[NodeId, AnyMessage]] = deque(maxlen=PARKED_MAX)

    @property
    def state(self) -> PartitionState | None:
        """Of this node's copy in the map that it has adopted, None if it has none there."""
        return self._own.state if self._own else None

    @property
    def role(self) -> CopyRole | None:
        """None also while the copy is not known to hold what the primary of this token holds (DS4)."""
        if self.leading is not None:
            return CopyRole.ACTING if self.leading.is_ready else None
        view, following = self.view, self.following
        if view is None or following is None or not following.is_synced:
            return None
        others = (each for each in view.copies if each.node != view.primary and each.state is PartitionState.OWNING)
        first = next(others, None)
        return CopyRole.BACKUP if first is not None and first.node == self._life.node else None

    # The map.

    def adopt(self, view: PartitionView) -> None:
        """The map is this now."""
        if self.view is not None and self.view.group_number != view.group_number:
            self._begin_anew()
        before, self._own, self.view = self._own, view.copy_of(self._life.node), view
        self._keep(view, before)
        self._lead(view)
        self._follow(view)
        self._clear()
        self._take_up()

    def drop_unlisted(self) -> None:
        """Forget rows that the log does not count as a copy."""
        if self._own is None:
            self.content = self._new_content()

    def _keep(self, view: PartitionView, before: CopyView | None) -> None:
        """What the new listing says about the rows that are here. Only the log makes a copy whole again."""
        own = self._own
        if own is None or own.state is not PartitionState.OWNING:
            if own is not None and own.state is PartitionState.LOST:
                self._save_what_came()
            following = self.following
            self.is_whole = own is not None and following is not None and following.is_loaded(view, own)
        elif own != before and self._is_of_this_life(own.since):
            if before is None or before.state not in _KEEP_THEIR_ROWS:  # it begins empty (EX27)
                self.content = self._new_content()
            self.is_whole = True

    def _begin_anew(self) -> None:
        """The group is another one that has the name now (`events/groups.py`)."""
        self.content, self.is_whole, self._own = self._new_content(), False, None

    def _save_what_came(self) -> None:
        """The owners are gone in the middle of a load; if an operator gives them up, this is better than nothing."""
        came = self.following.unfinished() if self.following else None
        for key, cell in came.rows() if came else ():
            self.content.put(key, cell)

    def _lead(self, view: PartitionView) -> None:
        acts = view.primary == self._life.node and self._is_of_this_life(view.token)
        if self.leading and not (acts and view.token == self.leading.token):
            self.leading.close()
            self.leading = None
        if acts:
            if self.leading is None:
                self.leading = Leading(self._life.node, view, self.content, self._supplier, self._out)
            self.leading.adopt(view)

    def _follow(self, view: PartitionView) -> None:
        own, following = self._own, self.following
        is_led = self._is_in and view.primary not in (None, self._life.node)
        if not is_led or own is None or not own.state.is_written:
            self.following = None
        elif following is not None and following.goes_on(view, own):
            following.own = own
        else:
            self.following = Following(view, own, self.content, self._new_content(), self._out)
            self.following.ask()

    def _clear(self) -> None:
        """The node has read from the log that the copy is RENTING (EX11)."""
        own = self._own
        if self._is_in and own is not None and own.state is PartitionState.RENTING and own.since != self._cleared:
            self.content, self._cleared = self._new_content(), own.since
            self._out(Cleared(*self._place, own.since))

    @property
    def _is_in(self) -> bool:
        return self._life.entered_at is not None

    def _is_of_this_life(self, position: Position) -> bool:
        return self._life.entered_at is not None and position > self._life.entered_at

    def _take_up(self) -> None:
        """What has waited for the map may be due now; it waits again if it is not."""
        parked = list(self._parked)
        self._parked.clear()
        for sender, message in parked:
            self.receive(sender, message)

    # Clients.

    def begin(self, operation: Operation) -> None:
        """Begin it if its token is the one that acts (DS8)."""
        if self.leading is not None and self.leading.token == operation.token:
            self.leading.begin(operation)
        else:
            self._out(Failed(operation.id))

    def abandon(self, operation: int) -> None:
        if self.leading is not None:
            self.leading.abandon(operation)

    # Other nodes.

    def receive(self, sender: NodeId, message: AnyMessage) -> None:
        if not self._is_in:
            self._life.refused["not a member"] += 1
        elif self._is_ahead(message.token) or self._is_ahead(message.since):
            self._parked.append((sender, message))
        elif not self._is_of_the_acting_token(message):
            self._life.refused["another token"] += 1
        elif not self._is_concerned(sender, message):
            self._life.refused["another listing"] += 1

    def resend(self) -> None:
        if self.leading is not None:
            self.leading.resend()
        if self.following is not None:
            self.following.ask()

    def _is_ahead(self, position: Position) -> bool:
        return position > self._life.applied

    def _is_of_the_acting_token(self, message: AnyMessage) -> bool:
        return self.view is not None and message.token == self.view.token

    def _is_concerned(self, sender: NodeId, message: AnyMessage) -> bool:
        """Give the message to the side that it is for; False if it is about another life of a copy than this one."""
        match message:
            case Stored() | Synced() | Ask():
                copy = self._listed(sender, message.since)
                return copy is not None and self.leading is not None and self._lead_with(self.leading, copy, message)
            case Supply():
                return self.following is not None and self.following.supply(message)
            case Replicate() | Page() | Probe():
                return self._follows(message.since) and self._follow_with(message)

    def _listed(self, node: NodeId, since: Position) -> CopyView | None:
        """The copy of this listing in the map, if it is there and written to (DS3)."""
        copy = self.view.copy_of(node) if self.view else None
        return copy if copy is not None and copy.since == since and copy.state.is_written else None

    def _follows(self, since: Position) -> bool:
        return self.following is not None and self.following.own.since == since

    def _lead_with(self, leading: Leading, copy: CopyView, message: Stored | Synced | Ask) -> bool:
        match message:
            case Stored():
                return leading.stored(copy, message)
            case Synced():
                return leading.synced(copy, message)
            case Ask():
                return leading.asked(copy, message)

    def _follow_with(self, message: Replicate | Page | Probe) -> bool:
        following = self.following
        assert following is not None, "the listing is its own"
        match message:
            case Replicate():
                return following.store(message)
            case Probe():
                return following.answer(message)
            case Page():
                is_taken = following.take(message)
                if is_taken and following.is_synced:
                    self._finish(following)
                return is_taken

    def _finish(self, following: Following) -> None:
        """The intake is over: what it brought is the copy."""
        self.content, self.is_whole = following.content, True
        if following.own.state is PartitionState.MOVING:
            self._out(Loaded(*self._place, following.own.since, following.token))
