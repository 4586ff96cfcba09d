"""A crash at every named place of a schema change, on a real broker; each change ends in exactly one way (I5, V7).

All tests share one cluster with two members. What each of them changes is its own, made by one change before all; so
each also begins with whatever the crashes before it have left.
"""

import contextlib
import os
from collections.abc import Callable, Iterator

import msgspec
import pytest
from tests.integration.crash_site import LANDED
from tests.integration.schema_site import SchemaSite
from tests.streams.rules.changing import (
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
    Kind("drop-column", (own_table,), altered(drop_column("more")), {".t": "id INT64, note INT32"}),
    Kind("properties", (), (properties,), {"": "ttl 60000, owner=ada"}),
    Kind("rename", (own_table,), (lambda word: rename(f"{word}.t", f"{word}.u"),), {".t": None, ".u": TABLE}),
    Kind("drop-table", (own_table, own_grant), (lambda word: drop(f"{word}.t"),), {".t": None}),
    Kind("create-view", (own_table,), (own_view,), {".v": SHOWN}),
    Kind("drop-view", (own_table, own_view), (lambda word: drop(f"{word}.v", ObjectKind.VIEW),), {".v": None}),
    Kind("grant", (own_table,), (own_grant,), {}),
    Kind("revoke", (own_table, own_grant), (fewer_rights,), {}),
    Kind(
        "drop-database",
        (own_table, own_grant, own_view),
        (lambda word: drop(word, ObjectKind.DATABASE),),
        {"": None, ".t": None, ".v": None},
    ),
)

PLACES = (
    "coordinator.asked=crash",
    "coordinator.prepared-decided=crash",
    "coordinator.prepared-appended=crash",
    "coordinator.prepared-appended" + LANDED,
    "coordinator.commit-decided=crash",
    "coordinator.commit-appended=crash",
    "coordinator.commit-appended" + LANDED,
)
CASES = [(kind, entry) for kind in KINDS for entry in PLACES]


def word_of(number: int) -> str:
    return f"w{number}"


@pytest.fixture(scope="module")
def site(kafka: str) -> Iterator[SchemaSite]:
    with contextlib.closing(SchemaSite(kafka, f"schema-{os.getpid()}")) as site, site.living():
        with site.leading():
            words = [(kind, word_of(number)) for number, (kind, _) in enumerate(CASES)]
            made = site.operator.change(*(database(word) for _, word in words))
            assert made.status is ChangeStatus.COMMITTED
            made = site.operator.change(*(make(word) for kind, word in words for make in kind.before))
            assert made.status is ChangeStatus.COMMITTED
        yield site


@pytest.mark.parametrize(
    ("number", "kind", "entry"),
    [(number, *case) for number, case in enumerate(CASES)],
    ids=[f"{kind.name}-{entry}" for kind, entry in CASES],
)
def test_a_change_outlives_its_coordinator_wherever_that_dies(
    site: SchemaSite, number: int, kind: Kind, entry: str
) -> None:
    """I5, V7: what the dead one has begun is in the log or not; the next one goes on from there, and commits it."""
    word = word_of(number)
    request = site.operator.ask(*(make(word) for make in kind.asked))
    site.operator.flush()
    site.crash(entry)
    with site.leading():
        ended = site.operator.ended(site.operator.number(request))
        site.assert_sound()
    assert ended.status is ChangeStatus.COMMITTED
    assert {name: site.seen(f"{word}{name}") for name in kind.after} == kind.after
