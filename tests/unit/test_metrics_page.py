"""docs/metrics.md against what the roles export, and the names themselves (OP25)."""

import re

import pytest
from tests.exported import BEGINS, PAGE, Exported, exported, tables

UNITS = ("seconds", "bytes", "total", "position", "offset")
ENTITIES = {"node", "request", "partition_id", "session", "trace_id", "exchange", "proposal"}

OF_THE_PROCESS = {"topolog_api_connections", "topolog_api_connections_refused_total"}


@pytest.fixture(scope="module")
def found() -> list[Exported]:
    return exported()


def test_the_page_shows_what_the_roles_export(found: list[Exported]) -> None:
    """If this fails: .venv/bin/python -m tests.exported"""
    assert PAGE.read_text().partition(BEGINS)[2] == tables(found)


def test_names_have_our_prefix_and_base_units(found: list[Exported]) -> None:
    """OP25: prefix topolog_, base units, `_total` for counters alone; and no two roles export the same."""
    ours = [each for each in found if each.role != "process"]
    assert len({each.name for each in ours}) == len(ours) > 50
    for each in ours:
        assert re.fullmatch(r"topolog_[a-z_]+", each.name)
        assert (each.kind == "counter") == each.name.endswith("_total")
        assert not re.search(r"_(ms|millis|minutes|kb|mib|percent)(_|$)", each.name)
        assert each.text.endswith("."), each.name
    assert {each.name.rpartition("_")[2] for each in ours if each.kind == "histogram"} == {"seconds"}


def test_no_label_is_the_id_of_something(found: list[Exported]) -> None:
    """OP25: a metric per node or per request would outgrow any Prometheus."""
    for each in found:
        assert not ENTITIES & set(each.labels), each.name
        is_of_the_process = each.role == "process" or each.name in OF_THE_PROCESS
        assert is_of_the_process or "route" in each.labels or "cluster" in each.labels
