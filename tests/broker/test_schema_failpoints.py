"""A crash at every named place of a schema change, on a real broker; each change ends in exactly one way (TA14).

All tests share one cluster with two members. What each of them changes is its own, made by one change before all; so
each also begins with whatever the crashes before it have left.
"""

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.broker.crash_site import LANDED, assert_died
from tests.broker.schema_site import SchemaSite
from tests.unit.streams.rules.changing import (
    INT,
    LONG,
    TEXT,
    add,
    alter,
    database,
    drop,
    drop_column,
    grant,
    rename,
    rename_column,
    retype,
    table,
    view,
)

from topolog.events.object_definition import ColumnAction, ObjectKind, Privilege, Statement, Verb
from topolog.events.objects import ChangeStatus

TABLE, SHOWN = "id INT64, note INT32, more STRING", "id INT64, note INT32"
Made = Callable[[str], Statement]


class Kind(msgspec.Struct, frozen=True):
    """A kind of change, of objects named after a word: what is there before, what is asked; then how things stand."""

    name: str
    before: tuple[Made, ...]
    asked: tuple[Made, ...]
    after: dict[str, str | None]
    closes_data: bool = False


def own_table(word: str) -> Statement:
    return table(f"{word}.t", note=INT, more=TEXT)


def own_grant(word: str) -> Statement:
    return grant(f"ada@{word}.t", Privilege.READ, Privilege.WRITE)


def own_view(word: str) -> Statement:
    return view(f"{word}.v", f"{word}.t", "id", "note")


def properties(word: str) -> Statement:
    return Statement(Verb.ALTER, ObjectKind.DATABASE, word, ttl_ms=60_000, properties={"owner": "ada"})


def fewer_rights(word: str) -> Statement:
    return Statement(Verb.ALTER, ObjectKind.GRANT, f"ada@{word}.t", privileges=(Privilege.READ,))


def altered(action: ColumnAction) -> tuple[Made, ...]:
    return (lambda word: alter(f"{word}.t", action),)


KINDS = (
    Kind("create-database", (), (lambda word: database(f"{word}_new"),), {"_new": ""}),
    Kind("create-table", (), (own_table,), {".t": TABLE}),
    Kind("add-column", (own_table,), altered(add("new", LONG)), {".t": f"{TABLE}, new INT64"}),
    Kind("retype", (own_table,), altered(retype("note", LONG)), {".t": "id INT64, note INT64, more STRING"}),
    Kind("rename-column", (own_table,), altered(rename_column("more", "text")), {".t": TABLE.replace("more", "text")}),
    Kind("drop-column", (own_table,), altered(drop_column("more")), {".t": SHOWN}, closes_data=True),
    Kind("properties", (), (properties,), {"": "ttl 60000, owner=ada"}),
    Kind("rename", (own_table,), (lambda word: rename(f"{word}.t", f"{word}.u"),), {".t": None, ".u": TABLE}),
    Kind("drop-table", (own_table, own_grant), (lambda word: drop(f"{word}.t"),), {".t": None}, closes_data=True),
    Kind("create-view", (own_table,), (own_view,), {".v": SHOWN}),
    Kind("drop-view", (own_table, own_view), (lambda word: drop(f"{word}.v", ObjectKind.VIEW),), {".v": None}),
    Kind("grant", (own_table,), (own_grant,), {}),
    Kind("revoke", (own_table, own_grant), (fewer_rights,), {}),
    Kind(
        "drop-database",
        (own_table, own_grant, own_view),
        (lambda word: drop(word, ObjectKind.DATABASE),),
        {"": None, ".t": None, ".v": None},
        closes_data=True,
    ),
)


def word_of(name: str) -> str:
    return name.replace("-", "_")


QUEUES = ("in_line", "deadline", "cancelled", "refused", "blocked", *(f"vanished_{seed}" for seed in range(3)))
MEMBER = (
    "node.folded=crash",
    "node.hooked=crash",
    "node.applied=crash",
    "node.acknowledging=crash",
    "node.beaten=crash",
    "node.beaten" + LANDED,
)


@pytest.fixture(scope="module")
def site(kafka: str, new_cluster: Callable[[], str]) -> Iterator[SchemaSite]:
    with contextlib.closing(SchemaSite(kafka, new_cluster())) as site, site.living():
        with site.led():
            words = [word_of(each.name) for each in KINDS] + [*QUEUES, *(f"m{number}" for number in range(len(MEMBER)))]
            assert site.operator.change(*map(database, words)).status is ChangeStatus.COMMITTED
            before = [made(word_of(kind.name)) for kind in KINDS for made in kind.before]
            before += [own_table(word) for word in words[len(KINDS) :] if not word.startswith("vanished")]
            assert site.operator.change(*before).status is ChangeStatus.COMMITTED
        yield site


PREPARED = (
    "coordinator.prepared-decided=crash",
    "coordinator.prepared-appended=crash",
    "coordinator.prepared-appended" + LANDED,
)
COMMITTED = (
    "coordinator.commit-decided=crash",
    "coordinator.commit-appended=crash",
    "coordinator.commit-appended" + LANDED,
)
BETWEEN = (
    "coordinator.between-changes=crash",
    "coordinator.between-changes" + LANDED,
)
QUEUED = (
    "coordinator.queued-decided=crash",
    "coordinator.queued-appended=crash",
    "coordinator.queued-appended" + LANDED,
)
ROLLED_BACK = (
    "coordinator.rollback-decided=crash",
    "coordinator.rollback-appended=crash",
    "coordinator.rollback-appended" + LANDED,
)
DELETED = (
    "coordinator.deletion-decided=crash",
    "coordinator.deletion-appended=crash",
    "coordinator.deletion-appended" + LANDED,
)
CERTAINLY_LOST = "-decided=crash"
ENTRIES = (*PREPARED, *COMMITTED, *BETWEEN, *QUEUED, *ROLLED_BACK, *DELETED, *MEMBER)


def crash_through(site: SchemaSite, *steps: tuple[str, ...]) -> None:
    """One coordinator after the other dies over each step, the last one when the step's decision has landed. Where that
    is with the producer when its process dies, it may have landed as well, and the step is over."""
    for entries in steps:
        before, may_have_landed = site.decided(), False
        for entry in entries:
            if may_have_landed and site.decided() > before:
                break
            site.crash(entry)
            may_have_landed |= not entry.endswith(CERTAINLY_LOST)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_change_outlives_one_coordinator_after_the_other(site: SchemaSite, kind: Kind) -> None:
    """TA14: whatever each of them has begun is in the log or not; the next one goes on from there, and commits."""
    word = word_of(kind.name)
    request = site.operator.ask(*(made(word) for made in kind.asked))
    site.operator.flush()
    if kind.closes_data:
        crash_through(site, PREPARED, COMMITTED, DELETED)
    else:  # what is lost on its way is as if it were never appended
        crash_through(site, PREPARED[::2], COMMITTED[::2])
    with site.led():
        ended = site.operator.ended(site.operator.number(request))
        site.operator.eventually(lambda: not site.undeleted(ended.number), "all data to be deleted")
        site.assert_sound()
    assert ended.status is ChangeStatus.COMMITTED
    assert {name: site.seen(f"{word}{name}") for name in kind.after} == kind.after


def test_a_change_that_waits_in_line_outlives_them_too(site: SchemaSite) -> None:
    """TA12: the second change of a table waits for the first, over any number of coordinators."""
    with site.deaf(site.members[1]):
        requests = [site.operator.ask(alter("in_line.t", each)) for each in (drop_column("more"), add("new", LONG))]
        site.operator.flush()
        crash_through(site, BETWEEN, QUEUED)
    crash_through(site, COMMITTED, PREPARED, COMMITTED)
    with site.led():
        ended = [site.operator.ended(site.operator.number(request)) for request in requests]
        site.assert_sound()
    assert [each.status for each in ended] == [ChangeStatus.COMMITTED] * 2
    assert site.seen("in_line.t") == f"{SHOWN}, new INT64"


def test_a_deadline_outlives_them(site: SchemaSite) -> None:
    """TA20: the wait begins again with each of them, and the change is given up once."""
    with site.deaf(site.members[1]):
        request = site.operator.ask(drop("deadline.t"), deadline_ms=200)
        site.operator.flush()
        crash_through(site, PREPARED[-1:], ROLLED_BACK)
    assert_rolled_back(site, request, "DEADLINE", "deadline")


def test_a_cancellation_outlives_them(site: SchemaSite) -> None:
    """TA14: a change that is prepared can be given up, and that is decided once."""
    with site.deaf(site.members[1]):
        request = site.operator.ask(drop("cancelled.t"))
        site.operator.flush()
        crash_through(site, PREPARED[-1:])
        site.operator.cancel(site.operator.number(request))
        site.operator.flush()
        crash_through(site, ROLLED_BACK)
    assert_rolled_back(site, request, "CANCELLED", "cancelled")


def test_a_change_that_is_refused_when_its_turn_comes_is_so_once(site: SchemaSite) -> None:
    """TA13: its refusal is its rollback."""
    with site.deaf(site.members[1]):
        requests = [site.operator.ask(alter("refused.t", drop_column("more"))) for _ in range(2)]
        site.operator.flush()
        crash_through(site, QUEUED[-1:])
    crash_through(site, ROLLED_BACK)
    with site.led():
        first, second = (site.operator.ended(site.operator.number(request)) for request in requests)
        site.assert_sound()
    assert (first.status, second.status) == (ChangeStatus.COMMITTED, ChangeStatus.ROLLED_BACK)
    assert site.seen("refused.t") == SHOWN


def test_a_member_that_cannot_apply_a_change_is_heard_by_one_of_them(site: SchemaSite) -> None:
    """TA19: it says so to each coordinator, until one has written it down."""
    site.inapplicable.add("blocked.t")
    request = site.operator.ask(alter("blocked.t", drop_column("more")))
    site.operator.flush()
    crash_through(site, PREPARED[-1:], ROLLED_BACK)
    assert_rolled_back(site, request, "BLOCKED", "blocked")


def assert_rolled_back(site: SchemaSite, request: int, code: str, word: str) -> None:
    """And everything is as before."""
    with site.led():
        ended = site.operator.ended(site.operator.number(request))
        site.assert_sound()
    assert (ended.status, ended.code) == (ChangeStatus.ROLLED_BACK, code)
    assert site.seen(f"{word}.t") == TABLE


@pytest.mark.parametrize("seed", range(3))
def test_a_change_whose_requester_vanished_ends_once_over_any_number_of_crashes(site: SchemaSite, seed: int) -> None:
    """TA15: nobody waits for it any more, and it is committed."""
    name, chance, asked = f"vanished_{seed}.t", random.Random(seed), "node.request-sent:2" + LANDED
    for asker in (f"asker{seed}-{number}" for number in itertools.count()):
        with site.led():
            process = site.armed(asked, "asker", asker, name)
            process.hear("member")  # with a lease; that the log says so is not enough
        assert_died(process, asked)
        if site.is_asked_for(name):  # on a busy machine its producer may have had no time to deliver
            break
    for *lost, landed in (PREPARED, COMMITTED):
        crash_through(site, (*chance.choices(lost, k=chance.randint(0, 3)), landed))
    with site.led():
        site.assert_sound()
    assert site.seen(name) == "id INT64"


@pytest.mark.parametrize("number", range(len(MEMBER)), ids=MEMBER)
def test_a_change_goes_on_without_a_member_that_dies_meanwhile(site: SchemaSite, tmp_path: Path, number: int) -> None:
    """TA18: whether it has applied the change or not, it answers no more; nobody waits for it."""
    entry = MEMBER[number]
    with site.led():
        third = site.forked("schema_reader", site.cluster, "n3", site.bootstrap, str(tmp_path))
        third.hear("member")
        with site.deaf(site.members[1]):
            third.tell(do="arm", entry=entry)
            third.hear("armed")
            request = site.operator.ask(drop(f"m{number}.t"))
            change = site.operator.number(request)
            assert_died(third, entry)
            assert change in site.operator.open_changes()
        ended = site.operator.ended(change)
        site.assert_sound()
    assert ended.status is ChangeStatus.COMMITTED
    assert site.seen(f"m{number}.t") is None
