"""`topolog verify projections` on a real broker: a running projector is checked, a damaged store found and mended."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from tests.broker.conftest import PATIENCE_S, Process, Site, eventually
from tests.unit.projections.self_check.conftest import contents, damage_tables, write

from topolog.events.metadata import ObjectType, TypeRow
from topolog.events.object_types import type_id
from topolog.projections import layout

Json = dict[str, Any]


def verify(site: Site, folder: Path, *args: str) -> tuple[int, Json, str]:
    """Exit code, what is said of the one store, and stderr."""
    settings = {"cluster.name": site.cluster, "kafka.bootstrap.servers": site.bootstrap, "projector.data": str(folder)}
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "topolog", "verify", "projections", "-o", "json", *args, *sets]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    (item,) = json.loads(done.stdout)["items"] if done.stdout else ({},)
    return done.returncode, item, done.stderr


def position(site: Site, port: int) -> int:
    """Where the projector stands; -1 while it does not answer."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/clusters/{site.cluster}/cluster", timeout=5, trust_env=False)
    except httpx.HTTPError:
        return -1
    return int(answer.json()["asOf"]["position"]) if answer.status_code == 200 else -1


def started(site: Site, port: int, folder: Path, at_least: int) -> Process:
    """A projector that has read to this position."""
    process = site.projector(port, folder)
    eventually(lambda: position(site, port) >= at_least, f"position {at_least}")
    return process


def test_a_damaged_store_is_found_and_mended_and_its_projector_goes_on(
    site: Site, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """RD25: topolog uses anti-entropy on itself. Exit codes 0, 2, 8, and 0 again."""
    port, folder = unused_port(), tmp_path / "store"
    site.coordinator("c1")
    with site.node("n1") as node:
        for number in range(20):
            reached = node.propose(ObjectType(f"T{number}", {"id": "long"})).position
        projector = started(site, port, folder, reached)
        code, item, _ = verify(site, folder)
        assert (code, item["state"]) == (0, "EQUAL"), "while it runs"
        assert item["position"] >= reached
        code, _, complaint = verify(site, folder, "--mend")
        assert (code, "Another process uses the store" in complaint) == (2, True)
        assert projector.end() == 0

        wrong, lost = (f"{type_id(name)}" for name in ("T3", "T4"))
        key = layout.row_key((TypeRow.KIND, wrong))
        flipped = contents(folder)[key].replace(b"long", b"lonf", 1)
        write(folder, {key: flipped, layout.row_key((TypeRow.KIND, lost)): None})
        code, item, _ = verify(site, folder)
        assert (code, item["state"], item["differences"]) == (8, "DIFFERENT", 2)
        found = {each["name"]: each for each in item["findings"]}
        assert found.keys() == {f"row type/{wrong}", f"row type/{lost}"}
        (field,) = found[f"row type/{wrong}"]["differences"]
        assert (field["expected"], field["found"]) == ("long", "lonf")
        code, item, _ = verify(site, folder, "--mend")
        assert (code, item["state"]) == (0, "MENDED")
        assert verify(site, folder)[0] == 0

        reached = node.propose(ObjectType("Order", {"id": "long"})).position
        assert started(site, port, folder, reached).end() == 0
        assert not list(folder.glob("*.damaged"))

        damage_tables(folder)
        code, item, _ = verify(site, folder)
        assert (code, item["state"]) == (8, "UNREADABLE")
        code, item, _ = verify(site, folder, "--mend")
        assert (code, item["state"]) == (0, "REBUILT")
        assert len(list(folder.glob("*.damaged"))) == 1
        reached = node.propose(ObjectType("Invoice", {"id": "long"})).position
        assert started(site, port, folder, reached).end() == 0
        code, item, _ = verify(site, folder)
        assert (code, item["state"]) == (0, "EQUAL")
        assert item["position"] >= reached


def test_a_store_of_a_log_that_was_swapped_is_not_touched(
    site: Site, tmp_path: Path, unused_port: Callable[[], int], kafka: str
) -> None:
    """Exit code 1: the settings name another log than the one that the store was folded from."""
    port, folder = unused_port(), tmp_path / "store"
    site.coordinator("c1")
    site.leader()
    projector = started(site, port, folder, 1)
    assert projector.end() == 0
    before = contents(folder)
    other = Site(kafka, f"{site.cluster}-b")
    try:
        other.coordinator("c1")
        other.leader()
        code, item, _ = verify(other, folder, "--mend")
    finally:
        other.close()
    assert (code, item["state"]) == (1, "OTHER_LOG")
    assert contents(folder) == before
