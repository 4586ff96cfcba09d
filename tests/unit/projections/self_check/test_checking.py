"""What differs in a store is found and located, whatever it is; nothing is written, and no projector is disturbed."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.conftest import MakeProjector
from tests.unit.projections.self_check.conftest import Checker, contents, damage_tables, flipped, project, write

from topolog.events.errors import BadInput
from topolog.events.ids import Position
from topolog.projections import layout
from topolog.projections.layout import Decided, Meta
from topolog.projections.self_check.findings import Family, RowPlace, What
from topolog.projections.self_check.verdict import State

NODE = layout.row_key(("node", "n1"))


def newest_version(folder: Path, kind: str, key: str) -> bytes:
    """The key of the newest version of a row that was not removed."""
    stem = layout.history_stem((kind, key))
    return next(name for name, value in sorted(contents(folder).items()) if name.startswith(stem) and value)


def test_a_store_is_equal_to_a_rebuild(chronicle: Chronicle, checker: Checker, folder: Path) -> None:
    """RD25: one fold everywhere, here byte for byte and with all of the past."""
    verdict = checker.check(folder)
    assert (verdict.state, verdict.differences, verdict.position) == (State.EQUAL, 0, chronicle.position)
    assert verdict.rows == len([key for key in contents(folder) if key[:1] not in b"xy"])
    assert verdict.buckets > 20, "each kind has buckets of its own"


def test_a_flipped_bit_in_a_row_is_found_with_its_field(checker: Checker, folder: Path) -> None:
    """The field, what it should be and what it is."""
    value = contents(folder)[NODE]
    write(folder, {NODE: value.replace(b"n1:7000", b"n1:7001")})
    verdict = checker.check(folder)
    assert (verdict.state, verdict.differences, verdict.differing_buckets) == (State.DIFFERENT, 1, 1)
    (found,) = verdict.findings
    assert (found.what, str(found.place)) == (What.CHANGED, "row node/n1")
    (difference,) = found.differences
    assert (difference.field, difference.expected, difference.found) == ("endpoint", "n1:7000", "n1:7001")


def test_a_flipped_bit_in_history_is_found_with_its_position(checker: Checker, folder: Path) -> None:
    """No start of a projector would have noticed it: the hash is of the newest rows."""
    key = newest_version(folder, "node", "n1")
    write(folder, {key: contents(folder)[key].replace(b"n1:7000", b"n1:7004")})
    (found,) = checker.check(folder).findings
    assert found.place == RowPlace(Family.HISTORY, "node", "n1", layout.position_of(key))
    assert [each.field for each in found.differences] == ["endpoint"]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (NODE, "row node/n1"),
        (layout.decision_key(Position(7)), "decision @7"),
        (layout.subject_stem("") + layout.inverted(Position(7)), "subject @7"),
    ],
)
def test_a_lost_row_is_found(checker: Checker, folder: Path, key: bytes, name: str) -> None:
    """With what it held."""
    assert key in contents(folder)
    write(folder, {key: None})
    (found,) = checker.check(folder).findings
    assert (found.what, str(found.place)) == (What.LOST, name)
    assert found.differences[0].found is None


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        (layout.row_key(("node", "n99")), b"", "row node/n99"),
        (layout.history_stem(("node", "n1")) + layout.inverted(Position(3)), b"", "history node/n1@3"),
        (layout.decision_key(Position(1 << 40)), b"", f"decision @{1 << 40}"),
        (layout.subject_stem("") + layout.inverted(Position(1 << 40)), b"", f"subject @{1 << 40}"),
        (b"", b"?", "unknown"),
        (b"\xff\xfe", b"?", "unknown \\xff\\xfe"),
        (b"r-without-a-kind", b"?", "unknown r-without-a-kind"),
    ],
)
def test_an_extra_row_is_found_wherever_it_stands(
    checker: Checker, folder: Path, key: bytes, value: bytes, name: str
) -> None:
    """Before all, behind all, and of no family at all."""
    write(folder, {key: value})
    verdict = checker.check(folder)
    assert (verdict.state, verdict.differences) == (State.DIFFERENT, 1)
    (found,) = verdict.findings
    assert (str(found.place), found.what in (What.EXTRA, What.UNDECODABLE)) == (name, True)


def test_a_row_that_does_not_decode_is_named(checker: Checker, folder: Path) -> None:
    """It is a finding, and the rows beside it are compared all the same."""
    write(folder, {NODE: b"\xc1" + contents(folder)[NODE], layout.row_key(("node", "n3")): None})
    verdict = checker.check(folder)
    assert [(each.what, each.place.key) for each in verdict.findings] == [
        (What.UNDECODABLE, "n1"),
        (What.LOST, "n3"),
    ]
    assert "NodeRow cannot be read" in verdict.findings[0].why


def test_a_decision_whose_event_does_not_decode_is_named(checker: Checker, folder: Path) -> None:
    """Its body is bytes within bytes."""
    key = layout.decision_key(Position(4))
    decided: Decided = layout.decode(contents(folder)[key], Decided)
    for changed in (
        msgspec.structs.replace(decided, body=b"\xc1"),
        msgspec.structs.replace(decided, event_name="NoSuchEvent"),
    ):
        write(folder, {key: layout.encode(changed)})
        (found,) = checker.check(folder).findings
        assert (found.what, str(found.place)) == (What.UNDECODABLE, "decision @4")


@pytest.mark.parametrize("field", ["state_hash", "logged_at_ms", "cluster", "last_offset"])
def test_a_wrong_header_is_found_with_its_field(checker: Checker, folder: Path, field: str) -> None:
    """The hashes, the place in the log, and whose store it is."""
    meta: Meta = layout.decode(contents(folder)[layout.META_KEY], Meta)
    held = {"state_hash": flipped(meta.state_hash, 9), "logged_at_ms": 1, "cluster": "mbin", "last_offset": 1}
    changed = msgspec.structs.replace(meta, **{field: held[field]})
    write(folder, {layout.META_KEY: layout.encode(changed)})
    (found,) = checker.check(folder).findings
    assert found.place.family is Family.HEADER
    assert [each.field for each in found.differences] == [field]


def test_the_same_row_in_other_bytes_is_told_apart(checker: Checker, folder: Path) -> None:
    """A key that nobody reads decodes to the same row: bytes are compared too."""
    value = contents(folder)[NODE]
    assert value[0] & 0xF0 == 0x80 or value[0] == 0xDE
    longer = bytes([0xDE, 0, _entries(value) + 1]) + value[3 if value[0] == 0xDE else 1 :] + b"\xa3new\x01"
    write(folder, {NODE: longer})
    (found,) = checker.check(folder).findings
    assert (found.what, found.why) == (What.CHANGED, "the same in other bytes")


def _entries(value: bytes) -> int:
    return int.from_bytes(value[1:3], "big") if value[0] == 0xDE else value[0] & 0x0F


def test_a_table_that_cannot_be_read_is_no_crash(checker: Checker, folder: Path) -> None:
    """RocksDB's own checksum does not fit: the store is unreadable, which says nothing of its rows."""
    damage_tables(folder)
    verdict = checker.check(folder)
    assert verdict.state is State.UNREADABLE
    assert "cannot read" in verdict.why


def test_a_running_projector_is_checked_where_it_stands(
    chronicle: Chronicle, checker: Checker, make_projector: MakeProjector, tmp_path: Path
) -> None:
    """The store moves on: each time it is compared at its own position, and the projector notices nothing."""
    projector = make_projector()
    for name in ("m1", "m2", "m3"):
        projector.step()
        verdict = checker.check(tmp_path / "store")
        assert (verdict.state, verdict.position) == (State.EQUAL, projector.meta.position)
        chronicle.join(name)
    assert checker.check(tmp_path / "store").position == chronicle.position - 2, "the projector has not read the last"
    projector.step()
    assert projector.stopped is None


def test_stores_at_different_positions_are_each_compared_at_their_own(
    chronicle: Chronicle, checker: Checker, folder: Path, tmp_path: Path
) -> None:
    """In whatever order: the rebuild goes back by beginning again."""
    behind = chronicle.position
    chronicle.propose("Customer", {"id": "long"})
    ahead = project(chronicle, tmp_path / "ahead")
    found = [checker.check(each) for each in (ahead, folder, ahead)]
    assert [each.position for each in found] == [chronicle.position, behind, chronicle.position]
    assert {each.state for each in found} == {State.EQUAL}
    assert found[0].digest == found[2].digest != found[1].digest


def test_a_folder_without_a_store_is_bad_input(checker: Checker, tmp_path: Path) -> None:
    """Nothing is made there."""
    with pytest.raises(BadInput, match="holds no store"):
        checker.check(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_nothing_is_written_by_a_check(checker: Checker, folder: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    assert checker.check(folder).state is State.EQUAL
    assert {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()} == before
