"""Following a watch over broken connections: every event once, in order, none left out.

Threats. A connection breaks in the middle of a snapshot, or between two events of one position: a resume by the token
of the last event would then leave out what else that position had, and one by an earlier token would repeat. A resource
without a past (leases) cannot be resumed at all, and begins with a snapshot each time.

Argument. All of a position is known to be delivered once something with another token has come; from that token on is
resumed, and as many events are dropped as were delivered after it, for which events there are is a function of the log
alone. A snapshot that has to be begun again is compared with what was delivered of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from topolog.projections.cli.problems import Json

CHANGES = ("ADDED", "MODIFIED", "DELETED")


@dataclass(frozen=True)
class WatchEvent:
    """One event of a watch. `type`: ADDED, MODIFIED, DELETED; SYNCED (the snapshot is complete) and BOOKMARK (nothing
    happened up to here) have no item. `token`: give it back as `since` to go on behind it."""

    type: str
    token: str
    name: str = ""
    item: Json = field(default_factory=dict)

    @property
    def is_change(self) -> bool:
        return self.type in CHANGES

    @property
    def document(self) -> Json:
        """As the API writes it."""
        about = {"name": self.name, "item": self.item} if self.is_change else {}
        return {"type": self.type, "token": self.token, **about}


class Follower:
    """What was delivered of one watch, hence where it goes on. `has_past`: the resource can be resumed by token."""

    def __init__(self, since: str | None = None, *, has_past: bool = True) -> None:
        self._has_past = has_past
        self._is_synced = since is not None
        self._safe = since
        self._newest = since
        self._behind_safe = 0
        self._to_drop = 0
        self._known: dict[str, Json] = {}
        self._again: set[str] | None = None

    @property
    def newest(self) -> str | None:
        """The token of the last event; None before the first."""
        return self._newest

    def connect(self) -> str | None:
        """A connection is about to be made: the token from which on to ask, None for a snapshot."""
        if self._is_synced and self._has_past:
            self._to_drop = self._behind_safe
            return self._safe
        self._again = set() if self._known else None
        return None

    def feed(self, event: WatchEvent) -> Iterator[WatchEvent]:
        """Those events that are to be delivered because of this one."""
        if event.type == "SYNCED":
            yield from self._synced(event)
        elif not event.is_change:
            self._complete(event.token)
            yield event
        elif self._to_drop:
            self._to_drop -= 1
        elif self._again is not None:
            yield from self._compared(event)
        else:
            self._count(event.token)
            self._remember(event)
            yield event

    def _synced(self, event: WatchEvent) -> Iterator[WatchEvent]:
        if self._again is not None:
            for name in [name for name in self._known if name not in self._again]:
                yield WatchEvent("DELETED", event.token, name, self._known.pop(name))
            self._again = None
        is_first, self._is_synced = not self._is_synced, True
        self._complete(event.token)
        if self._has_past:
            self._known.clear()
        if is_first:
            yield event

    def _compared(self, event: WatchEvent) -> Iterator[WatchEvent]:
        """An event of a snapshot that is begun again."""
        assert self._again is not None, "there is something to compare with"
        self._again.add(event.name)
        held = self._known.get(event.name)
        if held == event.item:
            return
        self._count(event.token)
        self._remember(event)
        yield event if held is None else WatchEvent("MODIFIED", event.token, event.name, event.item)

    def _remember(self, event: WatchEvent) -> None:
        """Until the snapshot is complete; for ever where every connection begins with one."""
        if event.type == "DELETED":
            self._known.pop(event.name, None)
        elif not (self._is_synced and self._has_past):
            self._known[event.name] = event.item

    def _count(self, token: str) -> None:
        if token != self._newest:
            self._safe, self._newest, self._behind_safe = self._newest, token, 0
        self._behind_safe += 1

    def _complete(self, token: str) -> None:
        self._safe = self._newest = token
        self._behind_safe = self._to_drop = 0
