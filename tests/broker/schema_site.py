"""One cluster in which definitions change while coordinators and members die at failpoints."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from tests.broker.armed import PROMPT_MS
from tests.broker.crash_site import CrashSite, assert_died
from tests.broker.schema_operator import Operator

from topolog.events.codec import CODEC
from topolog.events.errors import CannotApply
from topolog.events.ids import NodeId, Position
from topolog.events.object_requests import ChangeCancellationRequested, DeletionsConfirmed, SchemaChangeRequested
from topolog.events.objects import (
    ChangeRow,
    ObjectEvent,
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeRolledBack,
    change_row,
    object_row,
)
from topolog.events.state import State
from topolog.events.topics import REQUEST_TOPICS
from topolog.streams.node.client import Node

_REQUESTS = (SchemaChangeRequested, ChangeCancellationRequested, DeletionsConfirmed)


class SchemaSite(CrashSite):
    """`members`: two nodes in this process; the second one cannot apply what has to do with names in `inapplicable`."""

    members: tuple[Node, Node]
    operator: Operator

    def __init__(self, bootstrap: str, cluster: str) -> None:
        super().__init__(bootstrap, cluster)
        self.inapplicable: set[str] = set()

    @contextlib.contextmanager
    def living(self) -> Iterator[None]:
        """Members and operator, founded under a coordinator that is gone when this is entered."""
        with contextlib.ExitStack() as stack:
            with self.led():
                self.members = self.node("n1"), self.node("n2")
                self.members[1].on_change(self._apply)
                for node in self.members:
                    stack.enter_context(node)
                self.operator = stack.enter_context(Operator(self.kafka, self.cluster))
            yield

    def crash(self, entry: str) -> None:
        """Let a coordinator, which claims at once, die at the failpoint."""
        assert_died(self.armed(entry, "prompt", f"armed{next(self.numbers)}"), entry)

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

    def decided(self) -> int:
        """How many decisions about changes are in the log."""
        return sum(isinstance(each.event, ObjectEvent) for each in self.told().decisions)

    def undeleted(self, number: Position) -> tuple[NodeId, ...]:
        """Who has not said yet that it has deleted what the change has closed."""
        with self.operator.looking() as state:
            row = change_row(state, number)
        assert row is not None
        return row.undeleted

    def is_asked_for(self, name: str) -> bool:
        """Whether a change of this object stands among the requests."""
        asked = [CODEC.decode(entry.value) for topic in REQUEST_TOPICS for entry in self.entries(topic)]
        return any(isinstance(each, SchemaChangeRequested) and each.statements[0].name == name for each in asked)

    def assert_sound(self) -> None:
        """Each change is over in one way, each request has one outcome, and both members have the state of the log."""
        self.operator.eventually(lambda: not self.operator.open_changes(), "every change to end")
        asked = [CODEC.decode(entry.value) for topic in REQUEST_TOPICS for entry in self.entries(topic)]
        ids = {str(each.id) for each in asked if isinstance(each, _REQUESTS)}
        self.operator.eventually(lambda: ids <= set(self.operator.outcomes), "every request to be decided")
        assert set(self.operator.outcomes.values()) == {1}
        ends, prepared = Counter[int](), Counter[int]()
        for known in self.operator.known:
            match known.folded.event:
                case SchemaChangeCommitted(changes=changes):
                    ends.update(changes)
                case SchemaChangeRolledBack(change=change):
                    ends[change] += 1
                case SchemaChangePrepared(change=change):
                    prepared[known.folded.place.position if change is None else change] += 1
        assert set(ends.values()) <= {1}
        assert set(prepared.values()) <= {1}
        assert set(prepared) <= set(ends)
        for node in self.members:
            assert node.failure is None
            position, state_hash = node.fingerprint()
            assert self.operator.hash_at(position) == state_hash

    def _apply(self, change: ChangeRow) -> None:
        if self.inapplicable & {step.name for step in change.steps}:
            raise CannotApply("NO_CODEC", "there is no such codec here")


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
