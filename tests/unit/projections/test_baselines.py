"""Who counts and whether the cluster serves, through the API: asked for, decided by the real rules, and read back."""

from collections.abc import Iterator

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.sharing import Sharing, shared_out
from tests.unit.projections.standing import ACTIVATE, Json, Stage, staged

from topolog.events.baseline import AutoAdjustSuppressed, Cause, ClusterCold, ClusterWarmed
from topolog.events.drains import DrainFinished
from topolog.events.ids import NodeId
from topolog.events.requests import RequestRefused
from topolog.events.terms import changed_view
from topolog.projections.projector import Projector


@pytest.fixture
def stage(chronicle: Chronicle, projector: Projector) -> Iterator[Stage]:
    """Three servers, and no baseline."""
    with staged(chronicle, projector) as stage:
        stage.join("n1", "n2", "n3")
        yield stage


@pytest.fixture
def active(stage: Stage) -> Stage:
    """The three of them are baseline 0."""
    stage.granted(ACTIVATE)
    stage.finish()
    return stage


def change(verb: str, *nodes: str, **more: object) -> Json:
    return {"kind": "baseline", "verb": verb, "nodes": list(nodes), **more}


# States.


def test_the_first_activation_makes_a_baseline(stage: Stage) -> None:
    """BA7: of all servers that are online; the change of the state is seen while it runs, with whom it waits for."""
    outcome = stage.granted(ACTIVATE)
    assert (outcome["subject"], outcome["accepted"]) == ("cluster state", False)
    changing = stage.get("/cluster")
    assert (changing["target"], [each["node"] for each in changing["awaited"]]) == ("ACTIVE", ["n1", "n2", "n3"])
    assert changing["sentence"].startswith(
        "Waiting: state/ACTIVE (1 s). Its baseline is being activated since position"
    )
    stage.finish()
    (baseline,) = stage.get("/baselines")
    assert (baseline["number"], baseline["state"], baseline["members"]) == (0, "CURRENT", ["n1", "n2", "n3"])
    assert [point["why"] for point in baseline["points"]] == ["SET"]
    assert stage.get("/cluster")["target"] is None
    assert stage.get(f"/requests/{outcome['id']}/explain")["waiting_for"] == []


def test_a_cluster_without_a_baseline_says_nothing_of_it(stage: Stage) -> None:
    """Until the first activation every server counts, and all is as it was."""
    cluster = stage.get("/cluster")
    assert (cluster["state"], cluster["baseline"], cluster["held"]) == ("ACTIVE", None, False)
    assert cluster["sentence"].startswith("3 members, all leases valid")
    assert stage.get("/baselines") == []
    assert stage.get("/baselines/current", 404)["hint"].startswith("`topolog cluster activate`")
    assert {node["role"] for node in stage.get("/nodes")} == {None}
    assert not {"state", "baseline"} & stage.get("/cluster/explain")["facts"].keys()


def test_a_deactivated_cluster_says_what_ends_that(active: Stage) -> None:
    """BA9: who deactivates holds it; INACTIVE and its way there are in the sentence, with who asked for it."""
    active.granted({"kind": "cluster-state", "state": "INACTIVE", "reason": "a repair"})
    assert "On its way from ACTIVE to INACTIVE since position" in active.get("/cluster")["sentence"]
    facts = active.get("/cluster/explain")["facts"]
    assert facts["on its way to"].startswith("INACTIVE, begun at position")
    assert facts["on its way to"].endswith("by api: a repair")
    active.finish()
    cluster = active.get("/cluster")
    assert cluster["sentence"].startswith("INACTIVE since position")
    assert "held by an operator: nothing is read or written" in cluster["sentence"]
    assert active.get("/status")["next"][0] == "topolog cluster activate --dry-run"
    facts = active.get("/cluster/explain")["facts"]
    assert "topolog cluster activate" in facts["ends when"]
    assert facts["state"].endswith("by api: a repair; applied by n1")
    done, begun = active.get("/cluster/history")[:2]
    assert (done["changes"]["state"], begun["changes"]["target"]) == (["ACTIVE", "INACTIVE"], [None, "INACTIVE"])
    assert (begun["event"], begun["reason"]) == ("StateChangeStarted", "a repair")
    assert "topology_version.minor" in begun["changes"]


def test_read_only_is_said_first(active: Stage) -> None:
    active.granted({"kind": "cluster-state", "state": "ACTIVE_READ_ONLY"})
    active.finish()
    assert active.get("/cluster")["sentence"].startswith("ACTIVE_READ_ONLY since position")
    assert active.get("/cluster/explain")["facts"]["ends with"] == "`topolog cluster activate`"
    assert active.get("/status")["next"][0] == "topolog cluster activate --dry-run"


def test_asked_for_again_on_the_way_it_is_accepted_when_it_is_there(active: Stage) -> None:
    """Who repeats what he asked for, after Ctrl-C say, is not told that it holds before it does."""
    read_only = {"kind": "cluster-state", "state": "ACTIVE_READ_ONLY"}
    active.granted(read_only)
    again = active.post(read_only).json()["item"]
    assert (again["status"], again["accepted"]) == ("UNCHANGED", False)
    active.finish()
    assert active.get(f"/requests/{again['id']}/explain")["waiting_for"] == []
    assert active.post(read_only).json()["item"]["accepted"]


def test_a_cold_cluster_names_whom_it_awaits(active: Stage) -> None:
    """BA16, BA17: since when, how many are needed, who is away, and both ways out."""
    active.leave("n2", "n3")
    active.chronicle.decide(ClusterCold((NodeId("n2"), NodeId("n3")), 2))
    active.step()
    cluster = active.get("/cluster")
    assert cluster["cold"]["awaited"] == ["n2", "n3"]
    assert cluster["sentence"].startswith("COLD since position")
    assert "1 of 3 members of the baseline are online, 2 are needed, awaited: n2, n3" in cluster["sentence"]
    facts = active.get("/cluster/explain")["facts"]
    assert "2 members of the baseline are online" in facts["ends when"]
    assert "topolog baseline warm" in facts["ends when"]
    assert facts["members that are away"] == "n2, n3"  # nobody is told to remove them
    here = (NodeId("n1"),)
    active.chronicle.decide(ClusterWarmed(None, Cause.QUORUM, here, changed_view(active.chronicle.fold.state)))
    active.step()
    assert active.get("/cluster")["cold"] is None
    assert "topolog baseline remove n2" in active.get("/cluster/explain")["facts"]["members that are away"]
    (baseline,) = active.get("/baselines")
    assert [(point["why"], point["online"]) for point in baseline["points"]][1:] == [("WARMED", ["n1"])]


def test_held_and_let_go(active: Stage) -> None:
    active.granted({"kind": "hold", "on": True, "reason": "maintenance"})
    assert active.get("/cluster")["held"]
    assert active.get("/cluster")["sentence"].startswith("Held by an operator; ")
    assert "hold --off" in active.get("/cluster/explain")["facts"]["held"]
    assert active.post({"kind": "hold", "on": True}).json()["item"]["status"] == "UNCHANGED"


# The baseline.


def test_baselines_follow_each_other_and_keep_their_past(active: Stage) -> None:
    """BA10: each set is the next number; the former ones stay, with what changed and who asked why."""
    active.join("n4")
    active.leave("n3")
    added = active.granted(change("ADD", "n4", reason="a bigger shop"))
    active.granted(change("REMOVE", "n3", reason="its disk is gone"))
    newest, middle, first = active.get("/baselines")
    assert [each["number"] for each in (newest, middle, first)] == [2, 1, 0]
    assert [each["state"] for each in (newest, middle, first)] == ["CURRENT", "FORMER", "FORMER"]
    assert (middle["added"], middle["dropped"], middle["actor"]) == (["n4"], [], "api")
    assert (newest["members"], newest["dropped"]) == (["n1", "n2", "n4"], ["n3"])
    assert (newest["reason"], middle["replaced_at"]) == ("its disk is gone", newest["set_at"])
    assert (newest["online"], first["online"]) == (["n1", "n2", "n4"], None)
    assert active.get("/baselines/1") == middle
    assert active.get("/baselines/current") == newest
    assert active.get("/baselines", as_of=added["position"])[0] == {
        **middle, "state": "CURRENT", "replaced_at": None, "replaced_time": None,
        "online": ["n1", "n2", "n4"], "away": ["n3"],
    }  # fmt: skip
    assert [each["number"] for each in active.get("/baselines", limit=2)] == [2, 1]
    whole = active.get("/baselines/current/history")
    assert [each["changes"]["number"] for each in whole[:-1]] == [[1, 2], [0, 1]]
    assert whole[0]["changes"]["members"] == [["n1", "n2", "n3", "n4"], ["n1", "n2", "n4"]]
    assert active.get("/baselines/0/history") == whole[1:]


def test_former_baselines_outlive_what_the_state_remembers(active: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A projection's history has them all."""
    monkeypatch.setattr("topolog.events.baseline.FORMER_KEPT", 1)
    for verb in ("ADD", "REMOVE") * 2:
        if verb == "ADD":
            active.join("n4")
        else:
            active.leave("n4")
        active.granted(change(verb, "n4"))
    assert [each["number"] for each in active.get("/baselines")] == [4, 3, 2, 1, 0]


def test_how_each_node_stands_to_the_baseline(active: Stage) -> None:
    """MEMBER, AWAY, OUTSIDER, DRAINING, DRAINED; `explain node` says what that means."""
    active.join("n4")
    active.leave("n3")
    roles = {node["node"]: node["role"] for node in active.get("/nodes")}
    assert roles == {"n1": "MEMBER", "n2": "MEMBER", "n3": "AWAY", "n4": "OUTSIDER"}
    assert active.get("/nodes/n3")["role"] == "AWAY"
    cluster = active.get("/cluster")
    assert (cluster["baseline"]["away"], cluster["baseline"]["outsiders"]) == (["n3"], ["n4"])
    assert cluster["sentence"].startswith("Away: n3 of baseline 0; not in the baseline: n4; ")
    assert "its copies wait for it" in active.get("/nodes/n3/explain")["facts"]["role"]
    outcome = active.granted({"kind": "drain", "node": "n2"})
    assert not outcome["accepted"]
    assert (active.get("/nodes/n2")["role"], active.get("/cluster")["draining"]) == ("DRAINING", ["n2"])
    assert "Draining: n2; " in active.get("/cluster")["sentence"]
    again = active.post({"kind": "drain", "node": "n2"}).json()["item"]
    assert (again["status"], again["accepted"]) == ("UNCHANGED", False)
    active.chronicle.decide(DrainFinished(NodeId("n2")))
    active.step()
    again = active.post({"kind": "drain", "node": "n2"}).json()["item"]
    assert (again["status"], again["accepted"]) == ("UNCHANGED", True)
    assert active.get("/nodes/n2")["role"] == "DRAINED"
    assert active.get("/cluster")["draining"] == []


def test_what_auto_adjust_is_going_to_do(active: Stage) -> None:
    """BA20: on or off, the next action, when at the latest, and why it is not done."""
    assert active.get("/cluster/explain")["facts"]["auto-adjust"] == "off"
    active.granted({"kind": "auto-adjust", "enabled": True, "soft_ms": 60_000, "hard_ms": 90_000})
    adjust = active.get("/cluster")["auto_adjust"]
    assert (adjust["enabled"], adjust["soft_ms"], adjust["due_in_ms"]) == (True, 60_000, None)
    active.leave("n3")
    active.join("n4")
    adjust = active.get("/cluster")["auto_adjust"]
    assert (adjust["adds"], adjust["drops"]) == (["n4"], ["n3"])
    assert 0 < adjust["due_in_ms"] <= 60_000
    facts = active.get("/cluster/explain")["facts"]
    assert facts["next adjustment"].startswith("adds n4 and drops n3, in ")
    active.chronicle.decide(AutoAdjustSuppressed("partitions of orders are lost"))
    active.step()
    assert active.get("/cluster")["auto_adjust"]["suppressed"] == "partitions of orders are lost"
    assert active.get("/cluster/explain")["facts"]["is held back"] == "partitions of orders are lost"


# Dry runs.


def test_a_dry_run_sends_nothing_and_changes_nothing(active: Stage) -> None:
    active.join("n4")
    before, sent = active.get("/baselines"), active.requests_sent
    item = active.imagined(change("ADD", "n4"))
    assert (item["subject"], item["status"]) == ("baseline", "GRANTED")
    assert [each["event"] for each in item["decisions"]] == ["BaselineChanged"]
    assert item["baseline"] == {
        "number": 0, "next_number": 1, "before": ["n1", "n2", "n3"], "after": ["n1", "n2", "n3", "n4"],
        "added": ["n4"], "dropped": [], "online": ["n1", "n2", "n3", "n4"], "away": [],
    }  # fmt: skip
    assert (active.get("/baselines"), active.requests_sent) == (before, sent)
    assert active.imagined({"kind": "hold", "on": False})["status"] == "UNCHANGED"


def test_every_request_can_be_imagined(active: Stage) -> None:
    """What exists already, too: groups, types, nodes, levels, exchanges."""
    assert active.imagined({"kind": "create-group", "name": "orders"})["groups"][0]["changed"] == 1_024
    active.granted({"kind": "create-group", "name": "orders", "partitions": 16})
    assert active.imagined({"kind": "drop-group", "name": "orders"})["groups"][0]["changed"] == 16
    assert active.imagined({"kind": "alter-group", "name": "orders", "backups": 1})["groups"][0]["changed"] == 16
    assert active.imagined({"kind": "remove", "resource": "node", "name": "n3"})["groups"][0]["gives_up"].keys() == {
        "n3"
    }
    assert active.imagined({"kind": "exchange"})["decisions"][0]["event"] == "ExchangeQueued"
    definition: Json = {"name": "Customer", "fields": {"id": "long"}}
    propose = {"kind": "propose", "definition": definition}
    assert active.imagined(propose)["decisions"][0]["event"] == "MetadataUpdateProposed"
    active.granted(propose)
    other = {"kind": "propose", "definition": {"name": "Customer", "fields": {"id": "String"}}}
    conflict = active.post(other, dry_run="true")
    assert (conflict.status_code, conflict.json()["code"]) == (409, "METADATA_CONFLICT")
    assert conflict.json()["current"]["fields"] == {"id": "long"}


def test_what_is_imagined_is_what_then_happens(chronicle: Chronicle, projector: Projector) -> None:
    """The partitions that change owners are those that the coordinator's exchange gives other owners."""
    cluster = shared_out(chronicle, "n1", "n2", "n3", partitions=64, persistent=True)
    with staged(chronicle, projector) as stage:
        stage.granted(ACTIVATE)
        stage.finish()
        stage.follow(cluster)
        cluster.rest()
        cluster.join("n4")
        cluster.renew("n4")
        cluster.rest()
        stage.step()
        before = _owners(cluster)
        preview = stage.imagined(change("ADD", "n4"))["groups"][0]
        stage.granted(change("ADD", "n4"))
        stage.follow(cluster)
        cluster.rest()
        after = _owners(cluster)
        assert 0 < preview["changed"] == sum(one != other for one, other in zip(before, after, strict=True))
        assert preview["gains"] == {"n4": sum("n4" in owners for owners in after)}
        stage.step()
        cluster.leave("n1", "n2")
        stage.step()
        loss = stage.imagined(change("REMOVE", "n1", "n2", accept_loss=True))
        refused = stage.post(change("REMOVE", "n1", "n2"), dry_run="true").json()
        assert (refused["code"], refused["hint"]) == (
            "LAST_COPY", "Start n1, n2 again; or accept the loss with --accept-loss.",
        )  # fmt: skip
        assert loss["warnings"] == [
            f"nobody else has a whole copy of {refused['facts']['orders']} partitions of orders: what they hold is lost"
        ]


def _owners(cluster: Sharing) -> list[set[str]]:
    return [set(cluster.states(number)) for number in range(64)]


# What cannot be.


@pytest.mark.parametrize(
    ("asked", "code", "hint"),
    [
        (change("ADD", "n9"), "NODE_UNKNOWN", "Start it first; see `topolog get nodes`."),
        (change("SET"), "NO_NODES", "Name one or more: see `topolog get nodes`."),
        (change("REMOVE", "n3"), "MEMBER_ONLINE", "topolog baseline drain n3"),
        (change("SET", "n1", "n2"), "MEMBER_ONLINE", "topolog baseline drain n3"),
        (change("SET", version="99.0"), "VIEW_UNKNOWN", "See `topolog get views`."),
        ({"kind": "drain", "node": "n9"}, "NOT_ONLINE", "See `topolog get nodes`."),
        ({"kind": "auto-adjust", "soft_ms": 9_000_000}, "BAD_TIMEOUT", ""),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_be_right(active: Stage, asked: Json, code: str, hint: str) -> None:
    """The same code and facts from a dry run as from the request itself, whose sentence the log keeps with the hint."""
    imagined, real = active.post(asked, dry_run="true"), active.post(asked)
    for answer in (imagined, real):
        assert (answer.status_code, answer.json()["code"]) == (409, code), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert hint in answer.json()["detail"] + answer.json().get("hint", "")
    same = ("code", "rule", "facts")
    assert [imagined.json().get(key) for key in same] == [real.json().get(key) for key in same]
    told = imagined.json()
    assert real.json()["detail"] == f"{told['detail']} {told.get('hint', '')}".strip()


def test_nothing_changes_while_the_state_does(active: Stage) -> None:
    """BA3: refused while the cluster is on its way, and while it is INACTIVE."""
    active.granted({"kind": "cluster-state", "state": "INACTIVE"})
    assert active.post(change("SET", "n1")).json()["code"] == "STATE_CHANGING"
    assert active.post(ACTIVATE).json()["code"] == "STATE_CHANGING"
    active.finish()
    refused = active.post(change("SET", "n1")).json()
    assert refused["code"] == "NOT_ACTIVE"
    assert refused["detail"].endswith("`topolog cluster activate` ends that.")
    active.granted(ACTIVATE)
    active.finish()
    active.granted({"kind": "auto-adjust", "enabled": True})
    assert active.post(change("SET", "n1")).json()["code"] == "AUTO_ADJUSTED"


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"kind": "baseline", "verb": "SET", "nodes": ["n1", " "]}, "nodes"),
        ({"kind": "baseline", "verb": "SET", "nodes": "n1"}, "nodes"),
        ({"kind": "baseline", "verb": "DROP", "nodes": ["n1"]}, "verb"),
        ({"kind": "baseline", "verb": "SET", "version": "5"}, "version"),
        ({"kind": "baseline", "verb": "SET", "nodes": ["n1"], "version": "5.0"}, "version"),
        ({"kind": "baseline", "verb": "ADD", "version": "5.0"}, "version"),
        ({"kind": "cluster-state", "state": "COLD"}, "state"),
        ({"kind": "auto-adjust", "soft_ms": 0}, "soft_ms"),
        ({"kind": "auto-adjust", "hard_ms": 10**30}, "hard_ms"),
        ({"kind": "hold"}, "body"),
        ({"kind": "drain", "node": ""}, "node"),
        ({"kind": "warm", "node": "n1"}, "body"),
    ],
)
def test_what_cannot_be_meant_is_refused_here_and_never_sent(active: Stage, body: Json, parameter: str) -> None:
    """K7: 400 with the member that is wrong and what to do."""
    sent = active.requests_sent
    for parameters in ({}, {"dry_run": "true"}):
        answer = active.post(body, **parameters)
        assert answer.status_code == 400, answer.text
        assert [invalid["name"] for invalid in answer.json()["invalid_params"]] == [parameter]
        assert answer.json()["hint"]
    assert active.requests_sent == sent


@pytest.mark.parametrize(("name", "status"), [("x", 400), ("-1", 400), ("7", 404), ("9" * 40, 400)])
def test_a_baseline_that_is_not_there(active: Stage, name: str, status: int) -> None:
    assert active.get(f"/baselines/{name}", status)["hint"]


# Views.


def test_views_are_what_changed_who_is_there(active: Stage) -> None:
    """BA22: version, place and members of each, newest first, and the decision that made it."""
    active.leave("n3")
    found = active.get("/views")
    assert [(each["version"], each["event"]) for each in found[:2]] == [
        ("4.0", "NodeLeft"),
        ("3.3", "StateChangeFinished"),
    ]
    assert (found[0]["members"], found[0]["left"]) == (["n1", "n2"], ["n3"])
    joined = next(each for each in found if each["subject"] == "node n3" and each["event"] == "NodeJoined")
    assert (joined["joined"], joined["members"]) == (["n3"], ["n1", "n2", "n3"])
    decisions = {each["position"]: each for each in active.get("/decisions")}
    assert all(decisions[each["position"]]["event"] == each["event"] for each in found)
    for each in found:
        assert active.get(f"/views/{each['version']}") == each
    assert active.get("/views/newest") == found[0]
    assert active.get("/views", as_of=found[1]["position"])[0] == found[1]
    page = active.get("/views", limit=2)
    assert page == found[:2]
    assert active.get("/views/9.9", 404)["hint"] == "`topolog get views` lists them."
    assert active.get("/views/x", 400)["hint"]
    (made,) = active.get("/views/4.0/history")
    assert made["changes"]["members"] == [["n1", "n2", "n3"], ["n1", "n2"]]


def test_members_of_views_outlive_what_the_state_remembers(active: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = active.get("/views")
    monkeypatch.setattr("topolog.events.views.VIEWS_KEPT", 1)
    active.leave("n3")
    active.join("n4")
    assert active.get("/views")[2:] == whole


def test_the_servers_of_a_view_can_count_again(active: Stage) -> None:
    """BA12: the baseline by the version of a view."""
    version = active.get("/views/newest")["version"]
    active.leave("n3")
    active.join("n4")
    active.granted(change("SET", "n1", "n2", "n4"))
    active.join("n3")
    active.leave("n4")
    item = active.imagined(change("SET", version=version))
    assert item["baseline"]["after"] == ["n1", "n2", "n3"]


# Nodes that were refused.

FACTS = {
    "common_position": "3", "common_view": "2.0", "common_members": "n1, n2", "theirs_position": "9",
    "theirs_chain": "ab" * 16, "theirs_views": "3", "ours_position": "5", "ours_members_since": "n1, n2, n3",
}  # fmt: skip


def _refuse(stage: Stage, node: str, code: str = "FORKED") -> None:
    message = f"Node {node!r} has written in another history of this log."
    ref = stage.chronicle.ref(f"{node}-7")
    stage.chronicle.decide(RequestRefused(ref, f"node {node}", code, "BA23", message, FACTS), actor=node)
    stage.step()


def test_a_refused_node_is_explained_and_drawn(active: Stage) -> None:
    """BA27: its evidence in words, what shows more, and its branch beside the log, until it has joined."""
    _refuse(active, "n3")
    item = active.get("/nodes/n3/explain")
    assert "It was refused at position" in item["sentence"]
    assert item["facts"]["last common position"] == "3"
    assert "topolog explain join n3 --past FILE" in item["facts"]["shows more"]
    (branch,) = active.get("/branches")
    assert (branch["node"], branch["common"], branch["places"][0]["position"]) == ("n3", 3, 9)
    assert active.get(f"/requests/{branch['request']}/explain")["facts"]["members here since"] == "n1, n2, n3"
    page = active.page("baselines")
    assert "in another history (FORKED)" in page
    assert 'class="branch beside"' in page
    active.leave("n3")
    active.join("n3")
    assert active.get("/branches") == []
    assert "refused" not in active.get("/nodes/n3/explain")["sentence"]


def test_a_refused_node_that_never_joined_is_explained(active: Stage) -> None:
    _refuse(active, "n9", "FOREIGN")
    assert active.get("/nodes/n9/explain")["sentence"].startswith("Node n9 has never been a member. It was refused")
    assert active.get("/branches") == []


# The page.


def test_the_page_shows_the_baseline_where_there_is_one(stage: Stage) -> None:
    """Server-drawn, without a script."""
    assert "No baseline has been set" in stage.page("baselines")
    stage.granted(ACTIVATE)
    stage.finish()
    stage.join("n4")
    stage.leave("n3")
    page = stage.page("baselines")
    assert "No baseline has been set" not in page
    assert '<circle cx="9"' in page
    assert "not in the baseline" in page
    assert "baseline 0: n1, n2, n3 (+n1 +n2 +n3), 3 of 3 online" in page
    assert "Auto-adjust is off" in page
    assert "StateChange" not in stage.page()


# What partitions say of it.


def test_partitions_of_persistent_groups_are_placed_over_the_baseline(
    chronicle: Chronicle, projector: Projector
) -> None:
    """BA11: nothing moves when a member leaves; `explain partition` and `--if dies` say so, as the exchange decides."""
    cluster = shared_out(chronicle, "n1", "n2", "n3", persistent=True)
    with staged(chronicle, projector) as stage:
        stage.granted(ACTIVATE)
        stage.finish()
        stage.follow(cluster)
        forecast = stage.get("/nodes/n3/forecast", event="dies")
        assert forecast["facts"]["persistent groups"].startswith("it stays in baseline 0: nothing is loaded")
        (group,) = forecast["groups"]
        assert group["loads"] == {}
        cluster.leave("n3")
        cluster.rest()
        stage.step()
        items = stage.get("/partitions")
        assert all("MOVING" not in {copy["state"] for copy in item["copies"]} for item in items)
        torn = next(item["name"] for item in items if len(item["copies"]) == 1)
        facts = stage.get(f"/partitions/{torn}/explain")["facts"]
        assert "n3 (away)" in facts["because"]
        assert "the 3 members of the baseline that may hold copies are in order" in facts["because"]
        assert facts["away"] == "n3 of the baseline: others get no copy for that, until the baseline changes"
        assert "affinity would want now" not in facts
        stage.granted(change("REMOVE", "n3"))
        stage.follow(cluster)
        cluster.rest()
        stage.step()
        item = stage.get("/exchanges/newest/explain")
        assert "BASELINE_CHANGED" in item["sentence"]
        assert "BaselineChanged" in {cause["event"] for cause in item["causes"]}
