"""Damage is found, what is sound goes on being shown, and another store takes the place of the damaged one."""

from contextlib import closing, suppress
from pathlib import Path

import pytest
from rocksdict import Options, Rdict
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import flipped, write
from tests.unit.projections.test_projector import hash_of
from tests.unit.projections.upkeep.conftest import Kept, MakeKept
from tests.unit.projections.upkeep.workshops import Idle, Inline

from topolog.events.errors import DamagedStore
from topolog.events.ids import Position
from topolog.projections import layout
from topolog.projections.generations import generation_path
from topolog.projections.projection_resources import Generation
from topolog.projections.self_check.opened import beside
from topolog.projections.upkeep.keeper import Terms
from topolog.projections.upkeep.orders import Action
from topolog.projections.upkeep.stores import listed

LONG = 1_500
"""Decisions enough for tables of many blocks."""


@pytest.fixture
def chronicle() -> Chronicle:
    chronicle = Chronicle(pace_ms=1).start()
    chronicle.join("n1")
    while chronicle.position < LONG:
        chronicle.renew("n1")
        chronicle.propose(f"T{chronicle.position}", {"id": "long"})
    return chronicle


def told(kept: Kept) -> dict[str, Generation]:
    return {each.name: each for each in kept.projector.told(listed)}


def rot(folder: Path, key: bytes) -> None:
    """Turn a bit in the block that has the key, as a bad disk would; nobody has the store open."""
    path = generation_path(folder)
    with closing(Rdict(str(path), options=Options(raw_mode=True))) as db:
        db.flush()
        db.compact_range(None, None)
    for table in path.glob("*.sst"):
        sound = table.read_bytes()
        for at in range(100, len(sound) - 2_000, 400):
            table.write_bytes(sound[:at] + flipped(sound[at : at + 1]) + sound[at + 1 :])
            if is_lost(path, key):
                return
        table.write_bytes(sound)
    pytest.fail("no block has it")


def is_lost(path: Path, key: bytes) -> bool:
    try:
        with beside(path) as view:
            try:
                view.get(key)
            except DamagedStore:
                return view.get(layout.META_KEY) is not None
    except DamagedStore:
        return False
    return False


def test_a_block_that_rots_is_found_by_whoever_reads_it(chronicle: Chronicle, kept: Kept) -> None:
    """Its reader is told; every other reading goes on; another store is built beside it and takes its place."""
    kept.projector.close()
    rot(kept.folder, layout.decision_key(Position(700)))
    kept.projector = kept.made()
    kept.settle()
    with pytest.raises(DamagedStore), kept.projector.reading() as reading:
        reading.surely_decision(700)
    idle, kept.projector.keeper._workshop = kept.projector.keeper._workshop, Idle(chronicle.log.reader)
    kept.projector.step()
    assert told(kept)["1"].state == "DAMAGED"
    assert "sst" in told(kept)["1"].why
    assert told(kept)["building"].by == "topolog"
    chronicle.join("m1")
    kept.projector.step()
    with kept.projector.reading() as reading:
        assert reading.position == chronicle.position, "what can be read is read on"
        assert reading.surely_decision(20).position == 20
    kept.projector.keeper._build = None
    kept.projector.keeper._workshop = idle
    kept.settle()
    with kept.projector.reading() as reading:
        assert reading.surely_decision(700).position == 700
    assert told(kept)["2"].state == "SHOWN"
    kept.projector.step()
    assert kept.stores == ["1.damaged", "2"]


def test_a_store_whose_rows_cannot_all_be_read_is_shown_with_the_rest(
    chronicle: Chronicle, kept: Kept, make_kept: MakeKept
) -> None:
    """At a start nothing can be folded on it, so nothing new is shown; what is sound answers until another is there."""
    kept.projector.close()
    rot(kept.folder, layout.row_key(("type", "T700")))
    workshop, kept.workshop = kept.workshop, Idle(chronicle.log.reader)
    kept.projector = kept.made()
    position = chronicle.position
    chronicle.join("m1")
    for _ in range(3):
        kept.projector.step()
    with kept.projector.reading() as reading:
        assert reading.position == position
        assert reading.surely_decision(700).position == 700
    assert "another one is built beside it" in (kept.projector.stopped or "")
    assert told(kept)["1"].state == "DAMAGED"
    kept.workshop = workshop
    kept.restarted()
    kept.settle()
    assert kept.projector.stopped is None
    assert kept.projector.meta.position == chronicle.position
    assert hash_of(kept.projector) == chronicle.fold.state.hash()
    kept.projector.step()
    assert kept.stores == ["1.damaged", "2"]


def test_rows_that_have_not_their_hash_are_shown_to_nobody(chronicle: Chronicle, kept: Kept) -> None:
    """Nobody knows which is wrong; the log is read from its beginning."""
    kept.projector.close()
    write(kept.folder, {layout.row_key(("node", "n1")): None})
    kept.projector = kept.made()
    assert kept.projector.meta.position == -1
    kept.settle()
    assert kept.stores == ["1.damaged", "2"]
    assert hash_of(kept.projector) == chronicle.fold.state.hash()


def test_the_former_takes_the_place_of_one_that_cannot_be_opened(chronicle: Chronicle, kept: Kept) -> None:
    """It is nearer to the end of the log than nothing is."""
    kept.order(Action.REBUILD)
    kept.settle()
    former = kept.projector.meta.position
    chronicle.join("m1")
    kept.settle()
    kept.projector.close()
    (generation_path(kept.folder) / "CURRENT").write_bytes(b"no list")
    kept.projector = kept.made()
    assert kept.projector.meta.position == former
    kept.settle()
    assert hash_of(kept.projector) == chronicle.fold.state.hash()
    assert kept.stores == ["1", "2.damaged"]


def test_a_former_that_was_found_wrong_takes_nobodys_place(chronicle: Chronicle, kept: Kept) -> None:
    """What it was replaced for is still so: the log is read from its beginning."""
    kept.projector.close()
    write(kept.folder, {layout.decision_key(Position(3)): b"no decision"})
    kept.projector = kept.made()
    kept.settle()
    kept.order(Action.REBUILD)
    kept.settle()
    assert "rows of the store of before were not those" in told(kept)["1"].why
    assert "decision @3" in told(kept)["1"].why
    kept.projector.close()
    (generation_path(kept.folder) / "CURRENT").write_bytes(b"no list")
    kept.projector = kept.made()
    assert kept.projector.meta.position == -1
    kept.settle()
    assert hash_of(kept.projector) == chronicle.fold.state.hash()


def test_a_scrub_finds_what_has_rotted_before_somebody_asks(chronicle: Chronicle, kept: Kept) -> None:
    """All of the store is read from the disk; what it finds is listed, and mended."""
    kept.order(Action.SCRUB)
    kept.settle()
    kept.projector.step()
    scrub = told(kept)["1"].scrub
    assert scrub is not None
    assert (scrub.state, len(scrub.findings)) == ("WELL", 0)
    assert scrub.bytes > 100_000
    kept.projector.close()
    rot(kept.folder, layout.decision_key(Position(700)))
    kept.projector = kept.made()
    kept.settle()
    kept.order(Action.SCRUB)
    kept.settle()
    kept.projector.step()
    assert kept.projector.keeper.status.scrubbed is not None
    (finding,) = kept.projector.keeper.status.scrubbed.findings
    assert ".sst offset" in finding.place
    kept.settle()
    assert told(kept)["2"].state == "SHOWN"


def test_a_scrub_finds_bits_that_flipped_before_their_checksum_was_made(kept: Kept) -> None:
    kept.projector.close()
    write(kept.folder, {layout.decision_key(Position(3)): b"no decision"})
    kept.projector = kept.made()
    kept.settle()
    kept.order(Action.SCRUB)
    kept.settle()
    kept.projector.step()
    assert kept.projector.keeper.status.scrubbed is not None
    assert [each.place for each in kept.projector.keeper.status.scrubbed.findings] == ["decision @3"]
    kept.settle()
    assert told(kept)["2"].state == "SHOWN"


def test_a_scrub_is_made_by_itself_now_and_then(kept: Kept, workshop: Inline) -> None:
    kept.restarted(Terms(scrub_every_ms=60_000))
    kept.settle()
    assert not workshop.begun
    kept.clock.s += 61
    kept.settle()
    kept.settle()
    assert len(workshop.begun) == 1
    kept.clock.s += 59
    kept.settle()
    assert len(workshop.begun) == 1


def test_damage_is_mended_after_somebody_has_cancelled_an_order_of_their_own(
    make_kept: MakeKept, chronicle: Chronicle
) -> None:
    """Only what was begun by itself is not begun again when it is cancelled."""
    kept = make_kept(Idle(chronicle.log.reader))
    for _ in range(10):
        kept.projector.step()
    kept.order(Action.REBUILD)
    kept.projector.step()
    kept.order(Action.CANCEL)
    with suppress(DamagedStore), kept.projector.reading():
        raise DamagedStore("It cannot be read.")
    kept.projector.step()
    wanted = kept.projector.keeper.status.wanted
    assert wanted is not None
    assert wanted.by == "topolog"
    kept.order(Action.CANCEL)
    kept.clock.s += 3_600
    for _ in range(3):
        kept.projector.step()
    assert kept.projector.keeper.status.damage is not None
    assert kept.projector.keeper.status.wanted is None


def test_a_disk_that_damages_everything_is_not_written_for_ever(
    kept: Kept, workshop: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some stores that were built for damage, and were damaged themselves, nothing is built by itself."""
    for number in range(10):
        kept.clock.s += 100
        with suppress(DamagedStore), kept.projector.reading():
            raise DamagedStore(f"It cannot be read, the {number}th time.")
        kept.settle()
    assert len(workshop.begun) == 3
    assert next(each.state for each in kept.projector.told(listed)) == "DAMAGED"
