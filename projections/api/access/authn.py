"""Who asks: the ways in which a caller can be made known, in their order, and what holds for those who show nothing.

Nothing here decides what somebody may do (authz.py). A caller who shows credentials that do not hold is turned away,
and never taken for somebody who shows none. Cookies are not looked at: no page of another site can ask in the name of
whoever looks at it.
"""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address

import msgspec
from starlette.concurrency import run_in_threadpool

from topolog.projections.api.access.bearer import BearerTokens
from topolog.projections.api.access.grants import Grant, Role
from topolog.projections.api.access.principals import Principal, Unknown
from topolog.projections.api.access.proxies import Header, Proxies, values
from topolog.projections.api.access.tokens import PREFIX, TokensFile

ACTOR = "x-topolog-actor"
OPEN = "open"
ANONYMOUS = "anonymous"
_EVERYTHING = (Grant(Role.ADMIN),)
_NAMED_AT_MOST = 1_000


class Authentication(msgspec.Struct, frozen=True):
    """The ways that the settings have opened. Without any of them the API is open, which only a server on loopback
    may be. `anonymous`: what who shows nothing may do, None for nothing. `authorizes` False: who is known may do all.
    """

    tokens: TokensFile | None = None
    bearer: BearerTokens | None = None
    proxies: Proxies | None = None
    anonymous: tuple[Grant, ...] | None = None
    authorizes: bool = True

    @property
    def is_open(self) -> bool:
        return self.tokens is None and self.bearer is None and self.proxies is None and self.anonymous is None

    async def principal(self, peer: str, headers: Sequence[Header]) -> Principal:
        """Who asks; raises Unknown if nobody knows."""
        if self.is_open:
            named = values(headers, ACTOR)
            return Principal(named[0][:_NAMED_AT_MOST] if named and named[0] else "api", OPEN, _EVERYTHING)
        found = await self._found(peer, headers)
        return found if self.authorizes else msgspec.structs.replace(found, grants=_EVERYTHING)

    def state(self) -> object:
        """What is another one once somebody's answer may be: the tokens file was written, or keys were read anew.

        It is asked for before anything is told, so it does no more than look at the file's times.
        """
        return self.tokens and self.tokens.stamp(), self.bearer and self.bearer.generation

    def is_proxy(self, peer: str) -> bool:
        """Whether others ask through this address."""
        return self.proxies is not None and self.proxies.are_trusted(peer)

    def client(self, peer: str, headers: Sequence[Header]) -> str:
        return peer if self.proxies is None else self.proxies.client(peer, headers)

    async def _found(self, peer: str, headers: Sequence[Header]) -> Principal:
        by_proxy = self.proxies and self.proxies.principal(peer, headers)
        if by_proxy:
            return by_proxy
        shown = values(headers, "authorization")
        if shown:
            return await self._bearing(shown)
        if self.anonymous is not None:
            return Principal(ANONYMOUS, ANONYMOUS, self.anonymous)
        raise Unknown("This API answers only callers it knows.", self._how())

    async def _bearing(self, shown: Sequence[str]) -> Principal:
        scheme, _, token = shown[0].partition(" ")
        token = token.strip()
        if len(shown) > 1 or scheme.lower() != "bearer" or not token:
            raise Unknown("This API knows its callers by `Authorization: Bearer …`, once.", self._how())
        if token.startswith(PREFIX) and self.tokens is not None:
            found = await run_in_threadpool(self.tokens.principal, token)
            if found is None:
                raise Unknown("Nobody's token is this one, or it has run out.", code="invalid_token")
            return found
        if self.bearer is None:
            raise Unknown("Nobody's token is this one.", self._how(), code="invalid_token")
        return await asyncio.get_running_loop().run_in_executor(self.bearer.threads, self.bearer.principal, token)

    def _how(self) -> str:
        ways = []
        if self.tokens is not None or self.bearer is not None:
            ways.append("For the command line name a file that holds your token in TOPOLOG_API__TOKEN_FILE.")
        if self.proxies is not None:
            ways.append("In a browser come through the proxy that knows you.")
        return " ".join(ways)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
