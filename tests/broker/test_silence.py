"""A member that hangs, seen without anybody who measures heartbeats: in the API and by `topolog status`."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.broker.conftest import PATIENCE_S, Process, Site, eventually

FENCE_MS, MARGIN_MS = 30_000, 2_000
"""So long that the member is not out before it was looked at, on a machine that is busy with other things too."""

FOUND = 8


def status(url: str) -> tuple[int, dict[str, Any]]:
    """Exit code and item of `topolog status`; no item while no API answers."""
    command = [sys.executable, "-m", "topolog", "status", "--api", url, "-o", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return ended.returncode, json.loads(ended.stdout)["item"] if ended.stdout else {}


def well(url: str) -> bool:
    code, item = status(url)
    return code == 0 and item["leases"] == {"VALID": 2}


def test_a_member_that_hangs_is_silent_in_the_status(
    site: Site, unused_port: Callable[[], int], tmp_path: Path
) -> None:
    """RD22: it took lease health or 25 s. Now the first echo that leaves it out says so, and that it is heard again."""
    port = unused_port()
    url = f"http://127.0.0.1:{port}"
    site.coordinator("c1", fence_ms=FENCE_MS, margin_ms=MARGIN_MS)
    site.projector(port, tmp_path)
    site.member("n1")
    hanging: Process = site.member("n2")
    eventually(lambda: well(url), "a cluster in peace", every_s=0.5)
    hanging.send(signal.SIGSTOP)

    def silent() -> dict[str, Any] | None:
        code, item = status(url)
        return item if code == FOUND and item["silent"] else None

    found = eventually(silent, "n2 to be silent", every_s=0.5)
    assert [each["node"] for each in found["silent"]] == ["n2"]
    assert found["silent"][0]["lease"] == "SILENT"
    assert found["why"][0].startswith("Member n2 is silent: none of its heartbeats was confirmed for ")
    assert found["sentence"].startswith(found["why"][0])
    assert not found["leader"]["silent"]
    hanging.send(signal.SIGCONT)
    eventually(lambda: well(url), "n2 to be heard again", every_s=0.5)
