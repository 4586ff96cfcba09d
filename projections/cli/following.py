"""Following a watch over broken connections: every event once, in order, none left out.

Behind the token of an event the API tells everything else and nothing again (`projections/api/watch/events.py`), so a
connection that breaks goes on from the last token. What has no tokens is begun anew: the list that a watch begins with,
until it is complete, and all of a list that shows the present (leases).

Threat. Of what was told before, a list that is begun anew repeats what is still so, and says nothing of what has gone.
It is compared with what was delivered of it, and only the difference is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from topolog.projections.cli.problems import Json

CHANGES = ("ADDED", "MODIFIED", "DELETED")


@dataclass(frozen=True)
class WatchEvent:
    """One event of a watch. `type`: ADDED, MODIFIED, DELETED; SYNCED (the snapshot is complete) and BOOKMARK (nothing
    happened up to here) have no item. `token`: give it back as `since` to go on behind it; empty if that cannot be."""

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
    """What was delivered of one watch, hence where it goes on."""

    def __init__(self, since: str | None = None) -> None:
        self._newest = since
        self._is_synced = False
        self._without_token: dict[str, Json] = {}
        self._again: set[str] | None = None

    def connect(self) -> str | None:
        """A connection is about to be made: the token from which on to ask, None to begin anew."""
        self._again = set() if self._without_token else None
        return self._newest

    def feed(self, event: WatchEvent) -> Iterator[WatchEvent]:
        """Those events that are to be delivered because of this one."""
        if event.type == "SYNCED":
            yield from self._synced(event)
        elif event.is_change and not event.token:
            yield from self._compared(event)
        else:
            yield event
        if event.token:
            self._newest = event.token
            self._without_token.clear()

    def _synced(self, event: WatchEvent) -> Iterator[WatchEvent]:
        if self._again is not None:
            for name in [name for name in self._without_token if name not in self._again]:
                yield WatchEvent("DELETED", "", name, self._without_token.pop(name))
            self._again = None
        is_first, self._is_synced = not self._is_synced, True
        if is_first:
            yield event

    def _compared(self, event: WatchEvent) -> Iterator[WatchEvent]:
        held = self._without_token.get(event.name)
        if event.type == "DELETED":
            self._without_token.pop(event.name, None)
        else:
            self._without_token[event.name] = event.item
        if self._again is None:
            yield event
            return
        self._again.add(event.name)
        if held != event.item:
            yield event if held is None else WatchEvent("MODIFIED", event.token, event.name, event.item)
