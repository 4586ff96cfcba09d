"""Times and places in the log as people and programs write them: positions, tokens, ISO 8601, how long ago.

A token is `<log id>.<position>`: it comes with every answer and demands, given back as `at_least`, that the next answer
knows at least as much; the log id in it keeps a token of another cluster from being believed.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from topolog.events.errors import BadInput, Permanent
from topolog.events.ids import Position
from topolog.projections.durations import duration_ms, is_duration
from topolog.projections.store import Reading
from topolog.projections.versions import completed_at, in_force_at

HOW_TO_SAY = (
    "Use a position (1234), a time (2026-11-21T02:00Z), ms since 1970, how long ago (15m), a view (topology:4.1) or "
    "an exchange (exchange:4.0)."
)

_EPOCH_MS_MIN = 10**12
"""A number from here on is a time in ms since 1970 (this one is in 2001), below it is a position."""


class ForeignToken(Permanent):
    """A token of another log: what it names cannot be found here, ever."""

    code = "token_foreign"


class Token(msgspec.Struct, frozen=True):
    """A position in one log; `log_id` is empty when only the position was given."""

    position: int
    log_id: str = ""

    def __str__(self) -> str:
        return f"{self.log_id}.{self.position}"

    @classmethod
    def parse(cls, text: str) -> "Token":
        """The token or the bare position in this text; raises BadInput for anything else."""
        log_id, _, position = text.strip().rpartition(".")
        if not (position.isdecimal() and len(position) < len(str(_EPOCH_MS_MIN))):
            raise BadInput(f"{text!r} is neither a token nor a position.", hint="Tokens come in asOf.token of answers.")
        return cls(int(position), log_id)

    def check(self, log_id: str) -> None:
        """Raise ForeignToken if this token was given out for another log."""
        if self.log_id and self.log_id != log_id:
            raise ForeignToken(
                f"The token names position {self.position} of log {self.log_id}, this cluster's log is {log_id}.",
                hint="Take a token from an answer of this cluster.",
            )


def reading_as_of(reading: Reading, text: str, now_ms: int) -> Reading:
    """The reading at the moment that the text names, as `position_of` reads it.

    Raises as that does, and Gone and NotFound for positions as `Reading.as_of` does.
    """
    return reading.as_of(position_of(reading, text, now_ms))


def position_of(reading: Reading, text: str, now_ms: int) -> int:
    """The newest position that belongs to a moment: a position itself, which need not have been reached, a time, how
    long before `now_ms`, `topology:4.1` (that view has come into force), `exchange:4.0` (that exchange is completed).

    Raises BadInput for text that is none of these and for a time to come, NotFound for a version that there is not,
    Gone for what lies before the beginning of what is kept.
    """
    text = text.strip()
    kind, colon, version = text.partition(":")
    if colon and kind in _VERSIONS:
        return _VERSIONS[kind](reading, version)
    if re.fullmatch(r"-?\d{1,18}", text) and abs(int(text)) < _EPOCH_MS_MIN:
        return int(text)
    time_ms = _time_ms(text, now_ms)
    if time_ms > now_ms:
        raise BadInput(f"{text!r} lies in the future.", hint=f"It is {iso(now_ms)} now.")
    return reading.position_at(time_ms)


_VERSIONS: Mapping[str, Callable[[Reading, str], Position]] = {"topology": in_force_at, "exchange": completed_at}


def iso(time_ms: int) -> str:
    """The time (ms since 1970, UTC) as ISO 8601."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def position_time(reading: Reading, position: Position) -> str:
    """When the log took the decision at this position."""
    return iso(reading.surely_decision(position).logged_at_ms)


def _time_ms(text: str, now_ms: int) -> int:
    if re.fullmatch(r"\d{1,18}", text):
        return int(text)
    if is_duration(text):
        return now_ms - duration_ms(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInput(
            f"{text!r} is no position, time, duration, view or exchange.",
            hint=HOW_TO_SAY,
        ) from error
    if time.tzinfo is None:
        raise BadInput(f"The time {text!r} does not say in which zone.", hint="Add Z for UTC, or an offset as +02:00.")
    return round(time.timestamp() * 1000)
