"""After a silence nothing is believed before the last record has been read again, from the log as it is now (K9)."""

from collections.abc import Callable

import pytest

from topolog.events.errors import LogDiverged, Unreachable
from topolog.events.ids import Offset
from topolog.events.last_read import SILENCE_S, LastRead
from topolog.events.log import Entry, InMemoryLog, InMemoryReader
from topolog.events.topics import Topic

DECISIONS = (Topic.DECISIONS, 0)


class Setting:
    """A log, its reader as far as it has read, and a clock; looks run when they are asked for, or when told."""

    def __init__(self) -> None:
        self.log = InMemoryLog()
        self.now_s = 0.0
        self.is_reachable = True
        self.looks: list[Callable[[], None]] = []
        self.last_read = LastRead(self._connect, now_s=lambda: self.now_s, run=self.looks.append)
        self._reader = self.log.reader()
        self._reader.assign({DECISIONS: Offset(0)})

    def _connect(self) -> InMemoryReader:
        if not self.is_reachable:
            raise Unreachable("nobody answers")
        return self.log.reader()

    def write(self, *values: bytes) -> None:
        for value in values:
            self.log.put(Topic.DECISIONS, "c", value, (("stamp", value),))

    def read(self) -> list[bytes]:
        return [entry.value for entry in self.last_read.pass_on(self._reader.poll(0))]

    def look(self) -> None:
        self.looks.pop()()


@pytest.fixture
def setting() -> Setting:
    setting = Setting()
    setting.write(b"1", b"2")
    assert setting.read() == [b"1", b"2"]
    return setting


def test_what_comes_without_a_silence_is_passed_on_at_once(setting: Setting) -> None:
    """A living leader writes more often than that; nothing is looked up."""
    for value in (b"3", b"4"):
        setting.now_s += SILENCE_S
        setting.write(value)
        assert setting.read() == [value]
    assert not setting.looks


def test_what_comes_after_a_silence_is_held_until_the_log_is_proven(setting: Setting) -> None:
    """In order, and with what came meanwhile; the end of the log is not known so long."""
    setting.now_s += SILENCE_S + 1
    setting.write(b"3")
    assert setting.read() == []
    assert setting.last_read.is_in_doubt
    setting.write(b"4")
    assert setting.read() == []
    setting.look()
    assert setting.read() == [b"3", b"4"]
    assert not setting.last_read.is_in_doubt


def test_a_silence_that_goes_on_is_looked_into_once_each_time(setting: Setting) -> None:
    """Nobody writes: the log is proven, and trusted for as long again."""
    for _ in range(3):
        setting.now_s += SILENCE_S + 1
        assert setting.read() == []
        setting.look()
        assert setting.read() == []
        assert not setting.last_read.is_in_doubt
        assert not setting.looks


@pytest.mark.parametrize("grown", [0, 5])
def test_another_record_in_its_place_or_none_ends_the_reader(setting: Setting, grown: int) -> None:
    """The log was cut short, and has grown past the reader's place or not."""
    setting.now_s += SILENCE_S + 1
    setting.log.truncate(Topic.DECISIONS, 1)
    for number in range(grown):
        setting.write(b"other %d" % number)
    held = [Entry(Topic.DECISIONS, 0, Offset(2), "c", b"other 1", (), 0)] if grown else []
    assert setting.last_read.pass_on(held) == []
    setting.look()
    with pytest.raises(LogDiverged, match="Offset 1 of decisions no longer holds the record"):
        setting.last_read.pass_on([])


def test_nobody_to_ask_is_no_proof_and_no_end(setting: Setting) -> None:
    """While no broker answers the reader goes on holding, and asks again."""
    setting.now_s += SILENCE_S + 1
    setting.write(b"3")
    setting.is_reachable = False
    for _ in range(2):
        assert setting.read() == []
        setting.look()
        assert setting.read() == []
    setting.is_reachable = True
    assert setting.read() == []
    setting.look()
    assert setting.read() == [b"3"]


def test_a_reader_that_starts_elsewhere_still_has_to_prove_what_it_had_read(setting: Setting) -> None:
    """A coordinator that is deposed reads from the beginning; what it held back is read again from there."""
    setting.now_s += SILENCE_S + 1
    setting.write(b"3")
    assert setting.read() == []
    setting.last_read.start_over()
    assert setting.last_read.is_in_doubt
    assert setting.read() == []
    setting.look()
    assert setting.read() == []
    assert not setting.last_read.is_in_doubt
