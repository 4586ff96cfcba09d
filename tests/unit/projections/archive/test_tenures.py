"""Who acted for which partition, and from when on: as the rows of the fold have it, at every position."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.projections.archive.by_hand import land
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.sharing import Sharing, shared_out

from topolog.events import ownership
from topolog.events.errors import Poisoned
from topolog.events.exchange import HandOverRow
from topolog.events.fold import Fold
from topolog.events.log import Entry
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.voiding import RecordVoided
from topolog.projections.archive import tenures
from topolog.projections.archive.landings import ArchiveWriter, opened
from topolog.projections.archive.positions import brought_forward as judged

Standing = tuple[str | None, bool, bool]
"""(primary, whether it has stopped for a hand-over, whether the partition is lost)."""
Told = dict[tuple[str, int], Standing]


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[ArchiveWriter]:
    with opened(tmp_path / "archive", "main") as archive:
        yield archive


@cache
def moved_about() -> Sharing:
    """Servers come, go and are drained; groups come and go; partitions are lost and given up."""
    chronicle = Chronicle().start()
    cluster = shared_out(chronicle, "n1", "n2", "n3", partitions=300, backups=0)
    cluster.create("carts", 5, 1)
    cluster.rest()
    cluster.join("n4")
    cluster.rest()
    cluster.leave("n2")
    cluster.exchange()
    cluster.reset("orders")
    cluster.rest()
    cluster.join("n2")
    cluster.exchange()
    cluster.load("n1", "n2", "n3", "n4")
    assert cluster.hand_over(), "a hand-over is under way"
    cluster.leave("n3")
    cluster.rest()
    cluster.drop("carts")
    cluster.create("carts", 5, 1)
    cluster.rest()
    return cluster


def by_fold(entries: list[Entry]) -> list[tuple[int, Told]]:
    """After each set what every partition is like, by the state of the fold."""
    fold = Fold()
    return [(fold.header.position, _standings(fold)) for entry in entries if fold.read(entry.stamp, entry.value)]


def _standings(fold: Fold) -> Told:
    state, told = fold.state, {}
    stopped = {
        (move.group, partition)
        for _, row in state.rows(HandOverRow)
        for move in row.moves
        for partition in move.partitions
    }
    for _, row in state.rows(OwnershipRow):
        for each in ownership.ownerships(row, range(row.first, row.first + row.count)):
            name = None if each.acting is None else ownership.names(state)[each.acting]
            key = (row.group, each.partition)
            told[key] = (name, key in stopped, each.is_lost)
    return told


def rows_of(files: tuple[Path, ...]) -> list[dict[str, Any]]:
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def replayed(files: tuple[Path, ...], positions: list[int]) -> list[tuple[int, Told]]:
    """What every partition is like at these positions, by the lines of tenures."""
    rows, told, found = rows_of(files), dict[tuple[str, int], Standing](), []
    for position in positions:
        while rows and rows[0]["position"] <= position:
            row = rows.pop(0)
            key = (row["group"], row["partition"])
            if row["is_there"]:
                told[key] = (row["primary"], row["is_stopped"], row["is_lost"])
            else:
                del told[key]
        found.append((position, dict(told)))
    assert not rows
    return found


def test_at_every_position_they_say_what_the_fold_does(archive: ArchiveWriter) -> None:
    chronicle = moved_about().chronicle
    land(archive, chronicle.entries)
    files = tenures.brought_forward(archive, judged(archive))
    expected = by_fold(chronicle.entries)
    assert replayed(files, [position for position, _ in expected]) == expected
    standings = {standing for _, told in expected for standing in told.values()}
    assert {is_stopped for _, is_stopped, _ in standings} == {True, False}
    assert {is_lost for *_, is_lost in standings} == {True, False}


def test_a_line_is_a_change(archive: ArchiveWriter) -> None:
    """Of 256 partitions in a row those that a set leaves as they were get none."""
    land(archive, moved_about().chronicle.entries)
    last: dict[tuple[str, int], tuple[Any, ...]] = {}
    for row in rows_of(tenures.brought_forward(archive, judged(archive))):
        key = (row["group"], row["partition"])
        said = (row["primary"], row["is_stopped"], row["is_lost"], row["is_there"])
        assert last.get(key) != said
        last[key] = said


@pytest.mark.parametrize("borders_max", [1, 3, 5])
@settings(max_examples=8)
@given(data=st.data())
def test_wherever_it_stopped_it_goes_on_alike(
    tmp_path_factory: pytest.TempPathFactory, borders_max: int, data: st.DataObject
) -> None:
    entries = moved_about().chronicle.entries
    borders = data.draw(st.sets(st.integers(1, 60), max_size=borders_max))
    cuts = [0, *sorted(cut for cut in borders if cut < len(entries)), len(entries)]
    with opened(tmp_path_factory.mktemp("whole"), "main") as archive:
        land(archive, entries)
        whole = rows_of(tenures.brought_forward(archive, judged(archive)))
    with opened(tmp_path_factory.mktemp("parts"), "main") as archive:
        for start, end in pairwise(cuts):
            land(archive, entries[start:end])
            files = tenures.brought_forward(archive, judged(archive))
        assert rows_of(files) == whole


def test_many_lines_make_several_files(archive: ArchiveWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = moved_about().chronicle.entries
    land(archive, entries[:20])
    land(archive, entries[20:])
    monkeypatch.setattr(tenures, "LINES_PER_FILE", 1)
    files = tenures.brought_forward(archive, judged(archive))
    assert len(files) == 2
    assert replayed(files, [by_fold(entries)[-1][0]])[-1] == by_fold(entries)[-1]


def test_poison_stops_it_until_it_is_voided(archive: ArchiveWriter) -> None:
    """K8: as every reader; what came before is told."""
    cluster = shared_out(Chronicle().start(), "n1", "n2", partitions=4)
    chronicle = cluster.chronicle
    poison = chronicle.poison(b"\xc3\x01 not one of ours")
    land(archive, chronicle.entries)
    with pytest.raises(Poisoned, match=f"position {poison[0]}"):
        tenures.brought_forward(archive, judged(archive))
    at = len(chronicle.entries)
    chronicle.decide(RecordVoided(*poison))
    cluster.position = chronicle.position
    cluster.leave("n1")
    land(archive, chronicle.entries[at:])
    files = tenures.brought_forward(archive, judged(archive))
    ((_, told),) = replayed(files, [chronicle.position])
    assert told == _standings(chronicle.fold)


def test_rows_of_another_shape_are_made_anew(archive: ArchiveWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version whose rows have other fields does not read what this one has kept."""
    entries = moved_about().chronicle.entries
    land(archive, entries[:30])
    tenures.brought_forward(archive, judged(archive))
    land(archive, entries[30:])
    monkeypatch.setattr(tenures, "row_format", lambda: "another")
    files = tenures.brought_forward(archive, judged(archive))
    assert replayed(files, [by_fold(entries)[-1][0]])[-1] == by_fold(entries)[-1]
