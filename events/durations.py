"""Spans of time as people type them: one grammar for settings, options, files and moments of the past."""

import re
from typing import Final

from topolog.events.errors import BadInput

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?(ms|s|m|h|d)")


def is_duration(text: str) -> bool:
    return _DURATION.fullmatch(text.strip()) is not None


def duration_ms(text: str) -> int:
    """`250ms`, `10s`, `1.5m`, `2h`, `1d` in milliseconds; raises BadInput for anything else."""
    parts = _DURATION.fullmatch(text.strip())
    if not parts:
        raise BadInput(f"{text!r} is no duration.", hint="One looks like 250ms, 10s, 15m, 2h or 1d.")
    return round(float(parts[1]) * UNITS_MS[parts[2]])


def duration_text(ms: int) -> str:
    """The shortest form that `duration_ms` reads back as the same number."""
    unit = next(unit for unit in reversed(UNITS_MS) if ms % UNITS_MS[unit] == 0)
    return f"{ms // UNITS_MS[unit]}{unit}"
