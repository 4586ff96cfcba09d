"""One cluster in which definitions change while coordinators and members die at failpoints."""

import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator

from tests.integration.armed import PROMPT_MS
from tests.integration.conftest import Process, eventually
from tests.integration.crash_site import CrashSite, name_of
from tests.integration.schema_operator import Operator

from topolog.events.codec import CODEC
from topolog.events.objects import (
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeRolledBack,
    object_row,
)
from topolog.events.requests import ChangeCancellationRequested, DeletionsConfirmed, SchemaChangeRequested
from topolog.events.state import State
from topolog.events.topics import Topic
from topolog.streams.node.client import Node

_REQUESTS = (SchemaChangeRequested, ChangeCancellationRequested, DeletionsConfirmed)


class SchemaSite(CrashSite):
    """`members`: two nodes in this process; whoever dies is forked by a process that has everything imported."""

    members: tuple[Node, Node]
    operator: Operator

    def __init__(self, bootstrap: str, cluster: str) -> None:
        super().__init__(bootstrap, cluster)
        self._zygote: Process | None = None

    @contextlib.contextmanager
    def living(self) -> Iterator[None]:
        """Members and operator, founded under a coordinator that is gone when this is entered."""
        with contextlib.ExitStack() as stack:
            with self.led():
                self.members = (stack.enter_context(self.node("n1")), stack.enter_context(self.node("n2")))
                self.operator = stack.enter_context(Operator(self.kafka, self.cluster))
            yield
        if self._zygote:
            self._zygote.leave()

    def crash(self, entry: str, role: str = "prompt", *arguments: str) -> None:
        """Let a process die at the failpoint; it has died by SIGKILL, after one line that says where."""
        zygote = self._begin()
        mark = len(zygote.complaints)
        zygote.tell(entry=entry, role=role, arguments=arguments or (f"armed{next(self.numbers)}",))
        pid = zygote.hear("began")["pid"]
        try:
            assert zygote.hear("ended")["code"] == -signal.SIGKILL, zygote.complaints[mark:]
        except AssertionError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # or it would stand in the way of the tests that follow
            raise
        where = f"failpoint {name_of(entry)}: "
        eventually(lambda: any(line.startswith(where) for line in zygote.complaints[mark:]), f"{where}to be said")

    @contextlib.contextmanager
    def led(self) -> Iterator[None]:
        """By a sound coordinator, at once: nobody else leads."""
        with self.leading(takeover_ms=PROMPT_MS):
            yield

    @contextlib.contextmanager
    def deaf(self, node: Node) -> Iterator[None]:
        """The member applies nothing meanwhile; its heartbeats go on."""
        with node._session.folding:
            yield

    def seen(self, name: str) -> str | None:
        """What the operator's fold says of an object, in one line; None if there is none that is committed."""
        with self.operator.looking() as state:
            return told_of(state, name)

    def assert_sound(self) -> None:
        """Each change is over in one way, each request has one outcome, and both members have the state of the log."""
        self.operator.eventually(lambda: not self.operator.open_changes(), "every change to end")
        ends, prepared, outcomes = Counter[int](), Counter[int](), Counter[str]()
        for known in self.operator.known:
            match known.folded.event:
                case SchemaChangeCommitted(changes=changes):
                    ends.update(changes)
                case SchemaChangeRolledBack(change=change):
                    ends[change] += 1
                case SchemaChangePrepared(change=change):
                    prepared[known.folded.place.position if change is None else change] += 1
            if ref := getattr(known.folded.event, "request", None):
                outcomes[str(ref)] += 1
        assert set(ends.values()) <= {1}
        assert set(prepared.values()) <= {1}
        assert set(prepared) <= set(ends)
        assert set(outcomes.values()) <= {1}
        asked = [CODEC.decode(entry.value) for entry in self.entries(Topic.REQUESTS)]
        assert {str(each.id) for each in asked if isinstance(each, _REQUESTS)} <= set(outcomes)
        for node in self.members:
            assert node.failure is None
            position, state_hash = node.fingerprint()
            assert self.operator.hash_at(position) == state_hash

    def _begin(self) -> Process:
        if self._zygote is None:
            command = [sys.executable, "-m", "tests.integration.zygote", self.cluster, self.bootstrap]
            self._zygote = self.started(command)
        return self._zygote


def told_of(state: State, name: str) -> str | None:
    """An object's committed definition, in the order in which its fields are declared."""
    row = object_row(state, name)
    if row is None or row.definition is None:
        return None
    definition = row.definition
    texts = [
        *(f"{each.name} {each.type.value}" for each in definition.columns),
        *(["" if not definition.ttl_ms else f"ttl {definition.ttl_ms}"]),
        *(f"{name}={text}" for name, text in definition.properties.items()),
        *(each.value for each in definition.privileges),
    ]
    return ", ".join(filter(None, texts))
