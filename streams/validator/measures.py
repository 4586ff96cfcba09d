"""What a validator counts of itself, for metrics."""

from collections import Counter

from topolog.events.measuring import Durations
from topolog.streams.validator.core import Ended

BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0)


class ValidatorMeasures:
    """Of one process. The driver's thread writes; any thread reads. `tasks`: by outcome, a code in small letters."""

    def __init__(self) -> None:
        self.tasks: Counter[str] = Counter()
        self.rows = self.bytes = 0
        self.worked = Durations(BOUNDS_S)

    def note(self, ended: Ended) -> None:
        self.tasks["done" if ended.result is not None else ended.code.lower()] += 1
        self.rows += ended.rows
        self.bytes += ended.bytes
        if ended.result is not None:
            self.worked.observe(ended.result.worked_ms / 1000)
