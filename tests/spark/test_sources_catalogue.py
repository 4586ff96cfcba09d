"""Texts that name sources, as `topolog run validator` takes them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.unit.projections.chronicle import Chronicle

from topolog.events.errors import BadInput, NotFound, ReplicaFailed
from topolog.events.token_range import RING, TokenRange
from topolog.projections.projector import Projector
from topolog.projections.spark.sources.catalogue import Catalogue, check


def no_nodes() -> list[str]:
    raise NotFound("Cluster 'main' has no member with service=store.")


@pytest.fixture
def catalogue(spark: SparkSession, tmp_path: Path) -> Catalogue:
    return Catalogue(spark, tmp_path / "work", no_nodes)


def test_each_text_is_a_replica_with_the_key_of_its_rows(
    spark: SparkSession, catalogue: Catalogue, tmp_path: Path
) -> None:
    """Of files as it is said, of a database as it is declared; cuts of two replicas never lie in one folder."""
    spark.range(3).write.parquet(str(tmp_path / "files"))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (name TEXT, id INTEGER PRIMARY KEY)")
    projector = Projector(Chronicle().start().log.reader(), tmp_path / "projector", "main")
    projector.step()
    projector.close()
    keys = {
        f"parquet:{tmp_path}/files#id": ("id",),
        f"parquet:{tmp_path}/files": (),
        f"sqlite:{tmp_path}/shop.db#orders": ("id",),
        f"projection:{tmp_path}/projector#cluster@0": ("key",),
    }
    for number, (text, key) in enumerate(keys.items()):
        replica = catalogue.replica_from(text, "orders", f"r{number}", datacenter="eu")
        told = replica.describe()
        assert (told.id, told.key, told.datacenter) == (f"orders@r{number}", key, "eu")
        assert told.is_writable is (bool(key) and "projection" not in text)
        cut = replica.cut(lambda *_: None)
        assert cut is not None
        replica.release(cut)


def test_a_replica_of_a_shard_says_where_it_is_what_it_holds_and_how_its_keys_lie(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    """RE10, RE11, RE15: the sample of a database is taken of a copy that is not kept, and not taken anew."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO orders VALUES (?)", [(number,) for number in range(1, 13)])
        connection.commit()
    text, half = f"sqlite:{tmp_path}/shop.db#orders", (TokenRange(0, RING // 2),)
    replica = catalogue.replica_from(text, "orders", "r1", datacenter="ams", ranges=half, boundaries=3)
    told = replica.describe()
    assert (told.datacenter, told.ranges, told.boundaries) == ("ams", half, ("4", "7", "10"))
    assert list(tmp_path.rglob("*.parquet")) == []
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("DELETE FROM orders WHERE id > 5")
        connection.commit()
    assert replica.describe().boundaries == told.boundaries
    with pytest.raises(BadInput, match="no key to take boundaries from"):
        catalogue.replica_from(f"parquet:{tmp_path}/files", "orders", "r2", boundaries=3)


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "parquet:",
        "sqlite:/data/shop.db",
        "sqlite:#orders",
        "postgresql://ada@host/shop",
        "projection:/data",
        "projection:/data#node@soon",
        "projection:/data#nodes",
        "store:shop.orders",
        "store:shop.orders@third",
        "store:@acting",
        "jdbc:oracle:thin:@host#orders",
    ],
)
def test_another_text_is_refused_with_those_there_are(catalogue: Catalogue, text: str) -> None:
    with pytest.raises(BadInput) as refused:
        catalogue.replica_from(text, "orders", "r1")
    assert refused.value.hint


def test_a_kind_that_there_is_not_is_refused_before_there_is_a_session() -> None:
    check("sqlite:/data/shop.db#orders")
    with pytest.raises(BadInput, match="names no source of rows"):
        check("ftp:/data")


def test_a_store_whose_nodes_are_not_known_may_be_asked_again(catalogue: Catalogue) -> None:
    with pytest.raises(ReplicaFailed, match="has no member with service=store") as failed:
        catalogue.replica_from("store:shop.orders@acting", "shop.orders", "acting")
    assert failed.value.code == "IO"
