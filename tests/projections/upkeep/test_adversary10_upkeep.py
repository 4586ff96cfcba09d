"""What the adversary found in how stores are kept (issue 10). Each fails until it is mended."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest
from tests.projections.chronicle import Chronicle
from tests.projections.upkeep.conftest import Kept, MakeKept
from tests.projections.upkeep.workshops import Idle, Inline

from topolog.events.errors import DamagedStore
from topolog.projections import generations
from topolog.projections.archive import durable
from topolog.projections.layout import Meta
from topolog.projections.upkeep.orders import Action


@pytest.mark.xfail(strict=True, reason="CANCEL sets `_mends` to its most, whoever wanted what is cancelled")
def test_damage_is_mended_after_somebody_has_cancelled_an_order_of_their_own(
    make_kept: MakeKept, chronicle: Chronicle
) -> None:
    kept = make_kept(Idle(chronicle.log.reader))
    for _ in range(10):
        kept.projector.step()
    kept.order(Action.REBUILD)
    kept.projector.step()
    kept.order(Action.CANCEL, "a slip")
    kept.projector.step()
    kept.clock.s += 3_600
    with suppress(DamagedStore), kept.projector.reading():
        raise DamagedStore("It cannot be read.")
    for _ in range(10):
        kept.projector.step()
    assert kept.projector.keeper.standing.damage is not None
    assert kept.projector.keeper.standing.wanted is not None


@pytest.mark.xfail(strict=True, reason="is_taken is looked at under `changing`, the claim is made without it")
def test_what_was_cancelled_is_not_shown(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody cancels between the projector's look at its orders and its look at what is offered."""
    succession = kept.projector._succession
    look, cancelled = succession.look, []

    def cancelling(shown: Meta) -> object:
        if generations.offered_path(kept.folder) is not None and not cancelled:
            cancelled.append(kept.order(Action.CANCEL))
        return look(shown)

    monkeypatch.setattr(succession, "look", cancelling)
    kept.order(Action.REBUILD)
    kept.settle()
    kept.settle()
    assert cancelled
    assert kept.stores == ["1"]


@pytest.mark.xfail(strict=True, reason="an OSError of durable.write is no DiskFull: run() ends with it, for good")
def test_a_full_disk_at_an_order_does_not_end_the_projector(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on when there is room again, as it does where RocksDB has none."""
    kept.order(Action.SCRUB)
    write = durable.write

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable, "write", full)
    for _ in range(5):
        kept.projector.step()
    monkeypatch.setattr(durable, "write", write)
    kept.settle()


@pytest.mark.xfail(strict=True, reason="Process.start has no memory or no processes left: the projector ends with it")
def test_no_room_for_another_process_does_not_end_the_projector(
    kept: Kept, workshop: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(workshop, "begin", none_left)
    kept.order(Action.REBUILD)
    for _ in range(3):
        kept.projector.step()
    monkeypatch.undo()
    kept.clock.s += 60
    kept.settle()
    assert kept.stores == ["1", "2"]
