"""Groups on a real broker, by the commands that people type: declared, created, altered, dropped, seen by all."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Site, eventually

from topolog.events.errors import Fenced, Refused
from topolog.events.groups import Affinity, GroupDefinition, GroupRow
from topolog.streams.node.client import Node

ORDERS = GroupDefinition("orders", 64, 1, Affinity(backup_filter="rack"))
CREATE = ("create", "group", "orders", "--partitions", "64", "--backups", "1", "--backup-filter", "rack")


def test_what_a_service_declares_operators_see_alter_and_drop(
    site: Site, unused_port: Callable[[], int], tmp_path: Path
) -> None:
    """One group of one name, the same for nodes, command line and an independent fold, through a change of leaders."""
    port = unused_port()
    run = partial(_topolog, site, port)
    first = site.coordinator("c1")
    site.projector(port, tmp_path)
    with site.node("n1") as one, site.node("n2") as two:
        assert one.create_group(ORDERS).number == two.create_group(ORDERS).number == 1
        eventually(lambda: run("get", "group", "orders").returncode == 0, "the API to know the group")
        assert _item(run(*CREATE, "-o", "json"))["status"] == "UNCHANGED"
        refused = run("create", "group", "orders", "--partitions", "128")
        assert refused.returncode == 5
        assert "partitions 64, asked for: 128" in refused.stderr

        site.coordinator("c2")
        first.kill()
        altered = run("alter", "group", "orders", "--backups", "2", "--reason", "a third rack", "--timeout", "30s")
        assert altered.returncode == 0, altered.stderr
        for node in (one, two):
            eventually(partial(_has_backups, node, 2), "the node to apply the alteration")
            assert site.agrees_with(node)
        with pytest.raises(Refused, match="backups 2, asked for: 1"):
            one.create_group(ORDERS)

        assert run("drop", "group", "orders", "--yes").returncode == 0
        created = _item(run(*CREATE, "--persistent", "-o", "json"))
        shown = _item(run("get", "group", "orders", "--at-least", created["token"], "-o", "json"))
        assert (shown["number"], shown["created_at"], shown["persistent"]) == (2, created["position"], True)
        history = json.loads(run("history", "group", "orders", "-o", "json").stdout)["items"]
        events = ["GroupCreated", "GroupDropped", "GroupAltered", "GroupCreated"]
        assert [each["event"] for each in history] == events
        before = _item(run("get", "group", "orders", "--as-of", str(history[2]["position"] - 1), "-o", "json"))
        assert (before["number"], before["backups"]) == (1, 1)
    row = site.told().state.get(GroupRow, "orders")
    assert row is not None
    assert row.number == 2


def _topolog(site: Site, port: int, *args: str) -> subprocess.CompletedProcess[str]:
    target = ["--api", f"http://127.0.0.1:{port}", "--cluster", site.cluster]
    return subprocess.run(
        [sys.executable, "-m", "topolog", *args, *target], capture_output=True, text=True, timeout=60, check=False
    )


def _item(ended: subprocess.CompletedProcess[str]) -> Any:
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)["item"]


def _has_backups(node: Node, backups: int) -> bool:
    """On a busy machine its lease may be over for a moment: then it says nothing."""
    with contextlib.suppress(Fenced):
        return node.groups()["orders"].backups == backups
    return False
