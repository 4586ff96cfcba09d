"""A proxy that has made its callers known, and says in headers who they are. Pure.

Threat: anybody can write these headers. Invariant: they are heeded from the listed addresses only, as the connection
itself shows them (uvicorn is told not to believe X-Forwarded-For), and a header that comes twice is believed in neither
form, for the proxy's own may be the one or the other.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import msgspec

from topolog.events.errors import BadInput
from topolog.projections.api.access.bearer import Roles, granted, values_of
from topolog.projections.api.access.principals import Principal, Unknown

METHOD = "proxy"
_FORWARDED = "x-forwarded-for"

Header = tuple[bytes, bytes]
Network = IPv4Network | IPv6Network


class Proxies(msgspec.Struct, frozen=True):
    """The proxies to believe; `user`, `groups`: in which headers they say who asks, and of which groups."""

    networks: tuple[Network, ...]
    user: str
    groups: str
    roles: Roles

    def are_trusted(self, address: str) -> bool:
        found = _address(address)
        return found is not None and any(found in network for network in self.networks)

    def principal(self, peer: str, headers: Sequence[Header]) -> Principal | None:
        """Whom a trusted proxy names; None if it is none, or names nobody."""
        if not self.are_trusted(peer):
            return None
        users = values(headers, self.user)
        if not users or not users[0].strip():
            return None
        groups = values(headers, self.groups)
        if len(users) > 1 or len(groups) > 1:
            raise Unknown("The proxy names two users, or groups twice.", "It must replace what callers send.")
        return Principal(users[0].strip(), METHOD, granted(self.roles, values_of(" ".join(groups))))

    def client(self, peer: str, headers: Sequence[Header]) -> str:
        """The address that asks: the last one before the trusted proxies."""
        hops = [each.strip() for value in values(headers, _FORWARDED) for each in value.split(",")]
        at = peer
        while hops and self.are_trusted(at):
            before = hops.pop()
            if _address(before) is None:
                break
            at = before
        return at


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks as people write them; raises BadInput for what is none."""
    found = []
    for text in texts:
        try:
            found.append(ip_network(text))
        except ValueError as error:
            raise BadInput(
                f"auth.proxy_from: {text!r} is no address.", hint="Such as 10.0.0.7 or 10.0.0.0/24."
            ) from error
    return tuple(found)


def values(headers: Iterable[Header], name: str) -> list[str]:
    wanted = name.lower().encode()
    return [value.decode("utf-8", "replace") for key, value in headers if key.lower() == wanted]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
