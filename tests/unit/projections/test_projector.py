"""The projector: what it stores, how it resumes, when it stops, and how old it says it is."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.projections.chronicle import FENCE_MS, LOG_ID, Chronicle
from tests.unit.projections.conftest import MakeProjector

from topolog.events.errors import DamagedStore, Unreachable
from topolog.events.fold import Fold
from topolog.events.ids import Term
from topolog.events.leases import NodeKind
from topolog.events.log import Entry, InMemoryReader
from topolog.events.metadata import RemovalRow
from topolog.events.stamp import NO_CHAIN, Stamp, encode_stamp
from topolog.events.topics import Topic
from topolog.events.voiding import RecordVoided
from topolog.projections import projector as projector_module
from topolog.projections import queries
from topolog.projections.freshness import Freshness
from topolog.projections.projector import Projector
from topolog.projections.rocks import DiskFull
from topolog.projections.store import Store


def hash_of(projector: Projector) -> bytes:
    with projector.reading() as reading:
        return reading.state().hash()


def why_stopped(projector: Projector) -> str | None:
    return projector.stopped


def eventful(chronicle: Chronicle) -> Chronicle:
    """A bit of everything a cluster goes through."""
    for name in ("n1", "n2", "n3"):
        chronicle.join(name)
    chronicle.join("watcher", kind=NodeKind.CLIENT)
    chronicle.propose("Customer", {"id": "long"})
    chronicle.accept("Customer", "n1", "n2", "n3")
    chronicle.leave("n2")
    chronicle.lead("c2")
    chronicle.propose("Customer", {"id": "long", "email": "String"})
    chronicle.propose("Order", {"id": "long"})
    chronicle.accept("Customer", "n1", presumed_fenced=("n3",))
    chronicle.remove_type("Customer")
    chronicle.renew("n1", "n3")
    return chronicle


def test_the_store_equals_the_fold(chronicle: Chronicle, projector: Projector) -> None:
    """RD2: one fold everywhere; the rows in the store have the hash of the fold at the same position."""
    eventful(chronicle)
    projector.step()
    assert projector.meta.position == chronicle.position
    assert hash_of(projector) == chronicle.fold.state.hash()
    with projector.reading() as reading:
        assert next(reading.rows(RemovalRow), None) is None


def test_a_restart_goes_on_where_it_stopped(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """RD7: what is stored is neither read twice nor lost."""
    chronicle.join("n1")
    make_projector().step()
    restarted = make_projector()
    assert restarted.step() == 1, "only the record that proves the resume is read again"
    eventful_after = chronicle.join("n2")
    restarted.step()
    assert restarted.meta.position == eventful_after
    assert hash_of(restarted) == chronicle.fold.state.hash()


@settings(max_examples=15)
@given(borders=st.lists(st.integers(1, 40), max_size=20), restarts=st.sets(st.integers(0, 20)))
def test_batch_borders_and_restarts_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, borders: Sequence[int], restarts: set[int]
) -> None:
    """K10: wherever a reader stops and starts, it has the same rows."""
    chronicle = eventful(Chronicle().start())
    folder = tmp_path_factory.mktemp("store")

    def make() -> tuple[Projector, InMemoryReader]:
        reader = chronicle.log.reader()
        return Projector(reader, folder, "main"), reader

    projector, reader = make()
    for number, size in enumerate(borders):
        if number in restarts:
            projector.close()
            projector, reader = make()
        reader.batch_max = size
        projector.step()
    reader.batch_max = 1_000
    projector.step()
    assert (projector.stopped, projector.meta.position) == (None, chronicle.position)
    assert hash_of(projector) == chronicle.fold.state.hash()
    projector.close()


def test_a_set_is_stored_whole_or_not_at_all(chronicle: Chronicle, projector: Projector) -> None:
    """K3: a set that is not complete has not happened yet."""
    chronicle.join("n1")
    entries = chronicle.replace_in_one_set("n1", "n2")
    chronicle.log.truncate(Topic.DECISIONS, len(entries) - 1)
    projector.step()
    before = projector.meta.position
    assert projector.stopped is None
    chronicle.log.put(Topic.DECISIONS, "main", entries[-1].value, entries[-1].headers)
    projector.step()
    assert projector.meta.position == before + 2 == chronicle.position
    assert hash_of(projector) == chronicle.fold.state.hash()


def test_a_restart_in_the_middle_of_a_set_reads_it_again(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """K3: the place to go on from is the border of a set, never inside one."""
    chronicle.join("n1")
    entries = chronicle.replace_in_one_set("n1", "n2")
    chronicle.log.truncate(Topic.DECISIONS, len(entries) - 1)
    make_projector().step()
    chronicle.log.put(Topic.DECISIONS, "main", entries[-1].value, entries[-1].headers)
    restarted = make_projector()
    restarted.step()
    assert restarted.meta.position == chronicle.position
    assert hash_of(restarted) == chronicle.fold.state.hash()


def test_poison_stops_it_and_keeps_what_came_before(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """K8: an accepted record that cannot be decoded stops the reader with position, fingerprint and reason."""
    good = chronicle.join("n1")
    chronicle.append_accepted(b"\xc3\x01 not one of ours")
    projector = make_projector()
    projector.step()
    assert projector.stopped is not None
    assert f"position {good + 1}" in projector.stopped
    assert "fingerprint" in projector.stopped
    assert projector.meta.position == good
    assert hash_of(projector) == chronicle.fold.state.hash()
    chronicle.log.put(Topic.DECISIONS, "main", b"more")
    assert projector.step() == 0, "it reads no further"
    assert make_projector().step() == 0
    assert make_projector().meta.position == good


def test_a_voided_record_lets_it_go_on_and_is_shown_with_its_voiding(
    chronicle: Chronicle, make_projector: MakeProjector
) -> None:
    """K8: without a restart; the record and the voiding share a subject, so that one leads to the other."""
    good = chronicle.join("n1")
    poison = chronicle.poison(b"\xc3\x01 not one of ours")
    projector = make_projector()
    projector.step()
    assert why_stopped(projector)
    chronicle.decide(RecordVoided(*poison), cause="`topolog void` by ada", actor="ada", reason="nobody can read it")
    chronicle.propose("Order", {"id": "long"})
    while why_stopped(projector) or projector.meta.position < chronicle.position:
        projector.step()
    assert hash_of(projector) == chronicle.fold.state.hash()
    with projector.reading() as reading:
        shown = list(queries.decisions(reading, {"subject": f"position {good + 1}"}))
    assert [(each.event, each.position, each.decided_by) for each in shown] == [
        ("RecordVoided", good + 2, "ada"),
        ("LeftOut", good + 1, "c1"),
    ]
    assert shown[0].reason == "nobody can read it"
    assert shown[1].content == {"position": good + 1, "schema": b" not one".hex(), "size": 18}


def test_a_fork_stops_it(chronicle: Chronicle, projector: Projector) -> None:
    """K3: a record that is next in order and continues another history is never folded."""
    projector.step()
    stamp = Stamp(LOG_ID, Term(1), 1, 0, 1, b"another history!", 0)
    chronicle.append_raw(encode_stamp(stamp), b"")
    projector.step()
    assert projector.stopped is not None
    assert "another history" in projector.stopped


@pytest.mark.parametrize("kept", [1, 3])
def test_a_log_that_was_cut_short_stops_it(chronicle: Chronicle, make_projector: MakeProjector, kept: int) -> None:
    """K9: a reader whose own position is not in the log stops; its store is not overwritten."""
    chronicle.join("n1")
    make_projector().step()
    chronicle.log.truncate(Topic.DECISIONS, kept)
    restarted = make_projector()
    position = restarted.meta.position
    restarted.step()
    assert restarted.stopped is not None
    assert restarted.meta.position == position


def test_another_log_under_the_same_name_stops_it(chronicle: Chronicle, tmp_path: Path) -> None:
    """RD7: the store of another log is never silently overwritten."""
    chronicle.join("n1")
    first = Projector(chronicle.log.reader(), tmp_path, "main")
    first.step()
    first.close()
    other = Chronicle(log_id=bytes(16)).start()
    other.join("n1")
    second = Projector(other.log.reader(), tmp_path, "main")
    second.step()
    assert second.stopped is not None
    assert str(first.meta.last_offset) in second.stopped
    assert second.meta.header.log_id == LOG_ID
    second.close()


def test_what_does_not_count_is_counted_once(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """Ignored records are counted by reason, also over restarts."""
    chronicle.append_raw(None, b"no stamp")
    repeated = chronicle.entries[1]
    chronicle.append_raw(repeated.stamp, repeated.value)
    make_projector().step()
    chronicle.join("n1")
    make_projector().step()
    assert make_projector().meta.ignored == {"NO_STAMP": 1, "REPEAT": 1}


def test_a_gap_before_a_restart_still_closes_the_term(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """K3: the first gap closes the term, whether the reader was restarted behind it or not."""
    chronicle.append_raw(encode_stamp(Stamp(LOG_ID, Term(1), 9, 0, 1, NO_CHAIN, 0)), b"")
    make_projector().step()
    position = chronicle.position
    chronicle.join("lost")
    restarted = make_projector()
    restarted.step()
    assert restarted.meta.position == position
    assert restarted.stopped is None


def test_age_is_zero_only_at_the_end_of_a_living_log() -> None:
    """A reader that is cut off gets old: no record for fence_ms / 2 means that the end is no longer known."""
    fresh = Freshness()
    fresh.fence_ms = FENCE_MS
    assert fresh.age_ms(5.0) is None
    fresh.note(10.0, counted=True, at_end=False)
    assert fresh.age_ms(11.0) is None
    fresh.note(12.0, counted=True, at_end=True)
    assert fresh.age_ms(21.9) == 0
    fresh.note(21.9, counted=False, at_end=True)
    fresh.note(22.1, counted=False, at_end=True)
    assert fresh.age_ms(22.1) == 10_100, "an end that nobody could have told us of"


def test_a_record_that_just_came_makes_nothing_old() -> None:
    """Between a record and the sign that it is the last one, the end was known a moment ago."""
    fresh = Freshness()
    fresh.fence_ms = FENCE_MS
    fresh.note(10.0, counted=True, at_end=True)
    fresh.note(14.9, counted=False, at_end=True)
    fresh.note(15.0, counted=True, at_end=False)
    assert fresh.age_ms(15.0) == 100
    fresh.note(15.1, counted=False, at_end=True)
    assert fresh.age_ms(15.1) == 0
    fresh.lose()
    assert fresh.age_ms(16.1) == 1_000


def test_records_that_do_not_count_are_no_sign_of_life(chronicle: Chronicle, tmp_path: Path) -> None:
    """A deposed coordinator that goes on writing keeps no reader young."""
    now = [100.0]
    projector = Projector(chronicle.log.reader(), tmp_path, "main", now_s=lambda: now[0])
    projector.step()
    assert projector.age_ms == 0
    for _ in range(12):
        now[0] += 1
        chronicle.append_raw(None, b"no stamp")
        projector.step()
    assert projector.age_ms == 12_000
    chronicle.renew()
    projector.step()
    assert projector.age_ms == 0
    projector.close()


def test_a_store_that_cannot_be_folded_on_is_shown_as_it_is_and_grows_old(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is built beside it: answers go on, and say how old they are and why."""
    now = [100.0]
    with closing(Projector(chronicle.log.reader(), tmp_path, "main", now_s=lambda: now[0])) as projector:
        projector.step()
        before = projector.meta.position

        def write(self: Store, sets: object) -> None:
            raise DamagedStore("Block 7 is not what was written.")

        monkeypatch.setattr(Store, "write", write)
        chronicle.join("n1")
        for _ in range(3):
            now[0] += 20
            projector.step()
        assert projector.age_ms == 60_000
        assert "this process builds no other one: Block 7" in (why_stopped(projector) or "")
        with projector.reading() as reading:
            assert reading.position == before


def test_an_empty_log_has_no_end_that_is_known(tmp_path: Path) -> None:
    """Nothing was ever written, so nobody is known to be at its end."""
    projector = Projector(Chronicle().log.reader(), tmp_path, "main", wall_ms=lambda: 5_000)
    projector.step()
    assert projector.age_ms == 0
    projector.close()


def test_a_full_disk_stops_it_until_there_is_room(
    chronicle: Chronicle, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be written is read again; meanwhile reads go on and say why they see nothing new."""
    projector.step()
    before = projector.meta.position

    def write(self: Store, sets: object) -> None:
        raise DiskFull("The disk of the store is full: No space left on device.")

    chronicle.join("n1")
    with monkeypatch.context() as full:
        full.setattr(Store, "write", write)
        full.setattr(projector_module, "ROOM_BYTES", 1 << 62)
        projector.step()
        projector.step()
        assert "disk of the store is full" in (why_stopped(projector) or "")
        with projector.reading() as reading:
            assert reading.position == before
    monkeypatch.setattr(projector_module, "ROOM_BYTES", 0)
    projector.step()
    projector.step()
    assert why_stopped(projector) is None
    assert projector.meta.position == chronicle.position
    assert hash_of(projector) == chronicle.fold.state.hash()


def test_a_new_process_over_an_old_store_says_how_old_it_is(
    chronicle: Chronicle, make_projector: MakeProjector
) -> None:
    """Until it has read to the end, a reader goes by the time of what it has stored."""
    make_projector().step()
    chronicle.now_ms += 3_600_000
    assert make_projector().age_ms >= 3_600_000


class LostReader(InMemoryReader):
    """A reader whose log can no longer be read."""

    def poll(self, timeout_s: float) -> list[Entry]:
        raise Unreachable("The log can no longer be read: fenced.")


def test_a_reader_that_fails_for_good_stops_it(chronicle: Chronicle, tmp_path: Path) -> None:
    """What no later record can mend is said in every answer, and reads go on."""
    projector = Projector(LostReader(chronicle.log), tmp_path, "main")
    projector.step()
    assert projector.stopped == "The log can no longer be read: fenced."
    projector.close()


def test_it_equals_a_fold_of_the_same_entries(chronicle: Chronicle, projector: Projector) -> None:
    """The chronicle is no oracle of its own: a fold that has only read the log agrees."""
    eventful(chronicle)
    fold = Fold()
    for entry in chronicle.entries:
        fold.read(entry.stamp, entry.value)
    projector.step()
    assert hash_of(projector) == fold.state.hash()
    assert projector.meta.header == fold.header
