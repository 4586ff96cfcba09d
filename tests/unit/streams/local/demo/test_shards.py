"""The store on real nodes and real HTTP, with the cluster's log in memory: rows move, and none is lost."""

import itertools
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.broker.conftest import eventually
from tests.unit.streams.local.demo.shops import GROUP, STEPS_MAX, Shops

from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import PartitionLost, Refused
from topolog.events.group_definition import Affinity
from topolog.events.groups import GroupDropRequested
from topolog.events.ids import NodeId, Position
from topolog.events.leases import NodeKind
from topolog.events.stamp import decode_stamp
from topolog.events.topics import Topic
from topolog.streams.clock import SystemClock
from topolog.streams.local.demo import courier, program
from topolog.streams.local.demo.others import Others
from topolog.streams.local.demo.replication.messages import AnyMessage, Probe
from topolog.streams.local.demo.serving import Listener
from topolog.streams.local.stopping import Stopping
from topolog.streams.node.client import Node
from topolog.streams.node.testing import LocalCluster
from topolog.streams.rules.affinity import partition_of

ROWS = 60


@pytest.fixture
def shops() -> Iterator[Shops]:
    with LocalCluster(operators=("n1", "n2", "n3", "n4")) as local:
        found = Shops(local)
        try:
            yield found
        finally:
            found.close()


def test_any_node_may_be_asked_for_any_row(shops: Shops) -> None:
    """307 names the primary; two copies hold each row, one of them counts it."""
    shops.open("n1", "n2", "n3")
    for number in range(ROWS):
        shops.put(str(number), f"v{number}")
    shops.rest()
    assert [shops.get(str(number)) for number in range(ROWS)] == [f"v{number}" for number in range(ROWS)]
    counts = [shop.ask("GET", "/counts")[1] for shop in shops.by_name.values()]
    assert sum(each["rows"].get("Thing", 0) for each in counts) == ROWS
    assert sum(each["copies"].get("Thing", 0) for each in counts) == 2 * ROWS
    assert sum(each["partitions"]["ACTING"] for each in counts) == GROUP.partitions
    statuses = {shop.ask("GET", "/rows/Thing/7")[0] for shop in shops.by_name.values()}
    assert statuses == {200, 307}


def test_a_deletion_is_a_write(shops: Shops) -> None:
    """It goes to all copies and outlives a change of the primary."""
    shops.open("n1", "n2")
    shops.put("7", "seven")
    shops.rest()
    primary = next(shop for shop in shops.by_name.values() if shop.ask("DELETE", "/rows/Thing/7")[0] == 204)
    assert shops.get("7") is None
    shops.kill(primary.node.name)
    assert shops.get("7") is None


def test_rows_move_to_a_joiner_and_away_from_who_need_not_hold_them(shops: Shops) -> None:
    """A newcomer loads its share and takes over; the surplus is cleared; nothing is lost on the way."""
    shops.open("n1", "n2")
    for number in range(ROWS):
        shops.put(str(number), "before")
    shops.rest()
    shops.open("n3")
    for number in range(0, ROWS, 2):
        shops.put(str(number), "while it moves")
    shops.rest()
    assert shops.by_name["n3"].shards.states()["ACTING"] > 0
    held = sum(len(shop.shards.keys(acting_only=False)) for shop in shops.by_name.values())
    assert held == 2 * ROWS
    expected = {str(number): "before" if number % 2 else "while it moves" for number in range(ROWS)}
    assert {key: shops.get(key) for key in expected} == expected


def test_no_acknowledged_write_is_lost_when_a_node_dies(shops: Shops) -> None:
    """Clients write throughout; each row is as its last acknowledged write, or a later one, has left it."""
    shops.open("n1", "n2", "n3")
    shops.rest()
    acknowledged: dict[str, int] = {}
    tried: dict[str, int] = {}
    stopping = threading.Event()

    def write(first: int) -> None:
        for number in itertools.count(1):
            if stopping.is_set():
                return
            key = str(first + number % 5)
            tried[key] = number
            if shops.try_to_put(key, str(number)):
                acknowledged[key] = number

    clients = [threading.Thread(target=write, args=(first,), name=f"client {first}") for first in (0, 100)]
    for client in clients:
        client.start()
    try:
        shops.until(lambda: len(acknowledged) == 10)
        shops.kill("n2")
        shops.open("n4")
        shops.until(lambda: shops.by_name["n4"].shards.states()["ACTING"] > 0)
    finally:
        stopping.set()
        for client in clients:
            client.join()
    shops.rest()
    for key, number in acknowledged.items():
        assert number <= int(shops.get(key) or 0) <= tried[key], key


def test_a_store_whose_every_process_is_gone_begins_anew(shops: Shops) -> None:
    """Its rows were in memory, so nobody is waited for: the first that comes back gives up the loss and serves."""
    shops.open("n1", "n2")
    shops.rest()
    shops.put("a", "one")
    shops.close()
    shops.by_name.clear()
    shops.open("n3")
    shops.until(lambda: shops.by_name["n3"].node.lost("rows") == [])
    shops.rest()
    assert shops.get("a") is None
    shops.put("a", "two")
    assert shops.get("a") == "two"


def test_a_store_that_may_not_give_up_its_loss_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Its account may not write `operations`, as on a broker with access lists: what is lost is an operator's then."""
    with LocalCluster() as local, closing(Shops(local)) as shops:
        shops.open("n1", "n2")
        shops.rest()
        shops.close()
        shops.by_name.clear()
        shops.open("n3")
        shops.until(lambda: "topolog reset group rows" in caplog.text)
        assert "does not let this writer use topic operations" in caplog.text
        assert len(shops.any.node.lost("rows")) == GROUP.partitions


def test_rows_that_outlive_their_process_are_waited_for(shops: Shops) -> None:
    """DS2: who is back first must not give up what the others come back with."""
    shops.group = msgspec.structs.replace(GROUP, persistent=True)
    shops.open("n1", "n2")
    shops.rest()
    shops.close()
    shops.by_name.clear()
    shops.open("n3")
    shops.until(lambda: len(shops.any.node.lost("rows")) == GROUP.partitions)
    shops.local.advance(4)
    assert len(shops.any.node.lost("rows")) == GROUP.partitions


def test_a_group_that_an_operator_has_altered_is_no_reason_to_stay_away(shops: Shops) -> None:
    """It may hold copies elsewhere, and more of them; another number of partitions would hide rows."""
    altered = msgspec.structs.replace(GROUP, backups=2, affinity=Affinity(node_filter={}, backup_filter="rack"))
    with shops.local.node("operator", kind=NodeKind.CLIENT) as operator:
        operator.create_group(altered)
    shops.open("n1")
    shops.put("7", "seven")
    assert shops.any.node.groups()["rows"].definition == altered
    shops.group = msgspec.structs.replace(GROUP, partitions=16)
    with pytest.raises(Refused, match="partitions"):
        shops.open("n2")


def test_a_group_that_was_dropped_is_asked_for_again_until_it_is_there(shops: Shops) -> None:
    """Every node says so, in words and with 503; made anew, the store begins empty."""
    shops.open("n1", "n2")
    shops.put("7", "seven")
    log_id = decode_stamp(shops.local.log.entries(Topic.DECISIONS, 0)[0].stamp or b"").log_id
    drop = GroupDropRequested(RequestId("op", 1), log_id, "op", "", "rows")
    shops.local.log.put(Topic.OPERATIONS, "op", CODEC.encode(drop))
    shops.until(lambda: "rows" not in shops.any.node.groups())
    for shop in shops.by_name.values():
        status, problem, headers = shop.ask("PUT", "/rows/Thing/7", b"{}")
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "dropped" in problem["detail"]
    shops.any.node.create_group(GROUP)
    assert shops.get("7") is None
    shops.put("7", "anew")
    shops.rest()
    assert shops.get("7") == "anew"


def test_a_loss_in_part_is_an_operators_to_give_up(shops: Shops) -> None:
    """Both machines that have a partition are gone at once: it stays lost and says so, until a reset."""
    shops.open("n1", "n2", "n3", "n4")
    shops.rest()
    dying = [copy.node for copy in shops.any.node.owners("rows", 0).copies]
    for name in dying:
        shops.kill(name, certificate=False)
    shop = shops.any
    node = shop.node
    shops.until(lambda: 0 in node.lost("rows"))
    lost = node.lost("rows")
    assert len(lost) < 8
    shops.local.advance(5)
    assert node.lost("rows") == lost
    key = next(key for key in map(str, range(100)) if partition_of(key, 8) == 0)
    with pytest.raises(PartitionLost, match=f"is lost and awaits ({'|'.join(dying)})"):
        shop.shards.read(key)
    node.reset_group("rows", reason="they do not come back")
    shops.until(lambda: node.lost("rows") == [])
    shops.rest()


def test_large_rows_move_too(shops: Shops) -> None:
    """More than a page, and more than a parcel, holds."""
    shops.open("n1")
    for number in range(12):
        shops.put(str(number), str(number) * 400_000)
    shops.open("n2")
    shops.rest()
    assert [len(shops.get(str(number)) or "") for number in (3, 11)] == [400_000, 800_000]


def test_a_row_that_is_there_stays_when_it_is_loaded_again(shops: Shops) -> None:
    """A loader that comes back undoes nothing: it stores only what is absent, wherever that is served."""
    shops.open("n1", "n2")
    shops.put("7", "changed")
    shops.rest()
    with Others() as others:
        for shop in shops.by_name.values():
            others.put_if_absent(shop.endpoint, "Thing", "7", b'{"id": 7, "value": "loaded"}')
            others.put_if_absent(shop.endpoint, "Thing", "8", b'{"id": 8, "value": "loaded"}')
    assert (shops.get("7"), shops.get("8")) == ("changed", "loaded")


def test_loaders_put_rows_where_they_belong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two whole programs load a half each, both serve; a third one loads nothing, and gets its share of both. A server
    that is no node of the store gets none: it could not load them, and writes would wait for it."""
    (tmp_path / "things.csv").write_text("id,name\n" + "".join(f"{number},name{number}\n" for number in range(1, 41)))
    with LocalCluster(clock=SystemClock()) as local, ExitStack() as ending:

        def local_node(_: str, name: str, *, kafka: object, sentinel: bool, folder: object, **options: Any) -> Node:
            return local.node(name, **options)

        monkeypatch.setattr(program, "Node", local_node)
        said: list[str] = []
        for name in ("n1", "n2", "n3"):
            loading = program.Loading(tmp_path, nodes=2, pause_s=0)
            stopping = Stopping()
            ending.callback(stopping.close)
            thread = threading.Thread(
                target=program.run_demo_node,
                args=("local", name, {}),
                kwargs={"stopping": stopping, "say": said.append, "loading": loading},
            )
            ending.callback(thread.join)
            ending.callback(stopping.tell)
            thread.start()
        with local.node("foreign") as foreign:
            eventually(lambda: said.count("all rows are loaded") == 2)
            eventually(lambda: len(counted(foreign, "rows")) == 3 and min(counted(foreign, "rows")) > 0)
            eventually(lambda: sum(counted(foreign, "copies")) == 80)
            assert sum(counted(foreign, "rows")) == 40
            holders = {copy.node for view in foreign.partitions("rows") for copy in view.copies}
            assert holders == {"n1", "n2", "n3"}, "another service's server is asked to hold none of it"


def counted(watcher: Node, what: str) -> list[int]:
    """Rows of each member."""
    found = []
    for endpoint in [row.endpoint for row in watcher.members() if row.endpoint]:
        connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=10)
        connection.request("GET", "/counts")
        found.append(sum(msgspec.json.decode(connection.getresponse().read())[what].values()))
        connection.close()
    return found


def test_a_fenced_node_neither_writes_nor_answers(shops: Shops) -> None:
    """503, and when to come back; the lease back, it serves what it had."""
    shops.open("n1")
    shops.put("7", "seven")
    shops.rest()
    shop = shops.any
    with shops.local.leases_expired():
        for method in ("GET", "PUT", "DELETE"):
            status, problem, headers = shop.ask(method, "/rows/Thing/7", b"{}")
            assert (status, "Retry-After" in headers) == (503, True), problem
        parcel = courier.pack(courier.Parcel(NodeId("n2"), NodeId("n1"), []))
        assert shop.ask("POST", courier.PATH, parcel)[0] == 503, "nor does it store for others"
    assert shops.get("7") == "seven"


def test_no_content_says_nothing_of_its_content(shops: Shops) -> None:
    """RFC 9110, 8.6: a 204 has no Content-Length; and the connection is good for the next request."""
    shops.open("n1")
    shops.put("7", "seven")
    connection = HTTPConnection(urlsplit(shops.any.endpoint).netloc, timeout=10)
    for method, status in (("PUT", 204), ("GET", 200), ("DELETE", 204), ("GET", 404)):
        connection.request(method, "/rows/Thing/7", b"{}" if method == "PUT" else b"")
        response = connection.getresponse()
        response.read()
        assert response.status == status
        described = {"Content-Type", "Content-Length"} & set(response.headers)
        assert len(described) == (0 if status == 204 else 2)
    connection.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/rows/Thing/7", b"[1]", 400),
        ("PUT", "/rows/Thing/7", b"{", 400),
        ("PUT", "/rows/Thing/7", b'{"id": 8}', 400),
        ("PUT", "/rows/Thing/7", b'{"value": "%s"}' % bytes(b"x" * 1_000_000), 400),
        ("POST", courier.PATH, b"nonsense", 400),
        ("GET", "/rows/Thing", b"", 404),
        ("GET", "/rows/Thing/none", b"", 404),
        ("POST", "/counts", b"", 404),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    shops: Shops, method: str, path: str, body: bytes, status: int
) -> None:
    """And changes nothing."""
    shops.open("n1")
    shops.rest()
    answers = [shops.any.ask(method, path, body)]
    while answers[-1][0] == 503 and len(answers) < STEPS_MAX:  # time went faster than the node renewed its lease
        shops.local.advance(0.2)
        answers.append(shops.any.ask(method, path, body))
    found, problem, _ = answers[-1]
    assert (found, bool(problem["detail"])) == (status, True)


def test_messages_about_what_is_not_there_are_counted(shops: Shops) -> None:
    """Of another token, of a partition that the group has not: refused, visible, and never a crash."""
    shops.open("n1")
    shops.rest()
    strange: list[AnyMessage] = [
        Probe("rows", 0, Position(1), Position(1)),
        Probe("none", 70_000, Position(1), Position(1)),
    ]
    parcel = courier.pack(courier.Parcel(NodeId("n9"), NodeId("n1"), strange))
    assert shops.any.post(parcel) == 200
    assert shops.any.ask("GET", "/counts")[1]["refused"] == {"another token": 2}


def test_a_parcel_for_another_node_is_not_taken(shops: Shops) -> None:
    """A port may be another node's by the time it is called: what this one stores is not stored by that one."""
    shops.open("n1")
    shops.rest()
    probe = Probe("rows", 0, Position(1), Position(1))
    assert shops.any.post(courier.pack(courier.Parcel(NodeId("n9"), NodeId("n2"), [probe]))) == 421
    assert shops.any.ask("GET", "/counts")[1]["refused"] == {}


def test_an_answer_of_another_node_than_was_called_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port may be another node's by the time it is called; one copy's word must not count for another's."""
    probe = Probe("rows", 0, Position(5), Position(5))
    answers: list[courier.Parcel] = []
    taken: list[AnyMessage] = []

    class Line:
        status = 200

        def request(self, *_: object) -> None: ...

        def getresponse(self) -> "Line":
            return self

        def read(self) -> bytes:
            return courier.pack(answers.pop())

    def take(_: NodeId, messages: Iterable[AnyMessage]) -> bool:
        taken.extend(messages)
        return True

    with LocalCluster() as cluster:
        lane = courier.Lane(cluster.node("n1"), NodeId("n2"), take)
        monkeypatch.setattr(lane, "_connected", Line)
        for sender, to in (("n3", "n1"), ("n2", "n4"), ("n2", "n1")):
            answers.append(courier.Parcel(NodeId(sender), NodeId(to), [probe]))
            assert lane._deliver([probe]) == ((sender, to) == ("n2", "n1"))
    assert taken == [probe]


@pytest.mark.parametrize(("error", "is_said"), [(ConnectionResetError(), False), (ValueError("a defect"), True)])
def test_who_hangs_up_leaves_no_traceback(error: Exception, is_said: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A client that was killed is no error of the store; anything else is said."""
    with Listener() as listener:
        try:
            raise error
        except (ConnectionResetError, ValueError):
            listener._server.handle_error(None, ("127.0.0.1", 1))
    assert ("a defect" in capsys.readouterr().err) is is_said
