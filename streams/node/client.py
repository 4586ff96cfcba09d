"""The node client: what a service embeds to be a member of the cluster.

    with Node("demo", "n1", kafka={"bootstrap.servers": "127.0.0.1:19092"}) as node:
        node.propose(ObjectType("Customer", {"id": "long", "name": "String"}, affinity_key="id"))
        with node.lease.reading():
            rows = answer_from(node.metadata("Customer"))

Entering the context waits until the node is a member and holds its lease; leaving it releases the lease at once.
Methods may be called from any thread except from inside a hook, which must not block. `aio.py` has the same for
asyncio; what both do, `member.py` does.
"""

from typing import Self

from topolog.events import telemetry
from topolog.events.groups import GroupDefinition, GroupRow
from topolog.events.ids import Position
from topolog.events.object_definition import Statement
from topolog.events.object_types import ObjectType
from topolog.events.repair_definition import SessionDefinition
from topolog.events.sessions import SessionRow
from topolog.streams.node.answers import Metadata, Outcome, Submitted
from topolog.streams.node.member import TIMEOUT_S, Member, Wait

__all__ = ["Metadata", "Node", "Outcome", "Submitted"]


class Node(Member):
    """A member of a cluster, for threads: its methods block. The arguments are explained at `Member`."""

    def __enter__(self) -> Self:
        self._begin()
        try:
            self._joining().result(self._join_timeout_s)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()

    def propose(
        self,
        definition: ObjectType,
        *,
        wait: Wait = "accepted",
        timeout_s: float = TIMEOUT_S,
        based_on: int = 0,
        reason: str = "",
    ) -> Outcome:
        """Agree on a type, or on an addition to one.

        Returns when it is granted (`wait="decided"`) or accepted by all who may answer. Nothing is sent if the type
        contains the definition already (ME19). Raises MergeConflict, Refused, Overloaded, or OutcomeUnknown when
        `timeout_s` is over: the proposal may still be granted or accepted, ask `outcome(request_id)`; NotCaughtUp
        instead if nothing had to be sent. `based_on` is the version it was built on, 0 if it was made anew.
        """
        with telemetry.calling("propose", cluster=self.cluster, type=definition.name, wait=wait):
            return self._proposal(definition, wait, based_on, reason).result(timeout_s)

    def outcome(self, request_id: str, *, wait: Wait = "accepted", timeout_s: float = TIMEOUT_S) -> Outcome:
        """The outcome of a proposal this process sent; raises as `propose` does. Asking never proposes anew."""
        return self._asked(request_id, wait).result(timeout_s)

    def metadata(
        self,
        name: str,
        *,
        at_least: Position | None = None,
        max_age_s: float | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Metadata | None:
        """The type's definition, None if there is none. Raises Fenced; NotCaughtUp if this node has not applied
        `at_least`; `max_age_s` as of `table`.

        At once if the accepted version is the pending one; else waits until the pending version it saw is accepted and
        returns that one (ME20). A removal under way is waited for too. Raises NotCaughtUp when `timeout_s` is over.
        """
        return self._agreed(name, at_least, max_age_s).result(timeout_s)

    def create_group(self, group: GroupDefinition, *, timeout_s: float = TIMEOUT_S, reason: str = "") -> GroupRow:
        """The group as it stands, created unless it is there: a service declares its groups at every start.

        Nothing is sent if it is known already. Raises BadInput for what cannot be a group; Refused, with what differs,
        if another one has the name; OutcomeUnknown when `timeout_s` is over: the same call again does no harm.
        """
        return self._declaring.group(group, reason).result(timeout_s)

    def change(
        self, *statements: Statement, deadline_s: float | None = None, timeout_s: float = TIMEOUT_S, reason: str = ""
    ) -> Position | None:
        """Change databases, tables, views and grants, all of it or nothing; the number of the change once it is
        committed, None if all is so already.

        Raises Refused, also with what has rolled it back, as when it is not committed within `deadline_s`;
        OutcomeUnknown when `timeout_s` is over: then it goes on.
        """
        deadline_ms = None if deadline_s is None else int(deadline_s * 1000)
        return self._declaring.change(statements, deadline_ms, reason).result(timeout_s)

    def reset_group(self, group: str, *, timeout_s: float = TIMEOUT_S, reason: str = "") -> None:
        """Give up what is lost of a group, as `topolog reset group` does; returns when that is decided.

        For a service that knows that nobody can come back with what is lost. Raises Refused if there is no such group,
        OutcomeUnknown when `timeout_s` is over: the same call again does no harm.
        """
        self._declaring.reset(group, reason).result(timeout_s)

    def repair(self, definition: SessionDefinition, *, timeout_s: float, reason: str = "") -> SessionRow:
        """Compare the replicas of a table, and repair them if the definition says so; the session as it has ended.

        How it has ended is in the row: SUCCEEDED, or something else with `code`, `covered` and `left`. Raises Refused
        if no session was opened, OutcomeUnknown when `timeout_s` is over: then it goes on.
        """
        return self._declaring.compare(definition, reason).result(timeout_s)

    def catch_up(self, position: Position, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until this node has applied `position`, such as the token of a change; then `at_least=position` holds.

        Raises NotCaughtUp when `timeout_s` is over.
        """
        self._catching_up(position).result(timeout_s)
