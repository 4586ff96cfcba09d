"""The store: any position of the past, damage, and folders that are not its own."""

import random
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rocksdict import Rdict, WriteBatch
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.conftest import MakeProjector
from tests.unit.projections.dying import Died, die_at
from tests.unit.projections.test_projector import eventful, hash_of
from tests.unit.projections.upkeep.workshops import Inline

from topolog.events.errors import BadInput, DamagedStore, Gone, NotFound
from topolog.events.fold import Fold, Ignored
from topolog.events.leases import LeaseRow
from topolog.events.rows import ROWS
from topolog.events.state import Row, State
from topolog.projections import layout, store
from topolog.projections.generations import generation_path
from topolog.projections.projector import Projector
from topolog.projections.store import Store
from topolog.projections.upkeep.stores import listed


def all_kinds(parent: type[Row] = Row) -> set[type[Row]]:
    return {kind for child in parent.__subclasses__() for kind in ({child} if child.KIND else all_kinds(child))}


def states_by_position(chronicle: Chronicle) -> dict[int, State]:
    """A fresh fold up to each position; a position inside a set stands for the whole set."""
    states: dict[int, State] = {}
    for count in range(1, len(chronicle.entries) + 1):
        fold = Fold()
        for entry in chronicle.entries[:count]:
            folded = fold.read(entry.stamp, entry.value)
        if not isinstance(folded, Ignored):
            states |= {each.place.position: fold.state for each in folded}
    return states


def test_every_kind_of_row_is_stored() -> None:
    """RD2: everything people may ask for is a row, and every row is stored."""
    assert {kind for kind in all_kinds() if kind.__module__.startswith("topolog.")} == set(ROWS)


@pytest.mark.parametrize("seed", range(3))
def test_any_position_of_the_past_equals_a_fresh_fold(seed: int, tmp_path: Path) -> None:
    """K10, RD6: as_of a position, the rows are those of a fold that stopped there, hash for hash."""
    chronicle = random_history(seed, decisions=120)
    projector = Projector(chronicle.log.reader(), tmp_path, "main")
    projector.step()
    states = states_by_position(chronicle)
    with projector.reading() as newest:
        for position in random.Random(seed).sample(sorted(states), 100):
            reading = newest.as_of(position)
            assert reading.state().hash() == states[position].hash(), position
            assert reading.surely_decision(position).state_hash == states[position].hash()
            if not reading.is_current:
                assert next(reading.rows(LeaseRow), None) is None, "renewals of the past are not kept"
    projector.close()


class Disk:
    """A database whose writes can be counted, or be the last; RocksDB's own type takes no other methods."""

    def __init__(self, db: Rdict) -> None:
        self._db = db

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def __getitem__(self, key: bytes) -> Any:
        return self._db[key]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._db[key] = value

    def write(self, batch: WriteBatch) -> None:
        self._db.write(batch)


@pytest.mark.parametrize("step", range(3))
def test_killed_before_any_write_the_rows_are_those_of_the_place_it_names(
    step: int, chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RD1: rows, history and place go to the disk together, or a kill in between would cost a store."""
    opened = store._open
    monkeypatch.setattr(store, "_open", lambda path: Disk(opened(path)))
    projector = Projector(chronicle.log.reader(), tmp_path, "main")
    projector.step()
    chronicle.join("n1")
    chronicle.replace_in_one_set("n1", "n2")
    with monkeypatch.context() as patch:
        die_at(patch, step, (Disk, "write"), (Disk, "__setitem__"))
        with suppress(Died):
            projector.step()
    projector.close()
    again = Store(tmp_path, "main")
    assert again.load().hash() == again.meta.state_hash
    again.close()


def random_history(seed: int, decisions: int) -> Chronicle:
    """A cluster whose nodes come and go while types are proposed, accepted and removed."""
    dice = random.Random(seed)
    chronicle = Chronicle(pace_ms=dice.choice((0, 1, 1_000))).start()
    members: list[str] = []
    pending: list[str] = []
    while chronicle.position < decisions:
        match dice.choice(
            ["join", "propose", "propose", "accept", "accept", "renew", "leave", "replace", "lead", "remove"]
        ):
            case "join":
                members.append(f"n{chronicle.position}")
                chronicle.join(members[-1])
            case "propose":
                name = f"T{dice.randrange(5)}"
                chronicle.propose(name, {f"f{chronicle.position}": "int"})
                pending.append(name)
            case "accept" if pending:
                name = pending.pop()
                pending = [each for each in pending if each != name]
                chronicle.accept(name, *members)
                if dice.random() < 0.3:
                    chronicle.remove_type(name)
            case "renew":
                chronicle.renew(*members)
            case "leave" if members:
                chronicle.leave(members.pop(0))
            case "replace" if members:
                gone = members.pop()
                members.append(f"n{chronicle.position}")
                chronicle.replace_in_one_set(gone, members[-1])
            case "lead":
                chronicle.lead(f"c{chronicle.position}")
    return chronicle


def test_a_position_inside_a_set_stands_for_the_whole_set(chronicle: Chronicle, projector: Projector) -> None:
    """K2: a set happens at once."""
    chronicle.join("n1")
    chronicle.replace_in_one_set("n1", "n2")
    projector.step()
    with projector.reading() as reading:
        assert reading.as_of(chronicle.position - 1).position == chronicle.position


def test_a_time_finds_the_newest_position_of_that_moment(chronicle: Chronicle, projector: Projector) -> None:
    """RD6: by LogAppendTime's running maximum, which a broker's clock set back does not break."""
    chronicle.pace_ms = 0
    start_ms = chronicle.now_ms
    chronicle.now_ms = start_ms + 60_000
    one = chronicle.join("n1")
    chronicle.now_ms = start_ms + 50_000
    two = chronicle.join("n2")
    chronicle.now_ms = start_ms + 90_000
    chronicle.join("n3")
    projector.step()
    with projector.reading() as reading:
        assert reading.position_at(start_ms + 59_999) < one - 1
        assert reading.position_at(start_ms + 60_000) == two
        assert reading.position_at(start_ms + 80_000) == two
        assert reading.position_at(start_ms + 90_000) == chronicle.position
        with pytest.raises(Gone):
            reading.position_at(1)


def test_positions_outside_the_log_have_a_name_for_it(chronicle: Chronicle, projector: Projector) -> None:
    """Before the beginning is Gone, behind the end is NotFound: two different mistakes."""
    projector.step()
    with projector.reading() as reading:
        with pytest.raises(Gone):
            reading.as_of(-1)
        with pytest.raises(NotFound, match="newest is 1"):
            reading.as_of(2)


def test_a_reading_holds_still(chronicle: Chronicle, projector: Projector) -> None:
    """RD4: every row of one answer is of one position, whatever is projected meanwhile."""
    chronicle.join("n1")
    projector.step()
    with projector.reading() as reading:
        before = reading.state().hash()
        eventful_position = chronicle.propose("Customer", {"id": "long"})
        projector.step()
        assert reading.state().hash() == before
        assert reading.position < eventful_position == projector.meta.position


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset % len(data)] ^= 0xFF
    path.write_bytes(data)


def compacted(folder: Path) -> list[Path]:
    """The store's tables, after everything was moved from its write-ahead log into them."""
    store = Store(folder, "main")
    store._db.flush()
    store._db.compact_range(None, None)
    store.close()
    return sorted(generation_path(folder).glob("*.sst"))


@pytest.mark.parametrize("part", range(0, 100, 7))
def test_a_flipped_byte_is_found_and_cured(
    chronicle: Chronicle, make_projector: MakeProjector, tmp_path: Path, part: int
) -> None:
    """RD24: whatever byte of a table the disk returns wrong, no answer is made of it, and the store is rebuilt."""
    eventful(chronicle)
    make_projector().step()
    make_projector().close()
    for table in compacted(tmp_path / "store"):
        flip(table, table.stat().st_size * part // 100)
    reader = chronicle.log.reader
    with closing(Projector(reader(), tmp_path / "store", "main", workshop=Inline(reader))) as projector:
        answers: list[bytes] = []
        for _ in range(20):
            projector.step()
            with suppress(DamagedStore), projector.reading() as reading:
                answers = [reading.as_of(position).state().hash() for position in range(chronicle.position + 1)]
            if answers and projector.stopped is None:
                break
        assert answers[-1] == hash_of(projector) == chronicle.fold.state.hash()
        assert projector.stopped is None


def test_a_wrong_hash_is_found_and_cured(chronicle: Chronicle, make_projector: MakeProjector, tmp_path: Path) -> None:
    """The rows must have the hash that was stored with them; if not, the folder is moved aside and built anew."""
    chronicle.join("n1")
    make_projector().step()
    path = generation_path(tmp_path / "store")
    make_projector().close()
    store = Store(tmp_path / "store", "main")
    key, row = layout.row_key(("node", "n1")), chronicle.fold.state.lookup(("node", "n1"))
    assert row is not None
    store._db[key] = layout.encode(row).replace(b"n1:7000", b"n1:7001")
    store.close()
    projector = make_projector()
    assert path.with_name(f"{path.name}.damaged").is_dir()
    projector.step()
    assert hash_of(projector) == chronicle.fold.state.hash()


def test_a_place_in_another_history_is_found(chronicle: Chronicle, projector: Projector, tmp_path: Path) -> None:
    """The rows are whole, and the place that the store names is not where its last decision stands: it would go on
    behind a chain that is not its own."""
    chronicle.join("n1")
    projector.step()
    projector.close()
    with closing(Store(tmp_path / "store", "main")) as whole:
        assert whole.load().hash() == chronicle.fold.state.hash()
        header = msgspec.structs.replace(whole.meta.header, chain=bytes(16))
        whole._db[layout.META_KEY] = layout.encode(msgspec.structs.replace(whole.meta, header=header))
    with (
        closing(Store(tmp_path / "store", "main")) as swapped,
        pytest.raises(DamagedStore, match=f"position {chronicle.position} is not the one the store stands at"),
    ):
        swapped.load()


def test_who_builds_nothing_beside_goes_on_with_what_can_be_read(chronicle: Chronicle, projector: Projector) -> None:
    """`topolog open`: a block of the past that cannot be read stands in the way of nothing else, and that is said."""
    projector.step()
    with pytest.raises(DamagedStore), projector.reading():
        raise DamagedStore("Block 7 is not what was written.")
    chronicle.join("n1")
    projector.step()
    with projector.reading() as reading:
        assert reading.position == chronicle.position
    (shown,) = projector.told(listed)
    assert (shown.state, shown.why) == ("DAMAGED", "Block 7 is not what was written.")
    assert projector.stopped is None


def test_the_folder_of_another_cluster_is_left_alone(chronicle: Chronicle, tmp_path: Path) -> None:
    """Another cluster's store is an error that names it, never overwritten."""
    Projector(chronicle.log.reader(), tmp_path, "main").close()
    with pytest.raises(BadInput, match="of cluster 'main', not of 'other'"):
        Projector(chronicle.log.reader(), tmp_path, "other")
    assert not list(tmp_path.glob("*.damaged"))


def test_a_folder_in_use_is_no_damage(chronicle: Chronicle, projector: Projector, tmp_path: Path) -> None:
    """Two projectors in one folder: the second says so, and touches nothing."""
    with pytest.raises(BadInput, match="Another process uses the store"):
        Projector(chronicle.log.reader(), tmp_path / "store", "main")
    assert not list((tmp_path / "store").glob("*.damaged"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="file"):
        Store(tmp_path / "file", "main")


def test_another_shape_of_rows_is_another_generation(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RD5: a changed row shape is built beside the old one, which goes when the new one has caught up."""
    monkeypatch.setattr(layout, "shape", lambda: "before")
    Projector(chronicle.log.reader(), tmp_path, "main").close()
    monkeypatch.undo()
    projector = Projector(chronicle.log.reader(), tmp_path, "main")
    assert len(list(tmp_path.iterdir())) == 2
    projector.step()
    assert [path.name for path in tmp_path.iterdir()] == [generation_path(tmp_path).name]
    assert projector.meta.header.log_id == LOG_ID
    projector.close()


def test_keys_of_one_row_are_no_prefix_of_another() -> None:
    """Names may hold any character: `a` and `a NUL b` are two rows, in this order."""
    names = ["", "a", "a\x00", "a\x00b", "a\x01", "ab", "é"]
    stems = [layout.history_stem(("node", name)) for name in names]
    assert stems == sorted(stems)
    assert not any(b.startswith(a) for a in stems for b in stems if a != b)
    assert [layout.key_of_stem(stem, "node") for stem in stems] == names
