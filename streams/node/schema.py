"""What a member of the cluster does about databases, tables, views and grants: use them as they are now.

    with node.using("shop.orders") as table:
        rows = store.read(table)
    with node.writing("shop.orders") as table:
        store.write(table.token, row)

A server answers under its lease only, and so does a client, whose renewals say no more than that it has heard of the
cluster within a fence: nobody waits for it, so its answers are as old as that, and say so. What the state of the
cluster forbids raises NotActive; definitions and rights may be asked for in every state.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import msgspec

from topolog.events.cluster_state import Operation
from topolog.events.errors import BadInput, BeingAltered, BeingDeleted, Fenced, NotCaughtUp, NotFound
from topolog.events.ids import Position
from topolog.events.leases import NodeKind
from topolog.events.object_definition import ObjectKind, Privilege
from topolog.streams.clock import Clock
from topolog.streams.node.guards import LeaseGuard
from topolog.streams.node.hooks import Hooks
from topolog.streams.node.lazy import Lazy
from topolog.streams.node.object_hooks import ChangeHook, DeletionHook, TableHook
from topolog.streams.node.objects import Database, Published, Table, View
from topolog.streams.node.session import Session
from topolog.streams.node.waits import Pending, Waits

_LOGGER = logging.getLogger("topolog.node")
_NS_PER_MS = 1_000_000
T = TypeVar("T")
Named = TypeVar("Named")
Looked = TypeVar("Looked", Table, View, Database)
Used = TypeVar("Used", Table, View)
Find = Callable[[Published, int], Named]


def stale_kinds(kinds: Collection[ObjectKind]) -> frozenset[ObjectKind]:
    """Raises BadInput for kinds of which no answer may be stale."""
    if bad := [kind.value for kind in kinds if kind not in _MAY_BE_STALE]:
        raise BadInput(
            f"{' and '.join(bad)} cannot be served stale.",
            hint="Rights fail closed: a revoked one must not be honoured.",
        )
    return frozenset(kinds)


_MAY_BE_STALE = (ObjectKind.DATABASE, ObjectKind.TABLE, ObjectKind.VIEW)


class Schema:
    """A member, as far as definitions are concerned. Any thread may call."""

    name: str
    _kind: NodeKind
    _clock: Clock
    _hooks: Hooks
    _session: Session
    _waits: Waits
    _stopping: threading.Event
    _stale: frozenset[ObjectKind]
    lease: LeaseGuard
    _reading: Callable[[], contextlib.AbstractContextManager[None]]

    # To be registered before entering.

    def on_table(self, hook: TableHook) -> None:
        """Call `hook(name, table)` when a table can be used in another way than before, with None when it cannot be.

        Called in the order of the log, before the decision counts as applied here, hence before this node leaves a
        fence; nobody uses the table meanwhile. When this process joins it is called once for each table that is there.
        For registries: what must be complete before this node serves. If it raises, the node ends with HookFailed: so a
        service that cannot serve a table which is there does not serve beside it.
        """
        self._hooks.of_objects.on_table.append(hook)

    def on_change(self, hook: ChangeHook) -> None:
        """Call `hook(change)` for each change that is prepared, and for those still open when this node starts.

        Called in the order of the log, before anything of it is used here. Raise CannotApply if this service cannot
        apply what `change.steps` say: the change is rolled back then, for everybody (TA19), and none of what it would
        alter is used here meanwhile. Should it be committed all the same, as when this node was waited out, the node
        ends with HookFailed.
        """
        self._hooks.of_objects.on_change.append(hook)

    def on_deletion(self, hook: DeletionHook) -> None:
        """Call `hook(deletion)` when the commit of a change has closed tables or columns while this node was a member.

        The hook must not delete by itself, which takes too long: when all of it is deleted, each piece inside
        `deleting`, say `deleted`. A node without such a hook has nothing to delete, and that is said for it.
        """
        self._hooks.of_objects.on_deletion.append(hook)

    def deleted(self, change: int) -> None:
        """All that `on_deletion` has told of this change is deleted here. May be said again, and of a former life."""
        self._session.core.deletions.done(change)

    @contextlib.contextmanager
    def deleting(self) -> Iterator[None]:
        """Around each piece of what a service deletes because it is closed or its group was dropped. Raises Fenced, and
        NotActive while the state of the cluster lets nothing be deleted: it waits, for what is closed stays closed, and
        goes on when this node holds its lease, and `on_cluster_state` says that the cluster is ACTIVE again."""
        self.lease.require()
        self._hooks.serving.require(Operation.DELETE)
        yield

    def lazy(self, load: Callable[[Table], T]) -> Lazy[T]:
        """What is made of a table by `load(table)` when it is first used, kept until the table or the lease changes."""
        made = Lazy(load, lambda: self._session.lease.generation)
        self._hooks.of_objects.lazy.append(made)
        return made

    # What may be used.

    def table(self, name: str, *, at_least: Position | None = None, max_age_s: float | None = None) -> Table:
        """The table as it is now; for a look, `using` is for reading from it.

        Raises Fenced; NotFound; BeingCreated, BeingDeleted or BeingAltered while a change stands in the way;
        NotCaughtUp if this node has not applied `at_least`. `max_age_s`: an answer so old will do, from a server
        without a lease too, and from a client that has heard nothing for longer than the fence; `age_ms` says how old
        it is.
        """
        return self._look(ObjectKind.TABLE, at_least, max_age_s, lambda now, ms: now.table(name, ms))

    def view(self, name: str, *, at_least: Position | None = None, max_age_s: float | None = None) -> View:
        """As `table`, for a view; its table must be usable too."""
        return self._look(ObjectKind.VIEW, at_least, max_age_s, lambda now, ms: now.view(name, ms))

    def database(self, name: str, *, at_least: Position | None = None, max_age_s: float | None = None) -> Database:
        """As `table`, for a database."""
        return self._look(ObjectKind.DATABASE, at_least, max_age_s, lambda now, ms: now.database(name, ms))

    def tables(self, *, at_least: Position | None = None, max_age_s: float | None = None) -> list[Table]:
        """All tables that can be used now; stale only by `max_age_s`. Raises Fenced and NotCaughtUp."""
        with self._answering(None, max_age_s) as age_ms:
            found = self._found(at_least, lambda now, _: list(now.tables()))
        return [_aged(each, age_ms) for each in found]

    def using(
        self, name: str, *, at_least: Position | None = None, max_age_s: float | None = None
    ) -> contextlib.AbstractContextManager[Table]:
        """Read from a table: what was read inside is right if this exits in order. Raises as `table` does, and
        NotActive, at the beginning; at the end Fenced, BeingDeleted, BeingAltered or NotActive, and then nothing of it
        may be answered.

        Why that is enough (TA28): at the end the table is looked at first, and then the lease, which must be the one of
        the beginning. A lease that is valid then was valid at the look, so no change was committed by then that this
        node had not applied as prepared; and one that it had would have shown at the look. So the definition was in
        force at the look, and all that was read inside was read before. An answer that is sent later is one of then.
        For a client nobody waits: it may be older, by what `age_ms` says and by how long the read took.
        """
        return self._use(ObjectKind.TABLE, at_least, max_age_s, lambda now, ms: now.table(name, ms))

    def viewing(
        self, name: str, *, at_least: Position | None = None, max_age_s: float | None = None
    ) -> contextlib.AbstractContextManager[View]:
        """As `using`, through a view: at the end neither the view nor its table is another one."""
        return self._use(ObjectKind.VIEW, at_least, max_age_s, lambda now, ms: now.view(name, ms))

    def writing(self, name: str, *, at_least: Position | None = None) -> contextlib.AbstractContextManager[Table]:
        """Write to a table: as `using`, never stale. Its `token` travels with each write, its `writable` columns are
        those that may be set. If this raises at its end the write must not be acknowledged; the token sees to it that
        it does no harm to another table, however late it arrives (TA29)."""
        return self._use(None, at_least, None, lambda now, ms: now.table(name, ms))

    def allows(
        self,
        principal: str,
        privilege: Privilege,
        name: str,
        *,
        at_least: Position | None = None,
        max_age_s: float | None = None,
    ) -> bool:
        """Whether a grant gives the principal this right on exactly this object: on a server from the commit of the
        grant on, until its revocation is prepared. A client may honour a right for a fence longer: it raises Fenced
        when it has heard of nothing for that long, unless `max_age_s` says how long a revoked right may be honoured,
        which is then logged.

        Raises Fenced; NotCaughtUp if this node has not applied `at_least`, the position from which the asker knows of
        a grant: so it is never denied by a node that has not heard of it (TA27); BadInput for what is no right, and for
        `max_age_s` of a server, whose word is proven or not given.
        """
        if not isinstance(privilege, Privilege):
            raise BadInput(f"{privilege!r} is no right.", hint="Give Privilege.READ or Privilege.WRITE.")
        if max_age_s is not None and self._kind is NodeKind.SERVER:
            raise BadInput("A server answers for rights under its lease.", hint="Leave `max_age_s` out.")
        with self._answering(None, max_age_s) as age_ms:
            found = self._found(at_least, lambda now, _: now.privileges(f"{principal}@{name}"))
            if not self.lease.is_valid:
                _LOGGER.warning(
                    "%s answers for a right on %s as it was %d ms ago, for it may.", self.name, name, age_ms or 0
                )
        return privilege in found

    def ttl_ms(self, name: str) -> int | None:
        """For how long rows of a table are to be kept, FOREVER if they never expire; None: delete nothing now.

        None while this node is fenced, or a client, which proves nothing; while the state of the cluster lets nothing
        expire; while it does not know the table, and while that is created, dropped or renamed. Never raises.
        """
        if self._kind is not NodeKind.SERVER:
            return None
        try:
            with self.lease.reading():
                self._hooks.serving.require(Operation.EXPIRE)
                found = self._published.usable_table(name)
        except Exception:  # noqa: BLE001 (whatever it is, nothing is proven, so nothing may be deleted)
            return None
        return found.ttl_ms if found else None

    def table_of(
        self, incarnation: int, *, at_least: Position | None = None, max_age_s: float | None = None
    ) -> Table | None:
        """The table of this incarnation, whatever its name; None if it cannot be used now. As old as `table` says;
        stale only by `max_age_s`. Raises Fenced and NotCaughtUp."""
        with self._answering(None, max_age_s) as age_ms:
            found = self._found(at_least, lambda now, _: now.table_of(incarnation))
        return found and _aged(found, age_ms)

    def is_closed(self, incarnation: int, column: int | None = None) -> bool:
        """Whether what a disk has under this incarnation of a table, or under the number of a column in it, is closed:
        nobody will ever read it, and it may be deleted. False as long as that is not proven.

        A service asks for all that it finds when it has joined, at the earliest in `on_joined`, and at each join: what
        was closed while this node was away is told by nothing else. It needs no lease, for what is closed stays so.
        """
        with self._session.folding:
            core = self._session.core
            return core.has_joined and self._published.is_closed(core.state, incarnation, column)

    def _catching_up(self, position: Position) -> Pending[None]:
        def late(timeout_s: float) -> NotCaughtUp:
            return self._behind(position, f" after {timeout_s:g} s")

        caught_up = self._waits.when(lambda: self._session.core.applied.position >= position or None)
        return Pending(caught_up, lambda _: None, late)

    def _look(self, kind: ObjectKind, at_least: Position | None, max_age_s: float | None, find: Find[Looked]) -> Looked:
        with self._answering(kind, max_age_s) as age_ms:
            found = self._found(at_least, find)
        return _aged(found, age_ms)

    @contextlib.contextmanager
    def _use(
        self, stale: ObjectKind | None, at_least: Position | None, max_age_s: float | None, find: Find[Used]
    ) -> Iterator[Used]:
        """`stale`: answer as stale as is allowed for this kind; None for what has effects."""
        writing = stale is None
        began_ns = self._clock.boottime_ns()
        with self._answering(stale, max_age_s) as age_ms:
            begun = self._hooks.serving.begin(writing=writing)
            found = self._found(at_least, find)
            try:
                yield _aged(found, age_ms)
            finally:
                if writing:
                    self.lease.acted(began_ns, self._clock.boottime_ns())
            self._check_still(found, find)
            self._hooks.serving.end(begun, writing=writing)

    @contextlib.contextmanager
    def _answering(self, stale: ObjectKind | None, max_age_s: float | None) -> Iterator[int | None]:
        """Around an answer, whose age it gives: under the lease, unless the kind of what is asked for, or who asks,
        lets it be older. Raises Fenced."""
        if not self._may_be_stale(stale, max_age_s):
            with self._reading():
                yield self._age_ms()
            return
        self._check_age(max_age_s)
        yield self._age_ms()
        self._check_age(max_age_s)

    def _may_be_stale(self, kind: ObjectKind | None, max_age_s: float | None) -> bool:
        """Whether an answer that is given now need not be one under the lease."""
        if self._session.failure is not None or self._stopping.is_set() or self._session.lease.anchor_ns is None:
            return False
        if self.lease.is_valid:
            return max_age_s is not None and self._kind is NodeKind.CLIENT
        return max_age_s is not None or kind in self._stale

    def _check_age(self, max_age_s: float | None) -> None:
        age_ms = self._age_ms()
        if max_age_s is not None and age_ms is not None and not age_ms <= max_age_s * 1_000:
            message = f"Node {self.name!r} last heard of the cluster {age_ms} ms ago, and {max_age_s:g} s were allowed."
            raise Fenced(message, retry_after_ms=self._session.heartbeat_ms, hint="Try again, or ask another node.")

    def _age_ms(self) -> int | None:
        """How old an answer may be that is given now; None if it is proven to be of now."""
        anchor_ns = self._session.lease.anchor_ns
        if anchor_ns is None or (self._kind is NodeKind.SERVER and self.lease.is_valid):
            return None
        return -((anchor_ns - self._clock.boottime_ns()) // _NS_PER_MS)  # rounded up

    def _found(self, at_least: Position | None, find: Find[Named]) -> Named:
        self._check_applied(at_least)
        return find(self._published, self._session.heartbeat_ms)

    def _check_applied(self, at_least: Position | None) -> None:
        if at_least is not None and self._session.core.applied.position < at_least:
            raise self._behind(at_least, "")

    def _check_still(self, begun: Used, find: Find[Used]) -> None:
        """Raise if what an operation began with is another object by now, or not as it was."""
        try:
            now = self._found(None, find)
        except NotFound:
            now = None
        noun = f"{type(begun).__name__} {begun.name!r}"
        if now is None or now.incarnation != begun.incarnation:
            message = f"{noun} was deleted while this ran."
            raise BeingDeleted(message, retry_after_ms=0, hint="Begin again: there may be another of that name.")
        if now.tokens != begun.tokens:
            raise BeingAltered(f"{noun} was changed while this ran.", retry_after_ms=0, hint="Begin again.")

    def _behind(self, position: Position, when: str) -> NotCaughtUp:
        applied = self._session.core.applied.position
        message = f"Node {self.name!r} has applied position {applied}, and not {position} yet{when}."
        return NotCaughtUp(message, hint="Try again, or ask another node.")

    @property
    def _published(self) -> Published:
        return self._hooks.of_objects.now


def _aged(found: Looked, age_ms: int | None) -> Looked:
    return found if age_ms is None else msgspec.structs.replace(found, age_ms=age_ms)
