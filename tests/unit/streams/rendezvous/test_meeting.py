"""Which trees meet, whatever order they come in, and what is put aside (RE22, RE6)."""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.streams.rendezvous.site import (
    LIFE,
    Rows,
    Site,
    findings,
    findings_pages,
    leaves,
    pages,
    pair,
    turn,
)
from tests.unit.streams.rules.cluster import LOG_ID, new_id

from topolog.events import merkle
from topolog.events.ids import Position
from topolog.events.repair_definition import Policy, Rendezvous, SessionDefinition, SessionKind
from topolog.events.repair_requests import SessionAbortRequested
from topolog.events.repair_tasks import Purpose, Result, TaskId, TaskKind
from topolog.events.sessions import SessionStatus
from topolog.events.token_range import FULL
from topolog.events.tree_answers import PAGE_COST, PAGES_MAX, SENDERS_MAX, Aside
from topolog.events.tree_pages import PAGE_BYTES_MAX, PageKind, TreePage, digest_of
from topolog.streams.rendezvous.comparing import Found
from topolog.streams.rendezvous.meeting import Compared, Meeting, TreesDue

NAMES = ("R1", "R2", "R3", "R4")
SAME: Rows = dict.fromkeys(range(1, 30), 1)
OTHER: Rows = {**SAME, 7: 2}
LESS: Rows = {key: content for key, content in SAME.items() if key != 9}
FOUR: Mapping[str, Rows] = {"R1": SAME, "R2": OTHER, "R3": LESS, "R4": SAME}


def preview(rendezvous: Rendezvous = Rendezvous.ALL, **more: object) -> SessionDefinition:
    return msgspec.structs.replace(SessionDefinition("t", SessionKind.PREVIEW, bits=8, rendezvous=rendezvous), **more)


def at_leaves(rows: Mapping[str, Rows], rendezvous: Rendezvous = Rendezvous.ALL) -> tuple[Site, Position]:
    """A session that asks for trees."""
    site = Site(rows)
    number = site.open(preview(rendezvous))
    site.prepared(number)
    assert site.step(number).kind is TaskKind.LEAVES
    return site, number


def put(site: Site, meeting: Meeting, given_pages: Sequence[TreePage]) -> list[str]:
    found = (meeting.add(page, site.state, site.position) for page in given_pages)
    return [aside.name for aside in found if aside]


def answered(site: Site, meeting: Meeting, task: TaskId) -> list[Compared]:
    """A tree comes in, with its answer in the log."""
    sent, result = site.answer(task)
    assert put(site, meeting, sent) == []
    site.report(task, result)
    return list(turn(site, meeting))


Said = tuple[int, tuple[TaskId, ...], str]
"""A report: its step, the attempts that were compared, what came of it."""


class Life:
    """A rendezvous that dies now and then, and reads all pages again; and whatever `order` mixes."""

    def __init__(self, site: Site, order: random.Random, dies: float) -> None:
        self.told: list[Said] = []
        self._site = site
        self._order = order
        self._dies = dies
        self._sent: list[TreePage] = []
        self._meeting = Meeting()

    def read(self, page: TreePage) -> None:
        self._sent.append(page)
        self._meeting.add(page, self._site.state, self._site.position)

    def look(self) -> None:
        if self._is_dead():
            self._meeting = Meeting()
            put(self._site, self._meeting, self._sent)
        for one in turn(self._site, self._meeting):
            if self._is_dead():
                return  # before it has reported
            if isinstance(one.result, Found):
                for page in findings_pages(one, life=self._order.getrandbits(32)):
                    self.read(page)
            self._site.take(one)
            self.told.append((one.step.number, one.attempts, repr(one.result)))

    def _is_dead(self) -> bool:
        return self._order.random() < self._dies


def run(site: Site, number: Position, order: random.Random, dies: float = 0.0) -> list[Said]:
    """A whole session, with pages, some of them twice, and answers in any order; what the rendezvous has told."""
    life = Life(site, order, dies)
    while not site.session(number).status.is_end:
        if site.step(number).kind is TaskKind.PREPARE:
            site.prepared(number)
            continue
        todo: list[TreePage | tuple[TaskId, Result]] = []
        for task in site.tasks(number):
            sent, result = site.answer(task)
            todo += [*sent, *order.sample(sent, len(sent) // 2), (task, result)]
        order.shuffle(todo)
        for each in todo:
            if isinstance(each, TreePage):
                life.read(each)
            else:
                site.report(*each)
            life.look()
        position = None
        while position != site.position:
            position = site.position
            life.look()
        site.settle()
    return life.told


# Rendezvous of trees.


def test_all_trees_are_there_before_any_two_are_compared() -> None:
    """RE22: then each two, once."""
    site, number = at_leaves(FOUR)
    meeting = Meeting()
    *first, last = site.tasks(number)
    for task in first:
        assert answered(site, meeting, task) == []
    told = answered(site, meeting, last)
    assert [(pair(each).left, pair(each).right) for each in told] == list(combinations(NAMES, 2))
    assert list(turn(site, meeting)) == []


@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_n_trees_make_n_times_n_minus_1_by_2_pairs(replicas: int) -> None:
    """RE22: 2 -> 1."""
    site, number = at_leaves(dict(list(FOUR.items())[:replicas]))
    meeting = Meeting()
    told = [one for task in site.tasks(number) for one in answered(site, meeting, task)]
    assert len(told) == replicas * (replicas - 1) // 2
    assert [site.take(one) for one in told] == [""] * len(told)
    site.settle()
    assert site.step(number).number > told[0].step.number


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1], ("R2", "R1", "R4", "R3")])
def test_each_tree_meets_the_initiators_as_soon_as_both_are_there(order: Sequence[str]) -> None:
    """RE22: whichever of the two comes first."""
    site, number = at_leaves(FOUR, Rendezvous.EARLY)
    meeting, here, met = Meeting(), set[str](), set[tuple[str, str]]()
    tasks = {task.replica: task for task in site.tasks(number)}
    for name in order:
        here.add(name)
        met |= {(pair(one).left, pair(one).right) for one in answered(site, meeting, tasks[name])}
        assert met == ({("R1", other) for other in here - {"R1"}} if "R1" in here else set())


def test_a_difference_is_found_in_just_its_leaf() -> None:
    """RE17."""
    site, number = at_leaves(FOUR)
    meeting = Meeting()
    told = [pair(one) for task in site.tasks(number) for one in answered(site, meeting, task)]
    by_names = {(each.left, each.right): each for each in told}
    changed, equal = by_names["R1", "R2"], by_names["R1", "R4"]
    bad = next(leaf for leaf in leaves({7: 1}, (FULL,), 8))
    assert [(each.start >> 24, each.end >> 24) for each in changed.ranges] == [(bad.bucket, bad.bucket + 1)]
    assert (changed.leaves, changed.rows, changed.leaf_rows_max) == (1, 1, 1)
    assert (equal.ranges, equal.leaves, equal.rows, equal.leaf_rows_max) == ((), 0, 0, 0)
    assert changed.leaves_compared == equal.leaves_compared == len(leaves(SAME, (FULL,), 8))


contents = st.dictionaries(st.integers(1, 12), st.integers(1, 3), max_size=12)
tables = st.lists(contents, min_size=2, max_size=4).map(lambda held: dict(zip(NAMES, held, strict=False)))
definitions = st.builds(
    lambda early, recheck, repairs: SessionDefinition(
        "t",
        SessionKind.REPAIR if repairs else SessionKind.PREVIEW,
        Policy.UNION if repairs else Policy.REPORT,
        version_column="v" if repairs else "",
        bits=8,
        rendezvous=Rendezvous.EARLY if early else Rendezvous.ALL,
        recheck=recheck,
    ),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@pytest.mark.parametrize("dies", [0.0, 0.1, 0.2, 0.3])
@settings(deadline=None, max_examples=30)
@given(tables, definitions, st.integers(0, 2**32 - 1))
def test_all_orders_of_arrival_give_equal_findings(
    dies: float, rows: dict[str, Rows], definition: SessionDefinition, seed: int
) -> None:
    """RE22, RE5: and a rendezvous that starts again at any point reports the same."""
    outcomes = []
    for chance, likely in ((random.Random(1), 0.0), (random.Random(seed), dies)):
        site = Site(rows)
        number = site.open(definition)
        told = run(site, number, chance, likely)
        outcomes.append((set(told), site.session(number).status, site.session(number).differing))
        assert likely or len(set(told)) == len(told)
        if definition.kind is SessionKind.REPAIR:
            assert site.session(number).status is SessionStatus.SUCCEEDED
            assert all(each == site.rows["R1"] for each in site.rows.values())
    assert outcomes[0] == outcomes[1]


# What comes too early, too late, or twice.


def test_pages_that_come_before_their_question_is_folded_are_kept() -> None:
    """RE5 (CASSANDRA-3400): before the session, the step, the attempt, the answer."""
    ahead, number = at_leaves(FOUR)
    sent = [ahead.answer(task) for task in ahead.tasks(number)]
    late = Site(FOUR)
    meeting = Meeting()
    for given_pages, _ in sent:
        assert put(late, meeting, given_pages) == []
    assert late.open(preview()) == number
    assert list(turn(late, meeting)) == []
    late.prepared(number)
    assert list(turn(late, meeting)) == []
    for task, (_, result) in zip(late.tasks(number), sent, strict=True):
        late.report(task, result)
    assert len(list(turn(late, meeting))) == 6


def test_repeats_change_nothing() -> None:
    """RE5: redelivered before and after the comparison."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    one, two = site.tasks(number)
    sent, _ = site.answer(one)
    put(site, meeting, sent)
    cost = meeting.cost
    assert put(site, meeting, sent) == []
    assert meeting.cost == cost
    assert answered(site, meeting, one) == []
    assert len(answered(site, meeting, two)) == 1
    assert put(site, meeting, sent) == []
    assert list(turn(site, meeting)) == []


def test_a_pair_that_the_log_has_is_not_compared_again() -> None:
    """RE5: by a rendezvous that starts anew; what it missed it does."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER, "R3": LESS})
    first, sent = Meeting(), []
    for task in site.tasks(number):
        given_pages, result = site.answer(task)
        sent += given_pages
        put(site, first, given_pages)
        site.report(task, result)
    told = list(turn(site, first))
    assert site.take(told[1]) == ""
    second = Meeting()
    put(site, second, sent)
    assert [one.result for one in turn(site, second)] == [told[0].result, told[2].result]


def test_a_late_page_is_put_aside_and_what_has_ended_is_released() -> None:
    """RE6: of a step that is over, then of a session that has ended."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    tasks = site.tasks(number)
    sent = [page for task in tasks for page in site.answer(task)[0]]
    for task in tasks:
        for one in answered(site, meeting, task):
            site.take(one)
    assert meeting.cost > 0
    site.settle()
    assert site.step(number).kind is TaskKind.DIGESTS
    meeting.sweep(site.state, site.position)
    assert (meeting.cost, meeting.held) == (0, frozenset())
    assert set(put(site, meeting, sent)) == {"LATE"}
    digests = site.answer(site.tasks(number)[0])[0]
    assert put(site, meeting, digests) == []
    site.ask(SessionAbortRequested(new_id(), LOG_ID, "t", "", number))
    meeting.sweep(site.state, site.position)
    assert meeting.cost == 0
    assert set(put(site, meeting, digests)) == {"LATE"}


def test_a_page_of_an_unknown_session_is_counted_and_harms_nobody() -> None:
    """RE6."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    one, two = site.tasks(number)
    assert answered(site, meeting, one) == []
    stranger = msgspec.structs.replace(two, session=Position(number - 1))
    assert put(site, meeting, pages(stranger, PageKind.LEAVES, [b""], site.spec(number).id)) == ["UNKNOWN_SESSION"]
    assert meeting.aside == {Aside.UNKNOWN_SESSION: 1}
    assert len(answered(site, meeting, two)) == 1


def test_a_session_that_never_comes_is_let_go() -> None:
    """RE6: its number is folded, and is something else."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    future = TaskId(Position(site.position + 1), 0, 1, "R1", 1)
    assert put(site, meeting, pages(future, PageKind.LEAVES, [b""], site.spec(number).id)) == []
    assert meeting.held == {future}
    site.report(site.tasks(number)[0], site.answer(site.tasks(number)[0])[1])
    meeting.sweep(site.state, site.position)
    assert (meeting.held, meeting.cost) == (frozenset(), 0)


def test_an_older_attempt_is_ignored_and_a_newer_one_is_waited_for() -> None:
    """RE6."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    one, two = site.tasks(number)
    old, _ = site.answer(one)
    again = msgspec.structs.replace(one, attempt=2)
    early = [msgspec.structs.replace(page, task=again) for page in old]
    assert put(site, meeting, [*old, *early]) == []
    site.fail(one)
    site.settle()
    meeting.sweep(site.state, site.position)
    assert meeting.held == {again}
    assert set(put(site, meeting, old)) == {"LATE"}
    answered(site, meeting, two)
    site.report(again, site.answer(again)[1])
    (told,) = turn(site, meeting)
    assert told.attempts == (again, two)
    assert site.take(told) == ""


# What is no answer.


def test_a_tree_of_another_spec_is_put_aside_and_nothing_is_called_different() -> None:
    """RE13: bits, columns, strength, whatever it is."""
    site, number = at_leaves({"R1": SAME, "R2": SAME})
    meeting = Meeting()
    one, two = site.tasks(number)
    answered(site, meeting, one)
    sent, result = site.answer(two)
    other = msgspec.structs.replace(site.spec(number), bits=9)
    others = [msgspec.structs.replace(page, spec_id=other.id) for page in sent]
    assert set(put(site, meeting, others)) == {"OTHER_SPEC"}
    site.report(two, result)
    assert list(turn(site, meeting)) == []
    assert put(site, meeting, sent) == []
    (told,) = turn(site, meeting)
    assert pair(told).ranges == ()


def test_another_spec_is_found_out_when_the_session_is_known() -> None:
    """RE5, RE13 together."""
    ahead, number = at_leaves({"R1": SAME, "R2": SAME})
    one, _ = ahead.tasks(number)
    foreign = pages(one, PageKind.LEAVES, [b""], bytes(16))
    late = Site({"R1": SAME, "R2": SAME})
    meeting = Meeting()
    assert put(late, meeting, foreign) == []
    late.open(preview())
    meeting.sweep(late.state, late.position)
    assert meeting.aside == {Aside.OTHER_SPEC: 1}
    assert meeting.said == [f"{one}: it is of another spec."]


@pytest.mark.parametrize("kind", [PageKind.DIGESTS, PageKind.FINDINGS, PageKind.UNKNOWN])
def test_the_answer_to_another_question_is_put_aside(kind: PageKind) -> None:
    """RE6: a tree is asked for."""
    site, number = at_leaves({"R1": SAME, "R2": SAME})
    one, _ = site.tasks(number)
    found = pages(one, kind, [b"\x90"], site.spec(number).id)
    assert put(site, Meeting(), found) == ["OTHER_KIND"]


def test_rows_on_their_way_are_none_of_its_business() -> None:
    """They go from validator to validator."""
    site, number = at_leaves({"R1": SAME, "R2": SAME})
    meeting = Meeting()
    assert put(site, meeting, pages(site.tasks(number)[0], PageKind.ROWS, [b"x"], site.spec(number).id)) == []
    assert (meeting.cost, sum(meeting.aside.values())) == (0, 0)


def hostile(page: TreePage) -> list[tuple[str, list[TreePage]]]:
    """One page of three that is not as it should be: what comes instead of the three."""
    replace = msgspec.structs.replace
    return [
        ("a hole", []),
        ("oversize", [replace(page, payload=bytes(PAGE_BYTES_MAX + 1))]),
        ("below zero", [replace(page, page=-1)]),
        ("beyond all", [replace(page, page=PAGES_MAX)]),
        ("undecodable", [replace(page, payload=b"\xff" * 30)]),
        ("cut off", [replace(page, payload=page.payload[:-1])]),
        ("another tree", [replace(page, payload=merkle.encode(leaves({7: 9}, (FULL,), 8)))]),
        ("an early end", [replace(page, is_last=True)]),
        ("both", [page, replace(page, payload=b"")]),
        ("both, the other way round", [replace(page, payload=b""), page]),
    ]


CASES = [
    name for name, _ in hostile(TreePage(TaskId(Position(1), 0, 1, "R1", 1), 1, b"", PageKind.LEAVES, 1, False, b"x"))
]


@pytest.mark.parametrize("case", CASES)
def test_hostile_pages_are_put_aside_and_an_honest_life_is_compared(case: str) -> None:
    """RE5, RE7: never an exception; another life's pages do not mix with these."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    one, two = site.tasks(number)
    answered(site, meeting, one)
    sent, result = site.answer(two)
    bad = dict(hostile(sent[1]))[case]
    put(site, meeting, [sent[0], *bad, *sent[2:]])
    site.report(two, result)
    assert list(turn(site, meeting)) == []
    assert case == "a hole" or meeting.aside
    honest, _ = site.answer(two, life=LIFE + 1)
    assert put(site, meeting, honest) == []
    (told,) = turn(site, meeting)
    assert pair(told).leaves == 1


def test_pages_of_two_lives_never_mix() -> None:
    """RE8: half of one and half of the other are nothing, though they are equal."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    one, two = site.tasks(number)
    answered(site, meeting, one)
    (mine, result), (others, _) = site.answer(two), site.answer(two, life=LIFE + 1)
    put(site, meeting, [*mine[:2], *others[2:]])
    site.report(two, result)
    assert list(turn(site, meeting)) == []
    put(site, meeting, others[:2])
    assert len(list(turn(site, meeting))) == 1


def test_only_the_tree_that_the_log_names_is_compared() -> None:
    """RE8: two lives have answered one attempt, at different read points."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    one, two = site.tasks(number)
    answered(site, meeting, one)
    stale = site.answer(two, life=LIFE + 1)[0]
    site.rows["R2"] = dict(SAME)
    sent, result = site.answer(two)
    assert put(site, meeting, [*stale, *sent]) == []
    site.report(two, result)
    (told,) = turn(site, meeting)
    assert pair(told).ranges == ()
    assert meeting.aside == {Aside.DAMAGED: 1}


def test_a_tree_with_leaves_that_nobody_asked_for_is_put_aside() -> None:
    """RE12 (CASSANDRA-13052): though its root is the one that its validator has reported."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    one, two = site.tasks(number)
    answered(site, meeting, one)
    spec = site.spec(number)
    foreign = merkle.Leaf(1 << 20, 1, 1, 1, 1, 1)
    put(site, meeting, pages(two, PageKind.LEAVES, [merkle.encode([foreign])], spec.id))
    site.report(two, Result(None, merkle.root(spec.id, 8, [foreign]), 1, 1))
    assert list(turn(site, meeting)) == []
    assert meeting.said == [f"{two} is put aside: Nobody has asked for leaf {1 << 20}."]


def test_a_tree_without_pages_is_the_empty_one_or_nothing() -> None:
    """RE17."""
    for rows, is_told in (({}, True), (SAME, False)):
        site, number = at_leaves({"R1": SAME, "R2": rows})
        meeting = Meeting()
        one, two = site.tasks(number)
        answered(site, meeting, one)
        site.report(two, msgspec.structs.replace(site.answer(two)[1], pages=0))
        told = list(turn(site, meeting))
        assert [pair(each).leaves_compared for each in told] == [len(leaves(SAME, (FULL,), 8))] * is_told
        assert list(turn(site, meeting)) == []
        assert sum(meeting.aside.values()) == (0 if is_told else 1)


def test_too_many_processes_that_answer_one_attempt_are_not_listened_to() -> None:
    """Memory is bounded."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting()
    one, _ = site.tasks(number)
    for life in range(SENDERS_MAX):
        assert put(site, meeting, site.answer(one, life=life)[0]) == []
    assert set(put(site, meeting, site.answer(one, life=99)[0])) == {"TOO_MANY_SENDERS"}


# Rows.


def at_digests(rows: Mapping[str, Rows], *, repairs: bool = False) -> tuple[Site, Position, Meeting]:
    site = Site(rows)
    kind = SessionKind.REPAIR if repairs else SessionKind.PREVIEW
    policy = Policy.UNION if repairs else Policy.REPORT
    number = site.open(preview(kind=kind, policy=policy, version_column="v" if repairs else ""))
    site.prepared(number)
    meeting = Meeting()
    for task in site.tasks(number):
        for one in answered(site, meeting, task):
            assert site.take(one) == ""
    site.settle()
    assert site.step(number).kind is TaskKind.DIGESTS
    return site, number, meeting


def test_rows_are_compared_over_all_replicas_at_once() -> None:
    """RE2 with votes."""
    site, number, meeting = at_digests({**FOUR, "R4": {**SAME, 77: 1}})
    *first, last = site.tasks(number)
    for task in first:
        assert answered(site, meeting, task) == []
    (told,) = answered(site, meeting, last)
    assert findings(told).kinds == {"CHANGED": 1, "EXTRA": 1, "MISSING": 1}
    assert findings(told).unresolved == {"REPORT": 3}
    assert len(findings(told).ranges) == 3
    assert site.take(told) == ""
    assert list(turn(site, meeting)) == []


def test_a_recheck_keeps_what_lasts_and_counts_what_is_gone() -> None:
    """RE20: and leaves out what has begun to differ."""
    site, number, meeting = at_digests({"R1": {**SAME, 7: 2, 9: 2}, "R2": SAME})
    for task in site.tasks(number):
        for found in answered(site, meeting, task):
            put(site, meeting, findings_pages(found))
            assert site.take(found) == ""
    site.settle()
    site.rows["R1"] = {**SAME, 7: 3}
    site.prepared(number)
    step = site.step(number)
    assert (step.kind, step.purpose) == (TaskKind.DIGESTS, Purpose.RECHECK)
    one, two = site.tasks(number)
    assert answered(site, meeting, one) == []
    (told,) = answered(site, meeting, two)
    assert (findings(told).rows, findings(told).gone) == (1, 1)
    assert site.take(told) == ""


def test_a_recheck_waits_for_the_findings_that_it_is_about() -> None:
    """RE20: a rendezvous that has started again has to read its own pages first."""
    site, number, meeting = at_digests({"R1": {**SAME, 7: 2}, "R2": SAME})
    told = [one for task in site.tasks(number) for one in answered(site, meeting, task)]
    assert site.take(told[0]) == ""
    site.settle()
    site.prepared(number)
    again = Meeting()
    assert [answered(site, again, task) for task in site.tasks(number)] == [[], []]
    forged = findings_pages(msgspec.structs.replace(told[0], result=Found(findings(told[0]), (b"\x90",))), life=5)
    assert put(site, again, forged) == []
    assert list(turn(site, again)) == []
    assert put(site, again, findings_pages(told[0])) == []
    (lasting,) = turn(site, again)
    assert (findings(lasting).rows, findings(lasting).gone) == (1, 0)


def test_digests_that_cannot_be_read_are_put_aside_once() -> None:
    """RE7: though the log has their digest."""
    site, number, meeting = at_digests({"R1": {**SAME, 7: 2}, "R2": SAME})
    one, two = site.tasks(number)
    assert answered(site, meeting, one) == []
    sent, result = site.answer(two)
    bad = [msgspec.structs.replace(page, payload=b"\xc1") for page in sent]
    assert put(site, meeting, bad) == []
    site.report(two, msgspec.structs.replace(result, digest=digest_of(page.payload for page in bad)))
    assert list(turn(site, meeting)) == []
    assert list(turn(site, meeting)) == []
    assert meeting.aside == {Aside.DAMAGED: 1}


def test_a_session_that_repairs_is_told_what_would_be_copied() -> None:
    """RE2: by its policy."""
    site, number, meeting = at_digests({"R1": {**SAME, 7: 2}, "R2": LESS}, repairs=True)
    told = [one for task in site.tasks(number) for one in answered(site, meeting, task)]
    assert [(copy.source, copy.target, copy.rows) for copy in findings(told[0]).copies] == [("R1", "R2", 2)]


def test_what_could_not_be_reported_is_due_again() -> None:
    """The broker did not take the pages of its findings."""
    site, number, meeting = at_digests({"R1": {**SAME, 7: 2}, "R2": SAME})
    told = [one for task in site.tasks(number) for one in answered(site, meeting, task)]
    assert list(turn(site, meeting)) == []
    meeting.untold(told[0])
    assert [one.result for one in turn(site, meeting)] == [told[0].result]


# Memory.


def test_the_youngest_session_gives_way_and_is_read_again_later() -> None:
    """What is held is bounded; nothing is lost by it but time."""
    site = Site({"R1": SAME, "R2": OTHER})
    old, young = site.open(preview()), site.open(preview())
    sent: dict[Position, list[TreePage]] = {}
    for number in (old, young):
        site.prepared(number)
        sent[number] = [page for task in site.tasks(number) for page in site.answer(task)[0]]
        for task in site.tasks(number):
            site.report(task, site.answer(task)[1])
        site.settle()
    size = sum(len(page.payload) + PAGE_COST for page in sent[old])
    meeting = Meeting(limit=size + 4 * PAGE_COST)
    put(site, meeting, sent[young])
    assert "NO_ROOM" in put(site, meeting, [*sent[old], *sent[young]])
    assert meeting.cost <= size + 4 * PAGE_COST
    wants_more = [meeting.wants_more]
    (told,) = turn(site, meeting)
    assert told.segment.session == old
    site.take(told)
    site.settle()
    assert list(turn(site, meeting)) == []
    wants_more.append(meeting.wants_more)
    assert put(site, meeting, sent[young][-1:]) == ["NO_ROOM"], "it would be held without those before it"
    assert not meeting.held
    assert wants_more == [False, True]
    meeting.begin_anew()
    put(site, meeting, [*sent[old], *sent[young]])
    (told,) = turn(site, meeting)
    assert told.segment.session == young
    assert not meeting.wants_more


def test_what_is_too_large_at_all_is_not_read_for_ever() -> None:
    """It is not wanted again while it fills the room itself, nor when the log has ended it."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    one, two = site.tasks(number)
    meeting = Meeting(limit=2 * sum(len(page.payload) + PAGE_COST for page in site.answer(one)[0]))
    for task in (one, two):
        put(site, meeting, site.answer(task)[0])
    meeting.sweep(site.state, site.position)
    assert not meeting.wants_more
    site.ask(SessionAbortRequested(new_id(), LOG_ID, "t", "", number))
    meeting.sweep(site.state, site.position)
    assert (meeting.cost, meeting.wants_more) == (0, False)


junk = st.builds(
    TreePage,
    st.builds(
        TaskId,
        st.integers(-1, 40).map(Position),
        st.integers(-1, 2000),
        st.integers(-1, 5),
        st.sampled_from(["R1", "R2", "R9", ""]),
        st.integers(-1, 3),
    ),
    st.integers(0, 2),
    st.binary(max_size=16),
    st.sampled_from(PageKind),
    st.integers(-2, 3),
    st.booleans(),
    st.binary(max_size=60),
)


@settings(deadline=None)
@given(st.lists(junk, max_size=30), st.booleans())
def test_whatever_comes_nothing_is_raised_and_honest_trees_meet(given_pages: list[TreePage], knows_spec: bool) -> None:
    """RE5, RE6, RE7, RE13."""
    site, number = at_leaves({"R1": SAME, "R2": OTHER})
    meeting = Meeting(limit=50_000)
    spec_id = site.spec(number).id
    tasks = site.tasks(number)
    for page in given_pages:
        put(site, meeting, [msgspec.structs.replace(page, spec_id=spec_id) if knows_spec else page])
        list(turn(site, meeting))
    told: list[Compared] = []
    for task in tasks:
        sent, result = site.answer(task, life=1 << 60)
        put(site, meeting, sent)
        site.report(task, result)
        told += turn(site, meeting)
    assert [pair(each).leaves for each in told] == [1]
    assert meeting.cost <= 50_000
    site.ask(SessionAbortRequested(new_id(), LOG_ID, "t", "", number))
    meeting.sweep(site.state, Position(50))
    assert meeting.cost == 0


def test_trees_of_steps_that_are_over_are_due_to_nobody() -> None:
    """RE22: each pair of attempts is compared once."""
    site, number = at_leaves({"R1": SAME, "R2": SAME})
    meeting = Meeting()
    for task in site.tasks(number):
        for one in answered(site, meeting, task):
            site.take(one)
    site.settle()
    assert site.session(number).status is SessionStatus.SUCCEEDED
    assert meeting.due(site.state) == []


def test_pairs_of_one_step_are_due_together() -> None:
    """Each tree is read once for all its pairs."""
    site, number = at_leaves(FOUR)
    meeting = Meeting()
    for task in site.tasks(number):
        sent, result = site.answer(task)
        put(site, meeting, sent)
        site.report(task, result)
    (due,) = meeting.due(site.state)
    assert isinstance(due, TreesDue)
    assert len(due.pairs) == 6
