"""What can be asked of a projector's store: another one beside it, back, a pause, and what is noticed by itself."""

import errno
from pathlib import Path
from threading import Thread

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import contents
from tests.unit.projections.test_projector import hash_of
from tests.unit.projections.upkeep.conftest import Kept, MakeKept
from tests.unit.projections.upkeep.workshops import Idle, Inline

from topolog.events.errors import Refused
from topolog.projections.generations import generation_path, is_recalled, offered_path
from topolog.projections.layout import Meta
from topolog.projections.projection import Projection
from topolog.projections.projection_resources import Generation
from topolog.projections.store import Store
from topolog.projections.upkeep.about import about
from topolog.projections.upkeep.orders import Action, UpkeepOrder
from topolog.projections.upkeep.stores import listed
from topolog.projections.upkeep.tasks import Build, Phase, Scrub
from topolog.projections.upkeep.workshop import Work


def told(kept: Kept) -> dict[str, Generation]:
    return {each.name: each for each in kept.projector.told(listed)}


def test_a_rebuild_takes_the_place_of_what_is_shown_and_is_equal(chronicle: Chronicle, kept: Kept) -> None:
    """ES3, ES4: beside the live one, compared whole, then switched; the former is kept."""
    before = contents(kept.folder)
    kept.order(Action.REBUILD, "a new disk")
    kept.settle()
    assert contents(kept.folder) == before
    assert hash_of(kept.projector) == chronicle.fold.state.hash()
    assert kept.stores == ["1", "2"]
    shown, former = told(kept)["2"], told(kept)["1"]
    assert (shown.state, shown.why, shown.hash) == ("SHOWN", "a new disk", chronicle.fold.state.hash().hex())
    assert shown.compared is not None
    assert shown.compared.is_equal
    assert shown.compared.position == chronicle.position
    assert shown.compared.rows > 0
    assert (former.state, former.position, former.hash) == ("FORMER", chronicle.position, shown.hash)


def test_the_way_back_is_read_on_first(chronicle: Chronicle, kept: Kept) -> None:
    """ES4: what was decided since is in it, and no position goes back."""
    kept.order(Action.REBUILD)
    kept.settle()
    position = chronicle.join("m1")
    kept.settle()
    kept.order(Action.BACK, "the new one is slow")
    seen = []
    kept.projector.on_commit(lambda: seen.append(kept.projector.meta.position))
    kept.settle()
    assert kept.projector.meta.position == position
    assert seen == sorted(seen)
    assert hash_of(kept.projector) == chronicle.fold.state.hash()
    assert kept.stores == ["2", "3"]
    assert told(kept)["3"].why == "the new one is slow"
    assert told(kept)["2"].state == "FORMER"


def test_there_is_no_way_back_to_nothing(kept: Kept) -> None:
    with pytest.raises(Refused) as caught:
        kept.order(Action.BACK)
    assert caught.value.code == "NO_FORMER"
    with pytest.raises(Refused) as caught:
        kept.order(Action.DROP_FORMER)
    assert caught.value.code == "NO_FORMER"
    with pytest.raises(Refused) as caught:
        kept.order(Action.CANCEL)
    assert caught.value.code == "NOTHING_TO_CANCEL"


def test_only_the_last_former_is_kept(kept: Kept) -> None:
    for number in range(3):
        kept.order(Action.REBUILD, str(number))
        kept.settle()
    assert kept.stores == ["3", "4"]


def test_the_former_goes_when_its_time_is_over(kept: Kept) -> None:
    """ES4: cleaned up without a word."""
    kept.order(Action.REBUILD)
    kept.settle()
    kept.clock.s += 3_599
    kept.settle()
    assert kept.stores == ["1", "2"]
    kept.clock.s += 61
    kept.settle()
    assert kept.stores == ["2"]


def test_the_former_goes_on_demand(kept: Kept) -> None:
    kept.order(Action.REBUILD)
    kept.settle()
    kept.order(Action.DROP_FORMER)
    assert kept.stores == ["2"]


def test_the_former_stays_over_a_restart(kept: Kept) -> None:
    kept.order(Action.REBUILD)
    kept.settle()
    kept.restarted()
    kept.settle()
    assert kept.stores == ["1", "2"]
    kept.order(Action.BACK)
    kept.settle()
    assert kept.stores == ["2", "3"]


def test_a_former_that_is_read_is_not_moved(kept: Kept) -> None:
    """The way back waits until the last reading of it has ended."""
    with kept.projector.reading() as reading:
        kept.order(Action.REBUILD)
        kept.settle()
        with pytest.raises(Refused) as caught:
            kept.order(Action.DROP_FORMER)
        assert caught.value.code == "IN_USE"
        kept.order(Action.BACK)
        for _ in range(5):
            kept.projector.step()
        assert not is_recalled(kept.folder)
        assert reading.state().hash() == reading.meta.state_hash
    kept.settle()
    assert kept.stores == ["2", "3"]


def test_two_orders_at_once_are_one(make_kept: MakeKept, workshop: Inline, chronicle: Chronicle) -> None:
    kept = make_kept(Idle(chronicle.log.reader))
    kept.projector.step()
    kept.order(Action.REBUILD, "the first")
    kept.projector.step()
    with pytest.raises(Refused) as caught:
        kept.order(Action.REBUILD)
    assert caught.value.code == "ALREADY_WANTED"
    assert told(kept)["building"].phase == Phase.FOLDING
    kept.order(Action.CANCEL)
    kept.projector.step()
    assert "building" not in told(kept)
    assert not (kept.folder / "building").exists()


def test_what_is_wanted_is_wanted_after_a_restart(make_kept: MakeKept, chronicle: Chronicle, workshop: Inline) -> None:
    """ES3: the order is on the disk; the process that starts next carries it out."""
    kept = make_kept(Idle(chronicle.log.reader))
    kept.projector.step()
    order = kept.order(Action.REBUILD, "before")
    kept.projector.step()
    kept.workshop = workshop
    kept.restarted()
    kept.settle()
    assert len(workshop.begun) == 1
    assert about(generation_path(kept.folder)).order == order.id


def test_a_way_back_that_is_cancelled_leaves_the_former_where_it_was(kept: Kept, chronicle: Chronicle) -> None:
    kept.order(Action.REBUILD)
    kept.settle()
    kept.projector.keeper._workshop = Idle(chronicle.log.reader)
    kept.order(Action.BACK)
    kept.projector.step()
    assert kept.stores == ["2"]
    kept.order(Action.CANCEL)
    kept.projector.step()
    assert kept.stores == ["1", "2"]
    assert told(kept)["1"].state == "FORMER"


def test_a_pause_holds_over_a_restart(chronicle: Chronicle, kept: Kept) -> None:
    """Reads go on, age grows, and it is said why."""
    before = kept.projector.meta.position
    kept.order(Action.PAUSE, "the disk is busy")
    chronicle.join("m1")
    for is_restarted in (False, True):
        projector = kept.restarted() if is_restarted else kept.projector
        projector.step()
        kept.clock.s += 30
        assert projector.meta.position == before
        assert projector.stopped == "It is paused by ann: the disk is busy"
        assert projector.age_ms >= 30_000
        with projector.reading() as reading:
            assert reading.position == before
        assert told(kept)["1"].state == "PAUSED"
    kept.order(Action.RESUME)
    kept.settle()
    assert kept.projector.meta.position == chronicle.position
    assert (kept.projector.stopped, told(kept)["1"].state) == (None, "SHOWN")
    assert hash_of(kept.projector) == chronicle.fold.state.hash()


def test_a_build_that_cannot_end_is_given_up_with_the_reason(chronicle: Chronicle, kept: Kept) -> None:
    """A record that cannot be folded stops a rebuild as it stops the projector."""
    chronicle.append_accepted(b"no event")
    kept.order(Action.REBUILD)
    for _ in range(20):
        kept.projector.step()
    refused = told(kept)["refused"]
    assert refused.state == "REFUSED"
    assert "cannot be" in refused.why
    assert not (kept.folder / "building").exists()


def test_without_room_nothing_is_begun(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1_000})())
    with pytest.raises(Refused) as caught:
        kept.order(Action.REBUILD)
    assert caught.value.code == "NO_ROOM"


def test_no_file_of_an_order_that_cannot_be_read_stops_a_projector(kept: Kept) -> None:
    path: Path = kept.folder / "upkeep.json"
    path.write_bytes(b"{")
    kept.restarted()
    kept.settle()
    assert kept.projector.keeper.status.wanted is None


@pytest.mark.parametrize("action", [Action.REBUILD, Action.SCRUB])
def test_what_no_process_can_be_had_for_is_begun_again(
    kept: Kept, workshop: Inline, chronicle: Chronicle, action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine has no process or no room left for a while: what is shown goes on, and so does the order."""

    def none_left(_: object) -> Work:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(workshop, "begin", none_left)
    kept.order(action)
    position = chronicle.join("m1")
    for _ in range(5):
        kept.projector.step()
    assert kept.projector.meta.position == position
    assert kept.projector.stopped is None
    monkeypatch.undo()
    kept.clock.s += 60
    kept.settle()
    kept.projector.step()
    status = kept.projector.keeper.status
    assert (status.wanted, status.refused, status.scrub) == (None, None, None)
    assert [task for task in workshop.begun if isinstance(task, Scrub if action is Action.SCRUB else Build)]


def test_what_was_cancelled_is_not_shown(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody cancels between the projector's look at its orders and its look at what is offered."""
    keeper = kept.projector.keeper
    look = keeper.look
    cancelled: list[UpkeepOrder] = []

    def cancelled_behind(shown: Store, *, reads_former: bool) -> None:
        look(shown, reads_former=reads_former)
        if offered_path(kept.folder) is not None and not cancelled:
            cancelled.append(kept.order(Action.CANCEL))

    monkeypatch.setattr(keeper, "look", cancelled_behind)
    kept.order(Action.REBUILD)
    kept.settle()
    kept.settle()
    assert cancelled
    assert kept.stores == ["1"]
    assert not (kept.folder / "building").exists()


def test_what_is_being_claimed_cannot_be_cancelled(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever cancels at that moment waits, and is told that it is too late."""
    succession, changing = kept.projector._succession, kept.projector.keeper._orders.changing
    look = succession.look
    could: list[bool] = []

    def change() -> None:
        could.append(changing.acquire(blocking=False))
        if could[-1]:
            changing.release()

    def looked(shown: Meta) -> Projection | None:
        other = Thread(target=change)
        other.start()
        other.join()
        return look(shown)

    monkeypatch.setattr(succession, "look", looked)
    kept.order(Action.REBUILD)
    kept.settle()
    assert kept.stores == ["1", "2"]
    assert not any(could)


def test_an_order_right_behind_a_cancelled_one_is_its_own(chronicle: Chronicle, kept: Kept) -> None:
    """What was built for the former order is not taken for it, and the former store is found where it was."""
    kept.order(Action.REBUILD)
    kept.settle()
    workshop, kept.projector.keeper._workshop = kept.projector.keeper._workshop, Idle(chronicle.log.reader)
    kept.order(Action.BACK)
    kept.projector.step()
    assert is_recalled(kept.folder)
    kept.order(Action.CANCEL)
    kept.projector.keeper._workshop = workshop
    order = kept.order(Action.BACK)
    kept.settle()
    assert about(generation_path(kept.folder)).order == order.id
    assert kept.stores == ["2", "3"]
