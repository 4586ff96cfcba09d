"""Spans of time as people type them, `15m`, and as they read them, `12 s`. No store is needed for that."""

import re

from topolog.events.errors import BadInput

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)(ms|s|m|h|d)")


def is_duration(text: str) -> bool:
    return _DURATION.fullmatch(text.strip()) is not None


def duration_ms(text: str) -> int:
    """`250ms`, `10s`, `1.5m`, `2h`, `1d` in milliseconds; raises BadInput for anything else."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise BadInput(f"{text!r} is no duration.", hint="One looks like 250ms, 10s, 15m, 2h or 1d.")
    return round(float(found[1]) * _UNITS_MS[found[2]])


def ago(milliseconds: int) -> str:
    """A span in its largest unit: `350 ms`, `12 s`, `3 h`."""
    for length, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds >= length:
            return f"{milliseconds // length} {unit}"
    return f"{max(0, milliseconds)} ms"
