"""A real Apache Kafka on this machine: one node, one data folder, loopback only.

A broker belongs to its data folder. What the folder says is enough for any process to find it, stop it or take it
over, so `topolog broker stop` works from another terminal, and a killed `topolog up` leaves nothing that the next
one cannot use:

    topolog-broker.json   whose folder this is
    running.json          the process that serves it now (process.py)
    kafka/                Kafka's own data, kept between starts
    broker.log            Kafka's log, rolled at 10 MB; console.log is what the JVM says besides

One broker may serve several topolog clusters. It is not durable against loss of this machine's disk.
"""

import errno
import fcntl
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from topolog.events.errors import LocalBrokerError
from topolog.streams.local.data_folder import Owner, check_room, claim, is_formatted, write_atomically
from topolog.streams.local.jars import KAFKA_VERSION, Say, default_cache, fetch_jars
from topolog.streams.local.kafka_config import (
    decisive_line,
    known_complaint,
    log4j_properties,
    server_properties,
)
from topolog.streams.local.process import Process, is_alive, spawn, terminate, this_process, wait_for_exit
from topolog.streams.local.runtime import QUICK_TO_START, Archives, Java, find_java, keep_archive, prepare_archives

START_LIMIT_S = 60.0  # a start takes 1 to 4 s; the recovery of a large log after a kill -9 takes longer
STOP_LIMIT_S = 20.0  # 0.3 s as a rule, 2 s when the class data archive is written
LOOK_AGAIN_S = 0.02
STARTED = "Kafka Server started"

Ready = Callable[[str], None]


class Running(msgspec.Struct, frozen=True):
    """Who serves a data folder. With a `parent` the broker is to end with the process that started it."""

    process: Process
    port: int
    archive: str
    parent: Process | None


class BrokerStatus(msgspec.Struct, frozen=True):
    """What `topolog broker status` shows; `ended` says why a broker that nobody stopped is not running."""

    is_running: bool
    bootstrap: str
    folder: Path
    log: Path
    pid: int | None = None
    ended: str = ""


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


def _nothing(_: str) -> None:
    """For callers that show no progress, or have nothing more to wait for."""


class LocalBroker:
    """The broker of one data folder; its controller listens on the port after its own.

    Every method raises LocalBrokerError, one sentence and what to do about it, or MissingExtra. After an error in a
    start no broker is left running that was not running before.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 19092,
        java_home: Path | None = None,
        cache: Path | None = None,
        flags: tuple[str, ...] = QUICK_TO_START,
        say: Say = _nothing,
    ) -> None:
        self.folder = folder.expanduser().absolute()
        self.port = port
        self.bootstrap = f"127.0.0.1:{port}"
        self.log = self.folder / "broker.log"
        self._console = self.folder / "console.log"
        self._running_file = self.folder / "running.json"
        self._new_archive = self.folder / "classes.jsa.new"
        self._java_home = java_home
        self._cache = cache or default_cache()
        self._flags = flags
        self._say = say

    def start(self, *, ready: Ready = _nothing) -> BrokerStatus:
        """Start the broker, or find it running; it goes on after this process has ended.

        Returns when Kafka says that it has started, its port answers, and `ready(bootstrap)` has returned. After a
        kill -9 Kafka says so before its partitions have leaders again: `ready` is the place to wait for them.
        """
        with self._alone():
            self._start(parent=None, ready=ready)
        return self.status()

    @contextmanager
    def running(self, *, ready: Ready = _nothing) -> Iterator[BrokerStatus]:
        """A broker for as long as the block runs.

        One that was started to outlive its starter is used and left running. One whose starter was killed is taken
        over. One whose starter lives belongs to that process: LocalBrokerError.
        """
        with self._alone():
            is_ours = self._start(parent=this_process(), ready=ready)
        try:
            yield self.status()
        finally:
            if is_ours:
                self.stop()

    def stop(self, limit_s: float = STOP_LIMIT_S) -> bool:
        """Stop the broker in order, after `limit_s` by force; False if none was running."""
        if not self.folder.is_dir():
            return False
        with self._alone():
            running = self._running()
            if running is not None:
                self._say(f"stopping Kafka at 127.0.0.1:{running.port}")
                if terminate(running.process, limit_s):
                    keep_archive(self._new_archive, Path(running.archive))
            self._running_file.unlink(missing_ok=True)
        return running is not None

    def status(self) -> BrokerStatus:
        recorded = self._recorded()
        if recorded is None:
            return BrokerStatus(False, self.bootstrap, self.folder, self.log)
        bootstrap = f"127.0.0.1:{recorded.port}"
        if is_alive(recorded.process):
            return BrokerStatus(True, bootstrap, self.folder, self.log, pid=recorded.process.pid)
        complaint = known_complaint(decisive_line(_lines_from(self.log, 0)))
        ended = complaint.means if complaint else "It was killed, or the machine was restarted."
        return BrokerStatus(False, bootstrap, self.folder, self.log, ended=ended)

    def _start(self, *, parent: Process | None, ready: Ready) -> bool:
        """True if the process that asked is the one to stop the broker."""
        running = self._running()
        if running is None or not self._is_reachable(running):
            self._launch(parent, ready)
            return parent is not None
        is_taken_over = parent is not None and running.parent is not None
        if is_taken_over:
            write_atomically(self._running_file, msgspec.structs.replace(running, parent=parent))
        ready(self.bootstrap)
        return is_taken_over

    def _is_reachable(self, running: Running) -> bool:
        """True once the port of a broker that is there already answers; False if it was ending just now."""
        self._check_usable(running)
        deadline = time.monotonic() + START_LIMIT_S
        while not port_answers(running.port) and time.monotonic() < deadline:
            if wait_for_exit(running.process, LOOK_AGAIN_S):
                return False
        return is_alive(running.process)

    def _check_usable(self, running: Running) -> None:
        if running.port != self.port:
            raise LocalBrokerError(
                f"The broker of {self.folder} runs already, on port {running.port} and not on {self.port}.",
                hint="Stop it first (topolog broker stop), or set broker.port to its port.",
            )
        if running.parent is not None and running.parent != this_process() and is_alive(running.parent):
            raise LocalBrokerError(
                f"The broker of {self.folder} belongs to process {running.parent.pid}, which is still running.",
                hint="Use that one, or stop it, or set broker.data and broker.port for one more.",
            )

    def _launch(self, parent: Process | None, ready: Ready) -> None:
        owner = claim(self.folder)
        check_room(shutil.disk_usage(self.folder).free, self.folder)
        check_port_is_free(self.port)
        check_port_is_free(self.port + 1)
        java = find_java(self._java_home)
        jars = fetch_jars(self._cache, self._say)
        launch = Launch(java, jars, prepare_archives(java, jars, self._cache, self._flags), self._flags)
        server = self._write_config()
        if not is_formatted(self.folder):
            self._format(launch, owner, server)
        self._say(f"starting Kafka {KAFKA_VERSION} at {self.bootstrap} (Java {java.version}, data in {self.folder})")
        log_from = self.log.stat().st_size if self.log.exists() else 0
        process = self._spawn(launch, server)
        try:
            archive = os.fspath(launch.archives.kafka)
            write_atomically(self._running_file, Running(process, self.port, archive, parent))
            self._await_started(process, log_from)
            ready(self.bootstrap)
        except BaseException:
            terminate(process, STOP_LIMIT_S)
            self._running_file.unlink(missing_ok=True)
            raise

    def _write_config(self) -> Path:
        server = self.folder / "server.properties"
        server.write_text(server_properties(self.folder / "kafka", self.port, self.port + 1), encoding="ascii")
        self._log4j.write_text(log4j_properties(self.log), encoding="ascii")
        return server

    @property
    def _log4j(self) -> Path:
        return self.folder / "log4j2.properties"

    def _format(self, launch: Launch, owner: Owner, server: Path) -> None:
        self._say(f"preparing an empty Kafka in {self.folder}")
        arguments = ("format", "--standalone", "-t", owner.kafka_cluster_id, "-c", os.fspath(server))
        command = launch.command("kafka.tools.StorageTool", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise self._did_not_start([*done.stdout.splitlines(), *done.stderr.splitlines()])

    def _spawn(self, launch: Launch, server: Path) -> Process:
        self._new_archive.unlink(missing_ok=True)
        self._console.unlink(missing_ok=True)
        jvm = (
            *launch.archives.to_write(self._new_archive),
            f"-Dkafka.logs.dir={self.folder}",
            f"-Dlog4j2.configurationFile={self._log4j}",
        )
        return spawn(launch.command("kafka.Kafka", os.fspath(server), jvm=jvm), self._console)

    def _await_started(self, process: Process, log_from: int) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not any(STARTED in line for line in _lines_from(self.log, log_from)):
            self._check_goes_on(process, deadline, log_from)
        while not port_answers(self.port):
            self._check_goes_on(process, deadline, log_from)

    def _check_goes_on(self, process: Process, deadline: float, log_from: int) -> None:
        """Pass a moment of waiting; an end of the process or of our patience is told by the log's decisive line."""
        if wait_for_exit(process, LOOK_AGAIN_S):
            raise self._did_not_start([*_lines_from(self.log, log_from), *_lines_from(self._console, 0)])
        if time.monotonic() > deadline:
            raise LocalBrokerError(f"Kafka did not start within {START_LIMIT_S:.0f} s.", hint=f"Its log is {self.log}.")

    def _did_not_start(self, lines: list[str]) -> LocalBrokerError:
        line = decisive_line(lines)
        complaint = known_complaint(line)
        if complaint is None:
            return LocalBrokerError(f"Kafka did not start; it says: {line}", hint=f"Its log is {self.log}.")
        return LocalBrokerError(f"Kafka did not start. {complaint.means} It says: {line}", hint=complaint.hint)

    def _running(self) -> Running | None:
        recorded = self._recorded()
        return recorded if recorded is not None and is_alive(recorded.process) else None

    def _recorded(self) -> Running | None:
        try:
            return msgspec.json.decode(self._running_file.read_bytes(), type=Running)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except msgspec.MsgspecError as error:
            raise LocalBrokerError(
                f"{self._running_file} is damaged: {error}.", hint="Remove it once no Kafka uses the folder."
            ) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Starts and stops of one folder come one after the other; what the file system refuses becomes a sentence."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            raise _said_clearly(error, self.folder) from error


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


def _lines_from(path: Path, offset: int) -> list[str]:
    """The lines behind an offset; all of them if the file has been rolled since and is shorter now."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    return text[offset if offset <= len(text) else 0 :].decode(errors="replace").splitlines()


def _said_clearly(error: OSError, folder: Path) -> LocalBrokerError:
    elsewhere = "Set broker.data to another folder."
    if error.errno == errno.ENOSPC:
        return LocalBrokerError(f"The disk of {folder} is full.", hint="Free some space, or set broker.data.")
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return LocalBrokerError(f"{error.filename or folder} is not a folder.", hint=elsewhere)
    return LocalBrokerError(f"{error.filename or folder} cannot be used: {error.strerror}.", hint=elsewhere)
