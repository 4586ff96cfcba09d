"""Single maps through the API: what servers say that they hold, beside what the log says; which ones are kept."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from httpx import Client
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.conftest import MakeProjector
from tests.unit.projections.serving import served
from tests.unit.projections.sharing import Sharing, shared_out
from tests.unit.streams.rules.exchanging import passed

from topolog.events.codec import CODEC
from topolog.events.ids import Incarnation, NodeId, Offset, Position
from topolog.events.log import Entry
from topolog.events.membership import Applied
from topolog.events.partitions import PartitionState, codes_of, encode_codes
from topolog.events.single_maps import Copies, Finished, NodeMap, SinglePartitionMap, pack_finished, split_map
from topolog.events.topics import PLANS, Topic
from topolog.projections.newest_maps import STRANGE_PARTS_MAX, STRANGERS_MAX, Held, Log, maps_write
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.sides import MapBodyRow, MapPartRow, MapRow, SideRow

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
OWNING, MOVING, LOST = PartitionState.OWNING, PartitionState.MOVING, PartitionState.LOST
KNOWN = Log(Position(0), lambda _: True)


@pytest.fixture
def cluster(chronicle: Chronicle) -> Sharing:
    """Three servers, sixteen partitions with a backup, at rest."""
    return shared_out(chronicle, "n1", "n2", "n3")


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        yield client


def shown(client: Client, projector: Projector, node: str = "n1") -> Json:
    while projector.step():
        pass
    item: Json = client.get(f"{MAIN}/single-maps/{node}").json()["item"]
    return item


def say(cluster: Sharing, states: Mapping[int, PartitionState], *, sequence: int = 1, **changes: Any) -> None:
    """n1 sends such a map of the group orders."""
    copies = Copies(encode_codes(codes_of(states, 16)), finished=changes.pop("finished", b""))
    applied = Applied(cluster.chronicle.log_id, cluster.position, cluster.chronicle.chain)
    whole = NodeMap(NodeId("n1"), Incarnation(1), None, sequence, applied, {"orders": copies})
    for part in split_map(msgspec.structs.replace(whole, **changes)):
        cluster.chronicle.log.put(Topic.MAPS, "n1", CODEC.encode(part))


def states_of(cluster: Sharing, node: str = "n1") -> dict[int, PartitionState]:
    """What the log says that the node holds."""
    return {
        number: PartitionState[cluster.states(number)[node]] for number in range(16) if node in cluster.states(number)
    }


def test_a_map_says_what_the_log_says(cluster: Sharing, client: Client, projector: Projector) -> None:
    cluster.send_map("n1", "n2")
    held = states_of(cluster)
    item = shown(client, projector)
    assert (item["state"], item["sentence"]) == ("AGREE", "It says what the log says.")
    assert (item["incarnation"], item["sequence"], item["applied"]) == (1, 1, cluster.position)
    assert item["copies"] == item["in_log"] == {"OWNING": len(held)}
    assert [(each["group"], each["copies"]) for each in item["groups"]] == [("orders", {"OWNING": len(held)})]
    items = client.get(f"{MAIN}/single-maps").json()["items"]
    assert [(each["node"], each["state"]) for each in items] == [("n1", "AGREE"), ("n2", "AGREE"), ("n3", "NONE")]
    assert "groups" not in items[0]
    page = client.get(f"{MAIN}/single-maps", params={"limit": 2}).json()
    rest = client.get(f"{MAIN}/single-maps", params={"limit": 2, "cursor": page["next"]}).json()["items"]
    assert [each["node"] for each in rest] == ["n3"]


def test_what_differs_is_counted_and_named(cluster: Sharing, client: Client, projector: Projector) -> None:
    """A copy that the log lists and the map does not, and one the other way round."""
    held = states_of(cluster)
    gone, more = min(held), next(number for number in range(16) if number not in held)
    say(cluster, {number: state for number, state in held.items() if number != gone} | {more: OWNING})
    item = shown(client, projector)
    assert (item["state"], item["differences"]) == ("DIFFER", 2)
    assert item["sentence"] == "2 partitions are not as the log has them."
    assert set(item["groups"][0]["differing"].split(", ")) == {str(gone), str(more)}


def test_what_is_said_is_explained(cluster: Sharing, client: Client, projector: Projector) -> None:
    """What differs where, and whether an exchange was completed without it."""
    held = states_of(cluster)
    gone = min(held)
    say(cluster, {number: state for number, state in held.items() if number != gone})
    shown(client, projector)
    said: Json = client.get(f"{MAIN}/single-maps/n1/explain").json()["item"]
    assert said["sentence"] == "n1: 1 partition is not as the log has it."
    assert said["facts"]["group orders"].endswith(f"; they differ in {gone}")
    assert said["waiting_for"] == []
    cluster.join("n4")
    cluster.settle_exchange()
    passed(cluster, "gather")
    cluster.settle_exchange()
    shown(client, projector, "n4")
    said = client.get(f"{MAIN}/single-maps/n4/explain").json()["item"]
    assert [each["node"] for each in said["waiting_for"]] == ["n4"]
    assert said["facts"]["an exchange waits for it"].startswith("asked at position ")


def test_what_the_log_has_changed_since_is_no_difference(
    cluster: Sharing, client: Client, projector: Projector
) -> None:
    say(cluster, states_of(cluster))
    cluster.leave("n2")
    cluster.exchange()
    item = shown(client, projector)
    loading = sum(state is MOVING for state in states_of(cluster).values())
    assert loading > 0
    assert (item["state"], item["differences"], item["outdated"]) == ("AGREE", 0, loading)
    assert item["sentence"].endswith(f"Beside that: {loading} that the log has changed since.")
    assert item["in_log"]["MOVING"] == loading


def test_what_is_finished_and_not_in_the_log_yet_is_no_difference(
    cluster: Sharing, client: Client, projector: Projector
) -> None:
    cluster.leave("n2")
    cluster.exchange()
    held = states_of(cluster)
    loaded = next(number for number, state in held.items() if state is MOVING)
    finished = pack_finished({loaded: Finished(cluster.position, Position(1))})
    say(cluster, held | {loaded: OWNING}, finished=finished)
    item = shown(client, projector)
    assert (item["state"], item["differences"], item["finished"]) == ("AGREE", 0, 1)


@pytest.mark.parametrize(
    ("changes", "state", "begins"),
    [
        ({"groups": {}}, "REFUSED", "INCOMPLETE: It does not tell of orders."),
        ({"groups": {"orders": Copies(b"\7")}}, "REFUSED", "DAMAGED: Group orders: "),
        ({"applied": Applied(LOG_ID, Position(3), b"another")}, "REFUSED", "DIVERGED: "),
        ({"applied": Applied(LOG_ID, Position(9_999), b"")}, "AHEAD", "Its node has applied more of the log"),
        ({"applied": Applied(b"another log", Position(3), b"")}, "NONE", "No map of this life of n1 is kept"),
        ({"incarnation": Incarnation(7)}, "NONE", "No map of this life of n1 is kept"),
    ],
)
def test_a_map_that_does_not_count_says_why(
    cluster: Sharing, client: Client, projector: Projector, changes: Json, state: str, begins: str
) -> None:
    """It is judged as a coordinator judges it; what the log has is told beside it all the same."""
    say(cluster, {}, **changes)
    item = shown(client, projector)
    assert item["state"] == state
    assert item["sentence"].startswith(begins)
    assert (item["copies"], item["differences"]) == ({}, 0)
    assert item["in_log"] == {"OWNING": len(states_of(cluster))}


def test_a_map_is_of_one_life_and_only_of_members(cluster: Sharing, client: Client, projector: Projector) -> None:
    """DS13: who comes back has said nothing yet; who is out is not listed."""
    cluster.send_map("n1", "n2")
    cluster.leave("n1", "n2")
    cluster.join("n1")
    assert shown(client, projector)["state"] == "NONE"
    assert client.get(f"{MAIN}/single-maps/n2").status_code == 404
    assert [each["node"] for each in client.get(f"{MAIN}/single-maps").json()["items"]] == ["n3", "n1"]


def test_single_maps_have_no_past(cluster: Sharing, client: Client, projector: Projector) -> None:
    shown(client, projector)
    for path in ("", "/n1"):
        answer = client.get(f"{MAIN}/single-maps{path}", params={"as_of": "3"})
        assert answer.status_code == 400
        assert answer.json()["detail"].startswith("Single maps have no past")


def test_a_map_names_the_exchange_that_it_was_sent_for(cluster: Sharing, client: Client, projector: Projector) -> None:
    cluster.join("n4")
    cluster.settle_exchange()
    cluster.send_map("n4")
    item = shown(client, projector, "n4")
    version = client.get(f"{MAIN}/exchanges/newest").json()["item"]["version"]
    assert item["exchange"] == version


def test_parts_are_put_together_also_behind_a_restart(cluster: Sharing, make_projector: MakeProjector) -> None:
    """A crash between two parts loses none."""
    whole = big(1)
    for part in split_map(whole, 1_000):
        projector = make_projector()
        cluster.chronicle.log.put(Topic.MAPS, "n1", CODEC.encode(part))
        while projector.step():
            pass
    with projector.reading() as reading:
        body = reading.side(MapBodyRow, "n1")
        assert body is not None
        assert body.groups == whole.groups
        assert not list(reading.sides(MapPartRow))


def big(sequence: int, node: str = "n1", incarnation: int = 1) -> NodeMap:
    """A map that takes several parts of 1,000 bytes."""
    rng = random.Random(sequence)
    groups = {f"g{number}": Copies(rng.randbytes(700)) for number in range(4)}
    applied = Applied(LOG_ID, Position(sequence), b"")
    return NodeMap(NodeId(node), Incarnation(incarnation), None, sequence, applied, groups)


@pytest.mark.parametrize("seed", range(40))
def test_the_newest_whole_map_is_kept_however_they_come(seed: int) -> None:
    """Whole maps and parts of several lives of two nodes, repeated, in any batches: the last whole one of the newest
    life of each stays, and of nothing that is not whole more than one map's parts."""
    chance = random.Random(seed)
    entries: list[Entry] = []
    last: dict[str, NodeMap] = {}
    for sequence in range(1, 12):
        node = chance.choice(("n1", "n2"))
        whole = big(sequence, node, 1 + sequence // 6)
        parts = split_map(whole, chance.choice((1_000, 900_000)))
        sent = parts if chance.random() < 0.7 else parts[: chance.randrange(len(parts))]
        if len(sent) == len(parts):
            last[node] = whole
        values = [CODEC.encode(part) for part in sent]
        repeated = [*values, *chance.sample(values, len(values) // 2)]
        for value in repeated:
            entries.append(entry(len(entries), node, value))
    rows = kept_of(entries, chance)
    heads = {row.node: row.update_sequence for row in rows.values() if isinstance(row, MapRow)}
    assert heads == {node: each.update_sequence for node, each in last.items()}
    for node, each in last.items():
        body = rows[MapBodyRow.KIND, node]
        assert isinstance(body, MapBodyRow)
        assert body.groups == each.groups
    parts_left = [row.part for row in rows.values() if isinstance(row, MapPartRow)]
    assert len({(part.node, part.update_sequence) for part in parts_left}) == len({part.node for part in parts_left})


def test_a_late_map_of_the_same_life_replaces_nothing() -> None:
    """EX28: by the update sequence; not by when it came."""
    newer, older = big(9), big(3)
    rows = maps_write(Held({}, []), [entry(0, "n1", CODEC.encode(part)) for part in split_map(newer)], KNOWN)
    head = rows[MapRow.KIND, "n1"]
    assert isinstance(head, MapRow)
    late = [entry(1, "n1", CODEC.encode(part)) for part in split_map(older)]
    assert maps_write(Held({head.node: head}, []), late, KNOWN) == {}


def kept_of(entries: Sequence[Entry], chance: random.Random) -> dict[tuple[str, str], SideRow]:
    """What is kept when they come in batches of any size."""
    rows: dict[tuple[str, str], SideRow] = {}
    while entries:
        size = chance.randint(1, 6)
        held = Held(
            {row.node: row for row in rows.values() if isinstance(row, MapRow)},
            [row for _, row in sorted(rows.items()) if isinstance(row, MapPartRow)],
        )
        for key, row in maps_write(held, entries[:size], KNOWN).items():
            rows.pop(key, None)
            if row is not None:
                rows[key] = row
        entries = entries[size:]
    return rows


def test_of_a_node_that_the_log_does_not_know_nothing_is_kept() -> None:
    """It has applied its own joining before it sends a map, so one that speaks of less is of nobody."""
    log = Log(Position(7), lambda node: node == "n1")
    ghosts = [entry(n, f"n{n}", CODEC.encode(ghost(f"n{n}", at=7, parts=1 + n % 2))) for n in range(1, 9)]
    assert {key for _, key in maps_write(Held({}, []), ghosts, log)} == {"000/n1"}


def test_what_may_be_known_further_on_is_bounded() -> None:
    """The log may be read less far than maps, and then all their nodes are strangers."""
    log = Log(Position(7), lambda _: False)
    count = STRANGERS_MAX + 10
    whole = [entry(n, f"n{n}", CODEC.encode(ghost(f"n{n}", at=8))) for n in range(count)]
    parts = [entry(n, f"p{n}", CODEC.encode(ghost(f"p{n}", at=8, parts=2))) for n in range(count)]
    rows = maps_write(Held({}, []), whole + parts, log)
    assert sum(kind == MapRow.KIND for kind, _ in rows) == STRANGERS_MAX
    assert sum(kind == MapPartRow.KIND for kind, _ in rows) == STRANGE_PARTS_MAX
    held = Held(
        {row.node: row for row in rows.values() if isinstance(row, MapRow)},
        [row for row in rows.values() if isinstance(row, MapPartRow)],
    )
    assert maps_write(held, [entry(1, "q", CODEC.encode(ghost("q", at=8, parts=each))) for each in (1, 2)], log) == {}


def ghost(node: str, *, at: int, parts: int = 1) -> SinglePartitionMap:
    applied = Applied(bytes(16), Position(at), bytes(16))
    return SinglePartitionMap(NodeId(node), Incarnation(1), None, 1, applied, 0, parts, ())


def entry(offset: int, key: str, value: bytes) -> Entry:
    return Entry(Topic.MAPS, 0, Offset(offset), key, value, (), 1_800_000_000_000 + offset)


def test_a_map_goes_when_its_topic_has_dropped_it(
    cluster: Sharing, chronicle: Chronicle, make_projector: MakeProjector
) -> None:
    cluster.send_map("n1")
    projector = make_projector()
    while projector.step():
        pass
    chronicle.now_ms += next(plan.retention_ms for plan in PLANS if plan.topic is Topic.MAPS) + 60_000
    projector = make_projector()
    while projector.step():
        pass
    with projector.reading() as reading:
        assert not list(reading.sides(MapRow))
        assert not list(reading.sides(MapBodyRow))
