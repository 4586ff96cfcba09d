"""The story that every test of the console looks at; it is told once for all of them, and only read."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.web.story import Told, told

from topolog.projections import patience
from topolog.projections.projector import Projector

Story = tuple[httpx.Client, Told]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A client of the API over the story, and where to look in it. Time stands still, so that nothing grows old."""
    chronicle = Chronicle(pace_ms=150).start()
    folder: Path = tmp_path_factory.mktemp("story")
    log = chronicle.log
    projector = Projector(log.reader(), folder / "store", "main", now_s=lambda: 0.0, wall_ms=lambda: chronicle.now_ms)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(patience, "wall_ms", lambda: chronicle.now_ms)
        with told(chronicle, projector) as found:
            yield found
    projector.close()
