"""Who asks and does not take what they are answered: their connection makes room at once, and has an end.

The connection is driven by hand, for how much the system takes before a server notices is another amount everywhere.
"""

import functools
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from topolog.projections.api.connection import PIPELINED_MAX, UNREAD_S, Connection
from topolog.projections.api.connections import Bounds, Connections
from topolog.projections.api.server import config_of

ASK = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


class Timer:
    def __init__(self, delay_s: float, call: Callable[..., object], args: tuple[object, ...]) -> None:
        self.delay_s = delay_s
        self.call = functools.partial(call, *args)
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Runs nothing by itself."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.tasks: list[Any] = []

    def call_later(self, delay_s: float, call: Callable[..., object], *args: object) -> Timer:
        self.timers.append(Timer(delay_s, call, args))
        return self.timers[-1]

    def create_task(self, coroutine: Any, **_: object) -> Any:
        coroutine.close()
        self.tasks.append(coroutine)
        return self

    def add_done_callback(self, _: object) -> None:
        pass

    def ring(self, delay_s: float) -> None:
        """What was to be called after so long is called."""
        rung = [timer for timer in self.timers if timer.delay_s == delay_s]
        self.timers = [timer for timer in self.timers if timer.delay_s != delay_s]
        for timer in rung:
            if not timer.is_cancelled:
                timer.call()


class Transport:
    """A peer that takes nothing unless the test says so; `unsent` bytes are left."""

    def __init__(self) -> None:
        self.unsent = 0
        self.is_ended = False
        self.is_reading = True

    def get_extra_info(self, name: str) -> object:
        return ("10.0.0.1", 1) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.is_ended

    def write(self, data: bytes) -> None:
        self.unsent += len(data)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def abort(self) -> None:
        self.is_ended = True

    close = abort


async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Says nothing."""


class Site:
    """One connection of a server that has place for one."""

    def __init__(self) -> None:
        self.connections = Connections(Bounds(connections=1, per_peer=1))
        self.loop, self.transport = Loop(), Transport()
        config = config_of(app, self.connections)
        self.connection = Connection(config, ServerState(), {}, self.loop, connections=self.connections)  # type: ignore[arg-type]  # as much of a loop as it needs
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]  # likewise

    @property
    def makes_room(self) -> bool:
        """Whether it goes for the next one that comes; then it has gone."""
        return self.connections.enter("10.0.0.2", lambda: None) is not None


@pytest.fixture
def site() -> Site:
    return Site()


def test_who_takes_nothing_makes_room_for_who_comes(site: Site) -> None:
    """Nobody held all connections for ever: asked, never read, and were at work until they would have."""
    site.connection.data_received(ASK)
    site.connection.pause_writing()
    site.connection.data_received(ASK)
    assert site.makes_room
    assert site.transport.is_ended


def test_who_takes_it_again_is_at_work(site: Site) -> None:
    site.connection.data_received(ASK)
    site.connection.pause_writing()
    site.connection.resume_writing()
    assert not site.makes_room
    site.loop.ring(UNREAD_S)
    assert not site.transport.is_ended


def test_who_takes_nothing_for_a_minute_is_ended(site: Site) -> None:
    site.connection.data_received(ASK)
    site.transport.unsent = 70_000
    site.connection.pause_writing()
    site.loop.ring(UNREAD_S)
    assert site.transport.is_ended
    told = {each.labels.get("reason"): each.value for family in site.connections.collect() for each in family.samples}
    assert told["unread"] == 1


def test_who_reads_slowly_reads_to_the_end(site: Site) -> None:
    """An export, or a watch, over a thin line."""
    site.connection.data_received(ASK)
    site.transport.unsent = 70_000
    site.connection.pause_writing()
    for _ in range(10):
        site.transport.unsent -= 1
        site.loop.ring(UNREAD_S)
    assert not site.transport.is_ended
    site.loop.ring(UNREAD_S)
    assert site.transport.is_ended


def test_a_closed_connection_is_asked_nothing(site: Site) -> None:
    """No timer outlives it."""
    site.connection.data_received(ASK)
    site.connection.pause_writing()
    site.connection.connection_lost(None)
    assert all(timer.is_cancelled for timer in site.loop.timers)


@pytest.mark.parametrize(("count", "is_ended"), [(PIPELINED_MAX, False), (PIPELINED_MAX + 1, True), (8_000, True)])
def test_few_requests_may_wait_behind_one(site: Site, count: int, is_ended: bool) -> None:
    """One piece of 250 KB held 8,000 of them, each with all that a request takes."""
    site.connection.data_received(ASK + count * ASK)
    assert site.transport.is_ended == is_ended
    assert len(site.connection.pipeline) <= PIPELINED_MAX
    assert len(site.loop.tasks) == 1
