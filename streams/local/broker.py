"""A real Apache Kafka on this machine: one node, one data folder, loopback only; `quorum.py` makes three of them one.

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
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from topolog.events.errors import LocalBrokerError
from topolog.streams.local.data_folder import check_room, claim, write_atomically
from topolog.streams.local.jars import Say, default_cache
from topolog.streams.local.kafka_config import Seat
from topolog.streams.local.launch import (
    LOOK_AGAIN_S,
    START_LIMIT_S,
    KafkaFolder,
    check_port_is_free,
    port_answers,
    prepare_launch,
)
from topolog.streams.local.process import Process, is_alive, terminate, this_process, wait_for_exit
from topolog.streams.local.runtime import QUICK_TO_START, keep_archive

STOP_LIMIT_S = 20.0  # 0.3 s as a rule, 2 s when the class data archive is written

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


def _nothing(_: str) -> None:
    """For callers that show no progress, or have nothing more to wait for."""


class LocalBroker:
    """The broker of one data folder; its controller listens on the port after its own.

    `seat` says more than `port` where the broker is one of several or has doors of its own; `cluster_id` is then the
    Kafka cluster's, which a new folder otherwise makes up.

    Every method raises LocalBrokerError, one sentence and what to do about it, or MissingExtra. After an error in a
    start no broker is left running that was not running before.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 19092,
        seat: Seat | None = None,
        java_home: Path | None = None,
        cache: Path | None = None,
        flags: tuple[str, ...] = QUICK_TO_START,
        cluster_id: str | None = None,
        say: Say = _nothing,
    ) -> None:
        self.folder = folder.expanduser().absolute()
        self.seat = seat or Seat(port)
        self.port = self.seat.port
        self.bootstrap = self.seat.address
        self._files = KafkaFolder(self.folder, self.seat, say)
        self.log = self._files.log
        self._cluster_id = cluster_id
        self._running_file = self.folder / "running.json"
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
                    keep_archive(self._files.new_archive, Path(running.archive))
            self._running_file.unlink(missing_ok=True)
        return running is not None

    def kill(self) -> bool:
        """End the process by force, also while another thread waits for its start; False if none was running."""
        running = self._running()
        return running is not None and not terminate(running.process, 0)

    def status(self) -> BrokerStatus:
        recorded = self._recorded()
        if recorded is None:
            return BrokerStatus(False, self.bootstrap, self.folder, self.log)
        bootstrap = f"127.0.0.1:{recorded.port}"
        if is_alive(recorded.process):
            return BrokerStatus(True, bootstrap, self.folder, self.log, pid=recorded.process.pid)
        ended = self._files.why_it_ended() or "It was killed, or the machine was restarted."
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
        owner = claim(self.folder, self._cluster_id)
        check_room(shutil.disk_usage(self.folder).free, self.folder)
        for port in self.seat.ports:
            check_port_is_free(port)
        launch = prepare_launch(self._java_home, self._cache, self._flags, self._say)
        self._files.prepare(launch, owner)
        log_from = self._files.log_size()
        process = self._files.spawn(launch)
        try:
            archive = os.fspath(launch.archives.kafka)
            write_atomically(self._running_file, Running(process, self.port, archive, parent))
            self._files.await_started(process, log_from)
            ready(self.bootstrap)
        except BaseException:
            terminate(process, STOP_LIMIT_S)
            self._running_file.unlink(missing_ok=True)
            raise

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


def _said_clearly(error: OSError, folder: Path) -> LocalBrokerError:
    elsewhere = "Set broker.data to another folder."
    if error.errno == errno.ENOSPC:
        return LocalBrokerError(f"The disk of {folder} is full.", hint="Free some space, or set broker.data.")
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return LocalBrokerError(f"{error.filename or folder} is not a folder.", hint=elsewhere)
    return LocalBrokerError(f"{error.filename or folder} cannot be used: {error.strerror}.", hint=elsewhere)
