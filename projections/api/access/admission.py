"""What a watch goes on by: who asks was let in once, and has to be somebody who would be let in now.

Threat: a watch may stay open for months, and who has opened it may lose their token, its time may run out, or what is
granted to them may change. Invariant: nothing is told behind a change of what they were judged by, without their being
judged anew. That costs each of a thousand watchers of a feed a comparison, for they look at the tokens file together:
once in a turn of the event loop.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from topolog.events.errors import NotAllowed, Retriable, TopologError
from topolog.projections.api.access.principals import Denied, Principal, Unknown


class NotKnownNow(NotAllowed):
    """Nobody knows any longer who asks."""

    code = "unauthenticated"


class NotAllowedNow(NotAllowed):
    """Who asks may not ask this any longer."""

    code = "forbidden"


class Sight:
    """What `look` sees, looked at once in a turn of the event loop, to whose thread it belongs."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self._seen: object = None
        self._is_fresh = False

    def __call__(self) -> object:
        if not self._is_fresh:
            self._seen, self._is_fresh = self._look(), True
            asyncio.get_running_loop().call_soon(self._forget)
        return self._seen

    def _forget(self) -> None:
        self._is_fresh = False


class Admission:
    """One caller at one address, let in for as long as `judge` would let them in."""

    def __init__(
        self,
        judge: Callable[[], Awaitable[Principal]],
        state: Sight,
        on_end: Callable[[Denied], object],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`judge` raises Denied; `state` is another one once it may judge otherwise; `on_end` hears of the end."""
        self._judge = judge
        self._state = state
        self._on_end = on_end
        self._now_s = now_s
        self._judged_by: object = None
        self._until_s: float | None = None

    async def judged(self) -> Principal:
        """Who asks; raises Denied if they are turned away."""
        state = self._state()  # seen before, so that what changes meanwhile is another one
        principal = await self._judge()
        self._judged_by, self._until_s = state, principal.until_s
        return principal

    async def check(self) -> None:
        """Raise NotAllowed if they would be turned away now, and Retriable if nobody can say so."""
        if self._state() == self._judged_by and (self._until_s is None or self._now_s() < self._until_s):
            return
        try:
            await self.judged()
        except Denied as denied:
            self._on_end(denied)
            raise _error_of(denied) from None


def _error_of(denied: Denied) -> TopologError:
    if isinstance(denied, Unknown):
        return NotKnownNow(denied.why, hint=denied.hint)
    if denied.status is HTTPStatus.SERVICE_UNAVAILABLE:
        return Retriable(denied.why, hint=denied.hint)
    return NotAllowedNow(denied.why, hint=denied.hint)
