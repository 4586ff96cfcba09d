"""Three Kafka nodes on this machine that are one Kafka: what survives the loss of any one of them.

Each node is a `LocalBroker` with a folder of its own below the common one, which remembers what all of them must know
of each other before the first start and can never change: the Kafka cluster, the ports, the controllers' directories.

    topolog-brokers.json     who the nodes are
    node-1/ node-2/ node-3/  a broker's folder each, as broker.py describes it

Node i listens at the first port + 2 (i - 1), its controller at the port after that. With three copies of each topic
and min.insync.replicas 2 (`topolog cluster init --replicas 3`) any one node may be killed and started again: the two
others go on, and nothing acknowledged is lost. All on one disk, so still not durable against the loss of that.

Stopping. A node that stops in order asks the quorum first, so the last one would wait for ever: all are asked at once,
and killed after some seconds, which costs the next start a check of its log.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import msgspec

from topolog.events.errors import LocalBrokerError
from topolog.streams.local.broker import BrokerStatus, LocalBroker, Ready
from topolog.streams.local.data_folder import ANOTHER_FOLDER, OWNER_FILE, QUORUM_FILE, new_uuid, write_atomically
from topolog.streams.local.jars import Say, default_cache
from topolog.streams.local.kafka_config import Door, Seat, Voter
from topolog.streams.local.launch import check_port_is_free, prepare_launch
from topolog.streams.local.runtime import QUICK_TO_START

NODES = 3
STOP_LIMIT_S = 6.0  # in order it takes less than one; without a quorum it would take for ever
SMALL = tuple("-Xmx256m" if flag.startswith("-Xmx") else flag for flag in QUICK_TO_START)
_LOOK_AGAIN_S = 0.2

DoorsOf = Callable[[int], tuple[Door, ...]]


class Brokers(msgspec.Struct, frozen=True):
    """What `topolog-brokers.json` holds; the directory ids are those of nodes 1, 2, 3."""

    kafka_cluster_id: str
    port: int
    directory_ids: tuple[str, ...]


def is_quorum(folder: Path) -> bool:
    """Whether this is a data folder of three nodes."""
    return (folder.expanduser() / QUORUM_FILE).exists()


class LocalQuorum:
    """The three nodes of one data folder; `nodes` can be started, stopped and asked one by one.

    `doors` gives the further listeners of a node by its number. Methods raise LocalBrokerError or MissingExtra.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 19092,
        java_home: Path | None = None,
        cache: Path | None = None,
        flags: tuple[str, ...] = SMALL,
        doors: DoorsOf = lambda _: (),
        say: Say = lambda _: None,
    ) -> None:
        self.folder = folder.expanduser().absolute()
        self._prepare = partial(prepare_launch, java_home, cache or default_cache(), flags, say)
        self._brokers, self._is_new = _recorded_or_new(self.folder, port)
        voters = tuple(
            Voter(number, port + 2 * number - 1, directory)
            for number, directory in enumerate(self._brokers.directory_ids, 1)
        )
        self.nodes = tuple(
            LocalBroker(
                self.folder / f"node-{voter.node_id}",
                seat=Seat(voter.controller_port - 1, voter.node_id, voters, doors(voter.node_id)),
                cluster_id=self._brokers.kafka_cluster_id,
                java_home=java_home,
                cache=cache,
                flags=flags,
                say=say,
            )
            for voter in voters
        )
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes)

    def start(self, *, ready: Ready = lambda _: None) -> tuple[BrokerStatus, ...]:
        """Start those nodes that do not run; returns when all have started and `ready(bootstrap)` has returned.

        After an error no node is left running that was not running before.
        """
        were_running = [node for node in self.nodes if node.status().is_running]
        self._claim()
        self._prepare()  # fetched and made once, not by three at a time
        try:
            self._start_all()
            ready(self.bootstrap)
        except BaseException:
            _at_once([node for node in self.nodes if node not in were_running], LocalBroker.kill)
            raise
        return self.status()

    def stop(self) -> bool:
        """Stop all nodes at once, after some seconds by force; False if none was running."""
        return any(_at_once(self.nodes, lambda node: node.stop(STOP_LIMIT_S)))

    def status(self) -> tuple[BrokerStatus, ...]:
        return tuple(node.status() for node in self.nodes)

    def _start_all(self) -> None:
        """No node has started before two of them have, so they start together, and one that cannot ends the others."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            starts: list[Future[BrokerStatus]] = [pool.submit(node.start) for node in self.nodes]
            pending = set(starts)
            while pending:
                done, pending = wait(pending, return_when="FIRST_COMPLETED")
                if failed := next((each for each in done if each.exception()), None):
                    while pending:  # again: one of them may be about to start its process
                        _at_once(self.nodes, LocalBroker.kill)
                        pending = wait(pending, _LOOK_AGAIN_S).not_done
                    failed.result()

    def _claim(self) -> None:
        """Remember a new folder's nodes, if nothing stands in their way."""
        if not self._is_new:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            what = "the data of one node" if (self.folder / OWNER_FILE).exists() else "something else"
            raise LocalBrokerError(f"{self.folder} holds {what}, not of three.", hint=ANOTHER_FOLDER)
        for node in self.nodes:
            for port in node.seat.ports:
                check_port_is_free(port)
        write_atomically(self.folder / QUORUM_FILE, self._brokers)
        self._is_new = False


def _recorded_or_new(folder: Path, port: int) -> tuple[Brokers, bool]:
    try:
        recorded = msgspec.json.decode((folder / QUORUM_FILE).read_bytes(), type=Brokers)
    except (FileNotFoundError, NotADirectoryError):
        return Brokers(new_uuid(), port, tuple(new_uuid() for _ in range(NODES))), True
    except msgspec.MsgspecError as error:
        raise LocalBrokerError(f"{folder / QUORUM_FILE} is damaged: {error}.", hint=ANOTHER_FOLDER) from error
    if recorded.port != port:
        raise LocalBrokerError(
            f"The nodes of {folder} know each other by the ports from {recorded.port} on, not from {port}.",
            hint=f"Set broker.port to {recorded.port}, or broker.data to another folder.",
        )
    return recorded, False


def _at_once(nodes: tuple[LocalBroker, ...] | list[LocalBroker], act: Callable[[LocalBroker], bool]) -> list[bool]:
    with ThreadPoolExecutor(max(1, len(nodes))) as pool:
        return list(pool.map(act, nodes))
