"""`topolog up`: one cluster on one machine, from the broker to the page, and everything stopped in order again.

Everything stops in an order of its own: the nodes release their leases while there is a coordinator, the coordinators
retire while the projector still shows it, and the broker goes last. The data folder belongs to one supervisor at a
time; a lock that the kernel drops with its process says so.

    up.lock         held by the supervisor; its content is the pid
    up.sock         where a second terminal asks for what `topolog demo` does (door.py)
    children.json   the processes it has started (children.py)
    logs/           what each role says
"""

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import msgspec

from topolog.events.errors import BadInput, Unreachable
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS
from topolog.settings.access import Api
from topolog.settings.model import Settings
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.children import Children, Say
from topolog.streams.local.demo.rows import Share, find_files
from topolog.streams.local.door import Door
from topolog.streams.local.node_folders import NodeFolders
from topolog.streams.local.nodes import Nodes
from topolog.streams.local.roles import (
    DEMO_CLUSTER,
    Role,
    coordinator,
    demo_node,
    demo_nodes,
    environment_of,
    lease_health,
    measured,
    own_command,
    projector,
    rendezvous,
)
from topolog.streams.local.stopping import Stop, Stopping

READY_LIMIT_S = 90.0  # some seconds as a rule; a long log that is projected anew takes longer
LOOK_AGAIN_S = 0.1
PROBE_TIMEOUT_S = 2.0

MakeTopics = Callable[[Mapping[str, str], str], None]


class Plan(msgspec.Struct, frozen=True):
    """What one `up` runs; `store` is where its projector keeps the rows.

    What nobody waits for comes last, once the page can show it: the stand-by, lease health, the rendezvous and the
    nodes of the demo.
    """

    cluster: str
    kafka: Mapping[str, str]
    url: str
    data: Path
    store: Path
    environment: Mapping[str, str]
    coordinator: Role
    projector: Role
    stand_by: Role
    lease_health: Role
    rendezvous: Role
    nodes: tuple[Role, ...] = ()
    rows: Path | None = None

    def node(self, name: str) -> Role:
        """Another node of the demo."""
        return demo_node(name, self.cluster, self.rows)


def plan(
    settings: Settings, data: Path, inherited: Mapping[str, str], *, demo: bool = False, rows: Path | None = None
) -> Plan:
    """The plan that these settings mean. `rows` are what the nodes of the demo load, None the rows of TPC-H.

    Raises BadInput if there are no rows: five nodes would say so one by one, and later.
    """
    if rows:
        find_files(rows, Share(0, 1))
    rows = rows.absolute() if rows else None
    roles = [coordinator("c1"), coordinator("c2"), projector(), lease_health(), rendezvous()]
    nodes = demo_nodes(settings.cluster.name, rows, NodeFolders(data).names()) if demo else ()
    first, second, reader, measurer, comparer, *members = measured((*roles, *nodes), settings.metrics.port)
    return Plan(
        cluster=settings.cluster.name,
        kafka=settings.kafka,
        url=settings.api.url,
        data=data,
        store=settings.projector.data,
        environment=environment_of(settings, inherited),
        coordinator=first,
        projector=reader,
        stand_by=second,
        lease_health=measurer,
        rendezvous=comparer,
        nodes=tuple(members),
        rows=rows,
    )


def own_broker(settings: Settings, say: Say) -> LocalBroker | None:
    """The broker that `up` starts, None if the settings name another Kafka."""
    broker = settings.broker
    if settings.kafka["bootstrap.servers"] != f"127.0.0.1:{broker.port}":
        return None
    return LocalBroker(broker.data, port=broker.port, java_home=broker.java, say=say)


def make_topics(kafka: Mapping[str, str], cluster: str) -> None:
    KafkaAdmin(kafka).create_topics(cluster, PLANS)


def run_up(
    what: Plan, broker: LocalBroker | None, say: Say, stopping: Stopping, *, topics: MakeTopics = make_topics
) -> int:
    """Run the plan until told to stop; 0 after an end in order, also if it was told before all was ready.

    `broker` None means that the plan's Kafka is somebody else's. Raises BadInput if the folder is in use by another
    `up` or the port of the API is taken, LocalBrokerError or Unreachable without Kafka, and Unreachable, with the
    role's own last line, if a role ends before all is ready. Whatever it raises, nothing that it started is left.
    """
    with _only_one(what.data), ExitStack() as stack:
        children = Children(what.data, what.environment, say)
        stack.callback(children.close)
        children.end_left_behind()
        _check_api_port(what.url)
        kafka = _Kafka(broker, what, say, topics)
        stack.callback(kafka.stop)
        kafka.start()
        nodes = Nodes(what.nodes, what.node, children, NodeFolders(what.data), say)
        stack.callback(_stop, what, nodes, children, say, stopping)
        children.start((what.coordinator, what.projector))
        say(f"waiting for the API at {what.url}")
        if _await_ready(what, children, stopping):
            children.start((what.stand_by, what.lease_health, what.rendezvous))
            nodes.start()
            door = stack.enter_context(Door(what.data, nodes.answer))
            say(what_next(what, children))
            _watch(stopping, kafka.watch, children.watch, nodes.watch, door.look)
        say("stopping (Ctrl-C again to hurry)")
    say("stopped; the data stay")
    return 0


@contextmanager
def _only_one(data: Path) -> Iterator[None]:
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise BadInput(f"{data} cannot be used: {error.strerror}.", hint="Name another data folder.") from error
    try:
        _take(lock, data)
        yield
    finally:
        os.close(lock)


def _take(lock: int, data: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(lock, 20, 0).decode() or "another process"
        raise BadInput(
            f"`topolog up` runs already with the data in {data} (pid {pid}).", hint="Use that one, or stop it."
        ) from None
    os.truncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())


def _check_api_port(url: str) -> None:
    """Raise BadInput if somebody else answers there: it would look as if we were ready."""
    place = urlsplit(url)
    with socket.socket() as probe:
        probe.settimeout(PROBE_TIMEOUT_S)
        if probe.connect_ex((place.hostname or "127.0.0.1", place.port or 80)) == 0:
            raise BadInput(
                f"Something listens at {url} already.", hint="Stop it, or choose another port: --set api.port=8643."
            )


class _Kafka:
    """The broker while `up` runs. One that was killed is started again, one that somebody stopped is left alone."""

    def __init__(self, broker: LocalBroker | None, what: Plan, say: Say, topics: MakeTopics) -> None:
        self._broker = broker
        self._plan = what
        self._topics = topics
        self._say = say
        self._block = ExitStack()
        self._is_stopped = False

    def start(self) -> None:
        if self._broker is None:
            self._make_topics()
        else:
            self._block.enter_context(self._broker.running(ready=lambda _: self._make_topics()))

    def watch(self) -> None:
        if self._broker is None or self._is_stopped:
            return
        status = self._broker.status()
        if status.is_running:
            return
        if status.ended:
            self._say(f"Kafka is gone: {status.ended} It starts again.")
            self._block.close()
            self.start()
        else:
            self._is_stopped = True
            self._say(f"Somebody stopped Kafka. To start it again: {own_command()} broker start")

    def stop(self) -> None:
        self._block.close()

    def _make_topics(self) -> None:
        self._topics(self._plan.kafka, self._plan.cluster)


def _await_ready(what: Plan, children: Children, stopping: Stop) -> bool:
    """True once the API says that it is ready, False if told to stop before."""
    url = what.url
    deadline = time.monotonic() + READY_LIMIT_S
    while time.monotonic() < deadline:
        if stopping.wait(LOOK_AGAIN_S):
            return False
        if end := children.ended():
            raise Unreachable(f"The start failed: {end}.", hint=f"All that it said is in {children.logs}.")
        ready = _readiness(url)
        if ready.stopped:
            raise BadInput(
                f"The projector reads no further. {ready.stopped}",
                hint=f"If its rows are of another log, move {what.store} away: they are made again. If "
                "another Kafka was meant, name it: --set kafka.bootstrap.servers=...",
            )
        if ready.ready:
            return True
    raise Unreachable(f"The API at {url} was not ready after {READY_LIMIT_S:.0f} s.", hint=f"See {children.logs}.")


class _Readiness(msgspec.Struct, frozen=True):
    """What /readyz says; `stopped` is why the projector reads no further, if it does not."""

    ready: bool = False
    stopped: str | None = None


def _readiness(url: str) -> _Readiness:
    opener = build_opener(ProxyHandler({}))  # the address is this machine's own, whatever HTTP_PROXY says
    try:
        with opener.open(f"{url}/readyz", timeout=PROBE_TIMEOUT_S) as answer:
            return msgspec.json.decode(answer.read(), type=_Readiness)
    except HTTPError as error:
        with error, suppress(msgspec.MsgspecError, OSError):
            return msgspec.json.decode(error.read(), type=_Readiness)
    except (OSError, HTTPException, msgspec.MsgspecError):
        pass
    return _Readiness()


def _watch(stopping: Stop, *looks: Callable[[], None]) -> None:
    while not stopping.wait(LOOK_AGAIN_S):
        for look in looks:
            look()


def _stop(what: Plan, nodes: Nodes, children: Children, say: Say, stopping: Stopping) -> None:
    deciding = (what.coordinator, what.stand_by, what.lease_health, what.rendezvous)
    for stage in (nodes.roles, deciding, (what.projector,)):
        if running := [role.title for role in stage if children.is_running(role)]:
            say(f"stopping {', '.join(running)}")
        children.stop(stage, lambda: stopping.times > 1)


def what_next(what: Plan, children: Children) -> str:
    """The URL, and commands that can be pasted into a second terminal."""
    topolog = own_command()
    definition = _DEMO_TYPE if what.nodes else _TYPE
    name = definition.split('"')[3]
    commands = [
        *([f"export TOPOLOG_API__URL={what.url}"] if what.url != Api().url else []),
        f"{topolog} get nodes",
        f"{topolog} get types -o json",
        f"echo '{definition}' > {name.lower()}.json",
        f"{topolog} propose --file {name.lower()}.json --wait accepted",
        f"{topolog} history type {name}",
        f"kill -9 {children[what.coordinator.name].pid}   # {what.coordinator.title}: {what.stand_by.name} goes on",
        *_node_commands(what, topolog),
    ]
    lines = [
        f"topolog is up: {what.url}/",
        f"cluster {what.cluster}, logs in {children.logs}; Ctrl-C stops everything",
        *([f"{', '.join(role.name for role in what.nodes)} join in a few seconds"] if what.nodes else []),
        "",
        "In a second terminal:",
        *(f"  {command}" for command in commands),
    ]
    return "\n".join(lines)


_TYPE = '{"name": "Customer", "fields": {"id": "long", "name": "String"}, "affinity_key": "id"}'
_DEMO_TYPE = '{"name": "Customer", "fields": {"email": "String"}, "affinity_key": "custkey"}'


def _node_commands(what: Plan, topolog: str) -> Iterator[str]:
    if not what.nodes:
        return
    killed, paused = what.nodes[-2:]
    cluster = f" --set cluster.name={what.cluster}" if what.cluster != DEMO_CLUSTER else ""
    demo = f"{topolog} demo"
    yield f"{demo} load{cluster}   # clients, in a third terminal; Ctrl-C there says whether they lost anything"
    yield f"{demo} add-node{cluster}   # a sixth node joins, partitions move: {topolog} get maps"
    yield f"{demo} kill {killed.name}{cluster}   # out at once, its sentinel says so; back with"
    yield killed.by_hand
    yield f"{demo} pause {paused.name} --for 40s{cluster}   # fenced, it catches up: {topolog} get nodes -o wide"
