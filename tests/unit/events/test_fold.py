"""The one fold, rule by rule (K1-K9): which records of `decisions` count, and when a reader must stop."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.events.examples import JOINER, LOG_ID, REF, STARTED, Leader, proposed

from topolog.events import forgotten, terms
from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events.asked import RequestId, RequestRef
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.errors import BadInput, LogDiverged, Poisoned
from topolog.events.evidence import Evidence
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.forgotten import ForgottenRow
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Offset, Position, Slot, TopologyVersion, Version
from topolog.events.leases import LeaseRow, LeaveReason
from topolog.events.stamp import InputOffset, decode_stamp, encode_stamp
from topolog.events.state import State

Record = tuple[bytes, bytes]
READ_TO_17 = (InputOffset(1, 0, Offset(17)),)
NO_RECORD = b"not a record of ours"


def read_all(records: Iterable[Record], fold: Fold | None = None) -> Fold:
    """A fold that has read these records, whatever became of each."""
    fold = fold or Fold()
    for record in records:
        fold.read(*record)
    return fold


def kept(fold: Fold, records: Iterable[Record]) -> list[int]:
    """Which of the records complete a set that counts."""
    return [index for index, record in enumerate(records) if isinstance(fold.read(*record), list)]


def types_of(fold: Fold) -> list[str]:
    return [row.name for _, row in fold.state.rows(md.TypeRow)]


def begun() -> tuple[Fold, Leader]:
    """A reader of a new log and the leader of its first term."""
    leader, records = Leader.start()
    return read_all(records), leader


def test_k1_a_log_opens_with_its_name() -> None:
    """K1: record 0 is LogStarted; before it nothing has a position."""
    fold = Fold()
    assert fold.header.position == NOWHERE
    (folded,) = folded_by(fold, Leader().set(STARTED))
    assert (folded.place.position, folded.event) == (0, STARTED)
    assert terms.cluster(fold.state).log_id == LOG_ID.hex()


def folded_by(fold: Fold, records: Iterable[Record]) -> Iterator[Folded]:
    for record in records:
        found = fold.read(*record)
        assert not isinstance(found, Ignored), found
        yield from found


def test_k1_a_second_logstarted_changes_nothing() -> None:
    """K1: of two founders the first wins; the other's log id is foreign, and so is a repeat of the first."""
    fold, _ = begun()
    assert fold.read(*Leader(bytes(16)).set(STARTED)[0]) is Ignored.FOREIGN_LOG
    assert fold.read(*Leader().set(STARTED)[0]) is Ignored.OLD_TERM
    just_founded = read_all(Leader().set(STARTED))
    assert just_founded.read(*Leader().set(STARTED)[0]) is Ignored.CLOSED_TERM


def test_k1_what_stands_before_logstarted_is_foreign() -> None:
    """K1: a log without its opening has no identity that a stamp could match."""
    _, records = Leader.start()
    assert Fold().read(*records[1]) is Ignored.FOREIGN_LOG


@pytest.mark.parametrize("stamp", [None, b"", b"\x01garbage"])
def test_k2_a_record_without_a_stamp_is_never_decoded(stamp: bytes | None) -> None:
    """K2: a foreign program's records are passed over, whatever they hold."""
    fold, _ = begun()
    assert fold.read(stamp, NO_RECORD) is Ignored.NO_STAMP


def test_k2_a_foreign_stamp_is_ignored_and_never_decoded() -> None:
    """K2: the stamp is judged before the value, so a copy of another log cannot poison this one."""
    fold, leader = begun()
    stranger = Leader(b"another log is 1", 1, sequence=leader.sequence)
    assert fold.read(*stranger.raw_set(NO_RECORD)[0]) is Ignored.FOREIGN_LOG


def test_k2_a_position_counts_the_records_of_whole_accepted_sets() -> None:
    """K2: neither ignored records nor offsets count, so a leader knows positions in advance."""
    fold, leader = begun()
    fold.read(None, b"noise")
    places = [each.place.position for each in folded_by(fold, leader.set(proposed("A"), proposed("B", sequence=2)))]
    assert places == [2, 3]
    assert fold.header.position == 3


def test_k3_a_repeat_is_ignored() -> None:
    """K3: a producer that sends twice decides once."""
    fold, leader = begun()
    record = leader.set(proposed("A"))[0]
    assert len(kept(fold, [record])) == 1
    assert fold.read(*record) is Ignored.REPEAT
    assert fold.header.position == 2


def test_k3_the_first_gap_closes_the_term() -> None:
    """K3: everything later in the term is refused, the lost record too if it comes after all; the next term counts."""
    fold, leader = begun()
    lost, behind, later = (leader.set(proposed(name, sequence=at))[0] for at, name in enumerate("ABC", 1))
    assert fold.read(*behind) is Ignored.GAP
    assert fold.read(*lost) is Ignored.CLOSED_TERM
    assert fold.read(*behind) is Ignored.CLOSED_TERM
    assert fold.read(*later) is Ignored.CLOSED_TERM
    successor = Leader(term=2, chain=fold.header.chain)
    assert kept(fold, successor.set(terms.TermStarted(2, "c2", life=7)) + successor.set(proposed("D"))) == [0, 1]
    assert types_of(fold) == ["D"]


def test_k3_a_gap_in_a_set_leaves_nothing_of_it() -> None:
    """K3: a judge that stands here afterwards has no half of a set, whoever hands it on."""
    fold, leader = begun()
    first, _, third = leader.set(*(proposed(name, sequence=at) for at, name in enumerate("ABC", 1)))
    assert fold.read(*first) == []
    assert fold.read(*third) is Ignored.GAP
    assert fold.judge().standing == (fold.header, ())


def test_k3_half_a_set_changes_nothing_until_it_is_whole() -> None:
    """K3: a set is one step for every reader."""
    fold, leader = begun()
    first, second = leader.set(proposed("A"), proposed("B", sequence=2))
    assert fold.read(*first) == []
    assert (types_of(fold), fold.header.position) == ([], 1)
    found = fold.read(*second)
    assert isinstance(found, list)
    assert [each.place.position for each in found] == [2, 3]
    assert types_of(fold) == ["A", "B"]


def test_k3_a_set_cut_by_the_end_of_its_term_never_happened() -> None:
    """K3, K4: neither its events nor the inputs it had read count; positions go on without it."""
    fold, leader = begun()
    read_all(leader.set(proposed("A"), inputs=READ_TO_17), fold)
    chain = fold.header.chain
    read_all(leader.set(proposed("B", sequence=2), proposed("C", sequence=3), inputs=())[:1], fold)
    successor = Leader(term=2, chain=chain)
    read_all(successor.set(terms.TermStarted(2, "c2", life=7)) + successor.set(proposed("D", sequence=4)), fold)
    assert types_of(fold) == ["A", "D"]
    assert fold.header.position == 4
    assert fold.header.inputs == READ_TO_17


def test_k3_a_set_cut_by_a_gap_never_happened() -> None:
    """K3: a lost record in the middle of a set takes the whole set with it."""
    fold, leader = begun()
    first, _, third = leader.set(proposed("A"), proposed("B", sequence=2), proposed("C", sequence=3))
    assert fold.read(*first) == []
    assert fold.read(*third) is Ignored.GAP
    assert (types_of(fold), fold.header.position) == ([], 1)


def test_k3_an_old_term_is_over() -> None:
    """K3: late writes of a deposed leader are refused, though they are next in its own order."""
    fold, leader = begun()
    _, opening = leader.succeed(2)
    read_all(opening, fold)
    assert fold.read(*leader.raw_set(NO_RECORD)[0]) is Ignored.OLD_TERM
    assert fold.read(*leader.succeed(1, "late")[1][0]) is Ignored.OLD_TERM


def test_k3_a_term_counts_only_from_its_start() -> None:
    """K3, K9: a term higher than the present one opens with its TermStarted; one that lacks it has lost records."""
    fold, leader = begun()
    ahead = Leader(term=5, chain=leader.chain, sequence=1)
    with pytest.raises(LogDiverged, match="not the start of that term"):
        fold.read(*ahead.raw_set(NO_RECORD)[0])


def test_k3_terms_may_be_left_out() -> None:
    """K3: any higher term deposes; a claim that was lost leaves a gap in the numbers only."""
    fold, leader = begun()
    assert kept(fold, leader.succeed(9)[1]) == [0]
    assert fold.header.term == 9


def test_k3_a_second_termstarted_of_a_term_does_not_count() -> None:
    """K3: of two claims of one term the first in the log wins, and only its writer's records follow."""
    fold, leader = begun()
    winner, first = leader.succeed(2, "c2")
    loser, second = leader.succeed(2, "c3")
    assert kept(fold, first) == [0]
    assert fold.read(*second[0]) is Ignored.REPEAT
    assert terms.cluster(fold.state).coordinator == "c2"
    assert kept(fold, winner.set(proposed("A"))) == [0]
    assert fold.read(*loser.set(proposed("B"))[0]) is Ignored.REPEAT


def test_k3_a_loser_of_a_term_that_decides_all_the_same_diverges() -> None:
    """K3: its next record follows a chain that is nobody's."""
    fold, leader = begun()
    _, first = leader.succeed(2, "c2")
    loser, _ = leader.succeed(2, "c3")
    read_all(first, fold)
    with pytest.raises(LogDiverged, match="continues another history"):
        fold.read(*loser.set(proposed("B"))[0])


def test_k3_a_term_that_has_ended_is_closed() -> None:
    """K3: after its own TermEnded nothing of a term counts; a stand-by may lead at once."""
    fold, leader = begun()
    read_all(leader.set(terms.TermEnded(1)), fold)
    assert fold.header.closed
    assert fold.read(*leader.set(proposed("A"))[0]) is Ignored.CLOSED_TERM
    assert terms.cluster(fold.state).coordinator == ""
    assert kept(fold, leader.succeed(2)[1]) == [0]


def test_k3_the_chain_proves_that_a_reader_has_folded_this_log() -> None:
    """K3: a reader that resumes on another history stops at the first record, and says where."""
    leader, records = Leader.start()
    ours, theirs = Leader(term=1, chain=leader.chain, sequence=1), Leader(term=1, chain=leader.chain, sequence=1)
    fold = read_all(records + ours.set(proposed("A")))
    theirs.set(proposed("B"))
    with pytest.raises(LogDiverged, match="After position 2 the log continues another history"):
        fold.read(*theirs.set(proposed("C", sequence=2))[0])


def test_k3_the_chain_is_compared_inside_a_set_too() -> None:
    """K3: a set whose second record comes from another history is none of this log."""
    leader, records = Leader.start()
    ours, theirs = Leader(term=1, chain=leader.chain, sequence=1), Leader(term=1, chain=leader.chain, sequence=1)
    first, _ = ours.set(proposed("A"), proposed("B", sequence=2))
    _, second = theirs.set(proposed("C"), proposed("B", sequence=2))
    fold = read_all(records)
    fold.read(*first)
    with pytest.raises(LogDiverged, match="continues another history"):
        fold.read(*second)


@pytest.mark.parametrize("change", [{"index": 1}, {"size": 3}])
def test_k3_a_record_that_does_not_continue_its_set_diverges(change: dict[str, int]) -> None:
    """K3: index and size are those of the set that is open, or the writer is none of ours."""
    fold, leader = begun()
    first, second = leader.set(proposed("A"), proposed("B", sequence=2))
    wrong = first if "index" in change else second
    if wrong is second:
        fold.read(*first)
    stamp = msgspec.structs.replace(decode_stamp(wrong[0]), **change)
    with pytest.raises(LogDiverged, match="does not continue the set"):
        fold.read(encode_stamp(stamp), wrong[1])


def test_k4_inputs_are_those_of_the_last_whole_set() -> None:
    """K4: what a set has read through counts when the set does; a set that read nothing leaves them."""
    fold, leader = begun()
    first, second = leader.set(proposed("A"), proposed("B", sequence=2), inputs=READ_TO_17)
    fold.read(*first)
    assert not fold.header.inputs
    fold.read(*second)
    read_all(leader.set(m.LeasesRenewed(b"")), fold)
    assert fold.header.inputs == READ_TO_17


POISON: dict[str, bytes] = {
    "no record": NO_RECORD,
    "cut short": CODEC.encode(proposed("A"))[:-1],
    "a request": CODEC.encode(md.TypeRemovalRequested(RequestId("t", 1), LOG_ID, "", "", "A")),
    "an impossible acceptance": CODEC.encode(md.MetadataUpdateAccepted("A", Version(1), Evidence())),
    "a renewal of a slot that nobody holds": CODEC.encode(m.LeasesRenewed(m.pack_renewals([(Slot(3), 1)]))),
    "a renewal that is cut in the middle of a pair": CODEC.encode(m.LeasesRenewed(b"\x01")),
    "a term in the middle of a term": CODEC.encode(terms.TermStarted(1, "c1", life=7)),
    "a log in the middle of a log": CODEC.encode(STARTED),
}


@pytest.mark.parametrize("value", POISON.values(), ids=POISON)
def test_k8_an_accepted_record_that_cannot_be_folded_stops_the_reader(value: bytes) -> None:
    """K8: with its position, fingerprint and reason; it is never skipped."""
    fold, leader = begun()
    with pytest.raises(Poisoned) as raised:
        fold.read(*leader.raw_set(value)[0])
    assert "position 2" in raised.value.message
    assert ("fingerprint" in raised.value.message) or value == NO_RECORD
    assert raised.value.__cause__ is not None
    assert raised.value.hint


@pytest.mark.parametrize(
    ("leader", "event"),
    [
        (Leader(term=2), proposed("A")),
        (Leader(term=2), terms.TermStarted(3, "c1", life=7)),
        (Leader(term=2), STARTED),
    ],
)
def test_k8_a_term_that_opens_with_anything_else_stops_the_reader(leader: Leader, event: Decision) -> None:
    """K1, K8: the first record of a term is its own TermStarted, of a log its own LogStarted."""
    fold, _ = begun()
    with pytest.raises(Poisoned):
        fold.read(*leader.set(event)[0])


def test_k8_a_log_that_opens_with_another_ones_name_stops_the_reader() -> None:
    """K1, K8: stamp and LogStarted must agree."""
    with pytest.raises(Poisoned):
        Fold().read(*Leader(bytes(16)).set(STARTED)[0])


def test_k9_the_header_proves_where_a_reader_stands() -> None:
    """K9: position and chain hash are those of the last whole set, whatever has been ignored since."""
    fold, leader = begun()
    found = list(folded_by(fold, leader.set(proposed("A"))))
    fold.read(None, b"noise")
    fold.read(*leader.set(proposed("B", sequence=2), proposed("C", sequence=3))[0])
    assert (fold.header.position, fold.header.chain) == (found[-1].place.position, found[-1].place.chain)


def test_a_reader_that_resumes_from_a_header_goes_on_as_if_it_had_read_all() -> None:
    """K3, K10: state and header are all there is; the fold has no other memory between sets."""
    leader, records = Leader.start()
    later = leader.set(proposed("A")) + leader.set(proposed("B", sequence=2)) + leader.set(terms.TermEnded(1))
    whole = read_all(records + later)
    resumed = read_all(records + later[:1])
    resumed = read_all(later[1:], Fold(resumed.state, resumed.header))
    assert resumed.header == whole.header
    assert resumed.state.hash() == whole.state.hash()


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """What may come to stand in `decisions`: several leaders whose sends are late, repeated, lost and mixed."""
    leader, log = Leader.start()
    sequence = 0
    for term in range(2, 5):
        sent: list[Record] = []
        for size in draw(st.lists(st.integers(1, 3), max_size=4)):
            names = [f"T{sequence + each}" for each in range(size)]
            sent += leader.set(*(proposed(name, sequence=sequence + at) for at, name in enumerate(names, 1)))
            sequence += size
        landed = sent[: draw(st.integers(0, len(sent)))]
        late = sent[len(landed) :]
        log += landed
        fold = read_all(log)
        leader = Leader(term=term, chain=fold.header.chain)
        log += leader.set(terms.TermStarted(term, f"c{term}", life=7))
        log += late[draw(st.integers(0, 1)) :]
        log += draw(st.lists(st.sampled_from(log), max_size=2))
    return log


@given(logs(), st.data())
def test_all_readers_accept_the_same_wherever_they_stop_and_start(log: list[Record], data: st.DataObject) -> None:
    """K3, the invariant: a reader that starts again from its header reaches what one reader in one go reaches."""
    whole = read_all(log)
    fold = Fold()
    for record in log:
        ends_a_set = bool(isinstance(found := fold.read(*record), list) and found)
        if ends_a_set and data.draw(st.booleans()):
            fold = Fold(fold.state, fold.header)
    assert fold.header == whole.header
    assert fold.state.hash() == whole.state.hash()


@given(logs())
def test_what_is_accepted_of_a_term_is_a_prefix_of_its_sets(log: list[Record]) -> None:
    """K3, the invariant: no set without all before it in its term, and none in part."""
    fold, accepted = Fold(), dict[int, list[tuple[int, int, int]]]()
    for record in log:
        found = fold.read(*record)
        for each in [] if isinstance(found, Ignored) else found:
            stamp = each.stamp
            accepted.setdefault(stamp.term, []).append((stamp.sequence, stamp.index, stamp.size))
    for stamps in accepted.values():
        assert [sequence for sequence, _, _ in stamps] == list(range(len(stamps)))
        assert stamps[-1][1] + 1 == stamps[-1][2]


def refused(requester: str, sequence: int) -> q.RequestRefused:
    return q.RequestRefused(RequestRef(requester, sequence, bytes(8)), "node n", "C", "R", "m", {})


def outcomes_of(fold: Fold, requester: str) -> list[int]:
    return sorted(row.sequence for _, row in fold.state.rows(q.OutcomeRow) if row.requester == requester)


def test_k7_every_kind_of_answer_is_kept_as_the_outcome() -> None:
    """K7: granted, refused with code, rule and evidence, or unchanged."""
    fold, leader = begun()
    unchanged = q.RequestUnchanged(RequestRef("t", 3, bytes(8)), "type A", 1)
    read_all(leader.set(proposed("A")) + leader.set(refused("t", 2)) + leader.set(unchanged), fold)
    rows = [q.outcome_of(fold.state, RequestId("t", each)) for each in (1, 2, 3)]
    assert [row and (row.status, row.subject, row.position) for row in rows] == [
        (q.Status.GRANTED, "type A", 2),
        (q.Status.REFUSED, "node n", 3),
        (q.Status.UNCHANGED, "type A", 4),
    ]


def test_k7_a_second_outcome_of_one_request_poisons_the_log() -> None:
    """K7: the first is the outcome for ever; a writer that decides twice is broken."""
    fold, leader = begun()
    read_all(leader.set(refused("t", 1)), fold)
    with pytest.raises(Poisoned, match="a second outcome for request t/1"):
        read_all(leader.set(refused("t", 1)), fold)


def test_k7_the_last_64_outcomes_of_a_requester_are_kept() -> None:
    """K19: per requester the highest sequence and its last 64 outcomes; others' are not touched."""
    fold, leader = begun()
    read_all(leader.set(refused("other", 1)), fold)
    for sequence in range(1, 71):
        read_all(leader.set(refused("t", sequence)), fold)
    assert outcomes_of(fold, "t") == list(range(7, 71))
    assert outcomes_of(fold, "other") == [1]
    assert q.is_forgotten(fold.state, RequestId("t", 6))
    assert not q.is_forgotten(fold.state, RequestId("t", 7))


@given(st.lists(st.integers(1, 300), unique=True, max_size=40))
def test_k7_the_window_holds_whatever_sequences_come(sequences: list[int]) -> None:
    """K19: with gaps and out of order, exactly the outcomes of the last 64 sequences are kept."""
    fold, leader = begun()
    seen: set[int] = set()
    for sequence in sequences:
        if not q.is_forgotten(fold.state, RequestId("t", sequence)):
            seen.add(sequence)
            read_all(leader.set(refused("t", sequence)), fold)
    assert outcomes_of(fold, "t") == sorted(each for each in seen if each > max(seen) - q.OUTCOMES_KEPT)


def test_k7_a_forgotten_requester_leaves_its_highest_number() -> None:
    """K19: idle requesters go by a decision, with all their outcomes, and nothing up to their highest number is
    new after that; one that is unknown is no error, and leaves nothing."""
    fold, leader = begun()
    for sequence in range(1, 71):
        read_all(leader.set(refused("t", sequence)), fold)
    read_all(leader.set(q.RequestersForgotten(("t", "nobody"))), fold)
    assert outcomes_of(fold, "t") == []
    assert fold.state.count(q.RequesterRow) == 0
    at = fold.header.position
    assert list(fold.state.rows(ForgottenRow)) == [("t", ForgottenRow(70, at))]
    assert [q.is_forgotten(fold.state, RequestId("t", sequence)) for sequence in (70, 71)] == [True, False]


@given(st.lists(st.one_of(st.none(), st.integers(1, 4), st.integers(1, 100)), max_size=60))
def test_k7_no_request_is_ever_new_twice(story: Sequence[int | None]) -> None:
    """K19: whatever numbers come, and however often a requester is forgotten in between (None): what has had an outcome
    has it or is forgotten, and never more is kept than one window."""
    fold, leader = begun()
    seen: set[int] = set()
    for number in story:
        if number is None:
            read_all(leader.set(q.RequestersForgotten(("t",))), fold)
        elif q.outcome_of(fold.state, RequestId("t", number)) is None and not q.is_forgotten(
            fold.state, RequestId("t", number)
        ):
            assert number not in seen
            seen.add(number)
            read_all(leader.set(refused("t", number)), fold)
        kept = outcomes_of(fold, "t")
        assert seen.issuperset(kept)
        assert not kept or max(seen) - min(kept) < q.OUTCOMES_KEPT
        assert fold.state.count(ForgottenRow) + fold.state.count(q.RequesterRow) <= 1


def test_k7_an_outcome_that_comes_late_is_kept_no_longer_than_others() -> None:
    """K19: it stands below the window already, from which nothing would ever drop it."""
    fold, leader = begun()
    for event in (refused("t", 100), refused("t", 1)):
        read_all(leader.set(event), fold)
    assert outcomes_of(fold, "t") == [100]


def test_k7_an_outcome_that_comes_late_lowers_nothing() -> None:
    """K19: a joining that waited for a lease is decided when its requester has been forgotten, with higher numbers."""
    fold, leader = begun()
    for event in (refused("t", 70), q.RequestersForgotten(("t",)), refused("t", 69), q.RequestersForgotten(("t",))):
        read_all(leader.set(event), fold)
    assert outcomes_of(fold, "t") == []
    assert q.is_forgotten(fold.state, RequestId("t", 70))


def test_k7_so_many_forgotten_requesters_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of docs/api.md: those that were forgotten first go, some at once; of one decision by name. Who is
    forgotten again is remembered once, as of then."""
    monkeypatch.setattr(forgotten, "REMEMBERED_MAX", 4)
    monkeypatch.setattr(forgotten, "REMEMBERED_LEAST", 3)
    fold, leader = begun()
    remembered = []
    for names in ("c", "b", "a", "c", "ed", "gf"):
        for name in names:
            read_all(leader.set(refused(name, q.is_forgotten(fold.state, RequestId(name, 1)) + 1)), fold)
        read_all(leader.set(q.RequestersForgotten(tuple(names))), fold)
        remembered.append(forgotten.oldest(fold.state))
    assert remembered == [["c"], ["c", "b"], ["c", "b", "a"], ["b", "a", "c"], ["c", "d", "e"], ["e", "f", "g"]]


def test_k7_what_is_remembered_first_goes_first_whatever_order_the_rows_have() -> None:
    """K10: a reader that began with a snapshot has the rows in an order of its own, and drops the same ones."""
    states = State(), State()
    rows = [(f"{number}", ForgottenRow(1, Position(100 - number // 3))) for number in range(9)]
    for state, each in zip(states, (rows, rows[::-1]), strict=True):
        for name, row in each:
            state.put(name, row)
    assert forgotten.oldest(states[0]) == forgotten.oldest(states[1]) == list("678345012")


@pytest.mark.parametrize("text", ["", "cli", "/3", "cli/", "cli/x", "cli/-3"])
def test_what_is_no_request_id_is_told(text: str) -> None:
    """A request id is written `requester/sequence`."""
    with pytest.raises(BadInput, match="is no request id"):
        RequestId.parse(text)


def test_a_request_id_survives_its_written_form() -> None:
    """A requester may itself contain a slash."""
    request = RequestId("ops/cli-4f2a", 3)
    assert RequestId.parse(str(request)) == request


slots = st.dictionaries(st.integers(0, 1 << 40), st.integers(1, 1 << 40), max_size=50)


@given(slots)
def test_renewals_are_unpacked_as_they_were_packed(growths: dict[int, int]) -> None:
    """Varint deltas by ascending slot."""
    pairs = sorted((Slot(slot), growth) for slot, growth in growths.items())
    assert m.unpack_renewals(m.pack_renewals(pairs)) == pairs


def test_a_renewal_costs_two_bytes_a_member() -> None:
    """A thousand members on one beat are a record of two kilobytes."""
    assert len(m.pack_renewals([(Slot(slot), 5) for slot in range(1000)])) == 2000


def test_a_join_raises_the_view_and_takes_a_slot_that_is_never_reused() -> None:
    """A lease slot names one incarnation for ever."""
    fold, leader = begun()
    view = TopologyVersion(1, 0)
    read_all(leader.set(m.NodeJoined(REF, msgspec.structs.replace(JOINER, types=()), Slot(0), view)), fold)
    row = terms.cluster(fold.state)
    assert (row.next_slot, row.topology_version) == (1, view)
    left = m.NodeLeft(NodeId("n1"), Incarnation(-42), LeaveReason.LEFT, 0, Position(2), TopologyVersion(2, 0))
    read_all(leader.set(left), fold)
    assert terms.cluster(fold.state).next_slot == 1
    assert fold.state.count(LeaseRow) == 0
    assert str(terms.cluster(fold.state).topology_version) == "2.0"
