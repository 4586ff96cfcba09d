"""Partitions, maps and exchanges through the API: what the rules decided, as it is, as it was and why."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from httpx import Client
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served
from tests.unit.projections.sharing import Sharing, shared_out
from tests.unit.streams.rules.cluster import LOG_ID, new_id
from tests.unit.streams.rules.exchanging import passed

from topolog.events import ownership
from topolog.events.awaited import unheard
from topolog.events.exchange import EXCHANGES_KEPT
from topolog.events.group_definition import Affinity
from topolog.events.groups import GroupDropRequested, LossPolicy
from topolog.events.ids import NodeId
from topolog.events.rows import ROWS
from topolog.projections.partitions import ranges
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
Get = Callable[..., Json]


@pytest.fixture
def cluster(chronicle: Chronicle) -> Sharing:
    """Three servers, sixteen partitions with a backup, at rest."""
    return shared_out(chronicle, "n1", "n2", "n3")


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        yield client


@pytest.fixture
def get(client: Client, projector: Projector) -> Get:
    """What the API says of the log as it is now."""

    def ask(path: str, expected: int = 200, **parameters: str | int) -> Json:
        while projector.step():
            pass
        answer = client.get(f"{MAIN}{path}", params=parameters)
        assert answer.status_code == expected, answer.text
        body: Json = answer.json()
        return body

    return ask


def test_a_partition_is_as_the_log_has_it(cluster: Sharing, get: Get) -> None:
    """RD2: primary, backups, token and copies are those of the fold."""
    items = get("/partitions")["items"]
    assert [item["name"] for item in items] == [f"orders/{number}" for number in range(16)]
    for number, item in enumerate(items):
        assert item["state"] == "OWNING"
        assert item["primary"] == cluster.acting(number)
        assert {item["primary"], *item["backups"]} == set(cluster.states(number)) == set(item["wanted"])
        assert item["token"] == cluster.one(number).token
        assert get(f"/partitions/orders/{number}")["item"] == item


def test_pages_go_on_where_they_ended(cluster: Sharing, get: Get) -> None:
    """Cursors: every partition once, by group and number, whatever the length of a page."""
    cluster.create("a-b", 3, 0)
    cluster.create("a", 300, 0)
    cluster.rest()
    expected = [
        f"{group}/{number}" for group, count in (("a", 300), ("a-b", 3), ("orders", 16)) for number in range(count)
    ]
    for limit in (7, 100):
        seen: list[str] = []
        page = get("/partitions", limit=limit)
        while True:
            seen += [item["name"] for item in page["items"]]
            if page["next"] is None:
                break
            page = get("/partitions", limit=limit, cursor=page["next"])
        assert seen == expected
    past = get("/partitions", as_of=cluster.position - 1, group="a", limit=1000)["items"]
    assert [item["name"] for item in past] == expected[:300]


def moved_to_n4(cluster: Sharing) -> int:
    """n4 joins; a partition whose primary it is to be."""
    cluster.join("n4")
    cluster.renew("n4")
    cluster.exchange()
    return next(
        each.partition
        for _, each in cluster.all()
        if cluster.states(each.partition).get("n4") == "MOVING" and each.wanted[0] == number_of(cluster, "n4")
    )


def number_of(cluster: Sharing, node: str) -> int:
    found = ownership.number_of(cluster.state, NodeId(node))
    assert found is not None
    return found


def test_a_move_from_beginning_to_end(cluster: Sharing, get: Get) -> None:
    """EX13, EX14, DS6: it loads, is handed over, and what is no longer needed is cleared; each step has its word."""
    number = moved_to_n4(cluster)
    former = cluster.acting(number)
    path = f"/partitions/orders/{number}"
    item = get(path)["item"]
    assert (item["state"], item["primary"], item["wanted"][0]) == ("MOVING", former, "n4")
    said = get(f"{path}/explain")["item"]
    assert said["sentence"].endswith("n4 loads.")
    assert [each["node"] for each in said["waiting_for"]] == ["n4"]
    assert "each write waits for them too" in said["facts"]["waits for"]
    assert "in order n4, " in said["facts"]["because"]
    assert said["facts"]["because"].endswith("the first 2 are wanted")
    cluster.load("n4")
    assert get(path)["item"]["state"] == "SWITCHING"
    assert "which has all of it by now" in get(f"{path}/explain")["item"]["sentence"]
    cluster.hand_over()
    said = get(f"{path}/explain")["item"]
    assert f"pauses until {former} has drained" in said["sentence"]
    assert [each["node"] for each in said["waiting_for"]] == [former]
    for _ in range(3):
        cluster.hand_over("n1", "n2", "n3")
    item = get(path)["item"]
    assert (item["state"], item["primary"]) == ("RENTING", "n4")
    said = get(f"{path}/explain")["item"]
    assert said["facts"]["acted before"] == f"{former}, until position {item['token']}"
    assert f"hand-over by {former}" in said["facts"]["acting primary n4 since"]
    cluster.rest()
    assert get(path)["item"]["state"] == "OWNING"
    assert get(f"{path}/explain")["item"]["sentence"].endswith("as the affinity wants it.")


def test_the_history_of_a_partition_is_its_own(cluster: Sharing, get: Get) -> None:
    """RD11: newest first, with the decision that did it; changes of the 255 others in its row are none."""
    number = moved_to_n4(cluster)
    former = cluster.acting(number)
    cluster.rest()
    items = get(f"/partitions/orders/{number}/history")["items"]
    assert [item["event"] for item in items] == [
        "PartitionStatesChanged",  # cleared
        "PartitionStatesChanged",  # to be cleared
        "AffinitySwitched",
        "PartitionStatesChanged",  # loaded
        "FullPartitionMap",
        "FullPartitionMap",
        "GroupCreated",
    ]
    switched = next(item for item in items if item["event"] == "AffinitySwitched")
    assert switched["changes"]["primary"] == [former, "n4"]
    assert items[3]["changes"] == {"copies.n4": ["MOVING", "OWNING"]}
    for item, later in zip(items[1:], items, strict=False):
        assert item["position"] < later["position"]
        then = get(f"/partitions/orders/{number}", as_of=item["position"])["item"]
        assert then["primary"] == item["changes"].get("primary", [None, then["primary"]])[1]
    assert len(get(f"/partitions/orders/{number}/history", limit=2)["items"]) == 2
    assert "never a partition" in get("/partitions/orders/16/history", 404)["detail"]
    assert "never a partition" in get("/partitions/carts/0/history", 404)["detail"]


def test_what_is_lost_is_found_and_says_whom_it_awaits(chronicle: Chronicle, get: Get) -> None:
    """DS2: lost partitions as a list that can be pasted; the return of the owner ends it."""
    cluster = shared_out(chronicle, "n1", "n2", "n3", backups=0)
    gone = [f"orders/{number}" for number in range(16) if cluster.acting(number) == "n1"]
    cluster.leave("n1")
    paused = get("/partitions", state="PAUSED")["items"]
    assert [item["name"] for item in paused] == gone
    assert "neither read nor written" in get(f"/partitions/{gone[0]}/explain")["item"]["sentence"]
    cluster.exchange()
    lost = get("/partitions", state="LOST")["items"]
    assert [item["name"] for item in lost] == gone
    assert {tuple(item["awaits"]) for item in lost} == {("n1",)}
    assert {(item["lost"], item["primary"]) for item in lost} == {(True, None)}
    said = get(f"/partitions/{gone[0]}/explain")["item"]
    assert said["sentence"].endswith("no owner of it is present; it awaits n1.")
    assert said["facts"]["acted before"].startswith("n1, until position")
    assert said["facts"]["affinity wants"] == "nobody while it is lost"
    assert said["facts"]["because"].endswith("; the first would be wanted")
    assert said["facts"]["affinity would want"].endswith(" once its loss is given up")
    assert "copies" not in said["facts"], "there are servers enough"
    assert [each["node"] for each in said["waiting_for"]] == ["n1"]
    assert sum(get("/exchanges/newest")["item"]["lost"].values()) == len(gone)
    cluster.join("n1")
    cluster.exchange()
    assert get("/partitions", state="LOST")["items"] == []


def test_a_group_before_its_first_exchange_and_after_it_was_dropped(cluster: Sharing, client: Client, get: Get) -> None:
    """Partitions that nobody holds yet are paused; those of a dropped group leave their history."""
    cluster.create("carts", 3, 1)
    assert {item["state"] for item in get("/partitions", group="carts")["items"]} == {"PAUSED"}
    assert "has never been shared out" in get("/partitions/carts/2/explain")["item"]["sentence"]
    assert get("/maps", group="carts")["items"] == []
    assert get("/groups/carts/explain")["item"]["facts"]["partitions"] == "3 paused"
    assert "3 paused" in client.get("/").text
    assert "3 partitions are paused, neither read nor written" in client.get("/").text
    cluster.rest()
    cluster.ask(GroupDropRequested(new_id(), LOG_ID, "t", "", "carts"))
    assert get("/partitions", group="carts", expected=404)["code"] == "not_found"
    assert get("/partitions/carts/2", 404)["code"] == "not_found"
    assert get("/partitions/carts/2/explain", 404)["code"] == "not_found"
    events = [item["event"] for item in get("/partitions/carts/2/history")["items"]]
    assert (events[0], events[-1]) == ("GroupDropped", "GroupCreated")


def test_metrics_count_partitions_and_time_an_open_exchange(cluster: Sharing, client: Client, get: Get) -> None:
    """EX33: what an alarm is made of."""
    get("/cluster")
    metrics = client.get("/metrics").text
    assert 'topolog_projection_partitions{cluster="main",state="OWNING"} 16.0' in metrics
    assert 'topolog_projection_partitions{cluster="main",state="LOST"} 0.0' in metrics
    assert 'topolog_projection_open_exchange_seconds{cluster="main"} 0.0' in metrics
    cluster.join("n4")
    cluster.settle_exchange()
    cluster.renew("n1", "n2", "n3")
    get("/cluster")
    assert 'topolog_projection_open_exchange_seconds{cluster="main"} 1.0' in client.get("/metrics").text
    assert 'topolog_projection_unheard_seconds{cluster="main"} 0.0' in client.get("/metrics").text
    passed(cluster, "gather")
    cluster.settle_exchange()
    cluster.renew("n1", "n2", "n3")
    get("/cluster")
    metrics = client.get("/metrics").text
    assert 'topolog_projection_open_exchange_seconds{cluster="main"} 0.0' in metrics
    assert 'topolog_projection_unheard_seconds{cluster="main"} 4.0' in metrics


def test_a_group_that_fits_no_server_says_which_attribute_is_missing(cluster: Sharing, get: Get) -> None:
    """No exchange helps: the sentence names the attribute that no server has, before the exchange and behind it."""
    cluster.create("far", 2, 0, affinity=Affinity(node_filter={"planet": "mars"}))
    for _ in range(2):
        said = get("/partitions/far/0/explain")["item"]
        assert "no server fits the node filter of group far, which asks for planet mars" in said["sentence"]
        assert "none of them has an attribute planet" in said["sentence"]
        assert said["facts"]["waits for"].startswith("a server that fits, or `topolog alter group far --node-filter")
        cluster.rest()


def test_partitions_by_group_node_and_primary(cluster: Sharing, get: Get) -> None:
    cluster.create("carts", 5, 0)
    cluster.rest()
    held = {item["name"] for item in get("/partitions", node="n2")["items"]}
    every = get("/partitions")["items"]
    assert held == {item["name"] for item in every if "n2" in {copy["node"] for copy in item["copies"]}}
    acts = {item["name"] for item in get("/partitions", primary="n2", group="carts")["items"]}
    assert acts == {item["name"] for item in every if item["primary"] == "n2" and item["group"] == "carts"}
    cluster.join("n9")
    assert get("/partitions", node="n9")["items"] == [], "it is there and holds nothing"
    for path, which in (("/partitions", "node"), ("/partitions", "primary"), ("/maps", "node")):
        said = get(path, 404, **{which: "nosuch"})
        assert (said["detail"], said["hint"]) == ("There is no node 'nosuch'.", "`topolog get nodes` lists them.")
    assert get("/partitions", 404, primary="n22")["hint"].startswith("Did you mean n2")
    assert get("/partitions", group="cart", expected=404)["hint"] == "Did you mean carts?"
    assert get("/partitions", state="lost", expected=400)["invalid_params"][0]["name"] == "state"
    assert "0 to 15" in get("/partitions/orders/16", 404)["hint"]


def test_the_map_of_a_node_counts_its_copies(cluster: Sharing, get: Get) -> None:
    """docs/reading-partitions.md: counts by state and node, as the log has it; in full, partition by partition."""
    number = moved_to_n4(cluster)
    items = {item["node"]: item for item in get("/maps")["items"]}
    assert set(items) == {"n1", "n2", "n3", "n4"}
    assert sum(item["primaries"] for item in items.values()) == 16
    assert items["n4"]["states"] == {"MOVING": items["n4"]["copies"]}
    whole = get("/maps/orders/n4")["item"]
    assert str(number) in whole["partitions"]["MOVING"].replace("-", ", ").split(", ")
    assert {field: whole[field] for field in items["n4"]} == items["n4"]
    assert whole["primary_of"] == ""
    assert get("/maps", node="n2")["items"] == [items["n2"]]
    first = get("/maps", limit=2)
    assert [item["node"] for item in get("/maps", cursor=first["next"])["items"]] == ["n3", "n4"]
    assert "no node 'n9'" in get("/maps/orders/n9", 404)["detail"]
    cluster.join("n5")
    assert get("/maps/orders/n5")["item"]["copies"] == 0, "it holds nothing yet"


def test_exchanges_are_listed_with_what_they_were_about(cluster: Sharing, get: Get) -> None:
    """EX21, EX22: type, triggers, duration, whom they waited for; hand-overs are of type SWITCH."""
    cluster.join("n4")
    cluster.settle_exchange()
    opened = get("/exchanges", state="OPEN")["items"]
    assert [(item["types"], item["awaited"]) for item in opened] == [(["JOIN"], ["n4"])], "nobody else is needed"
    version = opened[0]["version"]
    cluster.leave("n2")
    cluster.exchange()
    item = get(f"/exchanges/{version}")["item"]
    assert (item["state"], item["types"]) == ("COMPLETED", ["JOIN", "LEAVE"])
    assert item["result"] != version
    assert get(f"/exchanges/{item['result']}")["item"] == item, "any view that it is about names it"
    assert {answer["node"] for answer in item["waited"]} == {"n1", "n3", "n4"}, "n2 was the primary of something"
    assert item["duration_ms"] > 0
    assert 0 < item["changed"]["orders"] <= 16
    assert [phase["phase"] for phase in item["phases"]] == ["BEGAN", "MERGED", "COMPLETED"]
    assert item["phases"][-1]["after_ms"] == item["duration_ms"]
    assert [each["event"] for each in get(f"/exchanges/{version}/history")["items"]][-1] == "ExchangeStarted"
    cluster.rest()
    switches = get("/exchanges", type="SWITCH")["items"]
    assert switches
    switched = get(f"/exchanges/{switches[0]['version']}")["item"]
    assert switched["changed"]["orders"] > 0
    assert [phase["phase"] for phase in switched["phases"]] == ["PREPARED", "SWITCHED"]
    assert len(get(f"/exchanges/{switches[0]['version']}/history")["items"]) == 2
    whole = [item["version"] for item in get("/exchanges")["items"]]
    paged: list[str] = []
    page = get("/exchanges", limit=2)
    while page["next"]:
        paged += [item["version"] for item in page["items"]]
        page = get("/exchanges", limit=2, cursor=page["next"])
    assert paged + [item["version"] for item in page["items"]] == whole
    assert len(whole) == len(set(whole))
    assert get("/exchanges/99.0", 404)["code"] == "not_found"
    assert get("/exchanges/abc", 400)["hint"]


def test_an_open_exchange_says_whom_it_waits_for(cluster: Sharing, get: Get) -> None:
    """EX33: phase, who is asked, what is known of them, what to do; what waits behind it."""
    assert "completed" in get("/exchanges/newest/explain")["item"]["sentence"]
    cluster.join("n4")
    cluster.settle_exchange()
    cluster.create("carts", 4, 0)
    said = get("/exchanges/newest/explain")["item"]
    assert "is open since position" in said["sentence"]
    assert said["sentence"].endswith("; it waits for n4.")
    assert {each["node"] for each in said["waiting_for"]} == {"n4"}, "nobody else is needed"
    facts = said["facts"]
    assert facts["waits for n4"].startswith(f"its single map; asked at position {cluster.position - 1} (")
    assert facts["waits for n4"].endswith("none of its heartbeats has been confirmed since it joined")
    assert "its lease is not renewed, and unless it is heard it is out in" in facts["n4 is waited for until"]
    assert facts["has not answered"] == "n4"
    assert said["facts"]["next"].startswith("`topolog explain node n4`")
    assert said["facts"]["queued"].startswith("GROUP_CREATED carts")
    assert [cause["event"] for cause in said["causes"]] == ["NodeJoined", "ExchangeStarted"]
    cluster.chronicle.renew("n1", "n2", "n3", "n4")
    facts = get("/exchanges/newest/explain")["item"]["facts"]
    assert "if it does, it is stopped 60000 ms after position" in facts["n4 is waited for until"]
    cluster.exchange()
    assert get("/exchanges/newest/explain")["item"]["facts"]["phase"] == "completed"


def test_a_reader_that_was_restarted_folds_on_alike(cluster: Sharing, make_projector: Callable[[], Projector]) -> None:
    """K10, RD2: one fold everywhere. Rows of every kind are stored, read back, and folded on to equal hashes."""
    rounds: list[Callable[[], object]] = [
        lambda: cluster.join("n4"),
        cluster.settle_exchange,
        lambda: cluster.create("carts", 300, 1),
        lambda: cluster.leave("n2"),
        cluster.exchange,
        lambda: cluster.load("n4"),
        cluster.hand_over,
        lambda: cluster.leave("n1"),
        cluster.rest,
        lambda: cluster.leave("n3", "n4"),
        cluster.exchange,
        lambda: cluster.join("n3"),
        cluster.rest,
    ]
    seen: set[str] = set()
    for act in rounds:
        act()
        projector = make_projector()
        while projector.step():
            pass
        assert projector.stopped is None
        with projector.reading() as reading:
            assert reading.state().hash() == cluster.state.hash()
            assert reading.meta.state_hash == cluster.state.hash()
            seen |= {kind.KIND for kind in ROWS if any(True for _ in reading.rows(kind))}
    assert seen >= {"group", "roster", "ownership", "exchange", "exchange-queue", "hand-over"}


@pytest.mark.parametrize("backups", [0, 1, 2])
@pytest.mark.parametrize("policy", ["READ_WRITE_SAFE", "IGNORE"])
def test_a_forecast_is_what_then_happens(chronicle: Chronicle, get: Get, backups: int, policy: str) -> None:
    """RD21: the dry run decides as the coordinator does. It is asked, the node dies, and it is compared."""
    cluster = Sharing(chronicle)
    cluster.join("n1", "n2", "n3")
    cluster.create("orders", 16, backups, loss_policy=LossPolicy(policy))
    cluster.rest()
    cluster.join("n4")
    before = {number: (cluster.acting(number), cluster.states(number)) for number in range(16)}
    cluster.exchange()
    item = get("/nodes/n2/forecast", event="dies")["item"]
    (group,) = item["groups"]
    cluster.leave("n2")
    cluster.exchange()
    concerned = [number for number in range(16) if "n2" in before[number][1]]
    alone = [number for number in concerned if set(before[number][1]) == {"n2"}]
    assert group["copies"] == len(concerned)
    assert group["lost"] == len(alone)
    begins_empty = policy == "IGNORE" and bool(alone)
    assert group["begin_empty"] == (len(alone) if begins_empty else 0)
    assert (" empty (loss policy IGNORE)" in item["sentence"]) == begins_empty
    assert (" lost;" in item["sentence"]) == (not begins_empty)
    if policy == "READ_WRITE_SAFE":
        assert [each["partition"] for each in get("/partitions", state="LOST")["items"]] == alone
    moved = [n for n in concerned if before[n][0] == "n2" and n not in alone and cluster.acting(n) != "n2"]
    assert group["primaries_moved"] == len(moved)
    owners = Counter(
        "0" if number in alone else str(list(cluster.states(number).values()).count("OWNING")) for number in concerned
    )
    assert group["owners_left"] == owners
    assert ("nothing is lost" in item["sentence"]) == (not alone)
    assert get("/nodes/n2/forecast", 404)["detail"] == "Node n2 is out of the membership already."


def test_a_forecast_says_how_long_it_takes_and_what_is_missing(cluster: Sharing, get: Get) -> None:
    cluster.create("safe", 4, 2)
    cluster.rest()
    dies, removed = (get("/nodes/n3/forecast", event=event)["item"] for event in ("dies", "removed"))
    assert "sentinel" in dies["facts"]["until it is out"]
    assert "says that it has stopped" in removed["facts"]["until it is out"]
    assert dies["facts"]["group safe"] == "2 servers left for 3 copies"
    assert dies["groups"] == removed["groups"]
    assert sum(dies["groups"][0]["loads"].values()) > 0
    assert get("/nodes/n9/forecast", 404)["code"] == "not_found"
    assert get("/nodes/n3/forecast", 400, event="sleeps")["invalid_params"][0]["name"] == "event"


def test_a_decision_about_many_partitions_is_read_by_people(cluster: Sharing, get: Get) -> None:
    """A list says how many bytes they are, one decision which partitions, and what became of the first hundred."""
    cluster.create("many", 300, 0)
    cluster.exchange()
    listed = next(each for each in get("/decisions", event="FullPartitionMap")["items"])
    assert listed["content"]["changes"].endswith(" bytes")
    content = get(f"/decisions/{listed['position']}")["item"]["content"]
    assert (content["group"], content["count"], content["partitions"]) == ("many", 300, "0-299")
    assert len(content["changes"]) == 100
    assert content["changes"][7]["primary"] == cluster.acting(7, "many")
    assert get("/exchanges/newest")["item"]["changed"] == {"many": 300}


def test_the_cluster_says_that_an_exchange_is_open(cluster: Sharing, get: Get) -> None:
    assert get("/cluster")["item"]["open_exchange"] is None
    cluster.join("n4")
    cluster.settle_exchange()
    item = get("/cluster")["item"]
    assert item["open_exchange"] == "4.0"
    assert "1 group, exchange 4.0 is open;" in item["sentence"]


def test_a_reader_forgets_the_same_exchanges_as_the_log(
    cluster: Sharing, make_projector: Callable[[], Projector]
) -> None:
    """One fold everywhere: which exchanges the state remembers does not depend on when a reader was started."""
    for number in range(EXCHANGES_KEPT + 3):
        cluster.join("n4") if number % 2 == 0 else cluster.leave("n4")
        cluster.exchange()
        if number % 8 == 0:
            projector = make_projector()
        while projector.step():
            pass
    with projector.reading() as reading:
        assert projector.stopped is None
        assert reading.meta.state_hash == cluster.state.hash()


def test_a_forecast_counts_on_a_server_that_no_exchange_has_listed_yet(cluster: Sharing, get: Get) -> None:
    """One that has just joined has no number in the log, and would get copies all the same."""
    cluster.join("n4")
    cluster.settle_exchange()
    (group,) = get("/nodes/n1/forecast", event="dies")["item"]["groups"]
    assert group["loads"]["n4"] > 0


@pytest.fixture
def paused(chronicle: Chronicle) -> Sharing:
    """n1, the only owner of some partitions, is back with its disk and has answered nothing: the exchange of its
    joining was completed without it."""
    cluster = shared_out(chronicle, "n1", "n2", backups=0)
    cluster.leave("n1")
    chronicle.renew("n2")
    cluster.join("n1")
    chronicle.renew("n1", "n2")
    cluster.settle_exchange()
    passed(cluster, "gather")
    cluster.settle_exchange()
    return cluster


def of_n1(cluster: Sharing) -> list[int]:
    """The partitions that n1 is the only owner of."""
    return [number for number in range(16) if cluster.states(number).get("n1") == "OWNING"]


def test_a_paused_partition_says_whom_it_waits_for_and_what_goes_on(paused: Sharing, get: Get) -> None:
    """DS10, DS12, DS16: since when, until when, what else is served; all others have their primaries."""
    numbers = of_n1(paused)
    assert [item["partition"] for item in get("/partitions", state="PAUSED")["items"]] == numbers
    (asked,) = unheard(paused.state).servers  # type: ignore[union-attr]
    said = get(f"/partitions/orders/{numbers[0]}/explain")["item"]
    assert said["sentence"].endswith("and it is neither read nor written until n1 is heard.")
    assert [(each["node"], each["since"], each["at_most_ms"]) for each in said["waiting_for"]] == [
        ("n1", asked.at, None)
    ], "n1 has the last copies, so no deadline stops it"
    facts = said["facts"]
    assert facts["waits for n1"].startswith("its map, which alone says whether its copy is still there; asked at")
    assert facts["n1 is waited for until"].endswith("`topolog remove node n1` takes it out")
    assert facts["goes on meanwhile"] == (
        f"{16 - len(numbers)} partitions of group orders are read and written; other groups do not wait for this"
    )
    served = next(number for number in range(16) if number not in numbers)
    assert "goes on meanwhile" not in get(f"/partitions/orders/{served}/explain")["item"]["facts"]


def test_the_lease_ends_the_wait_for_a_silent_owner_of_last_copies(chronicle: Chronicle, get: Get) -> None:
    """DS16: no deadline stops it as long as it is heard; it is not, so it is out when its lease is over."""
    cluster = shared_out(chronicle, "n1", "n2", backups=0)
    cluster.leave("n1")
    cluster.join("n1")
    cluster.settle_exchange()
    passed(cluster, "gather")
    cluster.settle_exchange()
    lease = get("/leases/n1")["item"]
    assert lease["state"] == "NONE", "it has joined, and was never renewed"
    said = get(f"/partitions/orders/{of_n1(cluster)[0]}/explain")["item"]
    (at_most_ms,) = (each["at_most_ms"] for each in said["waiting_for"])
    assert 0 < at_most_ms <= lease["out_in_ms"]
    assert "unless it is heard it is out in" in said["facts"]["n1 is waited for until"]
    pending = {each["kind"]: each for each in get("/pending")["items"]}
    for kind in ("PAUSED", "EXCHANGE"):
        assert 0 < pending[kind]["at_most_ms"] <= at_most_ms
        assert pending[kind]["ends"].startswith("in ")


def test_what_waits_for_a_silent_owner_is_explained_while_its_primary_is_gone(chronicle: Chronicle, get: Get) -> None:
    """DS10: whoever acted is out and still listed as wanted; the other owner is there and has not been heard."""
    cluster = shared_out(chronicle, "n1", "n2", "n3", backups=1)
    owned = [number for number in range(16) if cluster.states(number).keys() == {"n1", "n2"}]
    number = next(each for each in owned if get(f"/partitions/orders/{each}")["item"]["primary"] == "n1")
    cluster.leave("n1")
    chronicle.renew("n2", "n3")
    cluster.settle_exchange()
    cluster.apply("n3")
    passed(cluster, "gather")
    cluster.settle_exchange()
    assert number in [item["partition"] for item in get("/partitions", state="PAUSED")["items"]]
    said = get(f"/partitions/orders/{number}/explain")["item"]
    assert [each["node"] for each in said["waiting_for"]] == ["n2"]
    assert "PAUSED" in {each["kind"] for each in get("/pending")["items"]}
    assert get("/exchanges/newest/explain")["item"]["facts"]["paused of group orders"].endswith("for n2")


def test_an_exchange_that_has_missed_somebody_is_the_newest_whatever_is_handed_over_behind_it(
    chronicle: Chronicle, get: Get
) -> None:
    """DS17: it waits on, and who asks about exchanges asks about that one."""
    cluster = shared_out(chronicle, "n1", "n2", "n3", backups=1)
    cluster.join("n4")
    cluster.exchange_but()
    cluster.load("n4")
    cluster.leave("n3")
    cluster.settle_exchange()
    cluster.apply("n1", "n4")
    passed(cluster, "gather")
    cluster.settle_exchange()
    missed = next(each for each in get("/exchanges")["items"] if each["unheard"])
    while cluster.hand_over("n1", "n2", "n4"):
        pass
    assert get("/exchanges")["items"][0]["triggers"][0]["type"] == "SWITCH"
    assert get("/exchanges/newest")["item"]["version"] == missed["version"]


def test_an_exchange_says_what_waits_for_whom_it_was_completed_without(paused: Sharing, get: Get) -> None:
    """DS16, EX33: whom, since when, which partitions; the same is pending, and is overdue once the log says so."""
    item = get("/exchanges/newest")["item"]
    assert (item["state"], item["unheard"], item["overdue"]) == ("COMPLETED", ["n1"], [])
    said = get("/exchanges/newest/explain")["item"]
    assert said["sentence"].endswith("; it was completed without n1, still needed.")
    numbers = of_n1(paused)
    assert said["facts"]["paused of group orders"] == f"{len(numbers)} partitions: {ranges(numbers)} for n1"
    assert said["facts"]["goes on of group orders"].startswith(f"{16 - len(numbers)} partitions of group orders are")
    assert [each["node"] for each in said["waiting_for"]] == ["n1"]
    pending = {each["kind"]: each for each in get("/pending")["items"]}
    assert pending["PAUSED"]["ends"] == "at no fixed time: it waits until n1 is heard or removed"
    assert [each["node"] for each in pending["PAUSED"]["waits_for"]] == ["n1"]
    assert pending["EXCHANGE"]["is_overdue"] is False
    passed(paused, "warn")
    paused.settle_exchange()
    named_at = get("/exchanges/newest")["item"]["overdue_at"]
    assert named_at == paused.position
    assert get("/exchanges/newest/explain")["item"]["facts"]["overdue"].startswith(f"n1: named at position {named_at}")
    assert get("/exchanges/newest/history")["items"][0]["event"] == "ExchangeOverdue"
    overdue = next(each for each in get("/pending")["items"] if each["kind"] == "EXCHANGE")
    assert overdue["is_overdue"] is True
    assert overdue["sentence"] in get("/cluster")["item"]["news"]


@pytest.mark.parametrize(
    ("leaves", "end"), [(True, "it left at position"), (False, "it has been heard since, or is needed no more")]
)
def test_how_the_wait_for_whom_an_exchange_was_completed_without_has_ended(
    paused: Sharing, get: Get, leaves: bool, end: str
) -> None:
    """DS17: it is heard, and the next exchange takes that in; or it leaves, and what it alone had is lost (DS12)."""
    version = get("/exchanges/newest")["item"]["version"]
    numbers = of_n1(paused)
    paused.leave("n1") if leaves else paused.answer("n1")
    paused.exchange()
    assert get(f"/exchanges/{version}/explain")["item"]["facts"]["wait for n1"].startswith(end)
    state = get(f"/partitions/orders/{numbers[0]}")["item"]["state"]
    assert state == ("LOST" if leaves else "OWNING")
    assert get("/exchanges/newest/explain")["item"]["waiting_for"] == []


def test_a_map_that_has_come_is_an_answer_before_the_log_says_so(paused: Sharing, get: Get) -> None:
    """Who has answered is told as soon as this reader has its map; of the past only what the log says."""
    assert get("/exchanges/newest/explain")["item"]["facts"]["has not answered"] == "n1"
    paused.send_map("n1")
    said = get("/exchanges/newest/explain")["item"]
    assert said["facts"]["has answered"] == "n1; the next exchange takes that in"
    assert said["waiting_for"] == []
    assert get(f"/partitions/orders/{of_n1(paused)[0]}/explain")["item"]["sentence"].endswith(
        "until an exchange has decided who acts."
    )


def test_a_group_that_waits_for_its_first_server_says_for_which(chronicle: Chronicle, get: Get) -> None:
    """DS10: a partition that never had an owner begins as soon as one of those that are wanted is there."""
    cluster = Sharing(chronicle)
    cluster.join("n1")
    cluster.create("orders", 4, 0)
    cluster.settle_exchange()
    passed(cluster, "gather")
    cluster.settle_exchange()
    said = get("/partitions/orders/0/explain")["item"]
    assert said["sentence"] == (
        "Partition orders/0 has never been shared out: it begins on n1 as soon as that is heard."
    )
    assert said["facts"]["waits for n1"].startswith("its map; asked at position ")
    cluster.answer("n1")
    cluster.rest()
    assert get("/partitions/orders/0")["item"]["primary"] == "n1"


def test_what_is_lost_can_be_given_up(chronicle: Chronicle, projector: Projector) -> None:
    """EX19: asked for through the API; it holds when the exchange is completed, and says whom it waits for."""
    cluster = shared_out(chronicle, "n1", "n2", backups=0)
    requester = Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")
    with served(projector, requester) as client:

        def post(body: Json, **parameters: str) -> Json:
            while projector.step():
                pass
            answer: Json = client.post(f"{MAIN}/requests", json=body, params=parameters).json()
            return answer

        reset = {"kind": "reset-group", "name": "orders", "reason": "its disks are gone"}
        assert post(reset)["item"]["status"] == "UNCHANGED"
        assert post({**reset, "name": "order"})["code"] == "GROUP_UNKNOWN"
        cluster.leave("n1")
        cluster.exchange()
        outcome = post(reset)["item"]
        assert (outcome["status"], outcome["accepted"]) == ("GRANTED", False)
        cluster.settle_exchange()
        while projector.step():
            pass
        said = client.get(f"{MAIN}/requests/{outcome['id']}/explain").json()["item"]
        assert [each["node"] for each in said["waiting_for"]] == ["n2"]
        cluster.exchange()
        while projector.step():
            pass
        assert client.get(f"{MAIN}/partitions", params={"state": "LOST"}).json()["items"] == []
        assert client.get(f"{MAIN}/requests/{outcome['id']}/explain").json()["item"]["waiting_for"] == []
        newest = client.get(f"{MAIN}/exchanges/newest").json()["item"]
        assert newest["types"] == ["LOSS_RESET"]
        causes = client.get(f"{MAIN}/exchanges/newest/explain").json()["item"]["causes"]
        assert (causes[0]["event"], causes[0]["reason"]) == ("ExchangeQueued", "its disks are gone")
        assert post({"kind": "exchange", "reason": "to be sure"})["item"]["status"] == "GRANTED"
        cluster.exchange()
        while projector.step():
            pass
        assert client.get(f"{MAIN}/exchanges/newest").json()["item"]["types"] == ["REQUESTED"]
        causes = client.get(f"{MAIN}/exchanges/newest/explain").json()["item"]["causes"]
        assert causes[0]["reason"] == "to be sure"
