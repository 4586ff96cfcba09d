"""Which records of an archive count: those that every reader of the log has folded, and no others (RD28)."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.projections.archive.by_hand import land
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.test_projector import eventful

from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, LogDiverged
from topolog.events.fold import Fold, Ignored, Judge
from topolog.events.framing import framed
from topolog.events.log import Entry
from topolog.events.stamp import encode_stamp, opens_term
from topolog.events.voiding import RecordVoided
from topolog.projections.archive import durable, positions
from topolog.projections.archive.holes import ArchiveIncomplete
from topolog.projections.archive.landings import ArchiveWriter, opened
from topolog.projections.archive.positions import Positions, brought_forward

Lines = list[tuple[int, int, int]]
"""(offset, position, end of the set)."""


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[ArchiveWriter]:
    with opened(tmp_path / "archive", "main") as archive:
        yield archive


def hostile(chronicle: Chronicle) -> Chronicle:
    """With all that does not count: sends of a deposed coordinator, repeats, a set that was cut short, strangers."""
    eventful(chronicle)
    entries = chronicle.entries
    for entry in entries[3:9]:  # of the term before, and so over
        chronicle.append_raw(entry.stamp, entry.value)
    chronicle.append_raw(entries[-1].stamp, entries[-1].value)
    chronicle.append_raw(None, b"hello")
    chronicle.append_raw(b"no stamp of ours", b"hello")
    chronicle.replace_in_one_set("n1", "n4")
    chronicle.append_raw(encode_stamp(chronicle._stamp(0, 2, "", "c2", "")), entries[4].value)
    chronicle.lead("c3")
    chronicle.propose("Order", {"id": "long", "note": "String"})
    return chronicle


def folded(entries: list[Entry]) -> Lines:
    """What a fold of the same entries accepts."""
    found: Lines = []
    fold, waiting = Fold(), list[int]()
    for entry in entries:
        read = fold.read(entry.stamp, entry.value)
        if isinstance(read, Ignored):
            continue
        waiting.append(entry.offset)
        if read:
            offsets = waiting[-len(read) :]
            end = read[-1].place.position
            found += [(offset, each.place.position, end) for offset, each in zip(offsets, read, strict=True)]
            waiting.clear()
    return found


def rows(found: Positions) -> list[dict[str, Any]]:
    return [row for path in found.files for row in pq.read_table(path).to_pylist()]


def lines(found: Positions) -> Lines:
    """Voided records left out, as reports do."""
    counting = [row for row in rows(found) if row["position"] not in found.voided]
    return [(row["offset"], row["position"], row["set_end"]) for row in counting]


def test_positions_are_those_of_the_fold(archive: ArchiveWriter) -> None:
    """K3: of all that stands in the topic what counts, whoever wrote the rest."""
    chronicle = hostile(Chronicle().start())
    land(archive, chronicle.entries)
    found = brought_forward(archive)
    assert lines(found) == folded(chronicle.entries)
    assert (found.verified_at, found.chain) == (chronicle.position, chronicle.fold.header.chain.hex())
    assert found.accepted == chronicle.position + 1
    assert found.accepted + sum(found.ignored.values()) + 1 == len(chronicle.entries), "one was in a set cut short"
    assert set(found.ignored) == {"OLD_TERM", "REPEAT", "NO_STAMP"}
    assert found.logged_ms == max(entry.appended_at_ms for entry in chronicle.entries)


def test_the_end_of_its_set_and_the_logs_time_are_told(archive: ArchiveWriter) -> None:
    chronicle = Chronicle().start()
    chronicle.join("n1")
    entries = chronicle.replace_in_one_set("n1", "n2")
    land(archive, entries)
    *_, first, last = rows(brought_forward(archive))
    assert (first["position"], first["set_end"]) == (last["position"] - 1, last["position"])
    assert first["logged_at"] == last["logged_at"]
    assert last["logged_at"].timestamp() * 1000 == entries[-1].appended_at_ms
    assert last["term"] == 1


@settings(max_examples=15)
@given(borders=st.sets(st.integers(1, 40), max_size=6))
def test_wherever_landings_end_the_positions_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, borders: set[int]
) -> None:
    """Borders within sets, within terms, before what does not count; brought forward after each."""
    chronicle = hostile(Chronicle().start())
    entries = chronicle.entries
    cuts = [0, *sorted(cut for cut in borders if cut < len(entries)), len(entries)]
    with opened(tmp_path_factory.mktemp("archive"), "main") as archive:
        for start, end in pairwise(cuts):
            land(archive, entries[start:end])
            found = brought_forward(archive)
        assert lines(found) == folded(entries)
        assert found.verified_at == chronicle.position


def test_what_a_crash_leaves_over_is_written_over(archive: ArchiveWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of positions that was written, and not yet the word that it counts."""
    chronicle = hostile(Chronicle().start())
    entries = chronicle.entries
    land(archive, entries[:10])
    brought_forward(archive)
    land(archive, entries[10:])

    class Died(BaseException):
        pass

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(durable, "write", die)
        with pytest.raises(Died):
            brought_forward(archive)
    assert lines(brought_forward(archive)) == folded(entries)


def test_nothing_is_judged_twice(archive: ArchiveWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    chronicle = hostile(Chronicle().start())
    land(archive, chronicle.entries)
    before = brought_forward(archive)

    def judge(*_: object) -> None:
        raise AssertionError("it was judged again")

    monkeypatch.setattr(Judge, "judge", judge)
    assert brought_forward(archive) == before


def test_many_records_make_several_files(archive: ArchiveWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "ROWS_PER_FILE", 5)
    chronicle = hostile(Chronicle().start())
    for start in range(0, len(chronicle.entries), 7):
        land(archive, chronicle.entries[start : start + 7])
    found = brought_forward(archive)
    assert len(found.files) > 2
    assert lines(found) == folded(chronicle.entries)


def test_a_voided_record_is_left_out(archive: ArchiveWriter) -> None:
    """K8: it has a position, and the voiding says that it does not count."""
    chronicle = Chronicle().start()
    chronicle.join("n1")
    poison = chronicle.poison(b"\xc3\x01 not one of ours")
    chronicle.decide(RecordVoided(*poison), actor="ada", reason="nobody can read it")
    chronicle.propose("Order", {"id": "long"})
    land(archive, chronicle.entries)
    found = brought_forward(archive)
    assert found.voided == [poison[0]]
    everything = range(chronicle.position + 1)
    assert [position for _, position, _ in lines(found)] == [each for each in everything if each != poison[0]]
    assert found.verified_at == chronicle.position


def test_a_voiding_that_is_voided_voids_nothing(archive: ArchiveWriter) -> None:
    """K8: whoever has folded what a voiding names stops at the voiding, until that is voided itself."""
    chronicle = Chronicle().start()
    good = chronicle.join("n1")
    wrong = chronicle.poison(CODEC.encode(RecordVoided(good, bytes(16))))
    chronicle.decide(RecordVoided(*wrong))
    land(archive, chronicle.entries)
    found = brought_forward(archive)
    assert found.voided == [wrong[0]]
    assert good in [position for _, position, _ in lines(found)]


def test_offsets_that_are_missing_are_named(archive: ArchiveWriter) -> None:
    """A day that has not landed: within a term it would look like a coordinator that lost a record."""
    entries = eventful(Chronicle().start()).entries
    land(archive, entries[:8])
    land(archive, entries[11:])
    with pytest.raises(ArchiveIncomplete, match="lacks offsets 8 to 10") as raised:
        brought_forward(archive)
    assert "topolog spark archive" in raised.value.hint


def test_a_term_that_begins_behind_a_hole_does_not_hide_it(archive: ArchiveWriter) -> None:
    """The first record of a term carries no chain; the second does, and does not fit."""
    chronicle = eventful(Chronicle().start())
    term = next(entry.offset for entry in chronicle.entries if entry.offset > 2 and _opens_term(entry))
    land(archive, chronicle.entries[: term - 2])
    land(archive, chronicle.entries[term:])
    with pytest.raises(ArchiveIncomplete, match=f"lacks offsets {term - 2} to {term - 1}"):
        brought_forward(archive)


def test_an_archive_without_the_beginning_says_so(archive: ArchiveWriter) -> None:
    land(archive, Chronicle().start().entries[1:])
    with pytest.raises(ArchiveIncomplete, match="its first record of decisions has offset 1"):
        brought_forward(archive)


@settings(max_examples=40)
@given(cut=st.data())
def test_no_hole_is_judged_over_in_silence(tmp_path_factory: pytest.TempPathFactory, cut: st.DataObject) -> None:
    """Any run of records left out, between two landings or within one."""
    entries = eventful(Chronicle().start()).entries
    start = cut.draw(st.integers(0, len(entries) - 2))
    end = cut.draw(st.integers(start + 1, len(entries) - 1))
    left = [*entries[:start], *entries[end:]]
    border = cut.draw(st.integers(1, len(left)))
    with opened(tmp_path_factory.mktemp("archive"), "main") as archive:
        for part in (left[:border], left[border:]):
            if part:
                land(archive, part)
        with pytest.raises(ArchiveIncomplete):
            brought_forward(archive)


def test_what_lands_later_closes_the_hole(archive: ArchiveWriter) -> None:
    """The error is no end: a backfill brings what was missing, and it goes on."""
    chronicle = eventful(Chronicle().start())
    land(archive, chronicle.entries[:8])
    land(archive, chronicle.entries[11:])
    with pytest.raises(ArchiveIncomplete):
        brought_forward(archive)
    land(archive, chronicle.entries[8:11])
    assert lines(brought_forward(archive)) == folded(chronicle.entries)


def test_a_hole_that_only_the_start_of_a_term_stands_behind_is_open_until_it_is_filled(archive: ArchiveWriter) -> None:
    """Nothing is kept of what stands behind it, so what lands later is judged in its place."""
    chronicle = eventful(Chronicle().start())
    entries = chronicle.entries
    term = next(entry.offset for entry in entries if entry.offset > 2 and _opens_term(entry))
    land(archive, entries[: term - 2])
    land(archive, entries[term : term + 1])
    for _ in range(2):
        with pytest.raises(ArchiveIncomplete, match=f"lacks offsets {term - 2} to {term - 1}"):
            brought_forward(archive)
    land(archive, entries[term - 2 : term])
    land(archive, entries[term + 1 :])
    assert lines(brought_forward(archive)) == folded(entries)


def test_offsets_of_which_nothing_counts_may_be_missing(archive: ArchiveWriter) -> None:
    """Offsets have holes where a transaction ended; the chain says that nothing of the log is missing."""
    chronicle = Chronicle().start()
    chronicle.join("n1")
    at = len(chronicle.entries)
    chronicle.append_raw(None, b"a stranger's")
    chronicle.join("n2")
    land(archive, chronicle.entries[:at])
    land(archive, chronicle.entries[at + 1 :])
    found = brought_forward(archive)
    assert (found.verified_at, found.ignored) == (chronicle.position, {})


def test_a_coordinators_own_gap_behind_a_hole_is_the_logs(archive: ArchiveWriter) -> None:
    """It lost a record, and a transaction's end took an offset just there: the next term's chain settles it."""
    chronicle = Chronicle().start()
    chronicle.join("n1")
    at = len(chronicle.entries)
    chronicle.append_raw(None, b"")
    stamp = chronicle._stamp(0, 1, "", "", "")
    chronicle.append_raw(encode_stamp(msgspec.structs.replace(stamp, sequence=stamp.sequence + 1)), b"")
    chronicle.lead("c2")
    land(archive, chronicle.entries[:at])
    land(archive, chronicle.entries[at + 1 :])
    with pytest.raises(ArchiveIncomplete):
        brought_forward(archive)
    behind = len(chronicle.entries)
    chronicle.join("n2")
    land(archive, chronicle.entries[behind:])
    found = brought_forward(archive)
    assert (found.verified_at, found.ignored) == (chronicle.position, {"GAP": 1})


def test_another_history_is_refused(archive: ArchiveWriter) -> None:
    """K3: the next record in order, and it does not continue what was verified."""
    chronicle = Chronicle().start()
    chronicle.join("n1")
    chronicle.append_raw(
        encode_stamp(msgspec.structs.replace(chronicle._stamp(0, 1, "", "", ""), chain=b"another history!")), b""
    )
    land(archive, chronicle.entries)
    with pytest.raises(LogDiverged, match="another history"):
        brought_forward(archive)


def test_confluents_framing_is_judged_as_what_it_frames(archive: ArchiveWriter) -> None:
    """Chains are over the single-object encoding."""
    chronicle = eventful(Chronicle().start())
    ids = {entry.value[:10]: number for number, entry in enumerate(chronicle.entries, start=1)}
    in_registry = []
    for entry in chronicle.entries:
        value, headers = framed(entry.value, ids)
        in_registry.append(msgspec.structs.replace(entry, value=value, headers=(*headers, *entry.headers)))
    land(archive, in_registry)
    assert lines(brought_forward(archive)) == folded(chronicle.entries)


def test_what_was_derived_of_another_log_is_not_taken(tmp_path: Path) -> None:
    """The folder of an archive was emptied and used again, but for what is derived."""
    derived = tmp_path / "derived"
    other = Chronicle(log_id=b"another log's id").start()
    for number, chronicle in enumerate((eventful(Chronicle().start()), other)):
        with opened(tmp_path / str(number), "main") as archive:
            archive.identify(chronicle.log_id)
            land(archive, chronicle.entries)
            assert lines(brought_forward(archive, derived)) == folded(chronicle.entries)


def lose_a_table(derived: Path) -> None:
    next(derived.glob("positions/*.parquet")).unlink()


def damage_the_state(derived: Path) -> None:
    (derived / "positions.state").write_bytes(b"\x93")


def put_another_format(derived: Path) -> None:
    path = derived / "positions.state"
    path.write_bytes(path.read_bytes().replace(b"\xa6format\xa12", b"\xa6format\xa11"))


@pytest.mark.parametrize("harm", [lose_a_table, damage_the_state, put_another_format])
def test_what_was_derived_and_cannot_be_used_is_made_anew(
    archive: ArchiveWriter, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = hostile(Chronicle().start()).entries
    land(archive, entries)
    before = brought_forward(archive)
    state = archive.folder / "derived" / "positions.state"
    kept = state.read_bytes()
    harm(archive.folder / "derived")
    judged = count_calls(monkeypatch, Judge, "judge")
    assert brought_forward(archive) == before
    assert (len(judged), state.read_bytes()) == (len(entries), kept)


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    called, method = list[object](), getattr(owner, name)

    def counted(*given: object) -> object:
        called.append(given)
        return method(*given)

    monkeypatch.setattr(owner, name, counted)
    return called


def test_an_empty_archive_has_no_positions(archive: ArchiveWriter) -> None:
    found = brought_forward(archive)
    assert (found.accepted, found.verified_at, found.files) == (0, -1, ())


def test_a_folder_that_cannot_be_written_is_named(archive: ArchiveWriter, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        brought_forward(archive, tmp_path / "file")


def _opens_term(entry: Entry) -> bool:
    return entry.stamp is not None and opens_term(entry.stamp)
