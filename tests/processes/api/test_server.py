"""The read side as a process: it starts, says where it is, takes its port or says why not, and stops when told."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.unit.projections.chronicle import Chronicle

from topolog.events.errors import BadInput
from topolog.projections.api.server import Source, serve

ROOT = Path(__file__).parents[3]


def source(chronicle: Chronicle, folder: Path) -> Source:
    return Source("main", chronicle.log.reader(), chronicle.log.writer(), folder)


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_and_stops_cleanly_when_told(tmp_path: Path, told: signal.Signals) -> None:
    """SIGTERM and SIGINT end it with exit code 0, everything closed, even while somebody waits for an answer."""
    command = [sys.executable, "-m", "tests.unit.projections.serving", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
            assert client.get("/v1/clusters/main/nodes", params={"at_least": 3}).json()["asOf"]["position"] == 3
        process.send_signal(told)
        rest, _ = process.communicate(timeout=20)
    assert (process.returncode, rest) == (0, "closed\n")


def test_a_port_in_use_is_one_clear_error(chronicle: Chronicle, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"cannot listen at 127.0.0.1:{port}"):
            serve([source(chronicle, tmp_path)], "127.0.0.1", port, address="broker:9092")


def test_a_host_that_is_none_is_one_clear_error(chronicle: Chronicle, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no address to listen at"):
        serve([source(chronicle, tmp_path)], "no host", 0, address="broker:9092")
