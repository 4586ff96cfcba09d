"""Workshops for tests: tasks are done in the test's own thread, when it says so."""

from collections.abc import Callable

from topolog.events.errors import TopologError
from topolog.events.log import LogReader
from topolog.projections.upkeep.doing import do
from topolog.projections.upkeep.tasks import Report, Task
from topolog.projections.upkeep.workshop import Work, failure


class Done:
    """A task that has ended."""

    def __init__(self, reports: list[Report]) -> None:
        self._reports = reports

    def reports(self) -> list[Report]:
        told, self._reports = self._reports, []
        return told

    def is_over(self) -> bool:
        return True

    def stop(self) -> None:
        pass


class Inline:
    """Does a task as soon as it is begun; `begun` are all there were."""

    def __init__(self, open_reader: Callable[[], LogReader]) -> None:
        self._open_reader = open_reader
        self.begun: list[Task] = []

    def begin(self, task: Task) -> Work:
        self.begun.append(task)
        reports: list[Report] = []
        try:
            do(task, self._open_reader, reports.append)
        except TopologError as error:
            reports.append(failure(error))
        return Done(reports)


class Idle(Inline):
    """Begins tasks and does nothing of them: they are under way for ever."""

    def begin(self, task: Task) -> Work:
        self.begun.append(task)
        return Endless()


class Endless(Done):
    def __init__(self) -> None:
        super().__init__([])

    def is_over(self) -> bool:
        return False
