"""What a second terminal may ask of a running `topolog up`: one question and one answer, over a socket in its folder.

Threats: a pid file names a stranger, for its process is gone and its number has another; a node that a second terminal
has started outlives the Ctrl-C that was to stop everything. So a second terminal touches no process. The supervisor is
the parent of every node, and it alone starts, signals and stops them; the kernel says whether it is there, since a
socket without a listener refuses. Only the user who runs it can connect.

The address is the folder's descriptor and a name, for the path itself may be longer than a socket's address.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Self

import msgspec

from topolog.events.errors import BadInput, TopologError, Unreachable

NAME = "up.sock"
QUESTION_S = 1.0
"""How long a question may take to arrive: the supervisor does nothing else meanwhile."""

ANSWER_S = 30.0
"""How long an answer may take: as long as the supervisor needs to start a broker that was killed."""

BYTES_MAX = 65_536


class Act(Enum):
    NAMES = "names"
    ADD = "add"
    KILL = "kill"
    PAUSE = "pause"
    RESUME = "resume"
    POWER_CUT = "power-cut"
    POWER_ON = "power-on"
    BACK_UP = "backup"
    RESTORE = "restore"
    WIPE = "wipe"


class Question(msgspec.Struct, frozen=True):
    """`nodes`: to ADD none means the next one, to POWER_ON all that are off. `for_ms`: when a paused node goes on by
    itself."""

    act: Act
    nodes: tuple[str, ...] = ()
    for_ms: int | None = None


class Reply(msgspec.Struct, frozen=True):
    """What was done; `refusal` and `hint` say why nothing was."""

    said: tuple[str, ...] = ()
    refusal: str = ""
    hint: str = ""


class Door:
    """The supervisor's side: it looks now and then who has come. One door to a folder, by the lock that `up` holds."""

    def __init__(self, folder: Path, answer: Callable[[Question], tuple[str, ...]]) -> None:
        """`answer` may raise a TopologError, which is what the other side is told."""
        self._folder = folder
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        """Raises BadInput for a folder that can hold no socket."""
        with ExitStack() as undo:
            undo.callback(self._listener.close)
            try:
                self._open()
            except OSError as error:
                raise BadInput(
                    f"{self._folder} can hold no socket: {error.strerror}.", hint="Name another data folder."
                ) from error
            undo.pop_all()
        return self

    def _open(self) -> None:
        (self._folder / NAME).unlink(missing_ok=True)  # of a supervisor that was killed
        os.fchmod(self._listener.fileno(), 0o600)
        with _address(self._folder) as address:
            self._listener.bind(address)
        self._listener.listen()
        self._listener.setblocking(False)

    def __exit__(self, *exc: object) -> None:
        (self._folder / NAME).unlink(missing_ok=True)
        self._listener.close()

    def look(self) -> None:
        """Answer all who wait; whoever asks no proper question gets no answer."""
        with suppress(BlockingIOError):
            while True:
                visitor, _ = self._listener.accept()
                with visitor, suppress(OSError, msgspec.MsgspecError, RecursionError):
                    visitor.settimeout(QUESTION_S)
                    visitor.sendall(msgspec.json.encode(self._reply(_read(visitor))))

    def _reply(self, question: bytes) -> Reply:
        try:
            return Reply(self._answer(msgspec.json.decode(question, type=Question)))
        except TopologError as error:
            return Reply(refusal=error.message, hint=error.hint)


def ask(folder: Path, question: Question) -> tuple[str, ...]:
    """What the `up` of this folder says to it. Raises Unreachable if there is none, BadInput if it refuses."""
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(ANSWER_S)
        try:
            with _address(folder) as address:
                door.connect(address)
            door.sendall(msgspec.json.encode(question))
            door.shutdown(socket.SHUT_WR)
            reply = msgspec.json.decode(_read(door), type=Reply)
        except TimeoutError:
            raise Unreachable(f"The `topolog up` of {folder} does not answer.", hint="See what it says.") from None
        except (OSError, msgspec.MsgspecError):
            raise Unreachable(
                f"No `topolog up` runs with the data in {folder}.", hint="Start it: topolog up --demo"
            ) from None
    if reply.refusal:
        raise BadInput(reply.refusal, hint=reply.hint)
    return reply.said


def _read(connection: socket.socket) -> bytes:
    """All that comes until the other side has said all."""
    found = b""
    while len(found) < BYTES_MAX and (more := connection.recv(BYTES_MAX)):
        found += more
    return found


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)
