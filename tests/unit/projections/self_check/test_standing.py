"""Where a store stands is found though its header is damaged; a store of another log is refused and not touched."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import Checker, MakeChecker, contents, flipped, project, write
from tests.unit.projections.test_projector import eventful

from topolog.events.errors import Poisoned
from topolog.events.ids import NOWHERE, Position
from topolog.events.topics import Topic
from topolog.events.voiding import RecordVoided
from topolog.projections import layout
from topolog.projections.layout import Decided, Meta
from topolog.projections.self_check.findings import Family, What
from topolog.projections.self_check.verdict import State


def meta_of(folder: Path) -> Meta:
    meta: Meta = layout.decode(contents(folder)[layout.META_KEY], Meta)
    return meta


def write_header(folder: Path, **changes: object) -> None:
    meta = meta_of(folder)
    header = msgspec.structs.replace(meta.header, **changes)
    write(folder, {layout.META_KEY: layout.encode(msgspec.structs.replace(meta, header=header))})


@pytest.mark.parametrize(
    "changes",
    [
        {"position": Position(5)},
        {"position": Position(1 << 40)},
        {"position": Position(-7)},
        {"position": NOWHERE},
        {"chain": bytes(16)},
        {"log_id": bytes(16)},
        {"next_sequence": 3},
        {"position": Position(5), "chain": bytes(16), "log_id": bytes(16)},
    ],
)
def test_a_damaged_header_is_a_finding_and_the_rest_is_compared(
    chronicle: Chronicle, checker: Checker, folder: Path, changes: dict[str, object]
) -> None:
    """The newest decision that is the log's own says where the store stands."""
    write_header(folder, **changes)
    verdict = checker.check(folder)
    assert (verdict.state, verdict.position, verdict.differences) == (State.DIFFERENT, chronicle.position, 1)
    assert {each.field for each in verdict.findings[0].differences} == {f"header.{name}" for name in changes}
    assert checker.mend(folder).state is State.MENDED
    assert checker.check(folder).state is State.EQUAL


@pytest.mark.parametrize("header", [None, b"", b"\xc1"])
def test_a_lost_header_is_a_finding(chronicle: Chronicle, checker: Checker, folder: Path, header: bytes | None) -> None:
    """And so is one that does not decode."""
    write(folder, {layout.META_KEY: header})
    verdict = checker.check(folder)
    assert (verdict.state, verdict.position, verdict.differences) == (State.DIFFERENT, chronicle.position, 1)
    assert verdict.findings[0].what is (What.LOST if header is None else What.UNDECODABLE)
    assert checker.mend(folder).state is State.MENDED


def test_without_header_and_newest_decisions_the_store_is_cut_back(
    chronicle: Chronicle, checker: Checker, folder: Path
) -> None:
    """To a place that the log vouches for: what stands behind it is extra there, and a projector reads it again."""
    last = chronicle.position
    write(folder, {layout.META_KEY: None, **{layout.decision_key(Position(last - n)): None for n in range(3)}})
    verdict = checker.mend(folder)
    assert (verdict.state, verdict.position) == (State.MENDED, last - 3)
    assert meta_of(folder).position == last - 3
    project(chronicle, folder)
    assert checker.check(folder).position == last
    assert checker.check(folder).state is State.EQUAL


def test_a_place_inside_a_set_is_none(chronicle: Chronicle, checker: Checker, tmp_path: Path) -> None:
    """A set happens at once, so the place before the whole set is taken."""
    chronicle.join("m1")
    before = chronicle.position
    chronicle.replace_in_one_set("m1", "m2")
    folder = project(chronicle, tmp_path / "store")
    write(folder, {layout.META_KEY: None, layout.decision_key(chronicle.position): None})
    assert checker.check(folder).position == before


def test_a_damaged_newest_decision_is_no_other_log(chronicle: Chronicle, checker: Checker, folder: Path) -> None:
    """The header is the log's: nothing else is asked."""
    key = layout.decision_key(chronicle.position)
    decided: Decided = layout.decode(contents(folder)[key], Decided)
    write(folder, {key: layout.encode(msgspec.structs.replace(decided, chain=flipped(decided.chain)))})
    verdict = checker.check(folder)
    assert (verdict.state, verdict.differences) == (State.DIFFERENT, 1)
    assert verdict.findings[0].place.family is Family.DECISION


def test_a_store_of_another_log_is_refused(make_checker: MakeChecker, folder: Path) -> None:
    """Never mended: it may be the log that is the wrong one."""
    before = contents(folder)
    other = Chronicle(log_id=bytes(16)).start()
    for name in ("a", "b"):
        other.join(name)
    checker = make_checker(other)
    for verdict in (checker.check(folder), checker.mend(folder)):
        assert verdict.state is State.OTHER_LOG
        assert "another log" in verdict.why
        assert "no decision in common" in verdict.why
    assert contents(folder) == before


def test_a_store_of_a_fork_is_refused_with_the_place_where_they_part(make_checker: MakeChecker, tmp_path: Path) -> None:
    """The log was restored from a backup, and has gone on otherwise."""
    log, fork = (eventful(Chronicle().start()) for _ in range(2))
    parted = log.position
    for name in ("a", "b", "c"):
        log.join(name)
    fork.join("z")
    verdict = make_checker(fork).mend(project(log, tmp_path / "store"))
    assert verdict.state is State.OTHER_LOG
    assert f"part behind position {parted}" in verdict.why


def test_a_log_that_was_cut_short_is_named(chronicle: Chronicle, checker: Checker, folder: Path) -> None:
    """All of it is in the store, and the store has more."""
    chronicle.log.truncate(Topic.DECISIONS, len(chronicle.entries) - 2)
    verdict = checker.check(folder)
    assert verdict.state is State.OTHER_LOG
    assert f"ends at position {chronicle.position - 2}" in verdict.why


def test_an_empty_store_is_compared_with_nothing(chronicle: Chronicle, checker: Checker, tmp_path: Path) -> None:
    """A projector was started and has read nothing yet; or it was killed before it wrote its header."""
    folder = project(Chronicle(), tmp_path / "empty")
    verdict = checker.check(folder)
    assert (verdict.state, verdict.position) == (State.EQUAL, NOWHERE)
    write(folder, {layout.META_KEY: None})
    assert [each.what for each in checker.check(folder).findings] == [What.LOST]
    assert checker.mend(folder).state is State.MENDED


def test_a_poisoned_log_is_compared_up_to_the_poison(chronicle: Chronicle, checker: Checker, folder: Path) -> None:
    """Where every projector stands that cannot read it; a store that claims to be behind it needs a newer build."""
    chronicle.append_accepted(b"\xc3\x01 not one of ours")
    assert checker.check(folder).state is State.EQUAL
    write_header(folder, position=Position(chronicle.position + 5))
    assert checker.mend(folder).state is State.MENDED
    assert checker.check(folder).state is State.EQUAL
    with pytest.raises(Poisoned):
        checker.rebuild.to(chronicle.position + 1)


def test_a_voided_record_is_left_out_as_the_projector_does(
    chronicle: Chronicle, checker: Checker, tmp_path: Path
) -> None:
    """K8: the rebuild looks ahead for the voiding."""
    voided = chronicle.poison(b"\xc3\x01 not one of ours")
    chronicle.join("m1")
    chronicle.decide(RecordVoided(*voided))
    chronicle.join("m2")
    folder = project(chronicle, tmp_path / "store")
    verdict = checker.check(folder)
    assert (verdict.state, verdict.position) == (State.EQUAL, chronicle.position)
