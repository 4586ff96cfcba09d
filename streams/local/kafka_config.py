"""What the broker on this machine is told: its settings, its log format, and what its complaints mean. Pure."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

NODE_ID = 1

# One node that serves one machine: internal topics of one partition and one copy, few threads, quick to notice that
# it is back itself (3 s; below that a loaded machine fences its own broker).
SERVER: Final[Mapping[str, object]] = {
    "process.roles": "broker,controller",
    "node.id": NODE_ID,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
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


class Complaint(msgspec.Struct, frozen=True):
    """What a line in Kafka's log means to the person at the keyboard."""

    pattern: str
    means: str
    hint: str


COMPLAINTS: Final = (
    Complaint("Address already in use", "Its port is in use.", "Stop what listens there, or set broker.port."),
    Complaint("No space left on device", "The disk is full.", "Free some space, or set broker.data to another disk."),
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


def server_properties(folder: Path, port: int, controller_port: int) -> str:
    """Every listener is on the loopback address: what runs here has no password."""
    broker, controller = f"127.0.0.1:{port}", f"127.0.0.1:{controller_port}"
    return properties(
        {
            **SERVER,
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "controller.quorum.bootstrap.servers": controller,
            "log.dirs": folder,
        }
    )


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
