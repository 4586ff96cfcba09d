"""The example store as replicas: its acting copies and its backups, a rotten row found and put right, on real HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.unit.streams.local.demo.shops import Shop, Shops
from tests.unit.streams.rules.changing import INT, TEXT, add, alter, database, table

from topolog.events.errors import ReplicaFailed
from topolog.events.object_definition import ColumnType
from topolog.events.replica import SentRow
from topolog.events.token_range import FULL
from topolog.events.tree_spec import TreeSpec
from topolog.projections.spark.replica import SparkReplica
from topolog.projections.spark.sources.copied import CopiedSource, Edit, Shape
from topolog.projections.spark.sources.store import VERSION, Part, StoreTable
from topolog.streams.local.demo.rotting import rot_backups
from topolog.streams.node.testing import LocalCluster

ORDERS = "shop.orders"
KEYS = [str(number) for number in range(1, 13)]


@pytest.fixture(scope="module")
def running() -> Iterator[Shops]:
    """Three nodes, and shop.orders with a row of all types under each key."""
    with LocalCluster() as local:
        found = Shops(local)
        try:
            found.open("n1", "n2", "n3")
            blob, day, at = ColumnType.BLOB, ColumnType.DATE, ColumnType.TIMESTAMP
            made = table(clerk=TEXT, amount=INT, is_open=ColumnType.BOOLEAN, photo=blob, day=day, at=at)
            local.change(database(), made)
            found.rest()
            yield found
        finally:
            found.close()


@pytest.fixture
def shops(running: Shops) -> Shops:
    for key in KEYS:
        status, _ = running.ask(
            "PUT",
            ORDERS,
            key,
            clerk=f"clerk {key}",
            amount=5,
            is_open=True,
            photo="/wA=",
            day="2026-02-28",
            at="2026-02-28T12:00:00.5",
        )
        assert status == 204
    running.rest()
    return running


def endpoints(shops: Shops) -> list[str]:
    return [shop.endpoint for shop in shops.by_name.values()]


def original(shops: Shops, part: Part) -> StoreTable:
    return StoreTable(lambda: endpoints(shops), ORDERS, part)


def rows(shops: Shops, part: Part) -> dict[str, dict[str, Any]]:
    with original(shops, part).reading() as (shape, batches):
        names = [each.name for each in shape.columns]
        found = [dict(zip(names, row, strict=True)) for batch in batches for row in batch]
    assert len(found) == len({row["id"] for row in found})
    return {str(row["id"]): row for row in found}


def shape_of(shops: Shops) -> Shape:
    with original(shops, Part.BACKUP).reading() as (shape, _):
        return shape


def acting(shops: Shops, key: str) -> Shop:
    return shops.by_name[shops.any.node.route("rows", key).node]


def test_both_parts_are_the_whole_table_with_its_types(shops: Shops) -> None:
    """And the version of each row, which is the same in both."""
    shape = shape_of(shops)
    assert (shape.key, shape.rows) == (("id",), len(KEYS))
    types = {each.name: each.type for each in shape.columns}
    assert (types["photo"], types["day"], types["at"], types[VERSION]) == ("binary", "date", "timestamp", "string")
    found = rows(shops, Part.ACTING)
    assert sorted(found) == sorted(KEYS)
    assert found == rows(shops, Part.BACKUP)
    assert found["7"]["photo"] == b"\xff\x00"
    assert found["7"]["at"].isoformat() == "2026-02-28T12:00:00.500000+00:00"


def test_versions_sort_as_writes_do(shops: Shops) -> None:
    before = rows(shops, Part.ACTING)["7"][VERSION]
    for number in range(12):
        shops.ask("PUT", ORDERS, "7", clerk=f"{number}")
    assert before < rows(shops, Part.ACTING)["7"][VERSION]


def test_rotten_rows_are_found_and_put_right(spark: SparkSession, shops: Shops, tmp_path: Path) -> None:
    """The incident: by digests the rows differ that rotted; the acting copy's values are written, and all is equal."""
    replicas = {
        part: SparkReplica(
            spark, CopiedSource(original(shops, part), tmp_path / part.value), ORDERS, part.value, ("id",)
        )
        for part in Part
    }
    definition = replicas[Part.ACTING].describe()
    assert not definition.is_writable
    assert replicas[Part.BACKUP].describe() == msgspec.structs.replace(definition, name="backup", is_writable=True)
    spec = TreeSpec(ORDERS, definition.columns, definition.key, 8)

    def digests(part: Part) -> dict[str, tuple[int, int]]:
        found = replicas[part].digests(spec, (FULL,), replicas[part].cut(lambda *_: None), lambda *_: None)
        return {each.key: each.content for each in found}

    damaged = rot_backups(endpoints(shops), ORDERS, 3, seed=1)
    right, wrong = digests(Part.ACTING), digests(Part.BACKUP)
    different = sorted(key for key in right if right[key] != wrong[key])
    assert different == sorted(f"[{each.key}]" for each in damaged)
    contents = replicas[Part.ACTING].rows(spec, different, replicas[Part.ACTING].cut(lambda *_: None))
    sent = [SentRow(key, values, (("backup", wrong[key]),)) for key, values in contents]
    done = replicas[Part.BACKUP].write(spec, sent, None, lambda: None, lambda *_: None)
    assert (done.rows, done.skipped) == (3, 0)
    assert digests(Part.BACKUP) == right
    assert rows(shops, Part.BACKUP) == rows(shops, Part.ACTING)


def test_only_what_the_same_write_has_made_is_put_right(shops: Shops) -> None:
    """A row that a client has written since, one of another version, one that is absent, and a deletion are left."""
    right = rows(shops, Part.ACTING)
    rot_backups(endpoints(shops), ORDERS, len(KEYS), seed=0)
    wrong = rows(shops, Part.BACKUP)
    assert shops.ask("PUT", ORDERS, "1", clerk="Ada")[0] == 204
    edits = [
        Edit((1,), wrong["1"], right["1"]),
        Edit((2,), wrong["2"], {**right["2"], VERSION: "later"}),
        Edit((99,), None, {**right["2"], "id": 99}),
        Edit((3,), wrong["3"], None),
        Edit((4,), wrong["4"], right["4"]),
    ]
    assert original(shops, Part.BACKUP).apply(shape_of(shops), edits, lambda: None) == 1
    after = rows(shops, Part.BACKUP)
    assert after["4"] == right["4"]
    assert {key: after[key] for key in ("2", "3")} == {key: wrong[key] for key in ("2", "3")}
    assert (after["1"]["clerk"], "99" in after) == ("Ada", False)


def test_nothing_is_put_right_once_the_fence_is_down(shops: Shops) -> None:
    """RE3."""

    def down() -> None:
        raise ReplicaFailed("FENCED", "It is not wanted any more.")

    right = rows(shops, Part.ACTING)
    rot_backups(endpoints(shops), ORDERS, 1, seed=3)
    wrong = rows(shops, Part.BACKUP)
    key = next(key for key in KEYS if wrong[key] != right[key])
    with pytest.raises(ReplicaFailed) as fenced:
        original(shops, Part.BACKUP).apply(shape_of(shops), [Edit((int(key),), wrong[key], right[key])], down)
    assert fenced.value.code == "FENCED"
    assert rows(shops, Part.BACKUP) == wrong


def test_a_table_that_is_not_there_all_is_no_replica(shops: Shops) -> None:
    """A node that is not asked, one that does not answer, and a table that nobody has made."""
    one = StoreTable(lambda: endpoints(shops)[:1], ORDERS, Part.ACTING)
    with pytest.raises(ReplicaFailed, match="are not all there at the moment") as partial, one.reading():
        pass
    assert partial.value.code == "IO"
    silent = StoreTable(lambda: ["http://127.0.0.1:9"], ORDERS, Part.ACTING)
    with pytest.raises(ReplicaFailed) as failed, silent.reading():
        pass
    assert failed.value.code == "IO"
    unknown = StoreTable(lambda: endpoints(shops), "shop.parts", Part.ACTING)
    with pytest.raises(ReplicaFailed, match=r"no table 'shop\.parts'") as absent, unknown.reading():
        pass
    assert absent.value.code == "SCHEMA"


def test_a_value_that_is_none_of_its_column_is_corrupt(shops: Shops) -> None:
    """RE7: what no client could have written."""
    shop = next(each for each in shops.by_name.values() if each is not acting(shops, "7"))
    incarnation = shop.node.table(ORDERS).incarnation
    holders = [each for each in shops.by_name.values() if f"/{incarnation}/7" in each.shards.keys(acting_only=False)]
    backup = next(each for each in holders if each is not acting(shops, "7"))
    backup.shards.rot(f"/{incarnation}/7", lambda kept: kept.replace(b"2026-02-28", b"2026-02-99"))
    with pytest.raises(ReplicaFailed, match="Row '7'") as corrupt:
        rows(shops, Part.BACKUP)
    assert corrupt.value.code == "CORRUPT"


def test_another_column_is_another_shape(shops: Shops) -> None:
    """RE14: each cut has the columns that the table has then."""
    shops.local.change(alter(ORDERS, add("note")))
    assert "note" in {each.name for each in shape_of(shops).columns}
