"""One Kafka process in one folder: told where it stands, formatted, started, and waited for.

Whose folder it is and who may stop the process is `broker.py`'s business.
"""

import errno
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from topolog.events.errors import LocalBrokerError
from topolog.streams.local.data_folder import ROOM_BYTES, Owner, is_formatted
from topolog.streams.local.jars import KAFKA_VERSION, Say, fetch_jars
from topolog.streams.local.kafka_config import (
    FULL_DISK,
    Seat,
    decisive_line,
    initial_controllers,
    known_complaint,
    log4j_properties,
    server_properties,
)
from topolog.streams.local.process import Process, spawn, wait_for_exit
from topolog.streams.local.runtime import Archives, Java, find_java, prepare_archives

START_LIMIT_S = 60.0  # a start takes 1 to 4 s; the recovery of a large log after a kill -9 takes longer
LOOK_AGAIN_S = 0.02
STARTED = "Kafka Server started"


class Launch(msgspec.Struct, frozen=True):
    """Everything a JVM of Kafka's is started with."""

    java: Java
    jars: list[Path]
    archives: Archives
    flags: tuple[str, ...]

    def command(self, main: str, *arguments: str, jvm: tuple[str, ...] = ()) -> list[str]:
        class_path = os.pathsep.join(map(os.fspath, self.jars))
        flags = [*self.flags, *self.archives.to_read(), *jvm]
        return [os.fspath(self.java.executable), *flags, "-cp", class_path, main, *arguments]


def prepare_launch(java_home: Path | None, cache: Path, flags: tuple[str, ...], say: Say) -> Launch:
    """Java, jars and archives, fetched or made if they are not there. Raises LocalBrokerError or MissingExtra."""
    java = find_java(java_home)
    jars = fetch_jars(cache, say)
    return Launch(java, jars, prepare_archives(java, jars, cache, flags), flags)


class KafkaFolder:
    """The files of one Kafka node below `folder`, and the process that serves them at the ports of its `seat`."""

    def __init__(self, folder: Path, seat: Seat, say: Say) -> None:
        self.folder = folder
        self.seat = seat
        self.log = folder / "broker.log"
        self.new_archive = folder / "classes.jsa.new"
        self._console = folder / "console.log"
        self._log4j = folder / "log4j2.properties"
        self._server = folder / "server.properties"
        self._say = say

    def prepare(self, launch: Launch, owner: Owner) -> None:
        """Write what Kafka reads at its start, and format the folder if nobody has."""
        self._server.write_text(server_properties(self.folder / "kafka", self.seat), encoding="ascii")
        self._log4j.write_text(log4j_properties(self.log), encoding="ascii")
        if not is_formatted(self.folder):
            self._format(launch, owner)

    def spawn(self, launch: Launch) -> Process:
        self.new_archive.unlink(missing_ok=True)
        self._console.unlink(missing_ok=True)
        jvm = (
            *launch.archives.to_write(self.new_archive),
            f"-Dkafka.logs.dir={self.folder}",
            f"-Dlog4j2.configurationFile={self._log4j}",
        )
        where = f"at {self.seat.address} (Java {launch.java.version}, data in {self.folder})"
        self._say(f"starting Kafka {KAFKA_VERSION} {where}")
        return spawn(launch.command("kafka.Kafka", os.fspath(self._server), jvm=jvm), self._console)

    def log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def await_started(self, process: Process, log_from: int) -> None:
        """Return when Kafka says behind `log_from` that it has started, and its port answers."""
        deadline = time.monotonic() + START_LIMIT_S
        while not any(STARTED in line for line in lines_from(self.log, log_from)):
            self._check_goes_on(process, deadline, log_from)
        while not port_answers(self.seat.port):
            self._check_goes_on(process, deadline, log_from)

    def why_it_ended(self) -> str:
        """What the log's decisive line means, as far as we know it; on a full disk there was no room for one either."""
        complaint = known_complaint(decisive_line(lines_from(self.log, 0)))
        if complaint is None and shutil.disk_usage(self.folder).free < ROOM_BYTES:
            return FULL_DISK
        return complaint.means if complaint else ""

    def _format(self, launch: Launch, owner: Owner) -> None:
        self._say(f"preparing an empty Kafka in {self.folder}")
        arguments = ("-t", owner.kafka_cluster_id, "-c", os.fspath(self._server))
        command = launch.command("kafka.tools.StorageTool", "format", *initial_controllers(self.seat), *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise self._did_not_start([*done.stdout.splitlines(), *done.stderr.splitlines()])

    def _check_goes_on(self, process: Process, deadline: float, log_from: int) -> None:
        """Pass a moment of waiting; an end of the process or of our patience is told by the log's decisive line."""
        if wait_for_exit(process, LOOK_AGAIN_S):
            raise self._did_not_start([*lines_from(self.log, log_from), *lines_from(self._console, 0)])
        if time.monotonic() > deadline:
            raise LocalBrokerError(f"Kafka did not start within {START_LIMIT_S:.0f} s.", hint=f"Its log is {self.log}.")

    def _did_not_start(self, lines: Sequence[str]) -> LocalBrokerError:
        line = decisive_line(lines)
        complaint = known_complaint(line)
        if complaint is None:
            return LocalBrokerError(f"Kafka did not start; it says: {line}", hint=f"Its log is {self.log}.")
        return LocalBrokerError(f"Kafka did not start. {complaint.means} It says: {line}", hint=complaint.hint)


def check_port_is_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what is merely closing does not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
            raise LocalBrokerError(
                f"Port {port} of this machine {why}.",
                hint="Stop what listens there, or set broker.port (Kafka takes that port and the next).",
            ) from error


def port_answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def lines_from(path: Path, offset: int) -> list[str]:
    """The lines behind an offset; all of them if the file has been rolled since and is shorter now."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    return text[offset if offset <= len(text) else 0 :].decode(errors="replace").splitlines()
