"""What the broker on this machine is told: its settings, its log format, and what its complaints mean. Pure."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

# One node that serves one machine: internal topics of one partition and one copy, few threads, quick to notice that
# it is back itself (3 s; below that a loaded machine fences its own broker).
SERVER: Final[Mapping[str, object]] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.min.session.timeout.ms": 1000,
    "auto.create.topics.enable": "false",
    "num.network.threads": 1,
    "num.io.threads": 2,
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "background.threads": 2,
    "num.recovery.threads.per.data.dir": 2,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
}

# One of three: every record on two nodes before it is acknowledged, and a dead leader replaced in about three seconds.
ONE_OF_SEVERAL: Final[Mapping[str, object]] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
    "broker.session.timeout.ms": 2000,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1000,
}

LOG4J: Final[Mapping[str, object]] = {
    "rootLogger.level": "info",
    "rootLogger.appenderRef.file.ref": "file",
    "appender.file.type": "RollingFile",
    "appender.file.name": "file",
    "appender.file.layout.type": "PatternLayout",
    "appender.file.layout.pattern": "[%d] %p %m (%c)%n",
    "appender.file.policies.type": "Policies",
    "appender.file.policies.size.type": "SizeBasedTriggeringPolicy",
    "appender.file.policies.size.size": "10MB",
    "appender.file.strategy.type": "DefaultRolloverStrategy",
    "appender.file.strategy.max": 3,
}


class Voter(msgspec.Struct, frozen=True):
    """One controller of several, as all of them must know it before the first start."""

    node_id: int
    controller_port: int
    directory_id: str


class Door(msgspec.Struct, frozen=True):
    """One more listener: Kafka listens at `port` and sends its clients to `advertised`, where a proxy may stand.

    With a door for each client one of them can be cut off while the others are not.
    """

    name: str
    port: int
    advertised: int


class Seat(msgspec.Struct, frozen=True):
    """Where one node stands: its controller listens at the port after its own; without `voters` it is alone."""

    port: int
    node_id: int = 1
    voters: tuple[Voter, ...] = ()
    doors: tuple[Door, ...] = ()

    @property
    def controller_port(self) -> int:
        return self.port + 1

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """All that it listens at."""
        return (self.port, self.controller_port, *(door.port for door in self.doors))


class Complaint(msgspec.Struct, frozen=True):
    """What a line in Kafka's log means to the person at the keyboard."""

    pattern: str
    means: str
    hint: str


FULL_DISK: Final = "The disk is full."
COMPLAINTS: Final = (
    Complaint("Address already in use", "Its port is in use.", "Stop what listens there, or set broker.port."),
    Complaint("No space left on device", FULL_DISK, "Free some space, or set broker.data to another disk."),
    Complaint(
        "InconsistentClusterId|Invalid cluster.id|doesn't match stored",
        "The data folder belongs to another Kafka cluster.",
        "Set broker.data to another folder.",
    ),
    Complaint(
        r"Failed to acquire lock on file \.lock",
        "Another Kafka uses the data folder.",
        "Stop it, or set broker.data to another folder.",
    ),
    Complaint(
        "Could not reserve enough space|Cannot allocate memory|insufficient memory",
        "This machine has too little memory left for it.",
        "It needs about 200 MB.",
    ),
    Complaint("UnsupportedClassVersionError", "The Java is too old for it.", "Correct or remove broker.java."),
)


def server_properties(folder: Path, seat: Seat) -> str:
    """Every listener is on the loopback address: what runs here has no password."""
    names = ["PLAINTEXT", *(door.name for door in seat.doors)]
    listens = zip(names, (seat.port, *(door.port for door in seat.doors)), strict=True)
    advertises = zip(names, (seat.port, *(door.advertised for door in seat.doors)), strict=True)
    controllers = [voter.controller_port for voter in seat.voters] or [seat.controller_port]
    return properties(
        {
            **SERVER,
            **(ONE_OF_SEVERAL if seat.voters else {}),
            "node.id": seat.node_id,
            "listeners": _listeners([*listens, ("CONTROLLER", seat.controller_port)]),
            "advertised.listeners": _listeners(advertises),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in [*names, "CONTROLLER"]),
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in controllers),
            "log.dirs": folder,
        }
    )


def initial_controllers(seat: Seat) -> tuple[str, ...]:
    """The options of Kafka's `format` that say who votes."""
    if not seat.voters:
        return ("--standalone",)
    voters = (f"{each.node_id}@127.0.0.1:{each.controller_port}:{each.directory_id}" for each in seat.voters)
    return ("--initial-controllers", ",".join(voters))


def _listeners(places: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in places)


def log4j_properties(log: Path) -> str:
    return properties({**LOG4J, "appender.file.fileName": log, "appender.file.filePattern": f"{log}.%i"})


def properties(values: Mapping[str, object]) -> str:
    """Java's properties format, which is Latin-1 with a backslash as its escape: anything else would be misread."""
    return "".join(f"{key}={_escaped(str(value))}\n" for key, value in values.items())


def _escaped(value: str) -> str:
    utf16 = value.replace("\\", "\\\\").encode("utf-16-be")
    units = [int.from_bytes(utf16[i : i + 2]) for i in range(0, len(utf16), 2)]
    return "".join(chr(unit) if chr(unit).isascii() else f"\\u{unit:04x}" for unit in units)


def parse_properties(text: str) -> dict[str, str]:
    """Enough of the format for what Kafka itself writes, such as meta.properties."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


def decisive_line(lines: Iterable[str]) -> str:
    """The line that says why Kafka ended: a complaint we know, else an exception's text, an error, the last line."""
    known = re.compile("|".join(complaint.pattern for complaint in COMPLAINTS))
    kept = [line.strip() for line in lines if line.strip() and not line.startswith("\tat ")]
    exception, error = re.compile(r"^(Caused by: )?[\w.$]+(Exception|Error): ."), re.compile(r"\b(FATAL|ERROR|Error)\b")
    for is_decisive in (known.search, exception.search, error.search):
        if found := next(filter(is_decisive, kept), None):
            return found
    return kept[-1] if kept else "it wrote nothing"


def known_complaint(line: str) -> Complaint | None:
    return next((complaint for complaint in COMPLAINTS if re.search(complaint.pattern, line)), None)
