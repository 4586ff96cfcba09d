"""Whether the log still holds what a reader has read of it last (K9).

Threat. An older copy of the log is put back, or its topic is made again, while a reader is asleep or cut off. Where the
log is shorter now, offsets tell. Where it has grown past the reader's place, what follows looks like any other record
of another log or a closed term, to be ignored for ever; and a client that remembers a higher leader epoch than the
copy has waits for ever for a leader it would believe in.

So after a silence that a living leader would have broken, nothing more is believed before the last record has been
read again, by a client that remembers nothing. That costs one small read for each such silence; who is not fenced by
then, because its fence is longer than the silence, learns it here before its lease is over.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from topolog.events.errors import LogDiverged, TopologError
from topolog.events.log import Entry, LogReader
from topolog.events.topics import Topic

SILENCE_S = 10.0
"""Twice the time in which a leader writes at the default fence; with a fence above 40 s each beat is looked up."""

_LOOK_LIMIT_S = 5.0
_POLL_S = 0.2

Run = Callable[[Callable[[], None]], None]


def in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="last read", daemon=True).start()


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
        self.start_over()

    @property
    def is_in_doubt(self) -> bool:
        return self._last is not None and self._now_s() - self._heard_s > SILENCE_S

    def start_over(self) -> None:
        """The reader goes on from another offset. What it has read must be there all the same: a coordinator that is
        deposed by a log it can no longer write to would else wait at its beginning, with nothing left to miss."""
        self._held: list[Entry] = []
        self._look: list[bool | None] | None = None

    def pass_on(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries, with those held before; none while it is in doubt. Raises LogDiverged if the log is another."""
        self._held += entries
        if self.is_in_doubt and not self._is_proven():
            return []
        passed, self._held = self._held, []
        decisions = [entry for entry in passed if entry.topic is Topic.DECISIONS]
        if decisions:
            self._last, self._heard_s = decisions[-1], self._now_s()
        return passed

    def _is_proven(self) -> bool:
        """Whether a look has ended well; begins one if none is under way."""
        assert self._last is not None
        if self._look is None:
            self._look = []
            self._run(partial(self._read_again, self._last, self._look))
        if not self._look:
            return False
        is_there, self._look = self._look[0], None
        if is_there is False:
            raise LogDiverged(
                f"Offset {self._last.offset} of decisions no longer holds the record that this reader has read there.",
                hint="The topic was truncated, made again or swapped for a copy; this reader must not go on.",
            )
        if is_there:
            self._heard_s = self._now_s()
        return bool(is_there)

    def _read_again(self, last: Entry, found: list[bool | None]) -> None:
        """Put into `found` whether the record is still there, None if nobody has answered."""
        try:
            found.append(self._is_there(last))
        except LogDiverged:
            found.append(False)
        except TopologError:
            found.append(None)

    def _is_there(self, last: Entry) -> bool | None:
        reader = self._connect()
        try:
            reader.assign({(last.topic, last.partition): last.offset})
            until_s = time.monotonic() + _LOOK_LIMIT_S
            while time.monotonic() < until_s:
                entries = reader.poll(_POLL_S)
                if entries:
                    first = entries[0]
                    return (first.offset, first.value, first.headers) == (last.offset, last.value, last.headers)
                if reader.at_end(last.topic):
                    return False
            return None
        finally:
            reader.close()
