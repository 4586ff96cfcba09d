"""Spans of time as people type them, `15m`, and as they read them, `12 s`. No store is needed for that."""

from topolog.events.durations import duration_ms, is_duration

__all__ = ["ago", "duration_ms", "is_duration"]


def ago(milliseconds: int) -> str:
    """A span in its largest unit: `350 ms`, `12 s`, `3 h`."""
    for length, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds >= length:
            return f"{milliseconds // length} {unit}"
    return f"{max(0, milliseconds)} ms"
