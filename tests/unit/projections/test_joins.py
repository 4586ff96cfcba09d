"""What would become of a node that joined: the judgement of the rules over what is projected, and nothing is sent."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.standing import ACTIVATE, MAIN, Json, Stage, staged

from topolog.events import past_file
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.views import Echo, Past, Point
from topolog.projections.projector import Projector


@pytest.fixture
def stage(chronicle: Chronicle, projector: Projector) -> Iterator[Stage]:
    """n3 has been a member, with two renewals, and is away; then n4 came."""
    with staged(chronicle, projector) as stage:
        stage.join("n1", "n2", "n3")
        stage.granted(ACTIVATE)
        stage.finish()
        chronicle.renew("n3")
        stage.leave("n3")
        stage.join("n4")
        yield stage


def points(stage: Stage, up_to: str) -> tuple[Point, ...]:
    """The places of all views up to this version."""
    found = list(reversed(stage.get("/views")))
    last = next(at for at, each in enumerate(found) if each["version"] == up_to)
    return tuple(Point(Position(each["position"]), bytes.fromhex(each["chain"])) for each in found[: last + 1])


def past_of(stage: Stage, up_to: str = "3.3", *, life: int = 1, sequence: int = 2, reserved: int = 64) -> Past:
    """The disk of n3 as it was when it had written up to that view."""
    known = points(stage, up_to)
    return Past(LOG_ID, NodeId("n3"), known, Echo(Incarnation(life), sequence, known[-1]), reserved)


def judged(stage: Stage, past: Past | None, node: str = "n3", expected: int = 200) -> Any:
    if past is None:
        return stage.get(f"/nodes/{node}/join", expected)
    headers = {"Content-Type": "application/json"}
    answer = stage.client.post(f"{MAIN}/nodes/{node}/join", content=past_file.encode(past), headers=headers)
    assert answer.status_code == expected, answer.text
    return answer.json().get("item", answer.json())


def test_who_has_only_been_away_may_join(stage: Stage) -> None:
    """BEHIND: up to which view it has come, and who has been a member since."""
    item = judged(stage, past_of(stage))
    assert (item["kinship"], item["is_admitted"]) == ("BEHIND", True)
    assert item["common"]["version"] == "3.3"
    assert item["common"]["members"] == ["n1", "n2", "n3"]
    assert item["members_since"] == ["n1", "n2", "n4"]
    assert item["sentence"].startswith("Node n3 has written up to position")
    assert item["facts"]["the log knows of its disk"] == "life 1 was renewed up to heartbeat 2"
    assert (item["theirs"], item["their_points"]) == (None, [])


def test_who_has_the_newest_view_is_equal(stage: Stage) -> None:
    newest = stage.get("/views/newest")["version"]
    item = judged(stage, past_of(stage, newest))
    assert (item["kinship"], item["members_since"]) == ("EQUAL", [])
    assert f"up to the newest view {newest}" in item["sentence"]


def test_an_empty_folder_is_new_or_wiped(stage: Stage) -> None:
    """Without a past it depends on whether the log has known the node."""
    assert judged(stage, None)["kinship"] == "WIPED"
    assert "copies that the log lists of it are nobody's" in judged(stage, None)["sentence"]
    assert judged(stage, None, "n9")["kinship"] == "NEW"
    assert judged(stage, None, "n9")["facts"]["the log knows of its disk"] == "nothing: no life of it has ended"


def test_a_folder_from_a_backup_is_told_apart(stage: Stage) -> None:
    """RESTORED: it has reserved fewer heartbeats than the log has renewed."""
    item = judged(stage, past_of(stage, "2.0", sequence=1, reserved=1))
    assert (item["kinship"], item["is_admitted"]) == ("RESTORED", True)
    assert "newer copy of its folder" in item["remedy"]


def forked(stage: Stage) -> Past:
    past = past_of(stage)
    later = (*points(stage, stage.get("/views/newest")["version"])[len(past.points) :],)
    elsewhere = tuple(Point(point.position, bytes([7] * 16)) for point in later)
    return msgspec.structs.replace(past, points=(*past.points, *elsewhere))


def test_who_has_written_in_another_history_sees_where_they_part(stage: Stage) -> None:
    """FORKED: the last common place, the first on each side, who was here since, and what to do."""
    item = judged(stage, forked(stage))
    assert (item["kinship"], item["is_admitted"]) == ("FORKED", False)
    assert item["common"]["version"] == "3.3"
    assert item["theirs"]["position"] == item["ours"]["position"] == item["their_points"][0]["position"]
    assert item["theirs"]["chain"] == "07" * 16 != item["ours"]["chain"]
    assert item["theirs"]["version"] is None
    assert item["members_since"] == ["n1", "n2", "n4"]
    assert len(item["their_points"]) == int(item["facts"]["theirs_views"])
    assert item["remedy"].startswith("Start it in the cluster that it comes from.")


def test_who_has_written_where_the_log_has_not_come_to_is_ahead(stage: Stage) -> None:
    """AHEAD, while nobody has gone on with the log: then it would be another history."""
    past = past_of(stage)
    beyond = Point(Position(stage.chronicle.position + 9), bytes([7] * 16))
    assert judged(stage, msgspec.structs.replace(past, points=(*past.points, beyond)))["kinship"] == "FORKED"
    stage.leave("n1", "n2", "n4")
    past = past_of(stage, stage.get("/views/newest")["version"])
    beyond = Point(Position(stage.chronicle.position + 9), bytes([7] * 16))
    item = judged(stage, msgspec.structs.replace(past, points=(*past.points, beyond)))
    assert item["kinship"] == "AHEAD"
    assert item["facts"]["end"] == str(stage.chronicle.position)
    assert "this log lists no whole copy there" in item["remedy"]
    assert item["their_points"][-1]["position"] == beyond.position


@pytest.mark.parametrize("changed", [{"log_id": bytes(16)}, {"node": NodeId("n1")}])
def test_a_folder_of_another_log_or_node_is_foreign(stage: Stage, changed: Any) -> None:
    item = judged(stage, msgspec.structs.replace(past_of(stage), **changed))
    assert (item["kinship"], item["is_admitted"], item["common"]) == ("FOREIGN", False, None)
    assert item["their_points"] == []


def test_a_member_is_judged_as_if_its_life_had_ended(stage: Stage) -> None:
    """The rules judge when the former life is over."""
    item = judged(stage, None, "n4")
    assert (item["kinship"], item["facts"]["it is a member now"]) == ("WIPED", "judged as if that life had just ended")


def test_it_is_judged_as_of_the_past_too(stage: Stage) -> None:
    """Before n4 came the node had the newest view."""
    before = next(each for each in stage.get("/views") if each["version"] == "4.0")
    item = stage.get("/nodes/n4/join", as_of=before["position"])
    assert item["kinship"] == "NEW"


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"format": 1}', b"\xff", b"null"])
def test_what_is_no_past_is_said_to_be_none(stage: Stage, body: bytes) -> None:
    """400 with what is wrong; also for one bit that is not as it was written."""
    headers = {"Content-Type": "application/json"}
    for content in (body, past_file.encode(past_of(stage)).replace(b'"reserved": 64', b'"reserved": 65')):
        answer = stage.client.post(f"{MAIN}/nodes/n3/join", content=content, headers=headers)
        problem: Json = answer.json()
        assert (answer.status_code, problem["invalid_params"][0]["name"]) == (400, "body"), answer.text
        assert "topolog-past.json" in problem["hint"]
