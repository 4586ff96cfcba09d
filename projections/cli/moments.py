"""Times as people type them, `15m` or `2026-11-21T02:00Z`, and as they read them, `12 s old`."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from topolog.events.errors import BadInput

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_AGES = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def seconds(text: str, option: str) -> float:
    """The length of a duration such as `10s`, `1.5m`, `250ms`; BadInput names the option that holds anything else."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise BadInput(f"{option} {text!r} is no duration.", hint="One looks like 10s, 250ms, 15m, 2h or 1d.")
    return float(found[1]) * _SECONDS[found[2]]


def time(text: str, option: str, now: datetime) -> datetime:
    """A time, or a duration as that long before `now`; BadInput names the option that holds anything else.

    A time without an offset is the reader's own.
    """
    given = text.strip()
    with suppress(BadInput, OverflowError):
        return now - timedelta(seconds=seconds(given, option))
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(given).astimezone(UTC)
    raise BadInput(
        f"{option} {text!r} is no time.", hint="Such as 2026-11-01, 2026-11-01T02:00Z, or how long ago: 36h."
    )


def moment(text: str, now: datetime, option: str = "--as-of") -> str:
    """What `--as-of` means to the API: a position, `topology:4.1` and `exchange:4.0` as they are, else a time in UTC.

    BadInput for anything else.
    """
    given = text.strip()
    if given.isdecimal() or given.startswith(("topology:", "exchange:")):
        return given
    try:
        return _utc(time(given, option, now))
    except BadInput as error:
        raise BadInput(
            f"{option} {text!r} is no position, time, duration, view or exchange.",
            hint="Use a position (1234), a time (2026-11-21T02:00Z), how long ago (15m), topology:4.1 or exchange:4.0.",
        ) from error


def age(milliseconds: int) -> str:
    """An age in its largest unit: `350 ms`, `12 s`, `3 h`."""
    for length, unit in _AGES:
        if milliseconds >= length:
            return f"{milliseconds // length} {unit}"
    return f"{max(0, milliseconds)} ms"


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
