"""A dry run names what would be lost, so that nobody learns it afterwards."""

from collections.abc import Iterator

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.sharing import shared_out
from tests.unit.projections.standing import Stage, staged

from topolog.projections.projector import Projector


@pytest.fixture
def stage(chronicle: Chronicle, projector: Projector) -> Iterator[Stage]:
    """Four servers that hold the group orders, 16 partitions with a backup each."""
    shared_out(chronicle, "n1", "n2", "n3", "n4")
    with staged(chronicle, projector) as stage:
        yield stage


def test_the_drop_of_a_group_names_its_data_and_where_they_lie(stage: Stage) -> None:
    dropped = stage.imagined({"kind": "drop-group", "name": "orders"})
    assert dropped["warnings"] == ["all data of group orders goes: 16 partitions, from n1, n2, n3, n4"]
    assert "All 16 partitions of orders go, with their data." in dropped["sentence"]
    assert "other owners" not in dropped["sentence"]


@pytest.mark.parametrize(
    ("backups", "warnings"),
    [
        (3, []),
        (9, ["9 backups of orders cannot be met: 4 servers may hold it, so a partition gets 3 at most"]),
    ],
)
def test_backups_that_nobody_could_hold_are_said_to_be_none(stage: Stage, backups: int, warnings: list[str]) -> None:
    altered = stage.imagined({"kind": "alter-group", "name": "orders", "backups": backups})
    assert altered["warnings"] == warnings


def test_a_filter_that_no_server_passes_is_told_of(stage: Stage) -> None:
    request = {"kind": "create-group", "name": "fast", "backups": 0, "node_filter": {"disk": "nvme"}}
    (warning,) = stage.imagined(request)["warnings"]
    assert warning == "0 backups of fast cannot be met: 0 servers may hold it, so a partition gets no copy at all"


def test_the_removal_of_a_node_that_holds_the_last_copies_names_them(
    chronicle: Chronicle, projector: Projector
) -> None:
    shared_out(chronicle, "n1", "n2", backups=0)
    with staged(chronicle, projector) as stage:
        (warning,) = stage.imagined({"kind": "remove", "resource": "node", "name": "n2"})["warnings"]
    assert warning.startswith("nobody else has a whole copy of ")
    assert "partitions of orders" in warning


def test_what_costs_nothing_has_no_warning(stage: Stage) -> None:
    assert stage.imagined({"kind": "remove", "resource": "node", "name": "n2"})["warnings"] == []
    assert stage.imagined({"kind": "exchange"})["warnings"] == []
