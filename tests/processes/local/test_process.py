"""A process is known by more than its pid, and nobody else is ever signalled."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from topolog.streams.local.process import Process, identify, is_alive, spawn, terminate, this_process, wait_for_exit

PATIENCE_S = 20.0
SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


CROWD = """
import socket, threading, time
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
held = bytearray(b"x") * (256 << 20)
for _ in range(100):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print(listening.getsockname()[1], flush=True)
time.sleep(600)
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    process = spawn(SLEEPER, tmp_path / "output")
    yield process
    terminate(process, PATIENCE_S)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        os.sched_yield()


def test_two_sightings_of_one_process_are_equal(sleeper: Process) -> None:
    """Identity holds from one look to the next, and differs between processes."""
    assert identify(sleeper.pid) == sleeper
    assert this_process() != sleeper


def test_a_spawned_process_leads_its_own_session(sleeper: Process) -> None:
    """Ctrl-C in our terminal must not reach it: we stop it in order."""
    assert os.getsid(sleeper.pid) == sleeper.pid != os.getsid(0)


def test_a_terminated_process_is_gone_and_collected(sleeper: Process) -> None:
    """SIGTERM was enough, nothing is left, and to end it again does nothing."""
    assert terminate(sleeper, PATIENCE_S)
    assert not is_alive(sleeper)
    assert not Path(f"/proc/{sleeper.pid}").exists()
    assert terminate(sleeper, PATIENCE_S)


def test_a_process_that_ignores_sigterm_is_killed_after_the_limit(tmp_path: Path) -> None:
    """The limit is kept, and the caller is told that it did not end in order."""
    output = tmp_path / "output"
    deaf = spawn([sys.executable, "-c", DEAF], output)
    wait_until(lambda: "deaf" in output.read_text())
    assert not terminate(deaf, 0.1)
    assert wait_for_exit(deaf, PATIENCE_S)


def test_a_stranger_with_the_same_pid_is_left_alone(sleeper: Process) -> None:
    """A pid that was given to somebody else counts as gone."""
    before = Process(sleeper.pid, "another boot/1")
    assert not is_alive(before)
    assert wait_for_exit(before, 0)
    assert terminate(before, PATIENCE_S)
    assert is_alive(sleeper)


def test_a_process_that_only_its_parent_can_see_is_gone() -> None:
    """A zombie runs nothing, though its pid is still taken."""
    with subprocess.Popen(SLEEPER) as child:
        process = identify(child.pid)
        assert process is not None
        child.send_signal(signal.SIGKILL)
        wait_until(lambda: not is_alive(process))
        assert Path(f"/proc/{child.pid}").exists()


def test_a_killed_process_is_there_until_its_last_thread_is_gone() -> None:
    """Its first is a zombie at once; who starts it again meanwhile finds its port in use."""
    with subprocess.Popen([sys.executable, "-c", CROWD], stdout=subprocess.PIPE, text=True) as crowd:
        assert crowd.stdout is not None
        port, process = int(crowd.stdout.readline()), identify(crowd.pid)
        assert process is not None
        crowd.kill()
        wait_until(lambda: not is_alive(process))
        with socket.socket() as successor:
            successor.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            successor.bind(("127.0.0.1", port))


def test_a_pid_that_nobody_has_is_nobody() -> None:
    """The highest pid the kernel could give is not in use."""
    assert identify(int(Path("/proc/sys/kernel/pid_max").read_text())) is None
