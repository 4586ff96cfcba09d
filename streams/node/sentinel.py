"""The sentinel: a tiny process beside each service, which says when the service's process has died (LE32).

Threats. A lease alone makes every crash cost proceed_ms. But whoever declares a process dead that still lives lets two
act at once. The end of a pipe proves nothing: a service may close every descriptor it has and live on, and a forked
child may hold the pipe open long after. The sentinel may die itself, may be stopped, may be told to stop together with
its service (Ctrl-C in a terminal, `kill -TERM` to a group, a supervisor that ends everything).

Invariant. The sentinel speaks only when the kernel says that the service's process is gone, and only for what that
process has told it before it asked to join.

Argument. The service opens a pidfd of *itself* and hands it to the sentinel when it starts it, so the descriptor means
that process and no other that may get its number. A pidfd becomes readable when the last thread has ended, whatever
ended it; a process that is stopped, hung or without descriptors does not make it readable. What the service has said
stands in the pipe by then, for it writes before it asks to join, and the pipe outlives its writer. Nothing else makes
the sentinel speak: at the end of the pipe it goes on waiting for the pidfd, and the word `done` ends it in silence. It
leads a session of its own and ignores SIGINT, SIGTERM and SIGHUP. If it is lost, the lease is what it was before.
A copy of the process that outlives it, a forked child, does not act: its lease guard knows the process it was made in,
however the child was forked (`guards.py`).

The settings of Kafka may hold secrets: they go through a file in memory, never into arguments, and not through the
pipe, which holds 64 KiB and is written without waiting, while a bundle of certificates may be larger. The sentinel
imports little and connects at once, so that it has only one record to send when it matters.
"""

import base64
import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from topolog.events.errors import TopologError
from topolog.events.kafka import KafkaWriter
from topolog.events.topics import Topic

_LOGGER = logging.getLogger("topolog.sentinel")

CERTIFICATE_S: Final = 60
"""How long a sentinel tries to be heard: a crashed broker is replaced by then, and leases are over."""

_MODULE = "topolog.streams.node.sentinel"
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DISMISS_S = 2.0
_RESTART_PAUSES_S = (0.0, 10.0, 60.0, 600.0)
_STEADY_S = 600.0
_PIPE = 0


class Sentinel:
    """The service's side: starts the process, tells it whom it speaks for, starts another if it is lost.

    Any thread may call. Nothing here fails a service: without its sentinel a crash costs the lease, no more.
    """

    def __init__(self, kafka: Mapping[str, str], cluster: str, *, is_wanted: bool = True) -> None:
        self._greeting = json.dumps({"kafka": dict(kafka), "cluster": cluster}).encode() + b"\n"
        self._words: dict[str, str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pauses = iter(_RESTART_PAUSES_S)
        self._started_at = self._starts_at = time.monotonic()
        self._is_over = not is_wanted
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Of the sentinel process, if there is one."""
        return self._process.pid if self._process else None

    def speak_for(self, key: str, certificate: bytes) -> None:
        """From now on this record is what the sentinel appends to `heartbeats` when this process has died."""
        with self._lock:
            self._words = {"key": key, "certificate": base64.b64encode(certificate).decode()}
            if self._process is not None:
                self._tell(self._words)

    def look_after(self) -> None:
        """Start the sentinel, or another one for one that is lost. Called now and then."""
        with self._lock:
            if self._is_over or (self._process is not None and self._process.poll() is None):
                return
            if self._process is not None:
                self._note_loss(self._process)
            if time.monotonic() >= self._starts_at:
                self._start()

    def end(self, *, said_goodbye: bool) -> None:
        """This process is done, and has said so to the cluster, or could not; no other sentinel starts."""
        if said_goodbye:
            self._dismiss()
        else:
            self._leave_behind()

    def disown(self) -> None:
        """In a forked child: the sentinel is the parent's, and so is everything that may be said to it."""
        self._lock = threading.Lock()  # a thread that is gone here may have held it
        self._is_over = True
        self._forget()

    def _dismiss(self) -> None:
        """Nothing is left to say: the sentinel ends in silence, and has ended when this returns."""
        with self._lock:
            self._is_over = True
            if self._process is None:
                return
            self._tell({"done": True})
            self._hang_up(self._process)
            try:
                self._process.wait(_DISMISS_S)
            except subprocess.TimeoutExpired:  # stopped, or still starting: it must not outlive an end in order
                self._process.kill()
                self._process.wait()
            self._process = None

    def _leave_behind(self) -> None:
        """This process cannot prove that it has said goodbye: the sentinel waits for its end, and then speaks."""
        with self._lock:
            self._is_over = True
            self._forget()

    def _start(self) -> None:
        if not _has_interpreter():
            self._give_up(f"{sys.executable or 'nothing'!r}, which runs this service, is no Python to start it with")
            return
        try:
            with contextlib.ExitStack() as closing:
                closing.callback(os.close, pidfd := os.pidfd_open(os.getpid()))
                closing.callback(os.close, greeting := _in_memory(self._greeting))
                self._process = _run(pidfd, greeting)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._give_up(str(error))
            return
        self._started_at = time.monotonic()
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        if self._words:
            self._tell(self._words)

    def _tell(self, message: Mapping[str, Any]) -> None:
        """One line into the pipe. A sentinel that does not read is as good as none, and is replaced."""
        assert self._process is not None and self._process.stdin is not None
        line = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(OSError, ValueError):  # it is gone, or it does not read
            if os.write(self._process.stdin.fileno(), line) == len(line):
                return
        self._process.kill()

    def _note_loss(self, lost: subprocess.Popen[bytes]) -> None:
        now = time.monotonic()
        if now - self._started_at > _STEADY_S:
            self._pauses = iter(_RESTART_PAUSES_S)
        pause_s = next(self._pauses, _RESTART_PAUSES_S[-1])
        _LOGGER.warning(
            "the sentinel (pid %d) has ended with %s; another one starts%s, until then a crash costs the lease",
            lost.pid,
            lost.returncode,
            f" in {pause_s:g} s" if pause_s else "",
        )
        self._hang_up(lost)
        self._process, self._starts_at = None, now + pause_s

    def _give_up(self, reason: str) -> None:
        _LOGGER.warning("no sentinel can be started, so a crash costs the lease: %s", reason)
        self._is_over = True

    def _forget(self) -> None:
        """Let go of the process without waiting for it; the pipe's end is ours to close."""
        if self._process is not None:
            self._hang_up(self._process)
            self._process.returncode = 0  # or its finalizer complains that it still runs, which it should
            self._process = None

    @staticmethod
    def _hang_up(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()


def _has_interpreter() -> bool:
    """Whether `sys.executable` is a Python. In a frozen service it is the service itself, which would start again; a
    program that embeds Python may have its own name there, or none."""
    if not sys.executable or getattr(sys, "frozen", False):
        return False
    executable = Path(sys.executable)
    names = [each.name.lower() for each in (executable, executable.resolve())]
    return any(python in name for name in names for python in ("python", "pypy"))


def _in_memory(content: bytes) -> int:
    """A descriptor that reads as this content, which lies in no folder."""
    descriptor = os.memfd_create("topolog-sentinel")
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _run(pidfd: int, greeting: int) -> subprocess.Popen[bytes]:
    former = signal.pthread_sigmask(signal.SIG_BLOCK, _DEAF_TO)  # it begins deaf: it inherits this
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(pidfd), str(greeting)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            pass_fds=(pidfd, greeting),
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


# The sentinel's own process.


class _Ward:
    """What the sentinel has been told, line by line."""

    def __init__(self) -> None:
        self.writer: KafkaWriter | None = None
        self.words: Mapping[str, str] | None = None
        self.is_done = False
        self._unfinished = b""

    def hear(self, data: bytes) -> None:
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def speak(self) -> None:
        if self.words is None or self.writer is None:
            return
        certificate = base64.b64decode(self.words["certificate"])
        self.writer.append(Topic.HEARTBEATS, self.words["key"], certificate)
        self.writer.flush(CERTIFICATE_S)

    def _obey(self, message: Mapping[str, Any]) -> None:
        if "kafka" in message:
            self.writer = KafkaWriter(message["kafka"], message["cluster"], timeout_ms=CERTIFICATE_S * 1000)
            self.writer.connect(Topic.HEARTBEATS)
        elif "certificate" in message:
            self.words = message
        else:
            self.is_done = True


def watch(pidfd: int, greeting: int) -> None:
    """Listen on standard input until told `done`, or until the process of `pidfd` is gone; then speak."""
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    ward = _Ward()
    with os.fdopen(greeting, "rb") as file:
        ward.hear(file.read())
    os.set_blocking(_PIPE, False)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(_PIPE, select.POLLIN)
    while not ward.is_done:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if not _drain(ward):
            with contextlib.suppress(KeyError):
                poll.unregister(_PIPE)  # the end of the pipe proves nothing: wait on
        if pidfd in ready and not ward.is_done:
            ward.speak()
            return


def _drain(ward: _Ward) -> bool:
    """Hear all that stands in the pipe; False at its end."""
    try:
        while data := os.read(_PIPE, 65_536):
            ward.hear(data)
    except BlockingIOError:
        return True
    return False


if __name__ == "__main__":
    with contextlib.suppress(TopologError):  # nobody is there to be told
        watch(int(sys.argv[1]), int(sys.argv[2]))
