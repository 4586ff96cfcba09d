"""How far an archive has come, in words and as metrics."""

import urllib.request
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from topolog.commands.metrics_port import served
from topolog.events.errors import BadInput
from topolog.projections.archive.landings import opened
from topolog.projections.archive.metrics import ArchiveMetrics
from topolog.projections.archive.progress import PlaceProgress, Progress, at_rate, progress, sentence
from topolog.projections.archive.spans import Span
from topolog.projections.archive.topics import Seen
from topolog.settings.model import Metrics

NOW_MS = 10_000


@pytest.fixture
def found(tmp_path: Path) -> Progress:
    """Two topics, one of them behind, three records in the quarantine."""
    with opened(tmp_path / "archive", "shop") as archive:
        (archive.staged() / "some.parquet").touch()
        spans = [Span("decisions", 0, 0, 1_500), Span("requests", 0, 20, 40)]
        archive.land("test", spans, {"records": 1_520, "quarantine": 3}, 7_000)
        archive.give_up([Span("requests", 0, 10, 20)], 8_000)
        seen = Seen({}, {("decisions", 0): (0, 1_500), ("requests", 0): (20, 1_040)})
        return progress(archive, seen, {("requests", 0): 6_800, ("decisions", 0): 1}, NOW_MS)


def test_progress_says_what_has_landed_and_what_is_behind(found: Progress) -> None:
    assert found.places == (
        PlaceProgress("decisions", 0, 1_500, 1_500),
        PlaceProgress("requests", 0, 40, 1_040, 1_000, 3_200),
    )
    assert (found.landings, found.lost, found.quarantined, found.landed_ms) == (2, 10, 3, 8_000)
    assert sentence(at_rate(found, 2_000.4)) == (
        "shop: 1,520 records landed, 1,000 behind (3.2 s), 3 in quarantine, 10 lost before they landed, "
        "2,000 records/s · decisions 1,500/1,500 · requests 40/1,040"
    )


def test_metrics_are_served_on_this_machine_alone(found: Progress, unused_port: Callable[[], int]) -> None:
    metrics, port = ArchiveMetrics(), unused_port()
    with served(Metrics(port=port), lambda: metrics):
        metrics.tell([found, msgspec.structs.replace(found, cluster="broken")], ["broken"])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        with pytest.raises(BadInput, match=f"port {port}"), served(Metrics(port=port), lambda: metrics):
            raise AssertionError("the port is taken")
    assert len(lines) == len(set(lines)), "a series is told once"
    assert 'topolog_archive_set_aside{cluster="broken"} 0.0' not in lines
    assert set(lines) >= {
        'topolog_archive_landed_offset{cluster="shop",partition="0",topic="requests"} 40.0',
        'topolog_archive_behind_records{cluster="shop",partition="0",topic="requests"} 1000.0',
        'topolog_archive_behind_seconds{cluster="shop",partition="0",topic="requests"} 3.2',
        'topolog_archive_behind_seconds{cluster="shop",partition="0",topic="decisions"} 0.0',
        'topolog_archive_rows{cluster="shop",table="records"} 1520.0',
        'topolog_archive_quarantined_records{cluster="shop"} 3.0',
        'topolog_archive_lost_records{cluster="shop"} 10.0',
        'topolog_archive_set_aside{cluster="shop"} 0.0',
        'topolog_archive_set_aside{cluster="broken"} 1.0',
        'topolog_archive_last_landing_timestamp_seconds{cluster="shop"} 8.0',
    }
    with served(Metrics(), lambda: metrics):
        pass
