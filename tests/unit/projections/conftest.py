"""What tests of readers share: a cluster's log being written, and projectors of it in folders of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.simulated import log_of

from topolog.events.log import InMemoryLog
from topolog.projections import patience
from topolog.projections.projector import Projector

MakeProjector = Callable[[], Projector]


@pytest.fixture(scope="session")
def log(request: pytest.FixtureRequest) -> InMemoryLog:
    """The log of a simulated seed, the parameter; several tests read it, and it is charged to none."""
    return log_of(request.param)


@pytest.fixture
def chronicle() -> Chronicle:
    """A log with LogStarted and its first term."""
    return Chronicle().start()


@pytest.fixture
def make_projector(chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeProjector]:
    """A projector of the chronicle in this test's folder, as after a restart; the one before is closed.

    The time of day is the chronicle's.
    """
    monkeypatch.setattr(patience, "wall_ms", lambda: chronicle.now_ms)
    made: list[Projector] = []

    def make() -> Projector:
        if made:
            made.pop().close()
        made.append(Projector(chronicle.log.reader(), tmp_path / "store", "main", wall_ms=lambda: chronicle.now_ms))
        return made[-1]

    yield make
    for projector in made:
        projector.close()


@pytest.fixture
def projector(make_projector: MakeProjector) -> Projector:
    return make_projector()
