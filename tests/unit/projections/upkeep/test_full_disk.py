"""A disk that is full, or fails, when a projector writes down what is to hold of its store."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import hash_of
from tests.unit.projections.upkeep.conftest import Kept

from topolog.events.errors import DiskFailed
from topolog.projections import projector as projector_module
from topolog.projections.archive import durable
from topolog.projections.rocks import DiskFull
from topolog.projections.succession import Succession
from topolog.projections.upkeep.orders import Action
from topolog.projections.upkeep.tasks import Phase


def failing(name: str, number: int) -> Callable[[Path, bytes], None]:
    """Writes everything but files of this name."""
    write = durable.write

    def written(path: Path, content: bytes) -> None:
        if path.name == name:
            raise OSError(number, "no")
        write(path, content)

    return written


def step_on(kept: Kept) -> None:
    for _ in range(10):
        kept.clock.s += 120
        kept.projector.step()


def is_wanted(kept: Kept) -> bool:
    return kept.projector.keeper.status.wanted is not None


def test_an_order_that_cannot_be_written_does_not_hold(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks is told why, and may ask again."""
    for number, expected in ((errno.ENOSPC, DiskFull), (errno.EIO, DiskFailed)):
        with monkeypatch.context() as broken:
            broken.setattr(durable, "write", failing("upkeep.json", number))
            with pytest.raises(expected):
                kept.order(Action.PAUSE)
        assert kept.projector.keeper.status.paused is None
    kept.order(Action.PAUSE)
    assert kept.projector.keeper.status.paused is not None


@pytest.mark.parametrize("name", ["upkeep.json", "about.json"])
def test_a_rebuild_ends_once_there_is_room(
    chronicle: Chronicle, kept: Kept, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The projector's thread outlives it, and what was wanted is had."""
    monkeypatch.setattr(projector_module, "ROOM_BYTES", 0)
    kept.order(Action.REBUILD)
    with monkeypatch.context() as full:
        full.setattr(durable, "write", failing(name, errno.ENOSPC))
        step_on(kept)
        assert is_wanted(kept)
    step_on(kept)
    assert not is_wanted(kept)
    assert kept.projector.stopped is None
    assert kept.stores == ["1", "2"]
    assert hash_of(kept.projector) == chronicle.fold.state.hash()


def test_what_is_refused_on_a_full_disk_is_built_again(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal cannot be noted, so what was wanted still is."""
    monkeypatch.setattr(projector_module, "ROOM_BYTES", 0)
    kept.order(Action.REBUILD)
    not_yet = iter(range(2))

    def complete(succession: Succession, *_: object, **__: object) -> None:
        if succession.successor is not None and next(not_yet, None) is None:
            raise DiskFailed("It cannot be read any more.")

    with monkeypatch.context() as full:
        full.setattr(durable, "write", failing("upkeep.json", errno.ENOSPC))
        full.setattr(Succession, "complete", complete)
        kept.projector.step()
        kept.projector.step()
        assert kept.projector.keeper.phase is Phase.OFFERED
        kept.projector.step()
        assert "disk of the store is full" in (kept.projector.stopped or "")
        step_on(kept)
        assert is_wanted(kept)
    step_on(kept)
    assert not is_wanted(kept)
    assert kept.projector.stopped is None
