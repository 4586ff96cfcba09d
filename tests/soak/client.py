"""One client of a soak: a node that proposes, reads and checks its lease as fast as it may, and writes all of it down.

    python -m tests.soak.client CLUSTER NODE BOOTSTRAP FOLDER

It never ends by itself: a node that cannot enter tries again, as a service would be started again. While the file
`quiet` is in the folder it asks for nothing new, so that what is under way can come to rest.
"""

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from tests.soak.operations import Asked, Diary, Ended, Held, Read, Sent, Stood, Told, fields_crc

from topolog.events.errors import OutcomeUnknown, Permanent, Refused, Retriable, TopologError
from topolog.events.metadata import ObjectType
from topolog.streams.node.client import Node, Outcome

QUIET = "quiet"
TYPES = ("A", "B", "C")
TYPES_LAST_S = 8
"""All clients go on to new types after this long, so that all meet on few types and no type grows for ever."""

ASK_TIMEOUT_S = 2.0
READ_TIMEOUT_S = 1.0
JOIN_TIMEOUT_S = 15.0


def type_now(name: str) -> str:
    return f"{name}{int(time.monotonic() // TYPES_LAST_S)}"


class Client:
    """What one life of a node does, each kind of operation in a thread of its own."""

    def __init__(self, node: Node, diary: Diary, folder: Path, stop: threading.Event) -> None:
        self._node = node
        self._diary = diary
        self._quiet = folder / QUIET
        self._stop = stop
        self._who = (node.name, os.getpid())
        self._chance = random.Random()
        self._operation = 0

    def run(self) -> None:
        """Until told to stop or the node has ended for good."""
        over = threading.Event()
        pauses = ((self._propose, 0.03), (self._read, 0.01), (self._check_lease, 0.005), (self._stand, 0.2))
        threads = [threading.Thread(target=self._repeat, args=(act, pause_s, over)) for act, pause_s in pauses]
        for thread in threads:
            thread.start()
        while not self._stop.wait(0.05) and self._node.failure is None:
            pass
        over.set()
        for thread in threads:
            thread.join()
        if self._node.failure is not None:
            self._note_end(self._node.failure)

    def _repeat(self, act: object, pause_s: float, over: threading.Event) -> None:
        assert callable(act)
        while not over.wait(pause_s):
            try:
                act()
            except (Retriable, Refused):
                pass  # nothing was learned
            except Permanent as error:
                if self._node.failure is None:
                    self._note_end(error)
                return

    def _note_end(self, error: TopologError) -> None:
        self._diary.note(Ended(*self._who, time.monotonic_ns(), code=error.code, message=str(error)))

    def _propose(self) -> None:
        if self._quiet.exists():
            return
        self._operation += 1
        operation = self._operation
        name = type_now(self._chance.choice(TYPES))
        fields = self._fields(operation)
        self._diary.note(Asked(*self._who, time.monotonic_ns(), operation=operation, type_name=name, fields=fields))
        submitted = self._node.submit(ObjectType(name, fields), wait=self._chance.choice(("decided", "accepted")))
        request = submitted.request_id
        self._diary.note(Sent(*self._who, time.monotonic_ns(), operation=operation, request=request))
        try:
            outcome = submitted.outcome.result(ASK_TIMEOUT_S)
        except TimeoutError:
            outcome = self._ask_again(request)
        except Refused as refusal:
            self._note_refusal(operation, request, refusal.code)
            return
        self._note_outcome(operation, outcome)

    def _fields(self, operation: int) -> dict[str, str]:
        """Mostly one new field; now and then one that others contradict, and one that is there already."""
        dice = self._chance.random()
        if dice < 0.15:
            return {"shared": self._chance.choice(("long", "String", "int"))}
        if dice < 0.25:
            return {"same": "long"}
        return {f"{self._node.name}_{os.getpid()}_{operation}": "long"}

    def _ask_again(self, request: str | None) -> Outcome:
        if request is None:
            raise Retriable("Nothing was sent, and what is there is not accepted yet.")
        for _ in range(5):
            try:
                return self._node.outcome(request, timeout_s=ASK_TIMEOUT_S)
            except OutcomeUnknown:
                continue
        raise Retriable(f"Nobody knows what became of {request}.")

    def _note_outcome(self, operation: int, outcome: Outcome) -> None:
        told = Told(
            *self._who,
            time.monotonic_ns(),
            operation=operation,
            request=outcome.request_id,
            status=outcome.status.value,
            version=outcome.version,
            position=outcome.position,
            accepted=outcome.accepted,
        )
        self._diary.note(told)

    def _note_refusal(self, operation: int, request: str | None, code: str) -> None:
        now_ns = time.monotonic_ns()
        self._diary.note(Told(*self._who, now_ns, operation=operation, request=request, status="REFUSED", code=code))

    def _read(self) -> None:
        if self._quiet.exists():
            return
        name = type_now(self._chance.choice(TYPES))
        before, began_ns = self._node.incarnation, time.monotonic_ns()
        metadata = self._node.metadata(name, timeout_s=READ_TIMEOUT_S)
        returned_ns = time.monotonic_ns()
        version, fields = (metadata.version, metadata.definition.fields) if metadata else (0, {})
        crc = fields_crc(fields.items())
        incarnation = before if self._node.incarnation == before else None
        self._diary.note(
            Read(
                *self._who,
                began_ns,
                incarnation=incarnation,
                returned_ns=returned_ns,
                type_name=name,
                version=version,
                fields_crc=crc,
            )
        )

    def _check_lease(self) -> None:
        """Only what passed and belongs to one incarnation for sure is noted."""
        before, at_ns = self._node.incarnation, time.monotonic_ns()
        if self._node.lease.is_valid:
            incarnation, position = self._node.incarnation, self._node.position
            if incarnation == before:
                self._diary.note(Held(*self._who, at_ns, incarnation=incarnation, position=position))

    def _stand(self) -> None:
        position, state_hash = self._node.fingerprint()
        self._diary.note(Stood(*self._who, time.monotonic_ns(), position=position, state_hash=state_hash.hex()))


def main(cluster: str, name: str, bootstrap: str, folder: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with Diary(Path(folder) / f"{name}.jsonl") as diary:
        while not stop.is_set():
            try:
                with Node(cluster, name, kafka={"bootstrap.servers": bootstrap}, join_timeout_s=JOIN_TIMEOUT_S) as node:
                    Client(node, diary, Path(folder), stop).run()
            except Retriable:
                stop.wait(0.2)
            except TopologError as error:
                now_ns = time.monotonic_ns()
                diary.note(Ended(name, os.getpid(), now_ns, code=error.code, message=str(error)))
                stop.wait(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
