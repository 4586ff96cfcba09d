"""`topolog up` as somebody has it who has installed `topolog[local]`: it starts, answers, and ends in order."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.install.conftest import Installed
from tests.install.environments import Environment

from topolog.streams.local.jars import default_cache, missing_jars, pinned_jars

PATIENCE_S = 120.0
IS_UP = "topolog is up"


@pytest.fixture
def settings(unused_port: Callable[[], int]) -> Mapping[str, str]:
    """Ports that are free, and the jars of this machine: the home is empty, as of somebody new."""
    return {
        "TOPOLOG_BROKER__PORT": str(unused_port()),
        "TOPOLOG_API__PORT": str(unused_port()),
        "XDG_CACHE_HOME": str(default_cache().parents[1]),
    }


@pytest.fixture
def up(installed: Installed, tmp_path: Path, settings: Mapping[str, str]) -> Iterator[tuple[Environment, list[str]]]:
    """A running `topolog up`, and what it has said so far; it ends with 0 when it is interrupted."""
    if missing_jars(pinned_jars(), default_cache()):
        pytest.skip("the jars of Kafka are not on this machine: `topolog up` would fetch them")
    made = installed("local")
    process = made.start("topolog", "up", cwd=tmp_path, **settings)
    said: list[str] = []
    is_told = threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if line.startswith(IS_UP):
                is_told.set()
        is_told.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        assert is_told.wait(PATIENCE_S), "".join(said)
        yield made, said
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE_S)
        listener.join(PATIENCE_S)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    assert code == 0, "".join(said)


def test_everything_starts_and_answers(
    up: tuple[Environment, list[str]], settings: Mapping[str, str], tmp_path: Path
) -> None:
    """A real Kafka, coordinators, projector and API of what was installed; nobody is a member yet."""
    made, said = up
    assert any(line.startswith(IS_UP) for line in said), "".join(said)
    api = f"http://127.0.0.1:{settings['TOPOLOG_API__PORT']}"
    done = made.run("topolog", "get", "nodes", "--api", api, "-o", "json", cwd=tmp_path, **settings)
    assert (done.returncode, json.loads(done.stdout)["items"]) == (0, []), done.stderr
