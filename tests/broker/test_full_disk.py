"""A disk that fills up, the broker's and the projector's: a clear sentence, and back to work when there is room again.

The disk is a small tmpfs, which only root may mount; without it the tests are skipped and say so.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.broker.conftest import Site, eventually
from tests.broker.test_lost_log import Projector

from topolog.events.errors import LocalBrokerError
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.metadata import ObjectType
from topolog.streams.local.broker import LocalBroker


@contextmanager
def _disk(folder: Path, megabytes: int) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(disk: Path) -> Path:
    """Take all the room that is left; the file that takes it."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return ballast


def test_a_broker_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(
    tmp_path: Path, cluster: str, unused_port: Callable[[], int]
) -> None:
    """It ends, it is not started on a full disk, and with room again nothing that was acknowledged is missing."""
    with _disk(tmp_path / "disk", 300) as disk:
        broker = LocalBroker(disk / "broker", port=unused_port())
        broker.start(ready=_usable)
        with closing(Site(broker.bootstrap, cluster)) as site:
            site.coordinator("c1")
            with site.node("n1") as node:
                node.propose(ObjectType("Customer", {"id": "long"}))
                ballast = _fill(disk)
                eventually(lambda: not broker.status().is_running, "the broker to end", patience_s=60)
                assert "full" in broker.status().ended
                with pytest.raises(LocalBrokerError, match="is full"):
                    broker.start()
                eventually(lambda: not node.lease.is_valid, "the lease to end")
                ballast.unlink()
                broker.start(ready=_usable)
                assert node.propose(ObjectType("Customer", {"name": "String"}), timeout_s=30).accepted
                metadata = node.metadata("Customer")
                assert metadata is not None
                assert set(metadata.definition.fields) == {"id", "name"}
        broker.stop()


def _usable(bootstrap: str) -> None:
    KafkaAdmin({"bootstrap.servers": bootstrap}).wait_until_usable()


def test_a_projector_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(
    site: Site, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """Answers go on from what is stored and say why they grow old; nobody has to start it again."""
    with _disk(tmp_path / "disk", 400) as disk:
        site.coordinator("c1")
        projector = Projector(site, disk / "store", unused_port())
        with site.node("n1") as node:
            ballast = _fill(disk)
            stopped = eventually(projector.stopped, "the projector's sentence", patience_s=60)
            assert "disk of the store is full" in stopped
            as_of = projector.as_of()
            assert as_of is not None
            ballast.unlink()
            position = node.propose(ObjectType("Customer", {"id": "long"})).position
            eventually(lambda: _has_reached(projector, position), "the projector to go on", patience_s=60)
            assert projector.stopped() is None
        projector.process.end()


def _has_reached(projector: Projector, position: int) -> bool:
    as_of = projector.as_of()
    return as_of is not None and bool(as_of["position"] >= position)
