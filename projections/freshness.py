"""When a reader last knew that it had read to the end of the log: how old what it tells may be."""


class Freshness:
    """When a reader last knew that it had read to the end; all times are one monotonic clock's, in seconds."""

    def __init__(self, fence_ms: int = 0) -> None:
        self._last_record_s: float | None = None
        self._knew_end_s: float | None = None
        self._is_at_end = False
        self.fence_ms = fence_ms

    def note(self, now_s: float, *, counted: bool, at_end: bool) -> None:
        """What one look at the log has shown. `counted`: a record that counts, as only a leader of now can write."""
        if counted:
            self._last_record_s = now_s
        self._is_at_end = at_end
        if at_end:
            self._knew_end_s = self._last_record_s if self._is_silent(now_s) else now_s

    def lose(self) -> None:
        """This reader reads no further."""
        self._is_at_end = False

    def age_ms(self, now_s: float) -> int | None:
        """0 while at the end of a living log, else the time since the end was last known; None if it never was.

        A log that has been silent for too long may have moved on since its last record.
        """
        if self._knew_end_s is None or self._last_record_s is None:
            return None
        if not self._is_at_end:
            return round((now_s - self._knew_end_s) * 1000)
        return round((now_s - self._last_record_s) * 1000) if self._is_silent(now_s) else 0

    def quiet_ms(self, now_s: float) -> int | None:
        """How long ago the last record that counts was read; None if none was."""
        return None if self._last_record_s is None else round((now_s - self._last_record_s) * 1000)

    def _is_silent(self, now_s: float) -> bool:
        return self._last_record_s is None or (now_s - self._last_record_s) * 1000 >= self.fence_ms / 2
