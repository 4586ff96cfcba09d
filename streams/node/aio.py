"""The node client for asyncio.

    async with AsyncNode("demo", "n1", kafka={"bootstrap.servers": "127.0.0.1:19092"}) as node:
        await node.propose(ObjectType("Customer", {"id": "long", "name": "String"}, affinity_key="id"))

The same member with the same threads as `Node`, for `member.py` does everything but the waiting: here a Pending's
future is awaited. To cancel a task that waits gives up that wait and nothing else; what it has sent stands. A task that
is cancelled inside the context still releases the lease before it ends, and so does one that is cancelled while it
joins. What does not wait (`lease`, `submit`, `types`, `members`, …) is no coroutine, nor is anything about
partitions (`owners`, `route`, `lost`, `loaded`, …). The guard of a partition is one for `async with`, and for `with`:

    async with node.acting("orders", 17) as token:
        await store.write(17, key, value, token)

Hooks run on the node's own thread, not in the event loop; `loop.call_soon_threadsafe` is the way from there.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Self, TypeVar

from topolog.events import telemetry
from topolog.events.groups import GroupDefinition, GroupRow
from topolog.events.ids import Position
from topolog.events.object_definition import Statement
from topolog.events.object_types import ObjectType
from topolog.events.repair_definition import SessionDefinition
from topolog.events.sessions import SessionRow
from topolog.streams.node.answers import Metadata, Outcome
from topolog.streams.node.member import TIMEOUT_S, Member, Wait
from topolog.streams.node.objects import Table, View
from topolog.streams.node.waits import Pending

T = TypeVar("T")


class Guard(AbstractContextManager[T], AbstractAsyncContextManager[T]):
    """A guard of `Node`, such as `acting`, also for `async with`. Neither its beginning nor its end waits for anybody:
    a task that is cancelled inside ends its operation at once."""

    def __init__(self, guard: AbstractContextManager[T]) -> None:
        self._guard = guard

    def __enter__(self) -> T:
        return self._guard.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._guard.__exit__(kind, error, trace)

    async def __aenter__(self) -> T:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self.__exit__(kind, error, trace)


class AsyncNode(Member):
    """A member of a cluster, for one event loop. The arguments are explained at `Member`."""

    async def __aenter__(self) -> Self:
        try:
            await _done(self._begin)
        except asyncio.CancelledError:
            await _done(self._end)
            raise
        try:
            await _answer(self._joining(), self._join_timeout_s)
        except BaseException:
            await _done(self._end)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await _done(self._end)

    async def propose(
        self,
        definition: ObjectType,
        *,
        wait: Wait = "accepted",
        timeout_s: float = TIMEOUT_S,
        based_on: int = 0,
        reason: str = "",
    ) -> Outcome:
        """As `Node.propose`."""
        with telemetry.calling("propose", cluster=self.cluster, type=definition.name, wait=wait):
            return await _answer(self._proposal(definition, wait, based_on, reason), timeout_s)

    async def outcome(
        self,
        request_id: str,
        *,
        wait: Wait = "accepted",
        timeout_s: float = TIMEOUT_S,
    ) -> Outcome:
        """As `Node.outcome`."""
        return await _answer(self._asked(request_id, wait), timeout_s)

    async def metadata(
        self,
        name: str,
        *,
        at_least: Position | None = None,
        max_age_s: float | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Metadata | None:
        """As `Node.metadata`."""
        return await _answer(self._agreed(name, at_least, max_age_s), timeout_s)

    async def create_group(self, group: GroupDefinition, *, timeout_s: float = TIMEOUT_S, reason: str = "") -> GroupRow:
        """As `Node.create_group`."""
        return await _answer(self._declaring.group(group, reason), timeout_s)

    async def change(
        self, *statements: Statement, deadline_s: float | None = None, timeout_s: float = TIMEOUT_S, reason: str = ""
    ) -> Position | None:
        """As `Node.change`."""
        deadline_ms = None if deadline_s is None else int(deadline_s * 1000)
        return await _answer(self._declaring.change(statements, deadline_ms, reason), timeout_s)

    async def reset_group(self, group: str, *, timeout_s: float = TIMEOUT_S, reason: str = "") -> None:
        """As `Node.reset_group`."""
        await _answer(self._declaring.reset(group, reason), timeout_s)

    async def repair(self, definition: SessionDefinition, *, timeout_s: float, reason: str = "") -> SessionRow:
        """As `Node.repair`."""
        return await _answer(self._declaring.compare(definition, reason), timeout_s)

    async def catch_up(self, position: Position, *, timeout_s: float = TIMEOUT_S) -> None:
        """As `Node.catch_up`."""
        await _answer(self._catching_up(position), timeout_s)

    def acting(self, group: str, partition: int, *, writing: bool = True) -> Guard[Position]:
        """As `Node.acting`, for `async with` or `with`; many tasks may be inside of one at once."""
        return Guard(super().acting(group, partition, writing=writing))

    def using(self, name: str, *, at_least: Position | None = None, max_age_s: float | None = None) -> Guard[Table]:
        """As `Node.using`, for `async with` or `with`."""
        return Guard(super().using(name, at_least=at_least, max_age_s=max_age_s))

    def viewing(self, name: str, *, at_least: Position | None = None, max_age_s: float | None = None) -> Guard[View]:
        """As `Node.viewing`, for `async with` or `with`."""
        return Guard(super().viewing(name, at_least=at_least, max_age_s=max_age_s))

    def writing(self, name: str, *, at_least: Position | None = None) -> Guard[Table]:
        """As `Node.writing`, for `async with` or `with`."""
        return Guard(super().writing(name, at_least=at_least))


async def _answer(pending: Pending[T], timeout_s: float) -> T:
    try:
        found = await asyncio.wait_for(asyncio.wrap_future(pending.future), timeout_s)
    except TimeoutError:
        raise pending.late(timeout_s) from None
    return pending.finish(found)


async def _done(blocking: Callable[[], None]) -> None:
    """Run it in a thread of its own, begun at once and done to its end even if this task is cancelled meanwhile.

    Not in the loop's pool: a release must not stand behind whatever the service has put there.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="topolog")
    running = asyncio.wrap_future(thread.submit(blocking))
    thread.shutdown(wait=False)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
