"""An archive is folded as the topic is; a hole in it is found wherever it hides (RD28, K3)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.projections.archive.landed import in_landings, land, moved_on
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.test_projector import eventful

from topolog.events.errors import LogDiverged
from topolog.events.fold import Fold, Header
from topolog.events.ids import Offset
from topolog.events.log import Entry, LogReader
from topolog.events.stamp import decode_stamp
from topolog.events.topics import Topic
from topolog.projections.archive.holes import ArchiveIncomplete, Hole
from topolog.projections.archive.landings import Archive
from topolog.projections.archive.log import ArchiveReader, ArchiveThenTopic
from topolog.projections.self_check.rebuild import Rebuild

DECISIONS = (Topic.DECISIONS, 0)


@pytest.fixture
def chronicle() -> Chronicle:
    """Two terms, both with records behind their start."""
    return eventful(Chronicle().start())


@pytest.fixture
def second_term(chronicle: Chronicle) -> int:
    """The offset at which the second term of the chronicle starts."""
    return next(each.offset for each in chronicle.entries if each.stamp and decode_stamp(each.stamp).term == 2)


def fold(reader: LogReader) -> Header:
    """Fold all there is, as a rebuild does."""
    reader.assign({DECISIONS: None})
    fold = Fold()
    while not (reader.at_end(Topic.DECISIONS) and reader.hears(Topic.DECISIONS)):
        for entry in reader.poll(0):
            if isinstance(fold.read(entry.stamp, entry.value), list):
                reader.counted(entry, 1_000)
    return fold.header


def archived(folder: Path, entries: Sequence[Entry], sizes: Sequence[int] = ()) -> ArchiveReader:
    return ArchiveReader(Archive(in_landings(folder, "main", entries, sizes)))


def test_an_archive_is_folded_as_the_topic_is(chronicle: Chronicle, tmp_path: Path) -> None:
    reader = archived(tmp_path, chronicle.entries, (2, 5, 1))
    assert fold(reader) == chronicle.fold.header
    assert (reader.holes.first, reader.incomplete()) == (None, None)
    assert reader.bounds(DECISIONS) == (0, len(chronicle.entries))
    assert reader.bounds((Topic.REQUESTS, 0)) == (0, 0)
    assert reader.proven()


def test_zombies_and_strangers_in_it_are_ignored_as_in_the_topic(chronicle: Chronicle, tmp_path: Path) -> None:
    """A deposed coordinator's late sends, a repeat, a record without a stamp: archived all the same."""
    for each in chronicle.entries[3:6]:
        chronicle.append_raw(each.stamp, each.value)
    chronicle.append_raw(None, b"a stranger's")
    chronicle.join("n9")
    reader = archived(tmp_path, chronicle.entries)
    assert fold(reader) == chronicle.fold.header
    assert reader.holes.first is None


def test_an_offset_without_a_record_is_nothing_if_the_chain_goes_on(chronicle: Chronicle, tmp_path: Path) -> None:
    """The end of a transaction takes an offset: within a landing, between two, before the first record."""
    entries = moved_on(chronicle.entries, 3)
    entries = [*entries[:4], *moved_on(entries[4:7], 2), *moved_on(entries[7:], 5)]
    reader = archived(tmp_path, entries, (7,))
    assert fold(reader) == chronicle.fold.header
    assert reader.holes.first is None


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_hole_in_a_term_is_found_though_nothing_comes_behind_it(
    chronicle: Chronicle, tmp_path: Path, second_term: int, lost: int
) -> None:
    """The fold takes it for a gap that closes the term, and ignores the rest: nothing but the offsets tells."""
    entries = chronicle.entries[:second_term]
    reader = archived(tmp_path, [*entries[:4], *entries[4 + lost :]], (4,))
    assert fold(reader).position == 3
    assert reader.holes.first == Hole(4, 4 + lost)
    with pytest.raises(ArchiveIncomplete, match=f"lacks offsets 4 to {3 + lost}"):
        raise reader.incomplete() or AssertionError


def test_a_hole_that_hides_behind_the_end_of_a_term_is_found_by_the_chain(
    chronicle: Chronicle, tmp_path: Path, second_term: int
) -> None:
    """The next term starts without a chain hash and is accepted; the record behind its start says what was before."""
    entries = chronicle.entries
    reader = archived(tmp_path, [*entries[: second_term - 2], *entries[second_term:]], (second_term - 2,))
    with pytest.raises(LogDiverged, match="another history"):
        fold(reader)
    assert reader.holes.first == Hole(second_term - 2, second_term)


def test_a_hole_before_the_start_of_a_term_that_ends_the_archive_is_in_doubt(
    chronicle: Chronicle, tmp_path: Path, second_term: int
) -> None:
    """No record says what stood there: whoever has folded it is told so, and one more record settles it."""
    entries = chronicle.entries
    folder = tmp_path / "archive"
    reader = archived(folder, [*entries[: second_term - 2], entries[second_term]], (second_term - 2,))
    fold(reader)
    assert reader.incomplete() is not None
    whole = archived(tmp_path / "other", [*entries[:second_term], *moved_on(entries[second_term:], 1)], (second_term,))
    assert fold(whole) == chronicle.fold.header
    assert whole.incomplete() is None


@pytest.mark.parametrize("begins", [1, 2, 7])
def test_an_archive_that_does_not_begin_where_the_log_does_is_named(
    chronicle: Chronicle, tmp_path: Path, begins: int
) -> None:
    reader = archived(tmp_path, chronicle.entries[begins:])
    fold(reader)
    incomplete = reader.incomplete()
    assert incomplete is not None
    assert f"its first record of decisions has offset {begins}" in incomplete.message
    assert "topolog spark archive" in incomplete.hint


@settings(max_examples=15)
@given(kept=st.data())
def test_no_hole_is_folded_over_in_silence(tmp_path_factory: pytest.TempPathFactory, kept: st.DataObject) -> None:
    """Any run of records left out: the fold stops, or the archive is told to be incomplete, or it is as the log was."""
    chronicle = eventful(Chronicle().start())
    entries = chronicle.entries
    start = kept.draw(st.integers(0, len(entries) - 2))
    end = kept.draw(st.integers(start + 1, len(entries) - 1))
    left = [*entries[:start], *entries[end:]]
    border = kept.draw(st.integers(1, len(left)))
    reader = archived(tmp_path_factory.mktemp("archive") / "archive", left, (border,))
    with suppress(LogDiverged):
        fold(reader)
    assert reader.holes.first == Hole(start, end)
    assert reader.incomplete() is not None


def test_more_that_lands_is_read_when_it_is_asked_for(chronicle: Chronicle, tmp_path: Path) -> None:
    """A stream lands while the archive is read: the end that was seen is looked for anew."""
    entries = chronicle.entries
    reader = archived(tmp_path, entries[:9])
    fold(reader)
    land(tmp_path, "main", entries[9:])
    assert reader.at_end(Topic.DECISIONS)
    assert not reader.hears(Topic.DECISIONS)
    assert reader.poll(0) == entries[9:]


def test_a_record_that_is_no_longer_there_is_not_proven(chronicle: Chronicle, tmp_path: Path) -> None:
    """K9, for a folder: somebody has put an older copy in its place."""
    reader = archived(tmp_path, chronicle.entries)
    fold(reader)
    path = next(tmp_path.glob("records/*/*/*.parquet"))
    former = chronicle.entries[-1]
    other = Entry(Topic.DECISIONS, 0, former.offset, former.key, b"other", former.headers, former.appended_at_ms)
    path.unlink()
    (tmp_path / "landings/000000000000.json").unlink()
    land(tmp_path, "main", [*chronicle.entries[:-1], other])
    with pytest.raises(LogDiverged, match="another record"):
        reader.proven()


def then_topic(folder: Path, archived_entries: Sequence[Entry], topic: Chronicle) -> ArchiveThenTopic:
    return ArchiveThenTopic(archived(folder, archived_entries), topic.log.reader())


@pytest.mark.parametrize("landed", [1, 4, 20])
def test_behind_the_archive_the_topic_is_read(chronicle: Chronicle, tmp_path: Path, landed: int) -> None:
    """Each record once, and on with what comes."""
    chronicle.replace_in_one_set("n1", "n7")
    reader = then_topic(tmp_path, chronicle.entries[:landed], chronicle)
    assert fold(reader) == chronicle.fold.header
    chronicle.join("n8")
    assert [each.offset for each in reader.poll(0)] == [len(chronicle.entries) - 2, len(chronicle.entries) - 1]
    assert reader.bounds(DECISIONS) == (0, len(chronicle.entries))


def test_an_archive_that_ends_inside_a_set_is_gone_on_with(chronicle: Chronicle, tmp_path: Path) -> None:
    """Where a landing ends is nothing to the log."""
    entries = chronicle.replace_in_one_set("n1", "n7")
    assert fold(then_topic(tmp_path, entries[:-1], chronicle)) == chronicle.fold.header


def test_an_archive_with_nothing_of_decisions_leaves_all_to_the_topic(chronicle: Chronicle, tmp_path: Path) -> None:
    land(tmp_path, "main", [Entry(Topic.DEAD, 0, Offset(0), "k", b"", (), 0)])
    reader = ArchiveThenTopic(ArchiveReader(Archive(tmp_path)), chronicle.log.reader())
    assert fold(reader) == chronicle.fold.header


def cut_short(chronicle: Chronicle) -> Chronicle:
    chronicle.log.truncate(Topic.DECISIONS, 5)
    return chronicle


def ends_before_it(chronicle: Chronicle) -> Chronicle:
    chronicle.log.truncate(Topic.DECISIONS, len(chronicle.entries) - 1)
    return chronicle


def made_anew(chronicle: Chronicle) -> Chronicle:
    return eventful(Chronicle(log_id=bytes(16)).start())


@pytest.mark.parametrize("harm", [cut_short, ends_before_it, made_anew])
def test_a_topic_that_is_not_the_archives_is_refused(
    chronicle: Chronicle, tmp_path: Path, harm: Callable[[Chronicle], Chronicle]
) -> None:
    """Seen at the archive's last record, before anything of the topic is folded."""
    entries = chronicle.entries
    with pytest.raises(LogDiverged):
        fold(then_topic(tmp_path, entries, harm(chronicle)))


def test_a_hole_in_the_archive_may_be_settled_by_the_topic(
    chronicle: Chronicle, tmp_path: Path, second_term: int
) -> None:
    """The archive ends with the start of a term behind a hole; the topic's next record has a chain."""
    entries = [*chronicle.entries[:second_term], *moved_on(chronicle.entries[second_term:], 1)]
    topic = Chronicle()
    topic.log._partitions[DECISIONS] = [*entries[:second_term], _mark(entries[second_term]), *entries[second_term:]]
    reader = then_topic(tmp_path, entries[: second_term + 1], topic)
    assert fold(reader) == chronicle.fold.header
    assert reader._archive.incomplete() is None


def _mark(entry: Entry) -> Entry:
    return Entry(entry.topic, 0, Offset(entry.offset - 1), None, b"", (), entry.appended_at_ms)


def test_a_rebuild_of_an_archive_goes_back_and_forth_in_it(chronicle: Chronicle, tmp_path: Path) -> None:
    """What a check of several stores asks of a rebuild."""
    reader = archived(tmp_path / "archive", chronicle.entries, (3, 3))
    rebuild = Rebuild(reader, "main", tmp_path / "scratch", count().__next__, lambda _: None)
    assert [rebuild.to(each) for each in (5, 2, chronicle.position, 4)] == [True] * 4
    rebuild.to_end()
    assert rebuild.meta.state_hash == chronicle.fold.state.hash()
    assert rebuild.meta.header.log_id == LOG_ID
    rebuild.close()
