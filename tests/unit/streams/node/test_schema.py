"""Tables, views and rights as a service of the real node client sees them while they change (docs/design/tables.md)."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress

import pytest
from tests.unit.streams.node.shop import ORDERS, READ, Shop, columns
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
    retype,
    table,
    view,
)

from topolog.events.codec import CODEC
from topolog.events.errors import (
    BadInput,
    BeingAltered,
    BeingCreated,
    BeingDeleted,
    Changing,
    Fenced,
    HookFailed,
    NotCaughtUp,
    NotFound,
)
from topolog.events.leases import NodeKind
from topolog.events.membership import Heartbeat
from topolog.events.object_definition import FOREVER, ObjectKind, Privilege, Statement, Verb
from topolog.events.object_types import ObjectType
from topolog.events.objects import ChangeStatus
from topolog.events.topics import Topic
from topolog.streams.node.client import Node
from topolog.streams.node.core import Phase


def ttl(ttl_ms: int) -> Statement:
    return Statement(Verb.ALTER, ObjectKind.TABLE, ORDERS, ttl_ms=ttl_ms)


def test_what_is_changed_is_so_on_every_node(shop: Shop) -> None:
    """TA15: one round trip with all up, without time passing."""
    before = shop.cluster.clock.monotonic_ns()
    number = shop.cluster.change(alter(ORDERS, add("city")))
    assert shop.cluster.clock.monotonic_ns() == before
    assert columns(shop.one.table(ORDERS)) == columns(shop.two.table(ORDERS)) == ["id", "note", "city"]
    assert shop.row(number).status is ChangeStatus.COMMITTED
    assert [each.name for each in shop.two.tables()] == [ORDERS]


def test_a_node_that_is_cut_off_refuses_until_it_has_caught_up(shop: Shop) -> None:
    """TA18: the change goes on without it, and nobody is ever answered from the former definition."""
    with shop.cluster.cut_off("n2"):
        shop.cluster.change(alter(ORDERS, drop_column("note")))
        assert columns(shop.one.table(ORDERS)) == ["id"]
        for ask in (shop.two.table, shop.two.view, shop.two.database):
            with pytest.raises(Fenced):
                ask(ORDERS)
        with pytest.raises(Fenced), shop.two.using(ORDERS):
            raise AssertionError("a fenced node has begun to read")
        with pytest.raises(Fenced):
            shop.two.tables()
    shop.cluster.advance(0.4)
    assert columns(shop.two.table(ORDERS)) == ["id"]


def test_until_it_is_fenced_a_node_that_is_cut_off_answers_and_the_change_waits(shop: Shop) -> None:
    """TA15: a commit would make its answers wrong, so there is none."""
    with shop.cluster.cut_off("n2"):
        number = shop.cluster.change(drop(), wait=False)
        shop.cluster.advance(1)
        with shop.two.using(ORDERS) as found:
            assert columns(found) == ["id", "note"]
        with pytest.raises(BeingDeleted):
            shop.one.table(ORDERS)
        shop.cluster.advance(2)
        with pytest.raises(Fenced):
            shop.two.table(ORDERS)
        assert shop.row(number).status is ChangeStatus.COMMITTED
        with pytest.raises(NotFound):
            shop.one.table(ORDERS)


def test_a_read_that_sees_its_table_go_fails_at_its_end(shop: Shop) -> None:
    """TA28: valid at the end, or not answered."""
    with pytest.raises(BeingDeleted), shop.one.using(ORDERS):
        shop.cluster.change(drop())


def test_a_read_during_which_another_table_got_the_name_fails_at_its_end(shop: Shop) -> None:
    """TA28: create-drop-create of one name."""
    with ExitStack() as reading:
        reading.enter_context(shop.one.using(ORDERS))
        shop.cluster.change(drop())
        shop.cluster.change(table(note=TEXT))
        with pytest.raises(BeingDeleted):
            reading.close()


def test_a_read_during_which_its_table_was_altered_fails_at_its_end(shop: Shop) -> None:
    """TA28: also while the change is only prepared, for it may be committed elsewhere by now."""
    with pytest.raises(BeingAltered), shop.one.using(ORDERS):
        shop.cluster.change(alter(ORDERS, add("city")))
    with shop.cluster.cut_off("n2"), pytest.raises(BeingAltered), shop.one.using(ORDERS):
        shop.cluster.change(alter(ORDERS, add("town")), wait=False)


def test_a_read_that_begins_behind_the_preparation_outlives_the_commit(shop: Shop) -> None:
    """TA23: what is served meanwhile suits what follows."""
    with shop.cluster.cut_off("n2"):
        number = shop.cluster.change(alter(ORDERS, add("city")), wait=False)
        with shop.one.using(ORDERS) as found:
            assert "city" in columns(found)
            shop.cluster.advance(3)
        assert shop.row(number).status is ChangeStatus.COMMITTED


def test_a_read_that_fails_by_itself_says_its_own_error(shop: Shop) -> None:
    """Nobody hides what went wrong."""

    def fail() -> None:
        shop.cluster.change(drop())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), shop.one.using(ORDERS):
        fail()


def test_a_read_over_the_end_of_a_lease_fails_though_the_table_is_the_same(shop: Shop) -> None:
    """TA28: another generation proves nothing about the time between."""
    with ExitStack() as reading:
        reading.enter_context(shop.one.using(ORDERS))
        with shop.cluster.leases_expired():
            pass
        shop.cluster.advance(1)
        assert shop.one.lease.is_valid
        with pytest.raises(Fenced):
            reading.close()


def test_a_write_carries_the_incarnation_of_its_table(shop: Shop) -> None:
    """TA29: a store knows a write of a former table by its token, however late it arrives."""
    with shop.one.writing(ORDERS) as before:
        pass
    shop.cluster.change(drop())
    shop.cluster.change(table())
    with shop.one.writing(ORDERS) as after:
        assert before.token < after.token
    assert shop.one.is_closed(before.incarnation)
    assert not shop.one.is_closed(after.incarnation)
    assert shop.one.table_of(before.incarnation) is None
    assert shop.one.table_of(after.incarnation) == after


def test_a_write_must_suit_both_definitions_while_one_is_prepared(shop: Shop) -> None:
    """TA23: otherwise it is tried again."""
    with shop.cluster.cut_off("n2"):
        shop.cluster.change(alter(ORDERS, add("city"), drop_column("note")), wait=False)
        with shop.one.writing(ORDERS) as found:
            assert [each.name for each in found.writable] == ["id"]
            with pytest.raises(BeingAltered):
                found.writable_column("city")


def test_both_names_of_a_table_that_is_renamed_are_refused_for_a_moment(shop: Shop) -> None:
    """TA24: then it is there under the new one."""
    incarnation = shop.one.table(ORDERS).incarnation
    with shop.cluster.cut_off("n2"):
        shop.cluster.change(rename(ORDERS, "shop.sales"), wait=False)
        with pytest.raises(BeingDeleted):
            shop.one.table(ORDERS)
        with pytest.raises(BeingCreated):
            shop.one.table("shop.sales")
    shop.cluster.advance(0.4)
    assert shop.one.table("shop.sales").incarnation == incarnation


def test_a_right_that_is_taken_away_is_honoured_by_nobody(shop: Shop) -> None:
    """TA26: the revocation is in force everywhere when it is committed; who is cut off fails closed."""
    name = f"ada@{ORDERS}"
    shop.cluster.change(grant(name))
    assert shop.two.allows("ada", READ, ORDERS)
    assert not shop.two.allows("ada", Privilege.WRITE, ORDERS)
    assert not shop.two.allows("bob", READ, ORDERS)
    with pytest.raises(BadInput, match="is no right"):
        shop.two.allows("ada", "READ", ORDERS)  # type: ignore[arg-type]  # what a service without types may say
    with shop.cluster.cut_off("n2"):
        shop.cluster.change(drop(name, ObjectKind.GRANT))
        assert not shop.one.allows("ada", READ, ORDERS)
        with pytest.raises(Fenced):
            shop.two.allows("ada", READ, ORDERS)
    shop.cluster.advance(0.4)
    assert not shop.two.allows("ada", READ, ORDERS)


def test_nobody_is_denied_by_a_node_that_has_not_heard_of_the_grant(shop: Shop) -> None:
    """TA27: the asker says from which position it knows of it."""
    with shop.cluster.cut_off("n2"):
        number = shop.cluster.change(grant(f"ada@{ORDERS}"), wait=False)
        assert not shop.two.allows("ada", READ, ORDERS)
        with pytest.raises(NotCaughtUp):
            shop.two.allows("ada", READ, ORDERS, at_least=number)
        with pytest.raises(NotCaughtUp):
            shop.two.table(ORDERS, at_least=number)
    shop.cluster.advance(0.4)
    granted = shop.row(number).closed_at
    assert shop.two.allows("ada", READ, ORDERS, at_least=granted)


def test_a_node_may_serve_tables_stale_with_their_age_but_never_writes_or_rights(shop: Shop) -> None:
    """TA30: a choice per kind; what is stale says how old it may be."""
    stale = shop.join("n3", serve_stale=(ObjectKind.TABLE,))
    assert stale.table(ORDERS).age_ms is None
    with shop.cluster.cut_off("n3"):
        shop.cluster.change(alter(ORDERS, add("city")))
        shop.cluster.advance(1)
        found = stale.table(ORDERS)
        assert columns(found) == ["id", "note"]
        assert found.age_ms is not None
        assert found.age_ms > shop.cluster.terms.fence_ms
        with stale.using(ORDERS) as used:
            assert used.age_ms == found.age_ms
        with pytest.raises(Fenced), stale.writing(ORDERS):
            raise AssertionError("a fenced node has begun to write")
        for ask in (stale.database, stale.view):
            with pytest.raises(Fenced):
                ask("shop")
        with pytest.raises(Fenced):
            stale.allows("ada", READ, ORDERS)
        assert stale.ttl_ms(ORDERS) is None
    shop.cluster.advance(1)
    assert stale.table(ORDERS).age_ms is None
    assert columns(stale.table(ORDERS)) == ["id", "note", "city"]


def test_a_read_that_began_under_the_lease_does_not_become_a_stale_one(shop: Shop) -> None:
    """TA30: it was not labelled."""
    stale = shop.join("n3", serve_stale=(ObjectKind.TABLE,))
    with pytest.raises(Fenced), shop.cluster.cut_off("n3"), stale.using(ORDERS):
        shop.cluster.advance(3)


def test_rights_cannot_be_served_stale(shop: Shop) -> None:
    """TA30: grants always fail closed."""
    with pytest.raises(BadInput, match="GRANT"):
        shop.cluster.node("n3", serve_stale=(ObjectKind.TABLE, ObjectKind.GRANT))


def test_nothing_expires_while_that_is_not_proven(shop: Shop) -> None:
    """TA25: while fenced the time to live never deletes; nor of what is unknown, or created, or dropped."""
    shop.cluster.change(ttl(60_000))
    assert shop.two.ttl_ms(ORDERS) == 60_000
    assert shop.two.ttl_ms("shop.other") is None
    assert shop.cluster.node("n9").ttl_ms(ORDERS) is None
    with shop.cluster.cut_off("n2"):
        shop.cluster.change(ttl(FOREVER), wait=False)
        assert shop.one.ttl_ms(ORDERS) == FOREVER
        assert shop.two.ttl_ms(ORDERS) == 60_000
        shop.cluster.advance(3)
        assert shop.two.ttl_ms(ORDERS) is None
    shop.cluster.advance(1)
    assert shop.two.ttl_ms(ORDERS) == FOREVER
    with shop.cluster.cut_off("n2"):
        shop.cluster.change(drop(), wait=False)
        assert shop.one.ttl_ms(ORDERS) is None


def test_heartbeats_depend_on_nothing_that_a_fence_blocks(shop: Shop) -> None:
    """TA18: every guard refuses, and the node beats on and so comes back by itself."""
    node = shop.one
    shop.cluster.stop_coordinator()
    shop.cluster.advance(3)
    heartbeats = len(list(shop.cluster.log.entries(Topic.HEARTBEATS)))
    shop.cluster.advance(2)
    for ask in (node.table, node.view, node.database):
        with pytest.raises(Fenced):
            ask(ORDERS)
    for guard in (node.using(ORDERS), node.writing(ORDERS)):
        with pytest.raises(Fenced), guard:
            raise AssertionError("a fenced node has begun")
    for refused in (node.tables, lambda: node.table_of(1), lambda: node.allows("ada", READ, ORDERS)):
        with pytest.raises(Fenced):
            refused()
    assert node.ttl_ms(ORDERS) is None
    beaten = [CODEC.decode(each.value) for each in list(shop.cluster.log.entries(Topic.HEARTBEATS))[heartbeats:]]
    own = [each for each in beaten if isinstance(each, Heartbeat) and each.node == "n1"]
    assert len(own) >= 10
    assert all(each.fenced for each in own)
    shop.cluster.start_coordinator()
    shop.cluster.advance(1)
    assert columns(node.table(ORDERS)) == ["id", "note"]


def test_what_was_never_entered_or_is_closed_serves_nothing(shop: Shop) -> None:
    """TA18: a node begins fenced."""
    with shop.cluster.node("n3", serve_stale=(ObjectKind.TABLE,)) as node:
        node.table(ORDERS)
    with pytest.raises(Fenced):
        node.table(ORDERS)
    assert node.ttl_ms(ORDERS) is None


def test_a_view_is_seen_through_its_table(shop: Shop) -> None:
    """TA9: on every node, with the table's columns."""
    shop.cluster.change(view("shop.notes", ORDERS, "note"))
    found = shop.two.view("shop.notes")
    assert [each.name for each in found.columns] == ["note"]
    assert found.table == shop.two.table(ORDERS)
    assert shop.two.database("shop").ttl_ms == FOREVER


@pytest.mark.parametrize(
    "statements", [(drop("shop.notes", ObjectKind.VIEW),), (alter(ORDERS, retype("count", LONG)),)]
)
def test_a_read_through_a_view_fails_if_the_view_or_its_table_is_another_at_its_end(
    shop: Shop, statements: tuple[Statement, ...]
) -> None:
    """TA28: what it shows is the table's."""
    shop.cluster.change(alter(ORDERS, add("count", INT)), view("shop.notes", ORDERS, "note"))
    with shop.one.viewing("shop.notes") as found:
        assert found.table == shop.one.table(ORDERS)
    with pytest.raises(Changing), shop.one.viewing("shop.notes"):
        shop.cluster.change(*statements)


def test_a_client_answers_from_what_it_has_applied_and_says_how_old_that_is(shop: Shop) -> None:
    """TA30: nobody waits for it; what it may not do is to let data expire."""
    client = shop.join("c1", kind=NodeKind.CLIENT)
    with shop.cluster.cut_off("c1"):
        shop.cluster.change(alter(ORDERS, add("city")))
        shop.cluster.advance(1)
        with client.using(ORDERS) as found:
            assert columns(found) == ["id", "note"]
            assert found.age_ms is not None
            assert 1_000 <= found.age_ms <= shop.cluster.terms.fence_ms
        assert client.ttl_ms(ORDERS) is None
    assert columns(client.table(ORDERS)) == ["id", "note", "city"]
    assert shop.one.table(ORDERS).age_ms is None


HOUR_S = 3_600.0
LOOKS: tuple[tuple[str, Callable[..., object]], ...] = (
    ("a right", lambda node, **rest: node.allows("ada", READ, ORDERS, **rest)),
    ("a table", lambda node, **rest: node.table(ORDERS, **rest)),
    ("a view", lambda node, **rest: node.view("shop.notes", **rest)),
    ("a database", lambda node, **rest: node.database("shop", **rest)),
    ("all tables", lambda node, **rest: node.tables(**rest)),
    ("what an incarnation is of", lambda node, **rest: node.table_of(incarnation_of(node), **rest)),
    ("a read", lambda node, **rest: read_by(node.using(ORDERS, **rest))),
    ("a read through a view", lambda node, **rest: read_by(node.viewing("shop.notes", **rest))),
    ("a type", lambda node, **rest: node.metadata("Customer", **rest)),
    ("all types", lambda node, **rest: node.types(**rest)),
)


def incarnation_of(node: Node) -> int:
    return node.table(ORDERS, max_age_s=HOUR_S).incarnation


def read_by(guard: AbstractContextManager[object]) -> object:
    with guard as found:
        return found


def ages(answer: object) -> list[int | None]:
    """How old the parts of an answer say that they are; nothing for a right."""
    match answer:
        case bool():
            return []
        case dict():
            return [each.age_ms for each in answer.values()]
        case list():
            return [each.age_ms for each in answer]
    return [answer.age_ms]  # type: ignore[attr-defined]


@pytest.fixture
def asked(shop: Shop) -> tuple[Shop, Node]:
    """A client, and a shop with all that it can be asked for."""
    shop.cluster.change(view("shop.notes", ORDERS, "note"), grant(f"ada@{ORDERS}"))
    shop.one.propose(ObjectType("Customer", {"id": "long"}))
    return shop, shop.join("c1", kind=NodeKind.CLIENT)


def test_a_client_that_is_cut_off_is_as_old_as_it_says_and_fails_closed_behind_the_fence(
    asked: tuple[Shop, Node],
) -> None:
    """TA30: everything that it could say is revoked, dropped and removed meanwhile; `max_age_s` takes it all the same,
    labelled, and no older than it says."""
    shop, client = asked
    for name, look in LOOKS:
        assert look(client), name
        assert all(age is not None and age <= 1_000 for age in ages(look(client))), name
        assert all(age is None for age in ages(look(shop.one))), name
    with shop.cluster.cut_off("c1"):
        shop.cluster.change(drop(f"ada@{ORDERS}", ObjectKind.GRANT))
        shop.cluster.change(drop("shop", ObjectKind.DATABASE))
        shop.cluster.advance(4)
        assert client.phase is Phase.MEMBER
        for name, look in LOOKS:
            with pytest.raises(Fenced, match="has not heard of the cluster"):
                look(client)
            answer = look(client, max_age_s=HOUR_S)
            assert answer, name
            assert all(age is not None and age >= 4_000 for age in ages(answer)), name
            with pytest.raises(Fenced, match="3 s were allowed"):
                look(client, max_age_s=3)
        with pytest.raises(Fenced), client.writing(ORDERS):
            pass
    assert not client.allows("ada", READ, ORDERS)
    with pytest.raises(NotFound):
        client.table(ORDERS)


def test_who_may_have_less_than_a_fence_says_so(asked: tuple[Shop, Node]) -> None:
    """A second, where the fence is two; a server's answer is proven to be of now."""
    shop, client = asked
    with shop.cluster.cut_off("c1"):
        shop.cluster.advance(1.5)
        assert client.lease.is_valid
        for name, look in LOOKS:
            assert look(client), name
            with pytest.raises(Fenced):
                look(client, max_age_s=1)
    assert shop.one.table(ORDERS, max_age_s=0).age_ms is None


def test_a_type_that_a_client_has_waited_for_is_as_old_as_its_look(shop: Shop) -> None:
    """What it has heard since was not looked at: there may be a newer version by now."""
    client = shop.join("c1", kind=NodeKind.CLIENT)
    with shop.cluster.cut_off(shop.two.name):
        outcome = shop.one.propose(ObjectType("Customer", {"id": "long"}), wait="decided")
        client.catch_up(outcome.position)
        reading = client._agreed("Customer", None, None)
        shop.cluster.advance(0.5)
        assert not reading.future.done()
    shop.cluster.advance(0.5)
    found = reading.result(0)
    assert found is not None
    assert found.age_ms is not None
    assert found.age_ms >= 1_000


def test_a_client_that_has_failed_answers_nobody_whatever_age_will_do(shop: Shop) -> None:
    """What a hook has not taken in is not as old as it seems: it is wrong."""
    client, is_armed = shop.cluster.node("c1", kind=NodeKind.CLIENT), threading.Event()

    def fail(name: str, table: object) -> None:
        if is_armed.is_set():
            raise OSError("disk full")

    client.on_table(fail)
    shop.enter(client)
    assert client.table(ORDERS, max_age_s=HOUR_S).name == ORDERS
    is_armed.set()
    shop.cluster.change(alter(ORDERS, add("city")))
    assert isinstance(client.failure, HookFailed)
    for name, look in (("a table", LOOKS[1][1]), ("a right", LOOKS[0][1])):
        with pytest.raises(HookFailed):
            pytest.fail(f"it answers for {name}: {look(client, max_age_s=HOUR_S)}")


def test_a_read_of_a_client_that_outlives_the_fence_is_not_answered(asked: tuple[Shop, Node]) -> None:
    """As a server's."""
    shop, client = asked
    with shop.cluster.cut_off("c1"):
        reading = client.using(ORDERS)
        reading.__enter__()
        relaxed = client.using(ORDERS, max_age_s=2)
        relaxed.__enter__()
        shop.cluster.advance(3)
        for each in (reading, relaxed):
            with pytest.raises(Fenced):
                each.__exit__(None, None, None)


def test_a_fenced_server_answers_who_takes_an_older_answer_but_not_for_rights(asked: tuple[Shop, Node]) -> None:
    """TA30: its word on a right is proven or not given."""
    shop, _ = asked
    shop.cluster.change(database("more"))
    with shop.cluster.leases_expired():
        for name, look in LOOKS[1:]:
            with pytest.raises(Fenced):
                look(shop.one)
            answer = look(shop.one, max_age_s=HOUR_S)
            assert all(age is not None and age > shop.cluster.terms.fence_ms for age in ages(answer)), name
        with pytest.raises(BadInput, match="under its lease"):
            shop.one.allows("ada", READ, ORDERS, max_age_s=HOUR_S)


def test_an_honoured_right_of_before_is_logged(asked: tuple[Shop, Node], caplog: pytest.LogCaptureFixture) -> None:
    """Whoever looks for a revoked right that was honoured finds it."""
    shop, client = asked
    with shop.cluster.cut_off("c1"):
        shop.cluster.advance(4)
        with caplog.at_level(logging.WARNING):
            assert client.allows("ada", READ, ORDERS, max_age_s=HOUR_S)
    assert f"c1 answers for a right on {ORDERS} as it was 4" in caplog.text


@pytest.mark.parametrize("look", [look for _, look in LOOKS], ids=[name for name, _ in LOOKS])
def test_whoever_knows_of_a_position_is_not_answered_from_before_it(
    asked: tuple[Shop, Node], look: Callable[..., object]
) -> None:
    """TA27: types too."""
    shop, client = asked
    with shop.cluster.cut_off("c1"):
        number = shop.cluster.change(database("more"))
        with pytest.raises(NotCaughtUp):
            look(client, at_least=number)
    assert look(client, at_least=number)


def test_who_must_see_a_change_waits_until_its_node_has_applied_it(shop: Shop) -> None:
    """TA27: and is told when that takes too long."""
    with shop.cluster.cut_off("n2"):
        number = shop.cluster.change(alter(ORDERS, add("city")), wait=False)
        with pytest.raises(NotCaughtUp, match=f"not {number} yet"):
            shop.two.catch_up(number, timeout_s=0)
    shop.two.catch_up(number)
    assert "city" in columns(shop.two.table(ORDERS, at_least=number))


def test_an_asyncio_node_uses_tables_in_the_same_way(shop: Shop) -> None:
    """The guards wait for nobody; `async with` and `with` are the same."""
    asyncio.run(_use_tables(shop))


async def _use_tables(shop: Shop) -> None:
    async with shop.cluster.async_node("a1") as node:
        async with node.using(ORDERS) as found:
            assert columns(found) == ["id", "note"]
        with node.writing(ORDERS) as found:
            assert found.token == shop.one.table(ORDERS).token
        reading = node.using(ORDERS)
        await reading.__aenter__()
        number = await asyncio.to_thread(shop.cluster.change, drop())
        with pytest.raises(BeingDeleted):
            await reading.__aexit__(None, None, None)
        await node.catch_up(number)


def test_many_readers_see_no_definition_behind_its_commit(shop: Shop) -> None:
    """TA23: readers in threads, while a table is altered again and again; each reading that ends in order has used a
    version at least as new as the last one that was committed before it began."""
    committed, stopping, wrong = [1], threading.Event(), list[str]()
    rounds = [0, 0]

    def read(number: int, node: Node) -> None:
        while not stopping.wait(0.001):
            before = committed[0]
            with suppress(BeingAltered), node.using(ORDERS) as found:
                version = found.version
                rounds[number] += 1
                if version < before:
                    wrong.append(f"{node.name} has read by {version} when {before} was committed")

    readers = [threading.Thread(target=read, args=each) for each in enumerate((shop.one, shop.two))]
    for reader in readers:
        reader.start()
    for number in range(4):
        shop.cluster.change(alter(ORDERS, add(f"c{number}")))
        committed[0] += 1
    stopping.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert min(rounds) > 0
    assert shop.one.table(ORDERS).version == committed[0]
