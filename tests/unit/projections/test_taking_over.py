"""A rebuilt store is taken over by a running projector: no read fails, no position goes back, whatever happens."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import contents, project, write
from tests.unit.projections.succeeding import history
from tests.unit.projections.test_projector import eventful, hash_of
from tests.unit.projections.upkeep.workshops import Inline

from topolog.events.codec import CODEC
from topolog.events.errors import DamagedStore
from topolog.events.failpoints import VARIABLE
from topolog.events.health import HealthHeard
from topolog.events.ids import Offset
from topolog.events.leases import NodeRow
from topolog.events.log import InMemoryLog, LogReader
from topolog.events.state import HASH_MODULUS, row_hash
from topolog.events.topics import Topic
from topolog.projections import layout, queries, taking_over
from topolog.projections.archive.rebuilding import Outcome, Standing, Task, awaited, rebuild_store
from topolog.projections.generations import (
    DAMAGED,
    admit,
    claim,
    generation_path,
    is_pending,
    put,
    rebuilding,
    why_refused,
)
from topolog.projections.layout import Meta
from topolog.projections.projector import Projector
from topolog.projections.self_check.rebuild import Rebuild
from topolog.projections.sides import LetterRow, WatchRow

ROOT = Path(__file__).parents[3]
NODE = layout.row_key(("node", "n1"))


@pytest.fixture
def chronicle() -> Chronicle:
    return eventful(Chronicle().start())


def offer(chronicle: Chronicle, folder: Path, position: int | None = None) -> None:
    """A rebuild of the log up to this position, all of it if none is named."""
    with (
        rebuilding(folder) as scratch,
        closing(Rebuild(chronicle.log.reader(), chronicle.cluster, scratch, time.monotonic, lambda _: None)) as made,
    ):
        if position is None:
            made.to_end()
        else:
            assert made.to(position)
        made.close()
        assert not put(folder)


def stores(folder: Path) -> list[str]:
    return sorted(path.name.rpartition("-")[2] for path in folder.glob("rows-*"))


def stepped(projector: Projector, folder: Path) -> None:
    """Until nothing is pending and all has been read."""
    while projector.step() or is_pending(folder) or projector._succession.former:
        assert projector.stopped is None


class Readers:
    """Threads that read all the time: each answer whole, none older than one before, and no error."""

    def __init__(self, projector: Projector) -> None:
        self._projector = projector
        self._stop = threading.Event()
        self.failed: list[BaseException] = []
        self.count = 0

    @contextmanager
    def reading(self, threads: int = 3) -> Iterator[None]:
        running = [threading.Thread(target=self._run) for _ in range(threads)]
        for thread in running:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in running:
                thread.join()

    def _run(self) -> None:
        seen = -1
        try:
            while not self._stop.is_set():
                with self._projector.reading() as reading:
                    assert reading.position >= seen, "no position goes back"
                    seen = reading.position
                    assert reading.state().hash() == reading.meta.state_hash
                    assert [each.position for each in reading.all_decisions()] == list(range(seen, -1, -1))
                    assert len(list(reading.sides(LetterRow))) == 1
                    list(queries.decisions(reading, {}))
                self.count += 1
        except BaseException as error:  # noqa: BLE001 (told by the test)
            self.failed.append(error)


def test_no_read_fails_and_no_position_goes_back(chronicle: Chronicle, tmp_path: Path) -> None:
    """Readers read all the time, the log grows all the time, and one rebuild after the other is taken over."""
    chronicle.log.put(Topic.DEAD, "k", b"a letter")
    folder = tmp_path / "store"
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        stepped(projector, folder)
        readers = Readers(projector)
        stop = threading.Event()
        running = threading.Thread(target=projector.run, args=(stop,))
        with readers.reading():
            running.start()
            for number in range(5):
                offer(chronicle, folder)
                chronicle.join(f"m{number}")
                before = readers.count
                while is_pending(folder) or readers.count < before + 3:
                    assert not readers.failed
                    time.sleep(0.001)
            position = chronicle.position
            while projector.meta.position < position:
                time.sleep(0.001)
        stop.set()
        running.join()
        assert not readers.failed
        assert projector.stopped is None
        assert hash_of(projector) == chronicle.fold.state.hash()
        stepped(projector, folder)
    assert stores(folder) == ["6"]


@pytest.mark.parametrize("behind", [0, 1, 9])
def test_what_is_behind_is_read_on_before_it_is_shown(chronicle: Chronicle, tmp_path: Path, behind: int) -> None:
    """And what was decided meanwhile is there as well, each decision counted once."""
    folder = tmp_path / "store"
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        stepped(projector, folder)
        counts, told = dict(projector.decided), list[int]()
        projector.on_commit(lambda: told.append(projector.meta.position))
        offer(chronicle, folder, chronicle.position - behind)
        chronicle.join("m1", renewed=False)
        stepped(projector, folder)
        assert projector.meta.position == chronicle.position == told[-1]
        assert told == sorted(told)
        assert hash_of(projector) == chronicle.fold.state.hash()
        assert projector.decided == {**counts, "NodeJoined": counts["NodeJoined"] + 1}
        assert projector.age_ms == 0
    assert stores(folder) == ["2"]
    assert not (folder / "taken").exists()


def test_a_rebuild_that_is_ahead_is_shown_at_once(chronicle: Chronicle, tmp_path: Path) -> None:
    """The projector was slow, or is new: it has nothing to read again."""
    folder = tmp_path / "store"
    reader = chronicle.log.reader()
    reader.batch_max = 1
    with closing(Projector(reader, folder, "main")) as projector:
        offer(chronicle, folder)
        projector.step()
        assert projector.meta.position == chronicle.position
        stepped(projector, folder)


def test_a_reading_that_has_begun_ends_where_it_began(chronicle: Chronicle, tmp_path: Path) -> None:
    """The store of before stays open for it, and goes when it has ended; the projector does not wait."""
    folder = tmp_path / "store"
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        stepped(projector, folder)
        before = projector.meta
        with projector.reading() as reading:
            offer(chronicle, folder)
            chronicle.join("m1")
            while projector.meta.position < chronicle.position:
                projector.step()
            assert stores(folder) == ["1", "2"]
            assert reading.position == before.position
            assert reading.state().hash() == before.state_hash
        projector.step()
        assert stores(folder) == ["2"]


def test_a_fault_of_the_store_of_before_is_no_fault_of_the_new_one(chronicle: Chronicle, tmp_path: Path) -> None:
    """A reading that began before meets damage: the store that is shown now is not set aside for it."""
    folder = tmp_path / "store"
    project(chronicle, folder)
    write(folder, {layout.decision_key(chronicle.position - 3): b"no decision"})  # type: ignore[arg-type]
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        projector.step()
        with suppress(DamagedStore), projector.reading() as reading:
            offer(chronicle, folder)
            while is_pending(folder):
                projector.step()
            reading.surely_decision(chronicle.position - 3)
            pytest.fail("it was read")
        stepped(projector, folder)
        with projector.reading() as reading:
            assert reading.surely_decision(chronicle.position - 3).position == chronicle.position - 3
    assert stores(folder) == ["2"]


def test_damage_met_before_the_store_of_before_has_gone_has_all_built_anew(
    chronicle: Chronicle, tmp_path: Path
) -> None:
    """What was shown before does not pass for the newest store: this process still has it open."""
    folder, reader = tmp_path / "store", chronicle.log.reader
    with closing(Projector(reader(), folder, "main", workshop=Inline(reader))) as projector:
        stepped(projector, folder)
        offer(chronicle, folder)
        while is_pending(folder):
            projector.step()
        assert projector._succession.former
        with suppress(DamagedStore), projector.reading():
            raise DamagedStore("A block cannot be read.")
        stepped(projector, folder)
        assert hash_of(projector) == chronicle.fold.state.hash()
    assert [each for each in stores(folder) if not each.endswith(DAMAGED)] == ["3"]


def test_what_is_left_of_an_offer_that_was_taken_over_is_no_offer(chronicle: Chronicle, tmp_path: Path) -> None:
    """Killed between the rename that makes it the store and what clears up behind it."""
    folder = tmp_path / "store"
    project(chronicle, folder)
    (folder / "taken").mkdir()
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        stepped(projector, folder)
    assert why_refused(folder) is None
    assert stores(folder) == ["1"]


def test_it_is_the_cure_of_a_store_that_differs(
    chronicle: Chronicle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A row that an older build has folded otherwise, hash and all: the rebuild has what the log says, and that the two
    differ is said."""
    folder = tmp_path / "store"
    held = contents(project(chronicle, folder))
    meta, row = layout.decode(held[layout.META_KEY], Meta), layout.decode(held[NODE], NodeRow)
    other = msgspec.structs.replace(row, endpoint="n1:7002")
    change = row_hash(("node", "n1"), other) - row_hash(("node", "n1"), row)
    hashed = ((int.from_bytes(meta.state_hash, "big") + change) % HASH_MODULUS).to_bytes(16, "big")
    damaged = msgspec.structs.replace(meta, state_hash=hashed)
    write(folder, {NODE: layout.encode(other), layout.META_KEY: layout.encode(damaged)})
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        stepped(projector, folder)
        assert projector.meta.state_hash == hashed, "it does not see it"
        offer(chronicle, folder)
        stepped(projector, folder)
        assert hash_of(projector) == chronicle.fold.state.hash()
    assert f"had the state hash {hashed.hex()}, the rebuilt one has {meta.state_hash.hex()}" in caplog.text


def test_what_is_not_in_the_log_of_decisions_goes_along(chronicle: Chronicle, tmp_path: Path) -> None:
    """Letters and lease health, whose topics forget, and where to go on in them."""
    folder = tmp_path / "store"
    chronicle.log.put(Topic.DEAD, "k", b"a letter")
    word = HealthHeard("w1", chronicle.log_id, 0, Offset(7), False, 3)
    chronicle.log.put(Topic.LEASE_HEALTH, "0", CODEC.encode(word))
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        stepped(projector, folder)
        chronicle.log.truncate(Topic.DEAD, 0)
        chronicle.log._partitions[Topic.DEAD, 0].append(chronicle.log.entries(Topic.DECISIONS)[0])
        offer(chronicle, folder)
        stepped(projector, folder)
        with projector.reading() as reading:
            assert len(list(reading.sides(LetterRow))) == 1
            assert len(list(reading.sides(WatchRow))) == 1
            assert reading.present.heard_ago_ms


def other_cluster(chronicle: Chronicle, folder: Path) -> str:
    other = eventful(Chronicle("other").start())
    offer(other, folder)
    return "cluster 'other', not of 'main'"


def other_log(chronicle: Chronicle, folder: Path) -> str:
    offer(eventful(Chronicle(log_id=bytes(16)).start()), folder)
    return f"of log {bytes(16).hex()}"


def other_history(chronicle: Chronicle, folder: Path) -> str:
    """A log that has parted from this one: restored from a copy and led by another."""
    parted = Chronicle().start()
    parted.join("p1")
    for number in range(30):
        parted.propose(f"P{number}", {"id": "long"})
    offer(parted, folder, chronicle.position - 2)
    return "does not hold the decision at position"


def other_layout(chronicle: Chronicle, folder: Path) -> str:
    offer(chronicle, folder)
    store = generation_path(folder / "offered")
    store.rename(store.with_name("rows-of-another-1"))
    return "no store of this version"


def damaged_rows(chronicle: Chronicle, folder: Path) -> str:
    offer(chronicle, folder)
    write(folder / "offered", {NODE: None})
    return "have the hash"


def damaged_files(chronicle: Chronicle, folder: Path) -> str:
    offer(chronicle, folder)
    (generation_path(folder / "offered") / "CURRENT").write_bytes(b"no list")
    return "RocksDB cannot read"


def empty(chronicle: Chronicle, folder: Path) -> str:
    offer(Chronicle(), folder)
    return "It is empty"


def too_old(chronicle: Chronicle, folder: Path) -> str:
    offer(chronicle, folder, 2)
    return "records behind what is shown"


@pytest.mark.parametrize(
    "harm",
    [other_cluster, other_log, other_history, other_layout, damaged_rows, damaged_files, empty, too_old],
)
def test_what_must_not_be_taken_over_is_refused_and_said(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Chronicle, Path], str]
) -> None:
    """And the projector goes on with its own store as if nothing had been."""
    monkeypatch.setattr(taking_over, "RECORDS_BEHIND_MAX", 10)
    folder = tmp_path / "store"
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        stepped(projector, folder)
        complaint = harm(chronicle, folder)
        stepped(projector, folder)
        assert complaint in (why_refused(folder) or "")
        chronicle.join("m1")
        stepped(projector, folder)
        assert projector.meta.position == chronicle.position
        assert hash_of(projector) == chronicle.fold.state.hash()
        assert stores(folder) == ["1"]
        offer(chronicle, folder)
        assert why_refused(folder) is None, "another offer, another answer"
        stepped(projector, folder)
        assert stores(folder) == ["2"]


def test_a_log_that_no_longer_has_what_is_shown_is_no_way_back(chronicle: Chronicle, tmp_path: Path) -> None:
    """The topic was cut short behind the rebuild: what has been shown is not taken back, and the projector stops."""
    folder = tmp_path / "store"
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        stepped(projector, folder)
        position = projector.meta.position
        offer(chronicle, folder, position - 6)
        chronicle.log.truncate(Topic.DECISIONS, len(chronicle.entries) - 4)
        for _ in range(5):
            projector.step()
        assert "The log ends at position" in (why_refused(folder) or "")
        assert projector.meta.position == position
        assert projector.stopped


def test_a_damaged_store_is_replaced_by_what_is_offered(chronicle: Chronicle, tmp_path: Path) -> None:
    """What cannot be read at a start is set aside; the projector begins with the rebuild, not with nothing."""
    folder = tmp_path / "store"
    project(chronicle, folder)
    offer(chronicle, folder)
    (generation_path(folder) / "CURRENT").write_bytes(b"no list")
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        projector.step()
        assert projector.meta.position == chronicle.position
        stepped(projector, folder)
    assert [each for each in stores(folder) if not each.endswith(DAMAGED)] == ["3"]


@pytest.mark.parametrize("place", ["projector.taken", "projector.succeeding", "projector.succeeded"])
@pytest.mark.parametrize("behind", [0, 20])
def test_killed_at_any_step_it_goes_on_where_readers_have_been(tmp_path: Path, place: str, behind: int) -> None:
    """`kill -9`: the next process has a whole store, at what was shown or further, and takes over what was offered."""
    chronicle = history()
    folder = tmp_path / "store"
    project(chronicle, folder)
    offer(chronicle, folder, chronicle.position - behind)
    command = [sys.executable, "-m", "tests.unit.projections.succeeding", str(folder)]
    died = subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: f"{place}=crash"}, check=False)
    assert died.returncode == -9
    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        assert projector.meta.position == chronicle.position, "before anything is read"
        stepped(projector, folder)
        assert hash_of(projector) == chronicle.fold.state.hash()
    assert stores(folder) == ["2"]
    assert not (folder / "taken").exists()


def test_who_offers_hears_what_became_of_it(chronicle: Chronicle, tmp_path: Path) -> None:
    """Taken, refused, or nobody was there."""
    folder = tmp_path / "store"
    now = iter(range(100))

    def waited(projector: Projector | None, other: InMemoryLog | None = None) -> Outcome:
        log = other or chronicle.log
        told = rebuild_store(Task("main", folder, None, lambda _: _reader(log)), time.monotonic, lambda _: None)
        step: Callable[[float], object] = (lambda _: projector.step()) if projector else (lambda _: None)
        return awaited(told, 20, lambda: float(next(now)), step)  # type: ignore[arg-type]

    with closing(Projector(chronicle.log.reader(), folder, "main")) as projector:
        stepped(projector, folder)
        assert waited(projector).standing is Standing.TAKEN
        refused = waited(projector, eventful(Chronicle(log_id=bytes(16)).start()).log)
        assert refused.standing is Standing.REFUSED
        assert "of log" in refused.error
    assert waited(None).standing is Standing.OFFERED


def _reader(log: InMemoryLog) -> LogReader:
    return log.reader()


def test_a_kill_while_an_offer_is_refused_ends_no_later_projector(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has left under another name stands in nobody's way."""

    class Died(BaseException):
        pass

    stranger, remove = eventful(Chronicle(log_id=bytes(16)).start()), shutil.rmtree

    def die(path: Path, *, ignore_errors: bool = False) -> None:
        if path.suffix == DAMAGED and path.exists():
            raise Died
        remove(path, ignore_errors=ignore_errors)

    with closing(Projector(chronicle.log.reader(), tmp_path, "main")) as projector:
        stepped(projector, tmp_path)
        offer(stranger, tmp_path)
        monkeypatch.setattr(shutil, "rmtree", die)
        with pytest.raises(Died):
            stepped(projector, tmp_path)
        monkeypatch.undo()
    with closing(Projector(chronicle.log.reader(), tmp_path, "main")) as projector:
        stepped(projector, tmp_path)
        offer(stranger, tmp_path)
        stepped(projector, tmp_path)
    assert why_refused(tmp_path) is not None
    assert not is_pending(tmp_path)


def test_what_is_being_read_on_counts_more_than_what_was_made_for_a_damaged_store(
    chronicle: Chronicle, tmp_path: Path
) -> None:
    """Killed on the way, and the disk has eaten the store that was shown: an empty one has taken a number meanwhile."""
    project(chronicle, tmp_path)
    offer(chronicle, tmp_path)
    taken = claim(tmp_path)
    assert taken is not None
    admitted = admit(tmp_path)
    assert admitted is not None
    (generation_path(tmp_path) / "CURRENT").write_bytes(b"no list")
    with closing(Projector(chronicle.log.reader(), tmp_path, "main")) as projector:
        projector.step()
        assert projector.meta.position == chronicle.position
        stepped(projector, tmp_path)
        assert projector._shown.store.path == generation_path(tmp_path)
    assert [each for each in stores(tmp_path) if each.isdecimal()] == ["4"]
    assert not list(tmp_path.glob("*.taken"))
