"""What has happened in a simulated world: all that befell it, and the last of everything else."""

from collections import deque

from topolog.streams.simulation.timeline import Timeline

_NOTES_KEPT = 40
_DULL_KEPT = 2


class Chronicle:
    """What has happened, for whoever reads a violation."""

    def __init__(self, timeline: Timeline) -> None:
        self.notes: deque[str] = deque(maxlen=_NOTES_KEPT)
        self.deeds: list[str] = []
        self._timeline = timeline
        self._dull = 0

    def note(self, text: str, *, dull: bool = False) -> None:
        """One line of history; of a run of `dull` ones the first and last are kept."""
        self._dull = self._dull + 1 if dull else 0
        if self._dull > _DULL_KEPT:
            self.notes.pop()
        self.notes.append(f"{self._timeline.now_ns / 1e9:8.4f} s  {text}")

    def told(self) -> str:
        """All deeds, and the last of what else has happened."""
        before = [deed for deed in self.deeds if deed not in self.notes]
        return "\n".join([*before, *(["     ..."] if before else []), *self.notes])
