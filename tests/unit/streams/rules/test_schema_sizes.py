"""Whatever a request of 850 kB asks of objects: each decision, and each row's texts, stay below the limit of a record,
and deciding takes no time that others would notice (TA34). Times are the processor's, for machines are busy.
"""

import time
from collections.abc import Callable, Iterable

import msgspec
import pytest
from tests.unit.streams.rules.changing import (
    INT,
    LONG,
    TEXT,
    Changing,
    add,
    alter,
    cancellation,
    change,
    database,
    drop,
    drop_column,
    grant,
    rename,
    table,
    view,
)

from topolog.events import requests as q
from topolog.events.asked import Request, RequestRef
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.object_definition import (
    COLUMNS_MAX,
    PROPERTIES_MAX,
    STATEMENTS_MAX,
    TEXT_CHARS_MAX,
    Column,
    Definition,
    ObjectKind,
    Statement,
    Step,
    Verb,
    size_bytes,
)
from topolog.events.objects import SchemaChangePrepared, SchemaChangeQueued
from topolog.events.topics import RECORD_BYTES_MAX

WIDE = "\N{MATHEMATICAL FRAKTUR CAPITAL A}"
"""A character of four bytes."""

LONGEST = "t" * 64


def outcome(found: Changing, request: Request) -> Decision:
    """What the coordinator would log; a refusal as it words it."""
    assert len(CODEC.encode(request)) <= q.REQUEST_BYTES_MAX
    try:
        (decided,) = found.decide(request)
    except Refused as refusal:
        facts, message = q.told_of(refusal.facts, str(refusal))
        ref = RequestRef(request.id.requester, request.id.sequence, bytes(8))
        return q.RequestRefused(ref, q.shortened(request.subject), refusal.code, refusal.rule, message, facts)
    return decided


def shop(*servers: str) -> Changing:
    found = Changing(*(servers or ("n1",)))
    found.make(database())
    return found


def many_tables(found: Changing, count: int, name: Callable[[int], str] = "shop.t{}".format) -> None:
    for start in range(0, count, STATEMENTS_MAX):
        found.make(*(table(name(each)) for each in range(start, min(count, start + STATEMENTS_MAX))))


def wide_properties(count: int = PROPERTIES_MAX) -> dict[str, str]:
    return {f"{number:03}{WIDE * (TEXT_CHARS_MAX - 3)}": WIDE * TEXT_CHARS_MAX for number in range(count)}


def wide_columns(count: int = COLUMNS_MAX) -> tuple[Column, ...]:
    return tuple(Column(f"{'c' * 59}{number:04}_", LONG) for number in range(count))


def wide_table(name: str, count: int) -> Statement:
    """A table with columns c0, c1, ... beside its key."""
    columns = Column("id", LONG), *(Column(f"c{each}", LONG) for each in range(count))
    return Statement(Verb.CREATE, ObjectKind.TABLE, name, Definition(columns, "id"))


def requests_of_any_size() -> Iterable[tuple[str, tuple[Statement, ...]]]:
    """Statements that fill a request, about a database `shop` that is there."""
    yield "1,000 tables", tuple(table(f"shop.{'t' * 60}{each:04}", a=INT) for each in range(STATEMENTS_MAX))
    yield "long texts", (database("other", properties=wide_properties()),)
    columns = wide_columns()
    one = Statement(Verb.CREATE, ObjectKind.TABLE, f"shop.{LONGEST}", Definition(columns, columns[0].name))
    yield "1,000 columns", (one,)
    yield "many actions", (alter("shop.t", *(add(f"c{each}") for each in range(40_000))),)
    yield "many unset", (Statement(Verb.ALTER, ObjectKind.DATABASE, "shop", unset=tuple(map(str, range(100_000)))),)
    yield "a long name", (drop("shop." + "x" * 800_000),)
    yield "a long name of a column", (alter("shop.t", drop_column("x" * 800_000)),)
    yield "a long key", (Statement(Verb.CREATE, ObjectKind.TABLE, "shop.t", Definition((), "k" * 800_000)),)
    yield "a view over a long name", (view("shop.v", "shop." + "x" * 800_000),)
    yield "too many statements", tuple(drop(f"shop.t{each}", if_needed=True) for each in range(20_000))


@pytest.mark.parametrize("statements", [pytest.param(each, id=name) for name, each in requests_of_any_size()])
def test_whatever_fills_a_request_is_decided_at_once_and_fits_a_record(statements: tuple[Statement, ...]) -> None:
    """TA34: a leader that decides more than a record holds ends, and so does the next one."""
    found = shop()
    began = time.process_time()
    decided = outcome(found, change(*statements))
    assert time.process_time() - began < 2
    assert len(CODEC.encode(decided)) <= RECORD_BYTES_MAX
    found.ask(change(drop("shop", ObjectKind.DATABASE, if_needed=True)))
    waiting = outcome(found, change(*statements))
    assert len(CODEC.encode(waiting)) <= RECORD_BYTES_MAX


def test_what_waits_in_line_takes_no_more_than_its_request() -> None:
    """TA34: the statements are logged as they were asked."""
    found = shop()
    found.ask(change(table("shop.t")))
    texts = {f"{each}": WIDE * TEXT_CHARS_MAX for each in range(50)}
    statements = [Statement(Verb.ALTER, ObjectKind.TABLE, f"shop.t{each or ''}", properties=texts) for each in range(4)]
    decided = outcome(found, change(*statements))
    assert isinstance(decided, SchemaChangeQueued)
    assert len(CODEC.encode(decided)) <= RECORD_BYTES_MAX
    found.log(decided)
    ended = found.apply()
    assert [type(each).__name__ for each in ended] == ["SchemaChangeCommitted", "SchemaChangeRolledBack"]


def test_properties_that_grow_over_many_changes_stay_below_the_limit() -> None:
    """TA34: the definition is logged whole; the change that would make it too large is refused."""
    found = shop()
    found.make(table("shop.t"))
    code = ""
    for start in range(0, PROPERTIES_MAX, 25):
        part = dict(list(wide_properties().items())[start : start + 25])
        decided = outcome(found, change(Statement(Verb.ALTER, ObjectKind.TABLE, "shop.t", properties=part)))
        assert len(CODEC.encode(decided)) <= RECORD_BYTES_MAX
        if isinstance(decided, q.RequestRefused):
            code = decided.code
            break
        found.log(decided)
        found.apply()
    assert code == "TOO_LARGE"


def test_many_alters_of_wide_tables_are_too_large_for_one_change() -> None:
    """TA34: a small request may lead to many megabytes of steps."""
    found = shop()
    for each in range(60):
        found.make(wide_table(f"shop.t{each}", COLUMNS_MAX - 2))
    began = time.process_time()
    decided = outcome(found, change(*(alter(f"shop.t{each}", add("more")) for each in range(60))))
    assert time.process_time() - began < 2
    assert isinstance(decided, q.RequestRefused)
    assert decided.code == "TOO_LARGE"


def test_a_table_of_1000_columns_loses_most_of_them_in_one_change() -> None:
    """TA34: as many actions as a table can have columns."""
    found = shop()
    found.make(wide_table("shop.t", COLUMNS_MAX - 1))
    began = time.process_time()
    found.make(alter("shop.t", *(drop_column(f"c{each}") for each in range(COLUMNS_MAX - 1))))
    assert time.process_time() - began < 1
    row = found.object("shop.t")
    assert row.definition is not None
    assert [each.name for each in row.definition.columns] == ["id"]
    assert row.columns_ever == COLUMNS_MAX


def test_a_database_with_ten_thousand_tables_is_dropped_in_one_change() -> None:
    """TA10: everything that is in it goes with it; a step without a definition is little more than its name."""
    found = shop()
    many_tables(found, 10_000)
    began = time.process_time()
    (prepared,) = found.ask(change(drop("shop", ObjectKind.DATABASE)))
    assert time.process_time() - began < 2
    assert isinstance(prepared, SchemaChangePrepared)
    assert len(prepared.steps) == 10_001
    found.apply()
    assert found.names() == []


def test_a_database_whose_names_fill_a_record_is_dropped_in_parts() -> None:
    """TA34: what would not fit is refused, and says how much it is."""
    found = shop()
    many_tables(found, 10_000, lambda each: f"shop.{'t' * 59}{each:05}")
    decided = outcome(found, change(drop("shop", ObjectKind.DATABASE)))
    assert isinstance(decided, q.RequestRefused)
    assert (decided.code, decided.facts["objects"]) == ("TOO_LARGE", "10001")
    assert "At most 700000 are possible" in decided.message


def test_the_size_of_a_step_is_never_underestimated() -> None:
    """TA34: `size_bytes` is what the limit is checked with."""
    columns = tuple(msgspec.structs.replace(each, number=1 << 62) for each in wide_columns())
    definitions = [
        Definition(columns, columns[0].name, 1, wide_properties(3), "d" * 64 + "." + "t" * 64),
        Definition(over="d" * 64 + "." + "t" * 64),
        Definition(),
        None,
    ]
    ref = RequestRef("t", 1, bytes(8))
    for verb in (Verb.CREATE, Verb.RENAME):
        steps = tuple(Step(verb, ObjectKind.TABLE, f"shop.{LONGEST}", each, f"shop.{LONGEST}") for each in definitions)
        empty = len(CODEC.encode(SchemaChangePrepared(ref, None, (), None)))
        for step in steps:
            encoded = len(CODEC.encode(SchemaChangePrepared(ref, None, (step,) * 100, None)))
            assert encoded - empty <= 100 * size_bytes(step) + 8


def test_who_cancels_with_a_name_of_800_kb_is_told_of_in_short() -> None:
    """TA34: rows that are over are kept, and a row repeats no text of any length out of a request."""
    found = shop()
    found.ask(change(table("shop.t")))
    request = msgspec.structs.replace(cancellation(found.position), actor=WIDE * 200_000)
    number = found.position
    found.ask(request)
    assert len(found.change(number).message) < 2_100


def test_what_a_blocked_server_says_is_told_in_short() -> None:
    """TA34: a heartbeat's texts are of any length too."""
    found = shop("n1", "n2")
    found.ask(change(table("shop.t")))
    (rolled_back,) = found.block("n1", found.position, message=WIDE * 200_000)
    assert len(CODEC.encode(rolled_back)) < 20_000


# Speed: the coordinator looks for what is due every few milliseconds.


def seconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def ask_all(found: Changing, changes: Iterable[Request]) -> None:
    """Without the bytes, which are the codec's to answer for."""
    for each in changes:
        found.take(found.decide(each))


@pytest.mark.parametrize("verb", ["create", "alter", "rename", "drop"])
def test_a_thousand_changes_one_by_one_take_less_than_a_second(verb: str) -> None:
    """TA34: decided, folded and settled among a thousand tables; the time of one in which each has its own turn."""
    found = shop("n1", "n2", "n3")
    if verb != "create":
        many_tables(found, 1_000)
    if verb == "drop":
        found.make(*(grant(f"ada@shop.t{each}") for each in range(1_000)))
    made = {
        "create": [table(f"shop.t{each}") for each in range(1_000)],
        "alter": [alter(f"shop.t{each}", add("note")) for each in range(1_000)],
        "rename": [rename(f"shop.t{each}", f"shop.u{each}") for each in range(1_000)],
        "drop": [drop(f"shop.t{each}") for each in range(1_000)],
    }
    changes = [change(each) for each in made[verb]]
    assert seconds(lambda: ask_all(found, changes)) < 1
    assert seconds(lambda: found.apply(quickly=True)) < 1
    assert found.is_over()


def test_a_thousand_changes_of_one_table_take_less_than_a_second() -> None:
    """TA34: each waits for the one before it."""
    found = shop()
    found.make(table("shop.t"))
    changes = [
        change(alter("shop.t", add(f"c{each}") if each % 2 else drop_column(f"c{each - 1}")))
        for each in range(1, 1_001)
    ]
    assert seconds(lambda: ask_all(found, changes)) < 1
    assert seconds(lambda: found.go_on(1_000)) < 2
    assert found.is_over()


def test_a_change_of_a_thousand_statements_takes_less_than_a_second() -> None:
    """TA34: STATEMENTS_MAX of them, in three changes behind each other."""
    found = shop()
    for made in (
        [table(f"shop.t{each}") for each in range(1_000)],
        [alter(f"shop.t{each}", add("note", TEXT)) for each in range(1_000)],
        [drop(f"shop.t{each}") for each in range(1_000)],
    ):
        request = change(*made)
        assert seconds(lambda: ask_all(found, [request])) < 1  # noqa: B023 (called at once)
        assert seconds(lambda: found.apply(quickly=True)) < 1
        assert found.is_over()


def test_a_thousand_open_changes_cost_the_coordinator_little_while_nothing_comes() -> None:
    """TA34: it settles every few milliseconds."""
    found = shop("n1", "n2", "n3")
    ask_all(found, [change(table(f"shop.t{each}")) for each in range(500)])
    ask_all(found, [change(alter(f"shop.t{each}", add("note"))) for each in range(500)])
    found.apply("n1", "n2")
    assert seconds(lambda: [found.settle() for _ in range(1_000)]) < 1
    assert len(found.open()) == 1_000
