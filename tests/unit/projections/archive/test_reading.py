"""Records of an archive come back as they were, each once, in order; what is missing is named (RD26)."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.compute as pc  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.projections.archive.landed import in_landings, land, table
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import eventful

from topolog.events.framing import SCHEMA_HEADER, framed, unframed
from topolog.events.ids import Offset
from topolog.events.log import Entry
from topolog.events.stamp import HEADER_NAME
from topolog.events.topics import Topic
from topolog.projections.archive import reading
from topolog.projections.archive.landings import Archive, DamagedArchive

DAY_MS = 86_400_000
NAMES = st.sampled_from((HEADER_NAME, SCHEMA_HEADER, "other"))
VALUES = st.one_of(st.binary(max_size=9), st.binary(max_size=9).map(b"\0".__add__))


@pytest.fixture
def chronicle() -> Chronicle:
    """A log over three days."""
    return eventful(Chronicle(pace_ms=DAY_MS // 6).start())


def read(folder: Path, start: int = 0, topic: Topic = Topic.DECISIONS) -> list[Entry]:
    archive = Archive(folder)
    reading.check_whole(archive, topic.short_name)
    return [entry for batch in reading.entries(archive, topic, start) for entry in batch]


def test_records_come_back_as_they_were(chronicle: Chronicle, tmp_path: Path) -> None:
    """Bytes, headers, keys and times, from any offset on, over days and landings."""
    folder = in_landings(tmp_path / "archive", "main", chronicle.entries, (3, 1, 9))
    assert len({path.parent.name for path in folder.glob("records/*/*/*")}) >= 3, "several days"
    for start in range(len(chronicle.entries) + 2):
        assert read(folder, start) == chronicle.entries[start:], start


def test_a_backfill_behind_the_stream_is_read_before_it(chronicle: Chronicle, tmp_path: Path) -> None:
    """Landings come in any order, and one may have two spans around what another one has."""
    entries = chronicle.entries
    land(tmp_path, "main", entries[10:12])
    land(tmp_path, "main", entries[12:])
    land(tmp_path, "main", entries[:10])
    assert read(tmp_path) == entries


def test_headers_keys_and_framings_of_all_kinds_come_back(chronicle: Chronicle, tmp_path: Path) -> None:
    """No header, several of one name, no key, a key that is no text, and Confluent's framing, which is taken off."""
    good = chronicle.entries[0]
    value, header = framed(good.value, {good.value[:10]: 7})
    kinds: Sequence[tuple[str | None, bytes, tuple[tuple[str, bytes], ...]]] = [
        (None, b"", ()),
        ("k\udcff", b"x", (("a", b"1"), ("a", b"2"), ("b", b""))),
        ("k", b"\0not framed", ()),
        ("k", value, (*good.headers, *header)),
    ]
    given = [Entry(Topic.DEAD, 0, Offset(at), *kind, 1_800_000_000_123) for at, kind in enumerate(kinds)]
    land(tmp_path, "main", given)
    found = read(tmp_path, topic=Topic.DEAD)
    assert found[:3] == given[:3]
    assert found[3].value == good.value
    assert found[3].stamp == good.stamp


@settings(max_examples=60)
@given(given=st.lists(st.tuples(VALUES, st.lists(st.tuples(NAMES, st.binary(max_size=9)), max_size=4)), min_size=1))
def test_records_are_what_entries_say_of_stamp_and_value(given: list[tuple[bytes, list[tuple[str, bytes]]]]) -> None:
    """Two ways to read the same rows; of parts of a table too, and of values that are null."""
    entries = [
        Entry(Topic.DECISIONS, 0, Offset(at), None, value, tuple(headers), 5)
        for at, (value, headers) in enumerate(given)
    ]
    rows = table(entries)
    rows = rows.set_column(4, "value", pc.if_else(pc.equal(rows["value"], b""), None, rows["value"]))
    expected = [reading.Record(each.offset, 5, each.stamp, unframed(each.value, each.headers)) for each in entries]
    for start in range(len(entries) + 1):
        assert list(reading.records(rows.slice(start))) == expected[start:]


def test_files_that_are_not_moved_yet_are_read_where_they_are(chronicle: Chronicle, tmp_path: Path) -> None:
    """A landing stands before its files are in their place, and they may be moved at any moment."""
    land(tmp_path, "main", chronicle.entries)
    staged = tmp_path / "staging" / "000000000000"
    staged.mkdir(parents=True)
    (tmp_path / "records").rename(staged / "records")
    assert read(tmp_path) == chronicle.entries
    archive = Archive(tmp_path)
    there = archive.files("records/topic=decisions")
    (staged / "records").rename(tmp_path / "records")
    assert there[0].is_relative_to(staged)
    found = [entry for batch in reading.entries(archive, Topic.DECISIONS) for entry in batch]
    assert found == chronicle.entries


def test_a_file_that_is_moved_while_it_is_looked_for_is_read(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look where it is and its being opened: nothing is damaged."""
    land(tmp_path, "main", chronicle.entries)
    staged = tmp_path / "staging" / "000000000000"
    staged.mkdir(parents=True)
    (tmp_path / "records").rename(staged / "records")
    read_table = pq.read_table

    def move_first(path: Path, **options: object) -> object:
        if (staged / "records").exists():
            (staged / "records").rename(tmp_path / "records")
        return read_table(path, **options)

    monkeypatch.setattr(pq, "read_table", move_first)
    assert read(tmp_path) == chronicle.entries
    assert not (staged / "records").exists()


def lose_a_day(folder: Path) -> str:
    day = sorted((folder / "records/topic=decisions").iterdir())[1]
    for path in day.iterdir():
        path.unlink()
    day.rmdir()
    return f"of {day.name.removeprefix('date=')}"


def cut_a_file_short(folder: Path) -> str:
    path = min(folder.glob("records/*/*/*.parquet"))
    path.write_bytes(path.read_bytes()[:-100])
    return f"{path.name} cannot be read"


def empty_a_file(folder: Path) -> str:
    path = max(folder.glob("records/*/*/*.parquet"))
    path.write_bytes(b"")
    return f"{path.name} cannot be read"


def lose_a_landing(folder: Path) -> str:
    (folder / "landings/000000000001.json").unlink()
    return "000000000001.json is missing"


def lose_the_newest_landing(folder: Path) -> str:
    max((folder / "landings").iterdir()).unlink()
    return "No landing of"


def lose_rows(folder: Path) -> str:
    """A file that was written over with a part of itself."""
    path = max(folder.glob("records/*/*/*.parquet"))
    held = pq.read_table(path, partitioning=None)
    pq.write_table(held.slice(0, held.num_rows - 1), path)
    return "lacks records of decisions"


@pytest.mark.parametrize(
    "harm", [lose_a_day, cut_a_file_short, empty_a_file, lose_a_landing, lose_the_newest_landing, lose_rows]
)
def test_what_is_missing_is_named(chronicle: Chronicle, tmp_path: Path, harm: Callable[[Path], str]) -> None:
    """RD28: a clear end with what to do, nothing skipped in silence."""
    folder = in_landings(tmp_path / "archive", "main", chronicle.entries, (4, 4))
    complaint = harm(folder)
    with pytest.raises(DamagedArchive, match=complaint) as raised:
        read(folder)
    assert "backup" in raised.value.hint


def test_what_has_landed_twice_is_refused(chronicle: Chronicle, tmp_path: Path) -> None:
    """Two archives that were copied into one folder."""
    land(tmp_path, "main", chronicle.entries[:6])
    land(tmp_path, "main", chronicle.entries[5:])
    with pytest.raises(DamagedArchive, match="from offset 5 on twice"):
        read(tmp_path)


def test_the_helper_writes_what_the_job_writes(chronicle: Chronicle) -> None:
    """Names of the columns; tests/spark compares the contents."""
    assert set(table(chronicle.entries[:1]).column_names) == {"partition", *reading.ALL_COLUMNS}
