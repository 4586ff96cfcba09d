"""After a silence nothing is believed before the last record has been read again, from the log as it is now (K26)."""

from collections.abc import Callable

import pytest

from topolog.events.errors import LogDiverged, Unreachable
from topolog.events.ids import Offset, Term
from topolog.events.last_read import ANSWER_AGE_MAX_S, END_LIMIT_S, SILENCE_MAX_S, LastRead
from topolog.events.log import Entry, InMemoryLog, InMemoryReader
from topolog.events.stamp import HEADER_NAME, NO_CHAIN, Stamp, encode_stamp
from topolog.events.topics import Topic

DECISIONS = (Topic.DECISIONS, 0)
FENCE_MS = 2_000
SILENCE_S = FENCE_MS / 2_000


class Prober(InMemoryReader):
    """The reader of a look, for whom waiting takes time; `behind` polls find nothing, as at a broker that has just
    begun to lead the partition and does not show its last record yet."""

    def __init__(self, setting: "Setting") -> None:
        super().__init__(setting.log)
        self._setting = setting

    def poll(self, timeout_s: float) -> list[Entry]:
        self._setting.now_s += timeout_s
        if self._setting.behind:
            self._setting.behind -= 1
            return []
        return super().poll(0)

    def hears(self, topic: Topic) -> bool:
        return bool(self._setting.behind) or super().hears(topic)


class Setting:
    """A log, its reader as far as it has read, and a clock; looks run when they are asked for, or when told."""

    def __init__(self) -> None:
        self.log = InMemoryLog()
        self.now_s = 0.0
        self.is_reachable = True
        self.behind = 0
        self.failure: Exception = Unreachable("nobody answers")
        self.looks: list[Callable[[], None]] = []
        self.last_read = LastRead(self._connect, now_s=lambda: self.now_s, run=self.looks.append)
        self._reader = self.log.reader()
        self._reader.assign({DECISIONS: Offset(0)})

    def _connect(self) -> Prober:
        if not self.is_reachable:
            raise self.failure
        return Prober(self)

    def write(self, *values: bytes, sequence: int = 1) -> None:
        stamp = encode_stamp(Stamp(bytes(16), Term(1), sequence, 0, 1, NO_CHAIN, 0))
        for value in values:
            self.log.put(Topic.DECISIONS, "c", value, ((HEADER_NAME, stamp),))

    def read(self, *, counts: bool = True) -> list[bytes]:
        passed = self.last_read.pass_on(self._reader.poll(0))
        for entry in passed if counts else ():
            self.last_read.counted(entry, FENCE_MS)
        return [entry.value for entry in passed]

    def swap(self) -> None:
        """A copy is put back whose last record is another, and which has grown by one."""
        self.log.truncate(Topic.DECISIONS, 1)
        self.write(b"other", b"more")

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
    setting.now_s += SILENCE_S + 0.5
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
        setting.now_s += SILENCE_S + 0.5
        assert setting.read() == []
        setting.look()
        assert setting.read() == []
        assert not setting.last_read.is_in_doubt
        assert not setting.looks


def test_records_that_no_fold_accepts_are_no_sign_of_the_log(setting: Setting) -> None:
    """A closed term, a gap, another log: a copy that has grown past this reader looks so, and must not be trusted."""
    setting.swap()
    for number in range(2):
        setting.now_s += SILENCE_S * 0.6
        setting.write(b"more %d" % number)
        if not setting.last_read.is_in_doubt:
            setting.read(counts=False)
    assert setting.read() == []
    setting.look()
    with pytest.raises(LogDiverged, match="Offset 1 of decisions"):
        setting.read()


def test_the_beginning_of_a_term_proves_nothing(setting: Setting) -> None:
    """It carries no chain, so it can follow any history: what is read again is the record before it."""
    setting.write(b"claim of the copy", sequence=0)
    setting.read()
    setting.log.truncate(Topic.DECISIONS, 1)
    setting.write(b"other")
    setting.write(b"claim of the copy", sequence=0)
    assert not setting.last_read.is_proven()
    setting.look()
    with pytest.raises(LogDiverged, match="Offset 1 of decisions"):
        setting.last_read.is_proven()


def test_with_a_long_fence_a_silence_is_looked_into_all_the_same(setting: Setting) -> None:
    """Half a fence, ten seconds at most."""
    setting.write(b"3")
    [entry] = setting.log.entries(Topic.DECISIONS)[2:]
    setting.last_read.counted(entry, 60_000)
    setting.now_s += SILENCE_MAX_S
    assert not setting.last_read.is_in_doubt
    setting.now_s += 0.1
    assert setting.last_read.is_in_doubt


def test_whoever_is_about_to_claim_has_it_read_again_without_a_silence(setting: Setting) -> None:
    """A swap may take less time than a silence lasts."""
    assert not setting.last_read.is_proven()
    setting.look()
    assert setting.last_read.is_proven()
    setting.swap()
    assert not setting.last_read.is_proven(), "each claim has a look of its own"
    setting.look()
    with pytest.raises(LogDiverged, match="Offset 1 of decisions"):
        setting.last_read.is_proven()


def test_an_answer_that_has_grown_old_is_no_answer(setting: Setting) -> None:
    """The process was stopped between the answer and its use: the log was swapped meanwhile."""
    assert not setting.last_read.is_proven()
    setting.look()
    setting.now_s += ANSWER_AGE_MAX_S + 1
    assert not setting.last_read.is_proven()
    assert not setting.last_read.is_proven()
    setting.look()
    assert setting.last_read.is_proven()


@pytest.mark.parametrize("polls", [1, 100])
def test_a_new_leader_of_the_partition_may_show_the_last_record_late(setting: Setting, polls: int) -> None:
    """Its high watermark comes after its followers' next fetch: an end before the record is no proof at once."""
    setting.behind = polls
    assert not setting.last_read.is_proven()
    setting.look()
    assert setting.last_read.is_proven()


def test_a_log_that_goes_on_ending_before_the_record_has_lost_it(setting: Setting) -> None:
    """No follower takes longer than that."""
    setting.log.truncate(Topic.DECISIONS, 1)
    assert not setting.last_read.is_proven()
    setting.look()
    assert setting.now_s >= END_LIMIT_S
    with pytest.raises(LogDiverged):
        setting.last_read.is_proven()


def test_a_failure_of_the_look_is_logged_and_it_is_tried_again(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it is: a reader that waits for an answer that never comes would be mute without a word."""
    setting.is_reachable, setting.failure = False, MemoryError("no room for a thread")
    setting.now_s += SILENCE_S + 0.5
    assert setting.read() == []
    setting.look()
    assert "no room for a thread" in caplog.text
    assert setting.read() == []
    setting.is_reachable = True
    assert setting.read() == []
    setting.look()
    setting.read()
    assert not setting.last_read.is_in_doubt


@pytest.mark.parametrize("grown", [0, 5])
def test_another_record_in_its_place_or_none_ends_the_reader(setting: Setting, grown: int) -> None:
    """The log was cut short, and has grown past the reader's place or not."""
    setting.now_s += SILENCE_S + 0.5
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
    setting.now_s += SILENCE_S + 0.5
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
    setting.now_s += SILENCE_S + 0.5
    setting.write(b"3")
    assert setting.read() == []
    setting.last_read.start_over()
    assert setting.last_read.is_in_doubt
    assert setting.read() == []
    setting.look()
    assert setting.read() == []
    assert not setting.last_read.is_in_doubt
