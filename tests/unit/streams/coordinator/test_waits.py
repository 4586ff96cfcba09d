"""Timers and agenda: a wait starts when its position is read back, and is dropped with its row."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.rules.exchanging import Shared, kinds, passed

from topolog.events.exchange import ExchangeOverdue
from topolog.events.ids import NodeId, Position
from topolog.events.requests import RequesterRow
from topolog.events.state import State
from topolog.streams.coordinator.agenda import Agenda
from topolog.streams.coordinator.timers import Timers
from topolog.streams.rules.deadlines import Deadline

MS = 1_000_000


def started(*deadlines: Deadline, at_ns: int = 0, confirmed: int = 100) -> Timers:
    timers = Timers()
    timers.change((each.key, each) for each in deadlines)
    timers.pass_time(at_ns, Position(confirmed))
    return timers


def deadline(key: str = "a", position: int = 10, after_ms: int = 5) -> Deadline:
    return Deadline(key, Position(position), after_ms)


def test_a_wait_is_over_when_its_time_has_passed_and_not_before() -> None:
    """It may be late without harm, never early; it passes once."""
    timers = started(deadline())
    assert timers.pass_time(5 * MS - 1, Position(100)) == []
    assert timers.pass_time(5 * MS, Position(100)) == ["a"]
    assert timers.pass_time(9 * MS, Position(100)) == []


def test_a_wait_starts_with_the_read_back_of_its_position() -> None:
    """Renewals in flight need no rule of their own: what is not read back has not begun to count."""
    timers = started(deadline(position=10), confirmed=9)
    assert timers.pass_time(50 * MS, Position(9)) == []
    assert timers.pass_time(60 * MS, Position(10)) == []
    assert timers.pass_time(65 * MS, Position(10)) == ["a"]


def test_a_key_that_is_gone_never_passes() -> None:
    """Dropped before it started or while it ran."""
    timers = started(deadline("a"), deadline("b", position=200))
    timers.change([("a", None), ("b", None)])
    assert timers.pass_time(99 * MS, Position(300)) == []


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), max_size=2_500), st.integers(0, 40))
def test_many_short_lived_keys_leave_nothing_behind(waits: list[tuple[int, int]], now_ms: int) -> None:
    """Whatever is forgotten on the way, exactly the live keys whose time has passed are given."""
    timers = Timers()
    for number, (position, after_ms) in enumerate(waits):
        timers.change([(f"{number}", deadline(f"{number}", position, after_ms))])
        if number % 2:
            timers.change([(f"{number}", None)])
    timers.pass_time(0, Position(15))
    passed = set(timers.pass_time(now_ms * MS, Position(15)))
    live = {f"{number}": wait for number, wait in enumerate(waits) if not number % 2}
    assert passed == {key for key, (position, after_ms) in live.items() if position <= 15 and after_ms <= now_ms}


def test_the_agenda_follows_the_rows() -> None:
    """A row that changes has new deadlines, one that goes has none; each is told once."""
    state, agenda = State(), Agenda()
    state.put("t", RequesterRow(1, Position(4)))
    agenda.begin(state)
    assert list(agenda.drain()) == ["idle/4/t"]
    assert agenda.drain() == {}
    state.put("t", RequesterRow(2, Position(9)))
    agenda.revise(state, ("requester", "t"))
    assert {key: each is not None for key, each in agenda.drain().items()} == {"idle/4/t": False, "idle/9/t": True}
    assert not agenda.pass_deadline("idle/4/t")
    assert agenda.pass_deadline("idle/9/t")
    assert agenda.idle == {"idle/9/t"}
    state.drop(RequesterRow, "t")
    agenda.revise(state, ("requester", "t"))
    assert agenda.idle == set()


def test_what_has_passed_is_not_forgotten_because_its_row_has_changed() -> None:
    """EX32, DS17: whom the last exchange has not heard has had its time, however many others end without it."""
    found = Shared()
    found.join("n1", "n2")
    found.create("orders")
    found.settle_exchange()
    found.answer("n2")
    passed(found, "gather")
    found.settle_exchange()
    agenda = Agenda()
    agenda.begin(found.state)
    keys = agenda.drain()
    late = next(key for key in keys if "/n1/" in key and "/evict/" in key)
    agenda.pass_deadline(late)
    found.state.drain()
    found.log(ExchangeOverdue((NodeId("n1"),)))
    found.create("items")
    found.settle_exchange()
    found.answer("n2")
    assert kinds(found.settle_exchange())[-1] == "ExchangeCompleted"
    for key in found.state.drain():
        agenda.revise(found.state, key)
    assert late in agenda.overdue
    assert not [key for key in agenda.drain() if "/n1/" in key]
    found.leave("n1")
    found.settle_exchange()
    for key in found.state.drain():
        agenda.revise(found.state, key)
    assert not agenda.overdue
    assert {key for key in agenda.drain() if "/n1/" in key} == {key for key in keys if "/n1/" in key}
