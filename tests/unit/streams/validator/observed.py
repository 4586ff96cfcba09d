"""What tests of validators begin with, and what they look at: a site of two replicas, and what its log says."""

from collections.abc import Callable

from tests.unit.streams.validator.site import Site, Validator, contents, rows

from topolog.events import repair as rp
from topolog.events import repair_requests as rr
from topolog.events import repair_tasks as t
from topolog.events.codec import CODEC
from topolog.events.topics import Topic
from topolog.streams.coordinator.snapshots import Cadence


def differing_site(cadence: Cadence = Cadence(positions=0)) -> Site:  # noqa: B008 (frozen value)
    """Two replicas of fifty rows: one row has changed, one is missing, and five are new at the second."""
    site = Site(cadence)
    site.add("r1", rows(*range(50)))
    second = site.add("r2", rows(*range(50)))
    second.put({"id": 7, "name": "newer", "changed": 2})
    second.drop(9)
    for row in rows(100, 101, 102, 103, 104):
        second.put(row)
    return site


def serving(site: Site) -> tuple[Validator, Validator]:
    first, second = site.serve("v1", "r1"), site.serve("v2", "r2")
    site.settle()
    return first, second


def completed(site: Site) -> list[rp.TaskCompleted]:
    return [each for each in site.world.events(rp.TaskCompleted) if isinstance(each, rp.TaskCompleted)]


def failed(site: Site) -> list[tuple[str, str]]:
    return [
        (each.task.replica, each.code) for each in site.world.events(rp.TaskFailed) if isinstance(each, rp.TaskFailed)
    ]


def reported(site: Site) -> list[rr.TaskReported]:
    found = [CODEC.decode(each.value) for each in site.world.log.entries(Topic.REQUESTS)]
    return [each for each in found if isinstance(each, rr.TaskReported)]


def started(site: Site) -> list[rp.StepStarted]:
    return [each for each in site.world.events(rp.StepStarted) if isinstance(each, rp.StepStarted)]


def sends(site: Site) -> list[rp.TaskCompleted]:
    numbers = {each.step.number for each in started(site) if each.step.kind is t.TaskKind.SEND}
    return [each for each in completed(site) if each.task.step in numbers]


def are_equal(site: Site) -> bool:
    first, *others = (contents(each) for each in site.replicas.values())
    return all(each == first for each in others)


def once(deed: Callable[[], object], call: str) -> Callable[[str], None]:
    """A hook: the deed is done at the first call of this name."""
    left = [deed]

    def hook(what: str) -> None:
        if what == call and left:
            left.pop()()

    return hook
