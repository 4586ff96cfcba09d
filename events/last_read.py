"""Whether the log still holds what a reader has read of it last (K9, K26).

Threat. An older copy of the log is put back, or its topic is made again, while a reader is asleep or cut off. Where the
log is shorter now, offsets tell. Where it has grown past the reader's place, what follows looks like any other record
of another log or a closed term, to be ignored for ever; and a client that remembers a higher leader epoch than the
copy has waits for ever for a leader it would believe in.

So only what the reader's fold has accepted is a sign of the log that it knows. After a silence of half a fence, twice
the time in which a living leader writes, nothing more is believed before the last such record has been read again, by
a client that remembers nothing. That costs one small read for each silence; who is not fenced by then learns it here
before its lease is over. A swap that takes less time than that is met where it would do harm: a coordinator has the
record read again before it claims a term, and before it appends behind a lost connection, however short the silence
was; and a foreign record of a term that a reader has accepted breaks the chain.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

import msgspec

from topolog.events.errors import LogDiverged, TopologError
from topolog.events.log import Entry, LogReader, proof

SILENCE_MAX_S = 10.0
"""With a fence above 40 s each beat of the leader is looked up."""

LOOK_LIMIT_S = 5.0
"""How long one look waits for an answer."""

END_LIMIT_S = 35.0
"""How long the log must end before the record until it counts as gone. After a fail-over the new leader of the
partition shows its last records only when its followers have caught up, or are dropped: `replica.lag.time.max.ms`."""

ANSWER_AGE_MAX_S = 2.0
"""An answer that was got longer ago says nothing of the log as it is: this process was stopped meanwhile."""

_POLL_S = 0.2
_LOGGER = logging.getLogger("topolog.log")

Run = Callable[[Callable[[], None]], None]


def in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="last read", daemon=True).start()


class _Answer(msgspec.Struct, frozen=True):
    """Whether the record is there, None if nobody said; and when that was asked."""

    is_there: bool | None
    asked_s: float


class _Look(msgspec.Struct, frozen=True):
    last: Entry
    answer: Future[_Answer]


class LastRead:
    """Passes on what one reader of `decisions` reads, in order, once it is sure that it reads the same log.

    `connect` makes a reader that remembers nothing. Of the reader's thread, but for the look itself.
    """

    def __init__(
        self,
        connect: Callable[[], LogReader],
        *,
        now_s: Callable[[], float] = time.monotonic,
        run: Run = in_background,
    ) -> None:
        self._connect = connect
        self._now_s = now_s
        self._run = run
        self._last: Entry | None = None
        self._heard_s = now_s()
        self._silence_s = SILENCE_MAX_S
        self.start_over()

    @property
    def is_in_doubt(self) -> bool:
        return self._last is not None and self._now_s() - self._heard_s > self._silence_s

    def start_over(self) -> None:
        """The reader goes on from another offset. What it has read must be there all the same: a coordinator that is
        deposed by a log it can no longer write to would else wait at its beginning, with nothing left to miss."""
        self._held: list[Entry] = []
        self._look: _Look | None = None

    def counted(self, entry: Entry, fence_ms: int) -> None:
        """As `LogReader.counted`. What is read a second time proves nothing new."""
        self._silence_s = min(SILENCE_MAX_S, fence_ms / 2_000)
        newest = proof(self._last, entry)
        if newest is not self._last:
            self._last, self._heard_s = newest, self._now_s()

    def pass_on(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries, with those held before; none while it is in doubt. Raises LogDiverged if the log is another."""
        self._held += entries
        if self.is_in_doubt and not self.is_proven():
            return []
        passed, self._held = self._held, []
        return passed

    def is_proven(self) -> bool:
        """As `LogReader.proven`: whether a look has ended well; begins one if none is under way."""
        if self._last is None:
            return True
        if self._look is None or self._look.last is not self._last:
            self._look = _Look(self._last, Future())
            self._run(partial(self._read_again, self._look))
        look = self._look
        if not look.answer.done():
            return False
        self._look, answer = None, look.answer.result()
        if answer.is_there is False:
            raise LogDiverged(
                f"Offset {look.last.offset} of decisions no longer holds the record that this reader has read there.",
                hint="The topic was truncated, made again or swapped for a copy; this reader must not go on.",
            )
        if not answer.is_there or not _is_recent(answer.asked_s, self._now_s()):
            return False
        self._heard_s = self._now_s()
        return True

    def _read_again(self, look: _Look) -> None:
        """Answer the look, whatever happens: a reader without an answer would be mute for ever, and not say why."""
        try:
            look.answer.set_result(self._found(look.last))
        except LogDiverged:
            look.answer.set_result(_Answer(False, self._now_s()))
        except TopologError as error:
            _LOGGER.warning("the last decision could not be read again, trying once more: %s", error)
            look.answer.set_result(_Answer(None, self._now_s()))
        except Exception:  # a defect of ours: said, and asked again; see above
            _LOGGER.exception("the last decision could not be read again, trying once more")
            look.answer.set_result(_Answer(None, self._now_s()))

    def _found(self, last: Entry) -> _Answer:
        reader = self._connect()
        try:
            reader.assign({(last.topic, last.partition): last.offset})
            began_s = asked_s = self._now_s()
            ended_s = -math.inf
            while asked_s - began_s < (END_LIMIT_S if _is_recent(ended_s, asked_s) else LOOK_LIMIT_S):
                entries = reader.poll(_POLL_S)
                if entries:
                    return _Answer(_is_same(entries[0], last), asked_s)
                asked_s = self._now_s()
                if reader.hears(last.topic):
                    ended_s = asked_s
            return _Answer(False if _is_recent(ended_s, asked_s) else None, asked_s)
        finally:
            reader.close()


def _is_recent(said_s: float, now_s: float) -> bool:
    return now_s - said_s <= ANSWER_AGE_MAX_S


def _is_same(found: Entry, last: Entry) -> bool:
    return (found.offset, found.value, found.headers) == (last.offset, last.value, last.headers)
