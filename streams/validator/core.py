"""A validator without its thread, its clock and its tables: what it reads in the log, and what it is to do about it.

Threats. The process dies after it has worked and before it could say so, or after it has said so and before that is
decided; another process serves its replica and does not know of it; a task is taken back while it is under way; a read
point is given back that another session reads at.

Invariant. Of each attempt at most one answer leaves this life, and none once the log no longer asks for it. Nothing
begins before the log has been read to its end. A read point is held as long as the log says that somebody may read at
it.

Argument. Nothing is kept beside the log but what this life has under way. A new life declares its replicas anew, after
which the log asks it, and no other, for all that is not answered; it begins that again, under the same attempt, and its
pages carry its own life. What is answered the log no longer asks for. A life that finds its replica declared by another
one has been replaced: it stops, and declares nothing again, or two would take it from each other for ever.
"""

from collections.abc import Collection, Iterable

import msgspec

from topolog.events import repair_requests as rr
from topolog.events.asked import RequestId
from topolog.events.asking import OpenRequests, encode_request, refusal_of
from topolog.events.errors import Refused, TopologError
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.log import Entry
from topolog.events.repair import TaskCompleted
from topolog.events.repair_tasks import Result, TaskId, TaskKind
from topolog.events.replica import Cut, ReplicaDefinition
from topolog.events.replicas import ReplicaDeclared, ReplicaRow, replica, replica_key
from topolog.events.requesters import highest_of, requester_of
from topolog.events.requests import OutcomeRow, RequestRefused, Status, outcome_of
from topolog.events.sessions import SegmentRow, SessionRow, session
from topolog.events.state import State
from topolog.events.terms import ClusterRow
from topolog.streams.validator.tasks import Work, counted_on, cuts_needed, due, is_listed

CUTS_SEEN_MAX = 256
"""Read points that a life which starts finds in the log, and gives back if nobody reads at them."""

_KINDS = frozenset({ReplicaRow.KIND, SessionRow.KIND, SegmentRow.KIND})


class Begin(msgspec.Struct, frozen=True):
    """Do this task, and say how it has ended by `Core.ended`."""

    work: Work


class Stop(msgspec.Struct, frozen=True):
    """The log no longer asks for this task of this replica, which is under way."""

    replica: str
    task: TaskId


class Release(msgspec.Struct, frozen=True):
    """Nobody will read at this read point of this replica any more."""

    replica: str
    cut: Cut


Action = Begin | Stop | Release


class Ended(msgspec.Struct, frozen=True):
    """How a task has ended: by `result`, or by `code` and `message`. `definition`: what the replica is, if that was
    looked at."""

    task: TaskId
    rows: int = 0
    bytes: int = 0
    result: Result | None = None
    code: str = ""
    message: str = ""
    definition: ReplicaDefinition | None = None


class Outgoing(msgspec.Struct, frozen=True):
    """A request to append, under this key."""

    id: RequestId
    key: str
    value: bytes


class _Standing(msgspec.Struct):
    """One replica of this validator. `is_declared`: the log has said that this life serves it."""

    definition: ReplicaDefinition
    declaring: RequestId | None = None
    is_declared: bool = False
    is_lost: bool = False
    work: Work | None = None
    is_stopping: bool = False


class Core:
    """`life` is a random number of this process; `name` stands in its requests, which are unique to it."""

    def __init__(self, definitions: Iterable[ReplicaDefinition], life: int, name: str = "validator") -> None:
        self.life = life
        self.name = name
        self.actions: list[Action] = []
        self.outbox: list[Outgoing] = []
        self.said: list[str] = []
        self.failure: TopologError | None = None
        self._standing = {each.id: _Standing(each) for each in definitions}
        self._served = {id_: (each.definition.table, each.definition.name) for id_, each in self._standing.items()}
        self._ids = OpenRequests(requester_of(name, life), lambda requester: highest_of(self.state, requester))
        self._unanswered: dict[RequestId, Outgoing] = {}
        self._progress: dict[TaskId, RequestId] = {}
        self._told: dict[TaskId, tuple[int, int]] = {}
        self._answered: set[TaskId] = set()
        self._held: set[tuple[str, Cut]] = set()
        self._fresh: dict[TaskId, tuple[str, Cut]] = {}
        self._seen: dict[tuple[str, Cut], None] = {}
        self._is_leaving = False
        self.begin_from(Fold())

    @property
    def state(self) -> State:
        return self.fold.state

    @property
    def is_resting(self) -> bool:
        """Whether no task is under way."""
        return not self.busy

    @property
    def busy(self) -> int:
        """How many replicas have a task under way."""
        return sum(each.work is not None for each in self._standing.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, and every request has its outcome."""
        return self.is_resting and not self._unanswered

    @property
    def lost(self) -> Collection[str]:
        """Replicas that others serve by now, or that an operator has withdrawn."""
        return [id_ for id_, each in self._standing.items() if each.is_lost]

    def begin_from(self, fold: Fold) -> None:
        """Go on from what another fold has read; what this life has done already stays done."""
        self.fold = fold
        self._is_dirty = True

    def read(self, entry: Entry) -> list[Folded] | Ignored:
        """One record of `decisions`; raises what `Fold.read` raises."""
        found = self.fold.read(entry.stamp, entry.value)
        if not isinstance(found, Ignored):
            for folded in found:
                self._note(folded)
        return found

    def advance(self) -> None:
        """The log has been read to its end: do what follows."""
        self._is_dirty = self._is_dirty or any(kind in _KINDS for kind, _ in self.state.drain())
        if not self._is_dirty:
            return
        self._is_dirty = False
        for id_, standing in self._standing.items():
            self._stand(id_, standing)
        for id_, standing in self._standing.items():
            self._stop_unlisted(id_, standing)
        self._release_cuts()
        self._forget()
        if not self._is_leaving:
            self._begin_due()

    def progressed(self, task: TaskId, rows: int, size: int) -> None:
        """How far a task has come; said if it has grown, and if the last time that it was said is decided."""
        told = self._told.get(task, (0, 0))
        has_grown = rows > told[0] or size > told[1]
        if not has_grown or task in self._progress or task in self._answered or not self._is_listed(task):
            return
        self._told[task] = (max(rows, told[0]), max(size, told[1]))
        self._progress[task] = self._report(Ended(task, *self._told[task]))

    def ended(self, ended: Ended) -> None:
        """A task is no longer under way; it is answered if the log still asks for it."""
        standing = next(each for each in self._standing.values() if each.work and each.work.task == ended.task)
        work, standing.work = standing.work, None
        was_stopped, standing.is_stopping = standing.is_stopping, False
        assert work is not None
        self._is_dirty = True
        if ended.definition is not None:
            standing.definition = ended.definition
        if ended.result is not None and ended.result.cut is not None:
            self._fresh[ended.task] = (work.replica, ended.result.cut)
        if was_stopped or not self._is_listed(ended.task):
            self.said.append(f"{ended.task} is not wanted any more: it is not answered.")
            return
        rows, size = self._told.get(ended.task, (0, 0))
        told = msgspec.structs.replace(ended, rows=max(ended.rows, rows), bytes=max(ended.bytes, size))
        self._report(told)
        self._answered.add(ended.task)
        self.said.append(f"{ended.task} {_how(ended)}")

    def resend(self, request: RequestId) -> None:
        """The broker did not take it: the same bytes again, unless it has its outcome."""
        if request in self._unanswered:
            self.outbox.append(self._unanswered[request])

    def withdraw(self) -> None:
        """Serve nothing from now on, and say so; what is under way is stopped.

        A session that counts on a replica would end by that. It waits for the next life instead, as behind a crash, for
        as long as it waits for anybody: validators are restarted more often than they go away.
        """
        if self._is_leaving:
            return
        self._is_leaving = True
        awaited = counted_on(self.state, self._served)
        for id_, standing in self._standing.items():
            if standing.work is not None and not standing.is_stopping:
                standing.is_stopping = True
                self.actions.append(Stop(id_, standing.work.task))
            is_known = (standing.is_declared or standing.declaring is not None) and not standing.is_lost
            if is_known and id_ in awaited:
                self.said.append(f"{id_} is not withdrawn: a session waits for its next life.")
            elif is_known:
                table, name = self._served[id_]
                self._ask(rr.ReplicaWithdrawalRequested(*self._head("it stops"), table, name, self.life))

    # What is read.

    def _note(self, folded: Folded) -> None:
        event = folded.event
        match event:
            case ReplicaDeclared() if event.life == self.life and event.replica.id in self._standing:
                self._standing[event.replica.id].is_declared = True
            case TaskCompleted():
                self._note_cut(event)
        ref = getattr(event, "request", None)
        request = RequestId(ref.requester, ref.sequence) if ref is not None else None
        if request is not None and self._unanswered.pop(request, None) is not None:
            self._ids.close(request)
            self._conclude(request, outcome_of(self.state, request), event)

    def _note_cut(self, event: TaskCompleted) -> None:
        """A former life may have died before it gave this back, and after the session that needed it had ended."""
        row = session(self.state, event.task.session)
        id_ = replica_key(row.definition.table, event.task.replica) if row else ""
        if event.result.cut is not None and id_ in self._standing:
            self._seen[id_, event.result.cut] = None
        while len(self._seen) > CUTS_SEEN_MAX:
            del self._seen[next(iter(self._seen))]

    def _conclude(self, request: RequestId, outcome: OutcomeRow | None, event: object) -> None:
        """An own request has its outcome."""
        self._is_dirty = True
        self._progress = {task: each for task, each in self._progress.items() if each != request}
        for standing in self._standing.values():
            if standing.declaring == request:
                standing.declaring = None
                if outcome is not None and outcome.status is Status.REFUSED:
                    self.failure = self.failure or refusal_of(outcome)
        if isinstance(event, RequestRefused):
            self.said.append(f"{event.subject}: refused, {event.code}: {event.message}")

    # What is done.

    def _stand(self, id_: str, standing: _Standing) -> None:
        """Declare a replica, once, and again when it has become another; find out that it is served by others."""
        row = replica(self.state, *self._served[id_])
        if standing.is_lost or standing.declaring is not None or self._is_leaving:
            return
        is_ours = row is not None and row.life == self.life
        standing.is_declared = standing.is_declared or is_ours
        if standing.is_declared and not is_ours:
            standing.is_lost = True
            why = "it has been withdrawn" if row is None else "another process serves it by now"
            self.said.append(f"{id_} is served here no longer: {why}.")
            if len(self.lost) == len(self._standing):
                self.failure = Refused("REPLACED", "RE9", f"This process serves nothing any more: {why}.")
        elif not standing.is_declared or row is None or _is_another(standing.definition, row.definition):
            self._declare(standing)

    def _declare(self, standing: _Standing) -> None:
        row = self.state.get(ClusterRow, "")
        if row is None:
            return
        head = self._head("it serves this replica")
        request = rr.ReplicaDeclarationRequested(*head, standing.definition, self.life)
        standing.declaring = self._ask(request)

    def _stop_unlisted(self, id_: str, standing: _Standing) -> None:
        work = standing.work
        if work is not None and not standing.is_stopping and not self._is_listed(work.task):
            standing.is_stopping = True
            self.actions.append(Stop(id_, work.task))
            self.said.append(f"{work.task} is stopped: the log no longer asks for it.")

    def _begin_due(self) -> None:
        """One task at a time of each replica."""
        for work in self._due():
            standing = self._standing[work.replica]
            if standing.work is None and not standing.is_lost and work.task not in self._answered:
                standing.work = work
                self.actions.append(Begin(work))
                self.said.append(f"{work.task} begins: {work.step.kind.value} for {work.step.purpose.value}")

    def _release_cuts(self) -> None:
        """Give back what nobody may read at any more, even if a former life has fixed it."""
        needed = cuts_needed(self.state, self._served)
        held = self._held | needed | set(self._fresh.values()) | set(self._seen)
        self._seen.clear()
        self._fresh = {task: cut for task, cut in self._fresh.items() if self._is_listed(task)}
        kept = needed | set(self._fresh.values())
        # A replica that is fixing one may be about to give the same name again.
        fixing = {id_ for id_, each in self._standing.items() if each.work and each.work.step.kind is TaskKind.PREPARE}
        given_back = sorted((each for each in held - kept if each[0] not in fixing), key=str)
        self.actions += [Release(*each) for each in given_back]
        self._held = held.difference(given_back)

    def _forget(self) -> None:
        """What the log no longer asks for needs no remembering."""
        busy = {each.work.task for each in self._standing.values() if each.work}
        self._told = {task: told for task, told in self._told.items() if task in busy}
        self._answered = {task for task in self._answered if self._is_listed(task)}

    def _due(self) -> list[Work]:
        return due(self.state, self._served, self.life)

    def _is_listed(self, task: TaskId) -> bool:
        return is_listed(self.state, task, self._served, self.life)

    # What is said.

    def _report(self, ended: Ended) -> RequestId:
        head = self._head("")
        return self._ask(
            rr.TaskReported(
                *head, ended.task, self.life, ended.rows, ended.bytes, ended.code, ended.message, ended.result
            )
        )

    def _head(self, reason: str) -> tuple[RequestId, bytes, str, str]:
        log_id = self.fold.header.log_id
        assert log_id is not None, "something is asked before the log has begun"
        return self._ids.next_id(), log_id, self.name, reason

    def _ask(self, request: rr.RepairRequest) -> RequestId:
        row = self.state.get(ClusterRow, "")
        assert row is not None, "something is asked before the log has begun"
        outgoing = Outgoing(request.id, request.id.requester, encode_request(request, row.feature_level))
        self._unanswered[request.id] = outgoing
        self.outbox.append(outgoing)
        return request.id


def _is_another(now: ReplicaDefinition, declared: ReplicaDefinition) -> bool:
    """Whether sessions that open now would ask for the wrong thing; estimates may be old."""
    estimates = {"rows": 0, "row_bytes": 0, "boundaries": ()}
    return msgspec.structs.replace(now, **estimates) != msgspec.structs.replace(declared, **estimates)


def _how(ended: Ended) -> str:
    if ended.result is None:
        return f"has failed, {ended.code}: {ended.message}"
    result = ended.result
    skipped = f", {result.skipped} skipped" if result.skipped else ""
    return f"is done: {result.rows} rows{skipped}, {result.pages} pages, in {result.worked_ms} ms"
