"""Two stores of one log at one position hold the same bytes, however their projectors were stopped and started."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import contents
from tests.unit.projections.sharing import shared_out
from tests.unit.projections.test_projector import eventful

from topolog.projections.projector import Projector


@pytest.fixture(scope="module")
def log() -> Chronicle:
    """Sets of several records, partitions that move, records that do not count, and a broker whose clock goes back."""
    chronicle = Chronicle().start()
    cluster = shared_out(chronicle, "s1", "s2", "s3")
    chronicle.now_ms += 60_000
    chronicle.append_raw(None, b"a stranger's record, logged late")
    chronicle.now_ms -= 59_000
    cluster.leave("s2")
    cluster.rest()
    chronicle.append_raw(None, b"another")
    eventful(chronicle)
    chronicle.replace_in_one_set("n3", "n4")
    return chronicle


@pytest.fixture(scope="module")
def whole(log: Chronicle, tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, bytes]:
    """What one projector makes of it that reads it in one go."""
    return projected(log, tmp_path_factory.mktemp("whole"), (), set())


def projected(log: Chronicle, folder: Path, borders: Sequence[int], restarts: set[int]) -> dict[bytes, bytes]:
    """The store of a projector that polls so many records at a time, and is started again before some polls."""
    reader = log.log.reader()
    projector = Projector(reader, folder, "main")
    for number, size in enumerate(borders):
        if number in restarts:
            projector.close()
            reader = log.log.reader()
            projector = Projector(reader, folder, "main")
        reader.batch_max = size
        projector.step()
    reader.batch_max = 1_000
    with closing(projector):
        projector.step()
        assert (projector.stopped, projector.meta.position) == (None, log.position)
    return contents(folder)


@given(borders=st.lists(st.integers(1, 25), max_size=20), restarts=st.sets(st.integers(0, 20)))
def test_batch_borders_and_restarts_change_no_byte(
    log: Chronicle,
    whole: dict[bytes, bytes],
    tmp_path_factory: pytest.TempPathFactory,
    borders: Sequence[int],
    restarts: set[int],
) -> None:
    """What `topolog verify projections` stands on: a difference is damage, never chance."""
    assert projected(log, tmp_path_factory.mktemp("store"), borders, restarts) == whole
