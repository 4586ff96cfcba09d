"""Does a task, in whatever process."""

from collections.abc import Callable
from contextlib import closing

from topolog.events.log import LogReader
from topolog.projections.upkeep.building import build
from topolog.projections.upkeep.scrubbing import scrub
from topolog.projections.upkeep.tasks import Build, Report, Scrub, Task


def do(task: Task, open_reader: Callable[[], LogReader], tell: Callable[[Report], None]) -> None:
    match task:
        case Build():
            with closing(open_reader()) as reader:
                build(task, reader, tell)
        case Scrub():
            scrub(task, tell)
