"""How many connections this process holds, whose they are, and which one makes room when there are too many.

Threat: whoever reaches the port, without a token, opens connections and says nothing, until no request gets in, and no
file can be opened for the store and the broker's clients either; or asks, and takes no answer. Invariant: a connection
on which no request is under way, or whose client takes nothing of what is answered, makes room for one that comes, the
one that has waited longest first; one is turned away only while all others are at work. Pure but for the log.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from topolog.events.families import Metric

_LOGGER = logging.getLogger(__name__)
_SITE_BITS = 64
"""What one site has of IPv6; its machines make up the rest of their addresses as they like."""


class Bounds(NamedTuple):
    """`request_timeout_ms`: how long a request's head may take to come, and its body as long again; `connections`,
    `per_peer`: how many may be open in all, and from one address."""

    request_timeout_ms: int = 10_000
    connections: int = 10_000
    per_peer: int = 5_000

    def within(self, files: int) -> "Bounds":
        """These, but no more than a process may hold that can open so many files: its store and clients need some."""
        most = max(files // 4, files - 2_048, 2)
        return self._replace(connections=min(self.connections, most), per_peer=min(self.per_peer, most // 2))


BOUNDS = Bounds()


class Reason(StrEnum):
    """Why a connection was ended that its client had not ended."""

    LATE = "late"
    MALFORMED = "malformed"
    UNREAD = "unread"
    TOO_MANY = "too_many"
    TOO_MANY_OF_PEER = "too_many_of_peer"


_WHY = {
    Reason.LATE: "a request did not come within api.request_timeout",
    Reason.MALFORMED: "what came was no request, or more of them than may wait",
    Reason.UNREAD: "nothing of an answer was taken for a minute",
    Reason.TOO_MANY: "there would be more than api.connections, or than it can open files for",
    Reason.TOO_MANY_OF_PEER: "there would be more than api.connections_per_peer from one address",
}
_SAID = {reason: f"This server ends connections, such as one from %s: {why}." for reason, why in _WHY.items()}


class Slot:
    """The place of one open connection; `end` closes it at once."""

    def __init__(self, connections: "Connections", peer: str, end: Callable[[], None]) -> None:
        self.peer = peer
        self.end = end
        self._connections = connections

    def works(self) -> None:
        """A whole request has come: until it is answered this one makes room for nobody."""
        self._connections.keep(self)

    def waits(self) -> None:
        """It is the client's turn."""
        self._connections.offer(self)

    def refused(self, reason: Reason) -> None:
        self._connections.complain(reason, self.peer)

    def leave(self) -> None:
        self._connections.leave(self)


class _Peer(NamedTuple):
    """The connections of one address; `waiting`: those that make room, the longest waiting first."""

    open: set[Slot]
    waiting: dict[Slot, None]


class Connections(Collector):
    """All connections of one server. Of one event loop, but for `collect`.

    `is_exempt`: whether any number from one address is right, as from a proxy that passes on what others ask.
    """

    def __init__(self, bounds: Bounds, is_exempt: Callable[[str], bool] = lambda _: False) -> None:
        self.bounds = bounds
        self.logger = _LOGGER.name
        self._is_exempt = is_exempt
        self._peers: dict[str, _Peer] = {}
        self._count = 0
        self._waiting: dict[Slot, None] = {}
        self._refused = dict.fromkeys(Reason, 0)

    def enter(self, address: str, end: Callable[[], None]) -> Slot | None:
        """A place for a connection from this address, if need be that of another one; None if there is none."""
        name = _site(address)
        peer = self._peers.get(name) or _Peer(set(), {})
        if len(peer.open) >= self.bounds.per_peer and not self._is_exempt(address):
            has_room = self._makes_room(Reason.TOO_MANY_OF_PEER, name, peer.waiting)
        else:
            has_room = self._count < self.bounds.connections or self._makes_room(Reason.TOO_MANY, name, self._waiting)
        if not has_room:
            return None
        slot = Slot(self, name, end)
        self._peers.setdefault(name, peer).open.add(slot)
        self._count += 1
        self.offer(slot)
        return slot

    def offer(self, slot: Slot) -> None:
        peer = self._peers.get(slot.peer)
        if peer and slot in peer.open:
            peer.waiting[slot] = self._waiting[slot] = None

    def keep(self, slot: Slot) -> None:
        self._waiting.pop(slot, None)
        if peer := self._peers.get(slot.peer):
            peer.waiting.pop(slot, None)

    def leave(self, slot: Slot) -> None:
        """The connection is closed, or as good as closed."""
        peer = self._peers.get(slot.peer)
        if peer is None or slot not in peer.open:
            return
        self.keep(slot)
        peer.open.discard(slot)
        self._count -= 1
        if not peer.open:
            del self._peers[slot.peer]

    def complain(self, reason: Reason, peer: str) -> None:
        """Count it and say so; of many complaints of one kind the log shows few (`quiet.py`)."""
        self._refused[reason] += 1
        _LOGGER.warning(_SAID[reason], peer)

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("topolog_api_connections", "Connections that are open.", self._count)
        text = "Connections that the server has turned away or ended, by why."
        refused = CounterMetricFamily("topolog_api_connections_refused", text, labels=["reason"])
        for reason, count in self._refused.items():
            refused.add_metric([reason], count)
        yield refused

    def _makes_room(self, reason: Reason, peer: str, waiting: Mapping[Slot, None]) -> bool:
        """Whether one was waiting; it is ended."""
        self.complain(reason, peer)
        longest = next(iter(waiting), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.end()
        return True


def _site(address: str) -> str:
    """Whom to count together: of IPv6 a site, which has more addresses than any bound."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ip_network((found, _SITE_BITS), strict=False))
