"""Tables of the store, changed under it: nothing of what is dropped is shown or kept, no committed column is missed."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.unit.streams.local.demo.shops import GROUP, Shop, Shops
from tests.unit.streams.rules.changing import (
    INT,
    LONG,
    TEXT,
    add,
    alter,
    database,
    drop,
    drop_column,
    rename,
    rename_column,
    retype,
    table,
)

from topolog.events.ids import Position
from topolog.events.objects import DataDeletionConfirmed
from topolog.streams.local.demo.replication.messages import Cell, Version
from topolog.streams.local.demo.table_rows import row_key
from topolog.streams.node.testing import LocalCluster
from topolog.streams.rules.affinity import partition_of

ORDERS = "shop.orders"
KEYS = [str(number) for number in range(1, 13)]


@pytest.fixture
def shops() -> Iterator[Shops]:
    """Two nodes, and shop.orders with a clerk in each row."""
    with LocalCluster() as local:
        found = Shops(local)
        try:
            found.open("n1", "n2")
            local.change(database(), table(clerk=TEXT, amount=INT))
            found.rest()
            for key in KEYS:
                assert found.ask("PUT", ORDERS, key, clerk=f"clerk {key}")[0] == 204
            yield found
        finally:
            found.close()


def primary_of(shops: Shops, key: str) -> Shop:
    return shops.by_name[shops.any.node.route(GROUP.name, key).node]


def kept(shops: Shops) -> list[str]:
    """Whatever rows of tables are in copies."""
    return [key for shop in shops.by_name.values() for key in shop.shards.keys(acting_only=False)]


def test_a_row_has_the_columns_of_its_table(shops: Shops) -> None:
    """What it has no value of is null; the key is known by the path. On any node, and counted under the table."""
    assert shops.ask("GET", ORDERS, "7") == (200, {"id": 7, "clerk": "clerk 7", "amount": None})
    assert shops.ask("GET", ORDERS, "99")[0] == 404
    assert shops.ask("DELETE", ORDERS, "7")[0] == 204
    assert shops.ask("GET", ORDERS, "7")[0] == 404
    assert {name for shop in shops.by_name.values() for name in shop.store.counts()["copies"]} == {ORDERS}


@pytest.mark.parametrize(
    ("columns", "said"),
    [({"clrk": "Bo"}, "no column 'clrk'"), ({"amount": "many"}, "amount"), ({"id": 8}, "its id is 8")],
)
def test_what_makes_no_sense_in_a_table_is_refused(shops: Shops, columns: dict[str, object], said: str) -> None:
    status, problem = shops.ask("PUT", ORDERS, "7", **columns)
    assert (status, said in problem["detail"]) == (400, True)


def test_a_table_that_is_not_there_is_not_found(shops: Shops) -> None:
    """Neither read nor written; a name with a dot is a table's."""
    for method in ("GET", "PUT", "DELETE"):
        status, problem = shops.ask(method, "shop.parts", "7")
        assert (status, problem["detail"]) == (404, "There is no table 'shop.parts'.")


def test_a_column_is_there_for_all_rows_once_it_is_committed(shops: Shops) -> None:
    """Null in those of before; with its number, whatever it is called by then."""
    shops.local.change(alter(ORDERS, add("note")))
    assert shops.ask("GET", ORDERS, "7")[1] == {"id": 7, "clerk": "clerk 7", "amount": None, "note": None}
    assert shops.ask("PUT", ORDERS, "7", clerk="Bo", note="soon")[0] == 204
    shops.local.change(alter(ORDERS, rename_column("note", "remark"), retype("amount", LONG)))
    assert shops.ask("GET", ORDERS, "7")[1] == {"id": 7, "clerk": "Bo", "amount": None, "remark": "soon"}
    assert shops.ask("PUT", ORDERS, "7", amount=1 << 40)[0] == 204


def test_a_column_that_was_dropped_and_added_again_is_empty_and_its_values_are_gone(shops: Shops) -> None:
    """Also from memory: every node has deleted them, and said so."""
    number = shops.local.change(alter(ORDERS, drop_column("clerk")))
    shops.local.change(alter(ORDERS, add("clerk")))
    assert shops.ask("GET", ORDERS, "7")[1] == {"id": 7, "amount": None, "clerk": None}
    shops.until(lambda: _confirmed(shops, number) == {"n1", "n2"})
    values = [value for shop in shops.by_name.values() for _, value in _cells(shop)]
    assert len(values) == 2 * len(KEYS)
    assert not any(b"clerk" in value for value in values)


def test_nothing_is_left_of_a_dropped_table_and_its_name_is_free(shops: Shops) -> None:
    """TA31: every node has deleted its rows and said so; another table of the name begins empty."""
    number = shops.local.change(drop())
    assert [shops.ask("GET", ORDERS, key)[0] for key in KEYS] == [404] * len(KEYS)
    shops.until(lambda: _confirmed(shops, number) == {"n1", "n2"})
    assert kept(shops) == []
    shops.local.change(table(clerk=TEXT))
    assert [shops.ask("GET", ORDERS, key)[0] for key in KEYS] == [404] * len(KEYS)
    assert shops.ask("PUT", ORDERS, "7", clerk="Bo")[0] == 204
    assert shops.ask("GET", ORDERS, "7") == (200, {"id": 7, "clerk": "Bo"})


def test_a_table_that_gets_another_name_has_its_rows(shops: Shops) -> None:
    shops.local.change(rename(ORDERS, "shop.sales"))
    assert shops.ask("GET", ORDERS, "7")[0] == 404
    assert shops.ask("GET", "shop.sales", "7")[1]["clerk"] == "clerk 7"


def test_while_a_change_waits_for_a_silent_node_the_others_answer_what_is_right_either_way(shops: Shops) -> None:
    """A dropped table is refused for the moment, an added column shown and not written, the rest goes on; 503 says when
    to come back."""
    with shops.local.cut_off("n2"):
        shops.local.change(alter(ORDERS, add("note")), wait=False)
        key = next(key for key in KEYS if primary_of(shops, key).node.name == "n1")
        shop = shops.by_name["n1"]
        assert shop.ask("GET", f"/rows/{ORDERS}/{key}")[1]["note"] is None
        status, problem, headers = shop.ask("PUT", f"/rows/{ORDERS}/{key}", b'{"note": "soon"}')
        assert (status, headers["Retry-After"]) == (503, "1"), problem
        assert "being changed" in problem["detail"]
        shops.local.change(database("other"), table("other.parts"), wait=False)
        status, problem, _ = shop.ask("GET", "/rows/other.parts/7")
        assert (status, "being created" in problem["detail"]) == (503, True)
    shops.until(lambda: shop.node.table(ORDERS).status.name == "USING")
    assert shops.ask("PUT", ORDERS, key, note="soon")[0] == 204


def test_a_silent_node_holds_up_a_drop_no_longer_than_its_lease_and_then_refuses(shops: Shops) -> None:
    """TA18: while cut off it refuses once its lease is over; back again, it knows of no such table and has no rows
    of it."""
    with shops.local.cut_off("n2"):
        with shops.local.cut_off():
            number = shops.local.change(drop())
        problems = [shops.by_name["n2"].ask("GET", f"/rows/{ORDERS}/{key}") for key in KEYS]
        assert {status for status, *_ in problems} == {503}
        assert _confirmed(shops, number) <= {"n1"}
    shops.until(lambda: shops.by_name["n2"].node.lease.is_valid)
    assert shops.by_name["n2"].ask("GET", f"/rows/{ORDERS}/7")[0] == 404
    shops.until(lambda: kept(shops) == [])


def test_what_still_travels_when_a_table_is_dropped_is_not_stored(shops: Shops) -> None:
    """TA29: a write that was paused behind its checks, and a page of who has not heard of it yet."""
    incarnation = shops.any.node.table(ORDERS).incarnation
    shops.local.change(drop())
    shops.until(lambda: kept(shops) == [])
    shop = primary_of(shops, "7")
    partition = shop.shards._replica.partition((GROUP.name, partition_of("7", GROUP.partitions)))
    assert partition is not None
    partition.content.put(row_key(incarnation, "7"), Cell(Version(Position(10_000), 1), b'{"1": 7}'))
    assert shop.shards.write(row_key(incarnation, "7"), b'{"1": 7}')
    assert kept(shops) == []


def test_who_was_away_while_a_table_was_dropped_deletes_what_its_disk_has(tmp_path: Path) -> None:
    """Nobody tells it: it asks for what it finds, and its file has none of it afterwards."""
    with LocalCluster() as local:
        shops = Shops(local)
        shops.folder, shops.group = tmp_path, msgspec.structs.replace(GROUP, persistent=True)

        def is_on_disk(name: str) -> bool:
            return former in (tmp_path / f"{name}.journal").read_bytes()

        try:
            shops.open("n1", "n2")
            local.change(database(), table(clerk=TEXT), table("shop.parts", size=INT))
            former = row_key(shops.any.node.table(ORDERS).incarnation, "").encode()
            shops.rest()
            for key, name in itertools.product(KEYS, (ORDERS, "shop.parts")):
                shops.ask("PUT", name, key, **({"clerk": "Ada"} if name == ORDERS else {"size": 5}))
            shops.kill("n2")
            local.change(drop(), alter("shop.parts", drop_column("size")))
            shops.until(lambda: not is_on_disk("n1"))
            assert is_on_disk("n2")
            shops.open("n2")
            shops.rest()
            shops.until(lambda: not is_on_disk("n2"))
            assert {value for _, value in _cells(shops.by_name["n2"])} == {b'{"1":%d}' % int(key) for key in KEYS}
            assert shops.ask("GET", "shop.parts", "7") == (200, {"id": 7})
        finally:
            shops.close()


def _cells(shop: Shop) -> list[tuple[str, bytes]]:
    with shop.shards._lock:
        return [(key, cell.value or b"") for key, cell in shop.shards._replica.rows()]


def _confirmed(shops: Shops, number: int) -> set[str]:
    return {each.node for each in shops.local.decisions(DataDeletionConfirmed) if number in each.changes}
