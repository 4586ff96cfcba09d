"""The story of an hour in which all goes wrong, run as docs/runbooks/worst-hour.md has it, on a real broker.

A member hangs, one is killed, all copies of something are lost, the cluster is made read-only, the power is cut, Kafka
is gone and a client with it, the API is down, an older log is put back: what an operator is told in each of these
moments is compared with the page.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from tests.tour.terminal import BLOCK, ROOT, Shell, beside_the_demo, run

PAGE = ROOT / "docs" / "runbooks" / "worst-hour.md"


@pytest.fixture
def demo(tmp_path_factory: pytest.TempPathFactory, unused_port: Callable[[], int]) -> Iterator[Shell]:
    """The gateway of the page is ended by its number if the page has not got so far."""
    folder = tmp_path_factory.mktemp("hour")
    (folder / "docs").symlink_to(ROOT / "docs")
    try:
        with beside_the_demo(folder, unused_port) as shell:
            yield shell
    finally:
        with suppress(OSError, ValueError):
            os.kill(int((folder / "gateway.pid").read_text()), signal.SIGKILL)


def test_the_worst_hour_is_what_happens(demo: Shell) -> None:
    run(demo, PAGE, BLOCK.findall(PAGE.read_text()))
