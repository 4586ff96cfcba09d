"""Copies of the store's tables as they are compared, damaged on purpose and put right, on real nodes and real HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.streams.local.demo.shops import GROUP, Shop, Shops
from tests.unit.streams.rules.changing import INT, TEXT, database, table

from topolog.events.errors import BadInput, NotFound, Unreachable
from topolog.events.object_definition import Column, ColumnType
from topolog.streams.local.demo.copies import Copies, Corrected, Correction, Rotten, Told, ToldRow, rotten
from topolog.streams.local.demo.others import Connections
from topolog.streams.local.demo.rotting import rot_backups
from topolog.streams.node.testing import LocalCluster

ORDERS = "shop.orders"
KEYS = [str(number) for number in range(1, 13)]


@pytest.fixture
def shops(tmp_path: Path) -> Iterator[Shops]:
    """Three nodes with disks, and shop.orders with a clerk in each row."""
    with LocalCluster() as local:
        found = Shops(local)
        found.folder, found.group = tmp_path, msgspec.structs.replace(GROUP, persistent=True)
        try:
            found.open("n1", "n2", "n3")
            local.change(database(), table(clerk=TEXT, amount=INT))
            found.rest()
            for key in KEYS:
                assert found.ask("PUT", ORDERS, key, clerk=f"clerk {key}", amount=5)[0] == 204
            found.rest()
            yield found
        finally:
            found.close()


def told(shop: Shop, role: str) -> tuple[Told, list[ToldRow]]:
    with Connections() as connections:
        response = connections.ask(shop.endpoint, "GET", f"/copies/{ORDERS}?role={role}")
    assert response.status == 200, response.detail
    first, *lines = response.body.splitlines()
    return msgspec.json.decode(first, type=Told), [msgspec.json.decode(line, type=ToldRow) for line in lines]


def replica(shops: Shops, role: str) -> dict[str, tuple[Shop, ToldRow]]:
    """All rows of the copies with this role by key, each with the node that has told it."""
    return {row.key: (shop, row) for shop in shops.by_name.values() for row in told(shop, role)[1]}


def correct(shop: Shop, *corrections: Correction) -> Corrected:
    status, found, _ = shop.ask("POST", f"/copies/{ORDERS}", msgspec.json.encode(corrections))
    assert status == 200, found
    return msgspec.convert(found, Corrected)


def rot(shop: Shop, key: str) -> Rotten:
    status, found, _ = shop.ask("POST", f"/rot/{ORDERS}/{key}")
    assert status == 200, found
    return msgspec.convert(found, Rotten)


def correction(row: ToldRow, **columns: Any) -> Correction:
    return Correction(row.key, row.version, row.kept, {**row.row, **columns})


def test_the_acting_copies_and_the_backups_are_each_the_whole_table(shops: Shops) -> None:
    """Every partition is told once for each role, under one token, with the same rows and versions."""
    for role in ("acting", "backup"):
        partitions = [number for shop in shops.by_name.values() for number in told(shop, role)[0].partitions]
        assert sorted(partitions) == list(range(GROUP.partitions))
    acting, backup = replica(shops, "acting"), replica(shops, "backup")
    assert sorted(acting) == sorted(KEYS)
    assert {key: row for key, (_, row) in acting.items()} == {key: row for key, (_, row) in backup.items()}
    assert all(acting[key][0] is not backup[key][0] for key in KEYS)
    assert acting["7"][1].row == {"id": 7, "clerk": "clerk 7", "amount": 5}
    first = told(shops.any, "acting")[0]
    assert (first.table, first.key, [each.name for each in first.columns]) == (ORDERS, "id", ["id", "clerk", "amount"])


def test_deleted_rows_and_those_of_other_tables_are_not_told(shops: Shops) -> None:
    shops.local.change(table("shop.parts", size=INT))
    assert shops.ask("PUT", "shop.parts", "77", size=1)[0] == 204
    assert shops.ask("DELETE", ORDERS, "7")[0] == 204
    shops.rest()
    assert sorted(replica(shops, "backup")) == sorted({*KEYS} - {"7"})


def test_a_rotten_row_shows_in_its_copy_alone_under_the_same_version(shops: Shops) -> None:
    """No client sees it, for backups answer nobody; it is on the disk too, so it is there after a restart."""
    shop, before = replica(shops, "backup")["7"]
    what = rot(shop, "7")
    _, after = replica(shops, "backup")["7"]
    assert after.version == before.version
    assert after.kept != before.kept
    assert after.row == {**before.row, what.column: what.after}
    assert before.row[what.column] == what.before != what.after
    assert shops.ask("GET", ORDERS, "7")[1] == before.row
    name = shop.node.name
    shops.kill(name)
    shops.open(name)
    back = shops.by_name[name]
    shops.until(lambda: replica(shops, "backup").get("7", (None,))[0] is back)  # another may have stood in meanwhile
    assert replica(shops, "backup")["7"][1] == after


def test_a_rotten_row_is_put_right(shops: Shops) -> None:
    """With the values of the acting copy, under the version that it had: the copies are equal again."""
    shop, _ = replica(shops, "backup")["7"]
    rot(shop, "7")
    _, damaged = replica(shops, "backup")["7"]
    right = replica(shops, "acting")["7"][1]
    assert correct(shop, correction(damaged, **right.row)) == Corrected(written=1, skipped=0)
    assert replica(shops, "backup")["7"][1] == right


def test_what_is_no_longer_what_was_compared_is_left_as_it_is(shops: Shops) -> None:
    """Written by a client meanwhile, put right already, deleted meanwhile, or never there."""
    shop, row = replica(shops, "backup")["7"]
    rot(shop, "7")
    assert correct(shop, correction(row)) == Corrected(written=0, skipped=1), "other bytes under the same version"
    _, damaged = replica(shops, "backup")["7"]
    assert shops.ask("PUT", ORDERS, "7", clerk="Ada")[0] == 204
    shops.rest()
    assert correct(shop, correction(damaged, **row.row)) == Corrected(written=0, skipped=1), "another version"
    assert shops.ask("DELETE", ORDERS, "7")[0] == 204
    shops.rest()
    assert correct(shop, correction(damaged, **row.row)) == Corrected(written=0, skipped=1), "a deleted row"
    assert "7" not in replica(shops, "backup")


def test_the_acting_copy_is_changed_by_writes_alone(shops: Shops) -> None:
    shop, row = replica(shops, "acting")["7"]
    status, problem, _ = shop.ask("POST", f"/copies/{ORDERS}", msgspec.json.encode([correction(row, clerk="Bo")]))
    assert (status, "This node acts for" in problem["detail"]) == (409, True)
    assert replica(shops, "acting")["7"][1] == row


def test_what_makes_no_sense_is_answered_with_what_is_wrong(shops: Shops) -> None:
    for method, path, body, status, said in (
        ("GET", f"/copies/{ORDERS}?role=third", b"", 400, "'third' is no role of a copy"),
        ("GET", f"/copies/{ORDERS}", b"", 400, "role=acting or ?role=backup"),
        ("GET", "/copies/shop.parts?role=acting", b"", 404, "no table 'shop.parts'"),
        ("GET", "/copies/", b"", 404, "There is /copies/<table>"),
        ("POST", f"/copies/{ORDERS}", b"[7]", 400, "no list of corrections"),
        ("POST", f"/rot/{ORDERS}/99", b"", 404, "no row '99'"),
    ):
        found, problem, _ = shops.any.ask(method, path, body)
        assert (found, said in problem["detail"]) == (status, True), problem


def test_a_node_that_is_not_of_a_demo_lets_nothing_rot(shops: Shops) -> None:
    shop, row = replica(shops, "backup")["7"]
    with pytest.raises(NotFound, match="up --demo"):
        Copies(shop.shards).rot(ORDERS, "7")
    assert replica(shops, "backup")["7"][1] == row


def test_a_copy_that_cannot_be_read_is_damaged_and_says_where(shops: Shops) -> None:
    """RE7: whoever compares hears of it, and of the row."""
    shop, _ = replica(shops, "backup")["7"]
    incarnation = shop.node.table(ORDERS).incarnation
    shop.shards.rot(f"/{incarnation}/7", lambda kept: kept.replace(b":5", b':"five"'))
    status, problem, _ = shop.ask("GET", f"/copies/{ORDERS}?role=backup")
    assert (status, "Row '7' of shop.orders cannot be read" in problem["detail"]) == (500, True)


def test_a_node_without_a_lease_tells_nothing(shops: Shops) -> None:
    """It does not know what the others do by now."""
    with shops.local.cut_off("n2"):
        shops.until(lambda: not shops.by_name["n2"].node.lease.is_valid)
        assert shops.by_name["n2"].ask("GET", f"/copies/{ORDERS}?role=backup")[0] == 503


def test_corrupt_damages_so_many_rows_of_backups_and_says_which(shops: Shops) -> None:
    """The same ones for the same seed; what clients read stays as it was."""
    endpoints = [shop.endpoint for shop in shops.by_name.values()]
    before = replica(shops, "backup")
    damaged = rot_backups(endpoints, ORDERS, 3, seed=7)
    assert len({each.key for each in damaged}) == 3
    for each in damaged:
        shop, row = replica(shops, "backup")[each.key]
        assert shop.node.name == each.node
        assert row.row[each.what.column] == each.what.after
    different = {key for key, (_, row) in replica(shops, "backup").items() if row != before[key][1]}
    assert different == {each.key for each in damaged}
    assert {key: row for key, (_, row) in replica(shops, "acting").items()} == {k: r for k, (_, r) in before.items()}
    assert [each.key for each in rot_backups(endpoints, ORDERS, 3, seed=7)] == [each.key for each in damaged]
    assert replica(shops, "backup") == before, "the same bit turned twice"


def test_what_cannot_be_corrupted_is_refused(shops: Shops) -> None:
    endpoints = [shop.endpoint for shop in shops.by_name.values()]
    with pytest.raises(BadInput, match="has 12 rows with a backup, fewer than 13"):
        rot_backups(endpoints, ORDERS, 13, seed=0)
    with pytest.raises(NotFound, match=r"no table 'shop\.parts'"):
        rot_backups(endpoints, "shop.parts", 1, seed=0)
    with shops.local.cut_off("n2"):
        shops.until(lambda: not shops.by_name["n2"].node.lease.is_valid)
        with pytest.raises(Unreachable, match="503"):
            rot_backups(endpoints, ORDERS, 1, seed=0)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (ColumnType.STRING, "Ada", "@da"),
        (ColumnType.INT64, 6, 7),
        (ColumnType.BOOLEAN, True, False),
        (ColumnType.DOUBLE, 1.0, 1.000244140625),
    ],
)
def test_a_value_rots_in_one_bit_and_stays_one_of_its_column(kind: ColumnType, before: Any, after: Any) -> None:
    row = {"1": "key", "2": before}
    found = msgspec.json.decode(rotten([Column("a", kind, 2)], "key", msgspec.json.encode(row)))
    assert found == {"1": "key", "2": after}


def test_a_row_of_which_nothing_can_rot_is_refused() -> None:
    """A date might be none afterwards; what is empty has no bit to turn."""
    columns = [Column("a", ColumnType.DATE, 2), Column("b", ColumnType.STRING, 3), Column("c", ColumnType.INT64, 4)]
    with pytest.raises(BadInput, match="no value that could rot"):
        rotten(columns, "key", b'{"2": "2026-01-02", "3": ""}')
