"""A projector that keeps its store with the help of a workshop in the test's own thread."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import eventful
from tests.unit.projections.upkeep.workshops import Inline

from topolog.projections.projector import Projector
from topolog.projections.upkeep.keeper import Terms
from topolog.projections.upkeep.orders import Action, UpkeepOrder
from topolog.projections.upkeep.workshop import Workshop

KEPT = Terms(former_kept_ms=3_600_000)


class Clock:
    """A monotonic clock and a time of day that the test moves."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def now_s(self) -> float:
        return self.s

    def wall_ms(self) -> int:
        return 1_900_000_000_000 + round(self.s * 1000)


class Kept:
    """Projectors of one folder, one after the other."""

    def __init__(self, chronicle: Chronicle, folder: Path, workshop: Workshop) -> None:
        self.chronicle = chronicle
        self.folder = folder
        self.workshop = workshop
        self.clock = Clock()
        self.batch_max = 1_000_000
        self._orders = 0
        self.projector = self.made(KEPT)

    def restarted(self, terms: Terms = KEPT) -> Projector:
        self.projector.close()
        self.projector = self.made(terms)
        return self.projector

    def order(self, action: Action, reason: str = "a test", rate: float | None = None) -> UpkeepOrder:
        self._orders += 1
        order = UpkeepOrder(f"o{self._orders}-{self.clock.s}", action, "ann", reason, self.clock.wall_ms(), rate)
        self.projector.act(order)
        return order

    def settle(self) -> None:
        """Until nothing is wanted and all has been read."""
        for _ in range(1_000):
            found = self.projector.step()
            if not found and self.projector.keeper.status.wanted is None:
                return
        pytest.fail("it is still wanted")

    @property
    def stores(self) -> list[str]:
        return sorted(path.name.rpartition("-")[2] for path in self.folder.glob("rows-*"))

    def made(self, terms: Terms = KEPT) -> Projector:
        reader = self.chronicle.log.reader()
        reader.batch_max = self.batch_max
        return Projector(
            reader,
            self.folder,
            "main",
            now_s=self.clock.now_s,
            wall_ms=self.clock.wall_ms,
            workshop=self.workshop,
            terms=terms,
        )


@pytest.fixture
def chronicle() -> Chronicle:
    return eventful(Chronicle().start())


@pytest.fixture
def workshop(chronicle: Chronicle) -> Inline:
    return Inline(chronicle.log.reader)


MakeKept = Callable[[Workshop], Kept]


@pytest.fixture
def make_kept(chronicle: Chronicle, tmp_path: Path) -> Iterator[MakeKept]:
    made: list[Kept] = []

    def make(workshop: Workshop) -> Kept:
        made.append(Kept(chronicle, tmp_path / "store", workshop))
        return made[-1]

    yield make
    for each in made:
        each.projector.close()


@pytest.fixture
def kept(make_kept: MakeKept, workshop: Inline) -> Kept:
    """At the end of the log."""
    kept = make_kept(workshop)
    kept.settle()
    return kept
