"""Voiding (K27): a poisoned record that an operator has voided is left out by every reader in the same way."""

import os
import subprocess
import sys
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import second_level
from tests.unit.events.examples import EXAMPLES, LOG_ID, Leader, proposed
from tests.unit.events.following import Reader

from topolog.events import metadata as md
from topolog.events import terms
from topolog.events.asked import RequestRef
from topolog.events.codec import CODEC
from topolog.events.errors import DamagedStore, Poisoned
from topolog.events.evidence import Evidence
from topolog.events.fold import Fold, Ignored
from topolog.events.ids import Offset, Position, Version
from topolog.events.levels import FIRST_LEVEL, FeatureLevelRaised
from topolog.events.log import InMemoryLog
from topolog.events.lookahead import LookAhead
from topolog.events.membership import NodeJoined
from topolog.events.stamp import HEADER_NAME, InputOffset
from topolog.events.topics import Topic
from topolog.events.voiding import LeftOut, RecordVoided, VoidedRow, voided_key, voided_row

POISON = b"\xc3\x01 a newer leader's record"
HALF_FOLDED = CODEC.encode(md.MetadataUpdateAccepted("Nobody's", Version(1), Evidence()))
"""It decodes, and its assertion fails."""

Record = tuple[bytes, bytes]


def log_of(records: Iterable[Record]) -> InMemoryLog:
    log = InMemoryLog()
    for stamp, value in records:
        log.put(Topic.DECISIONS, "demo", value, [(HEADER_NAME, stamp)])
    return log


def voided(leader: Leader, position: int, chain: bytes) -> list[Record]:
    return leader.set(RecordVoided(position, chain))


def voided_log() -> InMemoryLog:
    """A poisoned record of a set of three at position 3, and its voiding in the next term."""
    leader, records = Leader.start()
    values = CODEC.encode(proposed("A")), POISON, CODEC.encode(proposed("B", sequence=2))
    records += leader.raw_set(*values[:2], values[2], inputs=(InputOffset(1, 0, Offset(17)),))
    chain = chain_at(records, 3)
    successor, opening = leader.succeed(2)
    return log_of(records + opening + voided(successor, 3, chain) + successor.set(proposed("C", sequence=3)))


def chain_at(records: Iterable[Record], position: int) -> bytes:
    """The chain hash after the record at a position, as a reader that stops there says it."""
    with pytest.raises(Poisoned) as raised:
        Reader(log_of(records)).run()
    assert raised.value.position == position
    return raised.value.chain


@pytest.mark.parametrize("poison", [POISON, HALF_FOLDED, b""], ids=["unknown", "assertion", "empty"])
def test_a_stopped_fold_stands_before_the_record_it_stopped_at(poison: bytes) -> None:
    """K8: no row, no journal entry and nothing of the header shows a set that could not be folded to its end."""
    leader, records = Leader.start()
    reader = Reader(log_of(records)).run()
    reader.fold.state.drain()
    first, second = leader.raw_set(CODEC.encode(proposed("A")), poison)
    reader.fold.read(*first)
    header = reader.fold.header
    state_hash = reader.fold.state.hash()
    for _ in range(2):
        with pytest.raises(Poisoned, match="position 3"):
            reader.fold.read(*second)
        assert reader.fold.header == header
        assert (reader.fold.state.hash(), reader.fold.state.drain()) == (state_hash, [])


def test_a_voided_record_counts_for_position_chain_and_inputs_and_changes_no_other_row() -> None:
    """K8: the rest of its set and everything behind it is folded in order."""
    reader = Reader(voided_log()).run()
    assert [type(each.event).__name__ for each in reader.folded] == [
        "LogStarted",
        "TermStarted",
        "MetadataUpdateProposed",
        "LeftOut",
        "MetadataUpdateProposed",
        "TermStarted",
        "RecordVoided",
        "MetadataUpdateProposed",
    ]
    assert [each.place.position for each in reader.folded] == list(range(8))
    assert [row.name for _, row in reader.fold.state.rows(md.TypeRow)] == ["A", "B", "C"]
    left_out = reader.folded[3]
    assert left_out.event == LeftOut(Position(3), POISON[2:10].hex(), len(POISON))
    row = voided_row(reader.fold.state, 3)
    assert row is not None
    assert (row.chain, row.voided_at) == (left_out.place.chain.hex(), 6)


def test_a_reader_without_the_voiding_stops_and_says_what_to_do() -> None:
    """K8: position, chain hash, fingerprint, reason, the command and the runbook stand in the error."""
    log = voided_log()
    log.truncate(Topic.DECISIONS, 6)
    reader = Reader(log)
    with pytest.raises(Poisoned) as raised:
        reader.run()
    chain = raised.value.chain.hex()
    for part in ("position 3", chain, POISON[2:10].hex(), f"topolog void --position 3 --chain {chain}", "voiding.md"):
        assert part in str(raised.value)


def test_a_voiding_of_another_record_helps_nobody() -> None:
    """K8: position and chain hash must both be those of the record."""
    leader, records = Leader.start()
    records += leader.raw_set(POISON)
    with pytest.raises(Poisoned, match="decision at position 2"):
        Reader(log_of(records + voided(leader, 2, bytes(16)))).run()


def test_a_voiding_that_does_not_count_voids_nothing() -> None:
    """K3, K8: a deposed coordinator's voiding is judged by its stamp like any record."""
    leader, records = Leader.start()
    records += leader.raw_set(POISON)
    chain = chain_at(records, 2)
    _, opening = leader.succeed(2)
    with pytest.raises(Poisoned, match="decision at position 2"):
        Reader(log_of(records + opening + voided(leader, 2, chain))).run()


def test_a_voiding_behind_the_end_of_its_term_voids_nothing() -> None:
    """K3: who looks ahead knows the end of a term, though it decodes nothing else."""
    leader, records = Leader.start()
    records += leader.raw_set(POISON)
    chain = chain_at(records, 2)
    records += leader.set(terms.TermEnded(1))
    with pytest.raises(Poisoned, match="position 2"):
        Reader(log_of(records + voided(leader, 2, chain))).run()


def test_a_second_voiding_of_the_same_record_changes_nothing() -> None:
    """K8: two operators at once void it once."""
    leader, records = Leader.start()
    records += leader.raw_set(POISON)
    chain = chain_at(records, 2)
    once = voided(leader, 2, chain)
    reader = Reader(log_of(records + once + voided(leader, 2, chain))).run()
    row = voided_row(reader.fold.state, 2)
    assert row is not None
    assert row.voided_at == 3


def test_a_reader_that_has_folded_what_was_voided_stops() -> None:
    """K8: its rows are not those of the others; nobody goes on without a word."""
    leader, records = Leader.start()
    records += leader.set(proposed("A"))
    chain = leader.chain
    with pytest.raises(Poisoned, match="voids position 2, which this reader has folded"):
        Reader(log_of(records + voided(leader, 2, chain))).run()


def test_a_store_that_holds_what_was_voided_is_made_again() -> None:
    """K10: rows that were kept before the voiding cannot be mended, only built anew from the log."""
    leader, records = Leader.start()
    records += leader.set(proposed("A"))
    log = log_of(records)
    kept = Reader(log).run()
    for stamp, value in voided(leader, 2, leader.chain):
        log.put(Topic.DECISIONS, "demo", value, [(HEADER_NAME, stamp)])
    with pytest.raises(DamagedStore, match="position 2, voided since"):
        Reader(log, kept).run()


def test_a_record_above_the_feature_level_in_force_stops_those_that_know_its_schema_too() -> None:
    """K8: else a version that reads it would part from those that had it voided."""
    leader = Leader()
    records = leader.set(terms.LogStarted(LOG_ID, "demo", 20_000, 5_000, 1_000, feature_level=1))
    leader = Leader(term=1, chain=leader.chain)
    records += leader.raw_set(CODEC.encode(terms.TermStarted(1, "c1", life=7), level=1))
    joined = next(each for each in EXAMPLES if isinstance(each, NodeJoined))
    value = second_level.CODEC.encode(joined, level=2)
    reader = Reader(log_of(records + leader.raw_set(value)), codec=second_level.CODEC)
    with pytest.raises(Poisoned, match="its schema is of feature level 2, in force is 1"):
        reader.run()


@pytest.mark.parametrize("in_one_set", [False, True])
def test_at_a_level_above_its_own_a_build_reads_on_and_takes_nothing_for_damage(in_one_set: bool) -> None:
    """K8: it cannot tell a poisoned record from a newer one, so it asks to be upgraded and names no command."""
    leader, records = Leader.start()
    raised = CODEC.encode(FeatureLevelRaised(RequestRef("t", 1, bytes(8)), FIRST_LEVEL + 1, ()))
    for values in ([raised, POISON],) if in_one_set else ([raised], [POISON]):
        records += leader.raw_set(*values)
    reader = Reader(log_of(records))
    with pytest.raises(Poisoned, match=f"{FIRST_LEVEL + 1} is in force .* upgrade it") as raised_error:
        reader.run()
    assert (raised_error.value.position, raised_error.value.level) == (3, FIRST_LEVEL + 1)
    assert "topolog void" not in str(raised_error.value)
    assert reader.fold.header.position == (1 if in_one_set else 2)


def test_a_voided_end_of_a_term_ends_it_all_the_same() -> None:
    """K3, K8: who looks ahead over it ends the term there, so whoever leaves it out must accept the same behind it.

    It is poisoned because it opens its term; the leader that follows has not accepted what stands behind it.
    """
    leader, records = Leader.start()
    opening = Leader(LOG_ID, 2, leader.chain)
    records += opening.raw_set(CODEC.encode(terms.TermEnded(2)))
    chain = chain_of(records, 2)
    successor = Leader(LOG_ID, 3, opening.chain)
    records += opening.set(proposed("A")) + voided(opening, 2, chain)
    with pytest.raises(Poisoned, match="position 2"):
        Reader(log_of(records)).run()
    records += successor.set(terms.TermStarted(3, "c3", life=9)) + voided(successor, 2, chain)
    reader = Reader(log_of(records + successor.set(proposed("B", sequence=2)))).run()
    assert [row.name for _, row in reader.fold.state.rows(md.TypeRow)] == ["B"]
    assert reader.fold.header.position == 5


def test_a_poisoned_voiding_is_voided_like_any_other_record() -> None:
    """K8: what an older build has voided although this one reads it; a store made before that is made again."""
    leader, records = Leader.start()
    records += leader.set(proposed("A"))
    kept = Reader(log_of(records)).run()
    records += voided(leader, 2, leader.chain)
    records += voided(leader, 3, chain_at(records, 3)) + leader.set(proposed("B", sequence=2))
    reader = Reader(log_of(records)).run()
    assert [row.name for _, row in reader.fold.state.rows(md.TypeRow)] == ["A", "B"]
    assert [(key, row.voided_at) for key, row in reader.fold.state.rows(VoidedRow)] == [(voided_key(3), 4)]
    with pytest.raises(DamagedStore):
        Reader(log_of(records), kept).run()


def test_looking_ahead_keeps_the_records_of_other_topics() -> None:
    """Whoever reads requests or dead letters beside the log loses none of them while it looks ahead."""
    log = voided_log()
    for value in (b"a", b"b", b"c"):
        log.put(Topic.REQUESTS, "n1", value)
    inner = log.reader()
    inner.batch_max = 2
    ahead, fold = LookAhead(inner), Fold()
    ahead.assign({(Topic.DECISIONS, 0): Offset(0), (Topic.REQUESTS, 0): None})
    heard: list[bytes] = []
    while not (ahead.at_end(Topic.DECISIONS) and ahead.at_end(Topic.REQUESTS)):
        entries = ahead.poll(0)
        heard += [entry.value for entry in entries if entry.topic is Topic.REQUESTS]
        for entry in (each for each in entries if each.topic is Topic.DECISIONS):
            try:
                fold.read(entry.stamp, entry.value)
            except Poisoned as poisoned:
                ahead.look_ahead(fold, poisoned, entry.offset)
                break
    assert heard == [b"a", b"b", b"c"]
    assert fold.header.position == 7


@given(data=st.data())
def test_every_reader_folds_the_same_wherever_it_starts_and_stops(data: st.DataObject) -> None:
    """K8, K10: from the beginning or from what another has kept, in batches of any size, killed anywhere."""
    leader, records = Leader.start()
    poisoned: list[int] = []
    position, sequence = 1, 0
    for poison_in_set in data.draw(st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=1, max_size=8)):
        values = []
        for is_poison in poison_in_set:
            position, sequence = position + 1, sequence + 1
            values.append(POISON if is_poison else CODEC.encode(proposed(f"T{sequence}", sequence=sequence)))
            poisoned += [position] if is_poison else []
        records += leader.raw_set(*values)
    for each in poisoned:
        leader, opening = leader.succeed(leader.term + 1)
        chain = chain_of(records, each)
        records += opening + voided(leader, each, chain)
    log = log_of(records)
    expected = Reader(log).run().sees()
    assert expected[0].position == position + 2 * len(poisoned)
    reader = Reader(log, batch_max=data.draw(st.integers(1, 5), label="first batch"))
    for _ in range(data.draw(st.integers(0, 10), label="steps before it is killed")):
        reader.step()
    kept = None if reader.fold.judge().standing[1] else reader  # rows are kept between sets only
    again = Reader(log, kept, batch_max=data.draw(st.integers(1, 5), label="second batch")).run()
    assert again.sees() == expected


def chain_of(records: Iterable[Record], position: int) -> bytes:
    """The chain hash after the record at a position of a log without gaps."""
    fold = Fold()
    found: list[bytes] = []
    judge = fold.judge()
    for stamp, value in records:
        accepted = judge.judge(stamp, value)
        assert not isinstance(accepted, Ignored)
        found += [each.place.chain for each in accepted]
    return found[position]


def test_a_fold_does_not_run_without_assertions() -> None:
    """K8: under `python -O` a reader would fold on where every other one stops."""
    code = "from topolog.events.fold import Fold; Fold()"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONOPTIMIZE"}
    plain, optimized = (
        subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, env=clean, check=False)
        for flags in ([], ["-O"])
    )
    assert plain.returncode == 0, plain.stderr
    assert optimized.returncode == 1
    assert "does not run under `python -O`" in optimized.stderr
