"""What people see of lease health: every state with its sentence, and that an old word is never shown as a new one."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from httpx import Client
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.conftest import MakeProjector
from tests.unit.projections.serving import served

from topolog.events.asked import RequestRef
from topolog.events.codec import CODEC
from topolog.events.health import Figures, HealthHeard, LeaseHealth, Minute
from topolog.events.ids import Incarnation, NodeId, Offset
from topolog.events.lease_terms import LeaseTermsChanged
from topolog.events.topics import Topic
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

MAIN = "/v1/clusters/main"


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    chronicle.join("n1")
    chronicle.join("n2")
    projector.step()
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        yield client


def tell(chronicle: Chronicle, projector: Projector, *records: LeaseHealth | HealthHeard) -> None:
    """What a worker appends now."""
    for record in records:
        chronicle.log.put(Topic.LEASE_HEALTH, getattr(record, "node", ""), CODEC.encode(record))
    projector.step()


def alive(*, log_id: bytes = LOG_ID, at_end: bool = True) -> HealthHeard:
    return HealthHeard("pid-1", log_id, 0, Offset(9), at_end, 0)


def health(chronicle: Chronicle, gap_max_ms: int = 1_200, **changes: object) -> LeaseHealth:
    """n1's, of a heartbeat that came just now."""
    figures = Figures(beats=9, gaps=8, gap_max_ms=gap_max_ms, lateness_ms=1_600, jitter_ms=800, starts=1)
    found = LeaseHealth(
        node=NodeId("n1"),
        incarnation=Incarnation(1),
        log_id=LOG_ID,
        partition=0,
        offset=Offset(8),
        sequence=9,
        beat_ms=chronicle.now_ms,
        lateness_ms=200,
        fence_ms=20_000,
        heartbeat_ms=1_000,
        fenced=False,
        released=False,
        minutes=(Minute(chronicle.now_ms - chronicle.now_ms % 60_000, figures),),
        whole=figures,
    )
    return msgspec.structs.replace(found, **changes)


def item(client: Client, node: str = "n1") -> dict[str, object]:
    found: dict[str, object] = client.get(f"{MAIN}/lease-health/{node}").json()["item"]
    return found


def test_figures_are_those_that_were_told(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    tell(chronicle, projector, health(chronicle), alive())
    found = item(client)
    assert (found["state"], found["warning_below_ms"], found["sequence"]) == ("OK", 9_500, 9)
    window = found["window"]
    assert isinstance(window, dict)
    assert (window["margin_ms"], window["lateness_mean_ms"], window["jitter_ms"]) == (18_800, 200, 100)
    assert client.get(f"{MAIN}/nodes/n1").json()["item"]["health"] == "OK"


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({"gap_max_ms": 10_501}, "WARNING", "9499 of 20000 ms were left"),
        ({"gap_max_ms": 25_000}, "WARNING", "none of 20000 ms was left"),
        ({"gap_max_ms": 3_500}, "OK", "smallest margin 16500 of 20000 ms"),
        ({"gap_max_ms": 3_501}, "WARNING", "up to 2501 ms late"),
        ({"gap_max_ms": 6_000}, "WARNING", "takes more than half of the margin of 5000 ms"),
        ({"gap_max_ms": 6_001}, "WARNING", "takes all of the margin of 5000 ms"),
        ({"fenced": True}, "FENCED", "held no valid lease"),
        ({"released": True}, "RELEASED", "has said that it stops"),
        ({"incarnation": Incarnation(7)}, "UNKNOWN", "No heartbeat of n1's incarnation"),
        ({"log_id": bytes(16)}, "UNKNOWN", "No heartbeat of n1's incarnation"),
    ],
)
def test_each_state_has_its_sentence(
    changes: dict[str, object], state: str, words: str, client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    tell(chronicle, projector, health(chronicle, **changes), alive())  # type: ignore[arg-type]
    found = item(client)
    assert found["state"] == state
    assert words in str(found["sentence"])
    is_said = "Warning: " in client.get(f"{MAIN}/nodes/n1/explain").json()["item"]["sentence"]
    assert is_said is (state in ("WARNING", "FENCED"))
    overview = client.get("/").text
    assert "No heartbeat of n2" in overview or "No heartbeat of n1" in overview, "of n2 nothing was measured"
    assert (words in overview) is (state not in ("OK", "RELEASED", "UNKNOWN"))


def test_n28_what_a_pause_may_take_is_measured_by_the_margin_in_force(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """LE39: a margin that is lowered is eaten by what was nothing to the former one; one that is raised is not."""
    tell(chronicle, projector, health(chronicle, gap_max_ms=3_000), alive())
    assert (item(client)["state"], item(client)["late_above_ms"]) == ("OK", 2_500)
    chronicle.decide(LeaseTermsChanged(RequestRef("ada", 1, bytes(8)), 20_000, 1_500))
    projector.step()
    assert (item(client)["state"], item(client)["late_above_ms"]) == ("WARNING", 750)
    assert "takes all of the margin of 1500 ms" in str(item(client)["sentence"])
    assert "takes all of the margin of 1500 ms" in client.get("/").text
    chronicle.decide(LeaseTermsChanged(RequestRef("ada", 2, bytes(8)), 20_000, 9_000))
    projector.step()
    assert item(client)["state"] == "OK"


@pytest.mark.parametrize(("silent_s", "state"), [(10, "OK"), (11, "WARNING"), (20, "SILENT")])
def test_silence_now_counts_like_a_gap(
    silent_s: int, state: str, client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """The worker lives and has read everything, decisions go on, and the node's last heartbeat grows old."""
    tell(chronicle, projector, health(chronicle), alive())
    chronicle.now_ms += silent_s * 1_000
    chronicle.pace_ms = 0
    chronicle.renew("n2")
    tell(chronicle, projector, alive())
    assert item(client)["state"] == state


def test_a_worker_that_is_gone_leaves_no_stale_ok(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """Half a fence after its last word nothing is known, and the sentence says since when; so does the page."""
    assert "No lease health has been heard of yet" in str(item(client)["sentence"])
    tell(chronicle, projector, health(chronicle), alive())
    assert item(client)["state"] == "OK"
    chronicle.now_ms += 11_000
    chronicle.renew("n1", "n2")
    projector.step()
    found = item(client)
    assert found["state"] == "UNKNOWN"
    assert f"heard since {found['heard_time']}, 11 s ago" in str(found["sentence"])
    assert str(found["sentence"]).split("`")[0] in client.get("/").text
    assert client.get(f"{MAIN}/nodes").json()["items"][0]["health"] == "UNKNOWN"


def test_the_last_word_grows_old_by_the_readers_own_clock_too(chronicle: Chronicle, tmp_path: Path) -> None:
    """The worker's broker is six seconds ahead of that of `decisions`: half a fence after it was read, and not six
    seconds later, the last word of a worker that is gone is believed no more."""
    now_s = 100.0
    chronicle.pace_ms = 0
    projector = Projector(chronicle.log.reader(), tmp_path / "other", "main", now_s=lambda: now_s)
    chronicle.join("n1")
    chronicle.now_ms += 6_000
    tell(chronicle, projector, health(chronicle), alive())
    chronicle.now_ms -= 6_000
    with closing(projector), served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        for after_s, state in ((9, "OK"), (1, "UNKNOWN")):
            now_s += after_s
            chronicle.now_ms += after_s * 1_000
            chronicle.renew("n1")
            projector.step()
            assert item(client)["state"] == state


def test_a_word_from_the_future_is_not_believed(
    client: Client, chronicle: Chronicle, projector: Projector, make_projector: MakeProjector
) -> None:
    """A worker that is gone would be believed for as long as its broker's clock is ahead, also by a projector that
    was started since and cannot know how long ago the word was said."""
    measured = health(chronicle)
    chronicle.now_ms += 3_600_000
    tell(chronicle, projector, measured, alive())
    chronicle.now_ms -= 3_600_000
    chronicle.join("n3")
    projector.step()
    found = item(client)
    assert found["state"] == "UNKNOWN"
    assert f"stamped {found['heard_time']}" in str(found["sentence"])
    assert "clocks" in str(found["sentence"])
    again = make_projector()
    again.step()
    with served(again, Requester(chronicle.log.writer(), "api-2", "broker:9092")) as other:
        assert item(other)["state"] == "UNKNOWN"


def test_a_heartbeat_from_the_future_is_not_believed(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """The heartbeats' broker is ahead, the worker's is right: the node would never be seen silent."""
    tell(chronicle, projector, health(chronicle, beat_ms=chronicle.now_ms + 3_600_000), alive())
    found = item(client)
    assert found["state"] == "UNKNOWN"
    assert f"stamped {found['beat_time']}" in str(found["sentence"])


def test_a_worker_that_has_not_read_to_the_end_knows_nothing_yet(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    tell(chronicle, projector, health(chronicle), alive(at_end=False))
    assert item(client)["state"] == "UNKNOWN"


def test_lease_health_has_no_past(client: Client) -> None:
    """Asked for it, it says so; a page of a list that is gone on with is no question about the past."""
    for path in ("/lease-health", "/lease-health/n1"):
        answer = client.get(f"{MAIN}{path}", params={"as_of": "2"})
        assert answer.status_code == 400
        assert "Lease health has no past" in answer.json()["detail"]
    page = client.get(f"{MAIN}/lease-health", params={"limit": 1}).json()
    following = client.get(f"{MAIN}/lease-health", params={"cursor": page["next"]}).json()
    assert [each["node"] for each in (*page["items"], *following["items"])] == ["n1", "n2"]
    assert client.get(f"{MAIN}/nodes", params={"as_of": 4}).json()["items"][0]["health"] is None


def test_what_changes_without_a_decision_has_an_etag_of_its_content(chronicle: Chronicle, tmp_path: Path) -> None:
    """Lease health moves while the position stands; time, which leases show, goes on only when the chronicle's does."""
    chronicle.join("n1")
    with (
        closing(
            Projector(chronicle.log.reader(), tmp_path, "main", now_s=lambda: chronicle.now_ms / 1000)
        ) as projector,
        served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client,
    ):
        projector.step()
        _moves_with_what_is_told(client, chronicle, projector)


def _moves_with_what_is_told(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    tags = {path: client.get(f"{MAIN}{path}").headers["ETag"] for path in ("/lease-health", "/nodes/n1")}
    for path, tag in tags.items():
        assert client.get(f"{MAIN}{path}", headers={"If-None-Match": f'"other", {tag}'}).status_code == 304
    tell(chronicle, projector, health(chronicle), alive())
    for path, tag in tags.items():
        assert client.get(f"{MAIN}{path}", headers={"If-None-Match": tag}).status_code == 200


def test_a_node_that_is_not_known_is_not_found(client: Client) -> None:
    answer = client.get(f"{MAIN}/lease-health/n11")
    assert (answer.status_code, answer.json()["hint"]) == (404, "Did you mean n1?")


def test_a_side_family_is_read_on_from_its_own_place(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """After a restart nothing is read twice and nothing is missed, whatever `decisions` did meanwhile; what is no
    record is passed over for good."""
    chronicle.join("n1")
    projector = make_projector()
    tell(chronicle, projector, health(chronicle), alive())
    chronicle.log.put(Topic.LEASE_HEALTH, "n1", b"no record")
    chronicle.log.put(Topic.LEASE_HEALTH, "n1", CODEC.encode(health(chronicle, sequence=10)))
    again = make_projector()
    assert again.step() == 3, "the decision stored last, and the two that are new"
    assert again.step() == 0
    with served(again, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        assert item(client)["sequence"] == 10


def test_nobody_is_silent_for_less_long_than_the_worker_that_heard_of_him(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """A worker that is killed behind a word about a node, before its next sign of life."""
    tell(chronicle, projector, alive())
    chronicle.now_ms += 2_000
    tell(chronicle, projector, health(chronicle))
    chronicle.now_ms += 1_000
    chronicle.renew("n2")
    projector.step()
    found = item(client)
    assert 0 < int(str(found["heard_age_ms"])) <= int(str(found["silent_ms"])) < 2_000
