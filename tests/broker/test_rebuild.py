"""`topolog spark rebuild` on a real broker: what it makes is taken over by a running API, and no answer fails."""

from collections.abc import Callable
from pathlib import Path

from tests.broker.conftest import Site, eventually
from tests.broker.taking_over import Asking, rebuild
from tests.broker.test_self_check import position, started
from tests.unit.projections.archive.landed import land

from topolog.events.metadata import ObjectType
from topolog.events.topics import Topic
from topolog.projections.generations import generation_path


def test_a_rebuild_is_taken_over_without_a_failed_read(
    site: Site, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """RD31: from an archive and, behind it, the topic; the live store is found equal and replaced all the same."""
    port, folder = unused_port(), tmp_path / "store"
    site.coordinator("c1")
    with site.node("n1") as node:
        for number in range(20):
            reached = node.propose(ObjectType(f"T{number}", {"id": "long"})).position
        archive = tmp_path / "archive"
        land(archive, site.cluster, site.entries(Topic.DECISIONS))
        node.propose(ObjectType("Late", {"id": "long"}))
        started(site, port, folder, reached)
        former = generation_path(folder)
        asking = Asking(site, port)
        with asking.all_the_time():
            for source in (["--from", str(archive)], ["--from-topic"]):
                before = asking.count
                code, item, complaint = rebuild(site, folder, *source, "--check", "--wait", "30s")
                assert (code, item.get("standing"), complaint) == (0, "TAKEN", "")
                assert item["verdict"]["state"] == "EQUAL"
                assert item["position"] > reached
                assert position(site, port) >= item["position"]
                eventually(lambda: asking.count > before + 30, "more answers")  # noqa: B023 (called at once)
        assert not asking.wrong
    assert not former.exists()
    assert int(generation_path(folder).name.rpartition("-")[2]) == 3
