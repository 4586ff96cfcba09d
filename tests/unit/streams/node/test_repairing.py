"""A service has the replicas of a table compared, and waits for the end (docs/design/repair.md)."""

from collections.abc import Iterator

import pytest

from topolog.events.asked import RequestId
from topolog.events.asking import encode_request
from topolog.events.errors import Refused
from topolog.events.repair_definition import SessionDefinition, SessionKind
from topolog.events.repair_requests import ReplicaDeclarationRequested
from topolog.events.replica import ReplicaDefinition
from topolog.events.sessions import SessionStatus
from topolog.events.terms import LogStarted
from topolog.events.token_range import FULL
from topolog.events.topics import Topic
from topolog.events.tree_spec import Column
from topolog.streams.node.testing import LocalCluster

PREVIEW = SessionDefinition("shop.parts", SessionKind.PREVIEW)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def declare(cluster: LocalCluster, name: str, *columns: str) -> None:
    """As a validator does."""
    typed = tuple(Column(column, "long") for column in columns)
    log_id = cluster.decisions(LogStarted)[0].log_id
    replica = ReplicaDefinition("shop.parts", name, typed, ("id",))
    asked = ReplicaDeclarationRequested(RequestId(f"validator-{name}", 1), log_id, "ada", "", replica, 1)
    cluster.log.put(Topic.OPERATIONS, f"validator-{name}", encode_request(asked))
    cluster.settle()


def test_the_end_of_a_session_is_given_whatever_it_is(cluster: LocalCluster) -> None:
    """RE14: replicas of other columns end FAILED, before anybody is asked for anything."""
    with cluster.node("n1") as node:
        declare(cluster, "a", "id", "price")
        declare(cluster, "b", "id")
        row = node.repair(PREVIEW, timeout_s=30.0)
        assert (row.status, row.code) == (SessionStatus.FAILED, "SCHEMA_MISMATCH")
        assert "a: key id; price long, id long; b: key id; id long" in row.message
        assert (row.covered, row.left) == ((), (FULL,))


def test_a_table_without_neighbours_is_skipped_and_that_is_neither_success_nor_failure(cluster: LocalCluster) -> None:
    """RE10: "no neighbours" must not be read as either."""
    with cluster.node("n1") as node:
        declare(cluster, "a", "id")
        row = node.repair(PREVIEW, timeout_s=30.0)
        assert (row.status, row.code) == (SessionStatus.SKIPPED, "NO_NEIGHBOURS")


def test_a_table_that_nobody_serves_is_refused(cluster: LocalCluster) -> None:
    """RE28: nothing is opened for it."""
    with cluster.node("n1") as node, pytest.raises(Refused, match="No replica of a table") as refused:
        node.repair(PREVIEW, timeout_s=30.0)
    assert refused.value.code == "UNKNOWN_TABLE"
