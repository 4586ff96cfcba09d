"""Where trees meet: what has been sent so far, and which comparisons are due (RE22, RE6). Pure.

Threats. A page comes before the log says that it was asked for, or long after anybody asked; it comes twice, or from a
process that was given up; a session is forgotten and its trees are kept (they leaked for 48 h in 0.7); more is sent
than there is memory for.

Invariant. What is compared are answers that the log has, of the present step of a segment that runs, each pair of
attempts once in a life of this process. What is held is at most `limit`, and nothing of what the log has ended.

Argument. A page is kept if the log asks for it or may yet: its session has a number that is not folded yet, or its
step, or its attempt. All else is put aside, with a reason, and what is held is looked at again whenever the log has
moved on (`sweep`). What is due is a function of what is held and of the state: no order of arrival matters, and who
begins anew with the first page that is kept comes to the same. If there is no room, the youngest session gives way to
older ones; its pages are still in the topic, so all is to be read once more when there is room (`wants_more`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from topolog.events.errors import BadInput, RowTooLarge
from topolog.events.ids import Position
from topolog.events.merkle import Leaf
from topolog.events.repair_definition import Rendezvous
from topolog.events.repair_plan import direction
from topolog.events.repair_tasks import (
    PAGES_DAMAGED,
    ROW_TOO_LARGE,
    Findings,
    Pair,
    Result,
    Step,
    Task,
    TaskId,
    TaskKind,
    TaskStatus,
)
from topolog.events.sessions import SegmentRow, SessionRow, SessionStatus, open_sessions, running
from topolog.events.state import State
from topolog.events.tree_answers import Answer, Aside
from topolog.events.tree_pages import PageKind, TreePage
from topolog.streams.rendezvous import answers
from topolog.streams.rendezvous.comparing import Found, compared, found
from topolog.streams.rendezvous.wanted import ANSWERS, unfit, unwanted
from topolog.streams.rules.repair_steps import asked, pairs

T = TypeVar("T")

HELD_BYTES_MAX = 512 << 20
"""Pages that are held at most: some hundred trees of 2^16 leaves, or eight million digests of rows."""

KINDS = (SessionRow.KIND, SegmentRow.KIND)
"""Rows of the state on which it depends what is wanted."""


class TreesDue(msgspec.Struct, frozen=True):
    """Trees of one step that are all here, two by two."""

    session: SessionRow
    segment: SegmentRow
    step: Step
    pairs: tuple[tuple[TaskId, TaskId], ...]


class RowsDue(msgspec.Struct, frozen=True):
    """The digests of all replicas; `before` are the findings that a RECHECK looks at again."""

    session: SessionRow
    segment: SegmentRow
    step: Step
    tasks: tuple[TaskId, ...]
    before: TaskId | None


Due = TreesDue | RowsDue


class Damage(msgspec.Struct, frozen=True):
    """Why an answer cannot be compared: PAGES_DAMAGED, or ROW_TOO_LARGE if what is to be said of a row fits no page."""

    code: str
    why: str


class Compared(msgspec.Struct, frozen=True):
    """What is to be reported of one pair, or of all rows. `attempts`: whose pages were compared."""

    segment: SegmentRow
    step: Step
    attempts: tuple[TaskId, ...]
    spec_id: bytes
    result: Pair | Found


class Meeting:
    """What one process has read of the topic since it began to. `aside` counts what was put aside; `said`: of which
    people should hear."""

    def __init__(self, limit: int = HELD_BYTES_MAX) -> None:
        self.cost = 0
        self.aside: Counter[Aside] = Counter()
        self.said: list[str] = []
        self._limit = limit
        self._answers: dict[TaskId, Answer] = {}
        self._missed: set[TaskId] = set()
        self._told: set[tuple[TaskId, ...]] = set()
        self._damaged: dict[TaskId, Damage] = {}
        self._reasons: dict[TaskId, Damage] = {}

    @property
    def held(self) -> frozenset[TaskId]:
        """The attempts of which anything is held."""
        return frozenset(self._answers)

    @property
    def wants_more(self) -> bool:
        """Whether something that is wanted gave way before, and there is room by now: read all again."""
        return bool(self._missed) and self.cost <= self._limit // 2

    def begin_anew(self) -> None:
        """All pages will come again."""
        self.cost = 0
        self._answers.clear()
        self._missed.clear()
        self._damaged.clear()
        self._reasons.clear()

    def add(self, page: TreePage, state: State, position: Position) -> Aside | None:
        """One page, as it comes, beside a state that reflects `position`; why it is put aside, if it is."""
        if page.kind is PageKind.ROWS:
            return None  # from validator to validator
        aside = self._put(page, state, position)
        if aside is not None:
            self.aside[aside] += 1
        return aside

    def _put(self, page: TreePage, state: State, position: Position) -> Aside | None:
        task = page.task
        aside = unwanted(state, position, task) or unfit(state, task, page.spec_id, page.kind)
        if aside is not None:
            return aside
        if task in self._missed:
            return Aside.NO_ROOM
        answer = self._answers.setdefault(task, Answer())
        before = answer.cost
        aside = answer.add(page)
        self.cost += answer.cost - before
        if not answer.cost:
            del self._answers[task]
        while self.cost > self._limit:
            self._give_way(max(self._answers))
        return Aside.NO_ROOM if task in self._missed else aside

    def _give_way(self, task: TaskId) -> None:
        """The attempt of the youngest session; in the topic it stays."""
        self.cost -= self._answers.pop(task).cost
        self._missed.add(task)
        self.said.append(f"There is no room for the pages of {task}: they are read again when others are done.")

    def sweep(self, state: State, position: Position) -> None:
        """The log has moved on: let go of what it no longer wants, and of what it does not fit."""
        for task, answer in list(self._answers.items()):
            if unwanted(state, position, task) is not None:
                self.cost -= answer.cost
                del self._answers[task]
                continue
            before = answer.cost
            for sender in answer.senders():
                aside = unfit(state, task, sender.spec_id, sender.kind)
                if aside is not None:
                    answer.give_up(sender)
                    self.aside[aside] += 1
                    self.said.append(f"{task}: {aside.value}.")
            self.cost += answer.cost - before
        for told in (self._damaged, self._reasons):
            for task in [each for each in told if unwanted(state, position, each) is not None]:
                del told[task]
        self._missed = {task for task in self._missed if unwanted(state, position, task) is None}
        self._told = {tasks for tasks in self._told if not any(unwanted(state, position, each) for each in tasks)}

    # What is due.

    def due(self, state: State) -> list[Due]:
        """All that can be compared now and has not been, by this life or by the log."""
        return [due for owner, row, step in _running(state) if (due := self._due(owner, row, step)) is not None]

    def _due(self, owner: SessionRow, row: SegmentRow, step: Step) -> Due | None:
        done = {task.replica: task for task in row.tasks if task.status is TaskStatus.DONE and task.result is not None}
        here = {name: _id(row, step, task) for name, task in done.items() if self._is_here(owner, row, step, task)}
        if step.kind is TaskKind.LEAVES:
            if owner.definition.rendezvous is not Rendezvous.EARLY and len(here) < len(asked(row)):
                return None
            known = {(pair.left, pair.right) for pair in row.pairs}
            wanted = [pair for pair in pairs(owner, row) if pair not in known and set(pair) <= set(here)]
            named = [(here[left], here[right]) for left, right in wanted]
            due = tuple(pair for pair in named if pair not in self._told)
            return TreesDue(owner, row, step, due) if due else None
        if row.found_in == step.number or len(here) < len(asked(row)):
            return None
        tasks = tuple(here[name] for name in asked(row))
        before = _findings_id(row, step.of) if step.of else None
        if tasks in self._told or (before is not None and not self._has_findings(owner, row, before)):
            return None
        return RowsDue(owner, row, step, tasks, before)

    def _is_here(self, owner: SessionRow, row: SegmentRow, step: Step, task: Task) -> bool:
        assert owner.spec is not None
        assert task.result is not None
        return self._has(_id(row, step, task), ANSWERS[step.kind], owner.spec.id, task.result.pages)

    def _has_findings(self, owner: SessionRow, row: SegmentRow, task: TaskId) -> bool:
        assert owner.spec is not None
        is_known = row.found is not None and row.found_in == task.step
        return is_known and row.found is not None and self._has(task, PageKind.FINDINGS, owner.spec.id, row.found.pages)

    def _has(self, task: TaskId, kind: PageKind, spec_id: bytes, pages: int) -> bool:
        answer = self._answers.get(task)
        if pages == 0 and task in self._damaged:
            return False
        return pages == 0 or (answer is not None and bool(answer.whole(kind, spec_id, pages)))

    def damaged(self, state: State) -> dict[TaskId, Damage]:
        """Attempts that the log has as done, of which nothing that is here can be compared, and why. Of what is damaged
        another process may have sent more: whoever hears of it waits a while."""
        return {
            named: self._damaged.get(named) or self._reasons.get(named) or Damage(PAGES_DAMAGED, Aside.CONFLICT.value)
            for owner, row, step in _running(state)
            for task in row.tasks
            if task.status is TaskStatus.DONE
            for named in [_id(row, step, task)]
            if named in self._damaged or self._is_given_up(owner, step, named)
        }

    def _is_given_up(self, owner: SessionRow, step: Step, task: TaskId) -> bool:
        assert owner.spec is not None
        answer = self._answers.get(task)
        return answer is not None and answer.is_given_up(ANSWERS[step.kind], owner.spec.id)

    # What has come of it.

    def compare(self, due: Due, state: State) -> list[Compared]:
        """What is to be reported. What is damaged is put aside, and then there is less of it, or nothing."""
        return list(self._trees(due)) if isinstance(due, TreesDue) else list(self._rows(due, state))

    def untold(self, told: Compared) -> None:
        """It could not be reported, so it is due again."""
        self._told.discard(told.attempts)

    def _trees(self, due: TreesDue) -> Iterator[Compared]:
        spec, step = due.session.spec, due.step
        assert spec is not None
        results = _results(due.segment, step)

        def checked(task: TaskId) -> list[Leaf] | None:
            def read(payloads: Sequence[bytes]) -> list[Leaf]:
                return answers.leaves(payloads, spec.id, step.bits, step.ranges, results[task].digest)

            return self._read(task, PageKind.LEAVES, spec.id, results[task].pages, read)

        trees = {task: checked(task) for task in dict.fromkeys(task for pair in due.pairs for task in pair)}
        for left, right in due.pairs:
            one, other = trees[left], trees[right]
            if one is not None and other is not None:
                self._told.add((left, right))
                pair = compared(left.replica, right.replica, one, other, step.bits, step.ranges)
                yield Compared(due.segment, step, (left, right), spec.id, pair)

    def _rows(self, due: RowsDue, state: State) -> Iterator[Compared]:
        spec, row = due.session.spec, due.segment
        assert spec is not None
        results = _results(row, due.step)
        sent: dict[str, Sequence[bytes]] = {}
        for task in due.tasks:
            payloads = self._checked(task, PageKind.DIGESTS, spec.id, results[task])
            if payloads is not None:
                sent[task.replica] = payloads
        before: Sequence[bytes] | None = ()
        if due.before is not None:
            assert row.found is not None
            before = self._checked(due.before, PageKind.FINDINGS, spec.id, row.found)
            self._damaged.pop(due.tasks[0], None)
            if before is None:
                why = "What was found before, and is looked at again, cannot be read."
                self._damaged[due.tasks[0]] = Damage(PAGES_DAMAGED, why)
        if before is None or len(sent) < len(due.tasks):
            return
        self._told.add(due.tasks)
        rows = sum(results[task].rows for task in due.tasks)
        try:
            told = found(
                sent,
                before if due.before is not None else None,
                due.step.ranges,
                rows,
                direction(state, due.session, row),
            )
        except BadInput as error:
            code = ROW_TOO_LARGE if isinstance(error, RowTooLarge) else PAGES_DAMAGED
            self._damaged[due.tasks[0]] = Damage(code, str(error))
            self._put_aside(f"Step {due.step.number} of session {row.session}, segment {row.index}", error)
            return
        yield Compared(row, due.step, due.tasks, spec.id, told)

    def _checked(self, task: TaskId, kind: PageKind, spec_id: bytes, told: Result | Findings) -> Sequence[bytes] | None:
        def read(payloads: Sequence[bytes]) -> Sequence[bytes]:
            answers.check_digest(payloads, told.digest)
            return payloads

        return self._read(task, kind, spec_id, told.pages, read)

    def _read(
        self, task: TaskId, kind: PageKind, spec_id: bytes, pages: int, read: Callable[[Sequence[bytes]], T]
    ) -> T | None:
        """What the log vouches for of those who have sent all pages; the others are given up."""
        answer = self._answers.get(task)
        if answer is None or pages == 0:
            try:
                return read(())
            except BadInput as error:
                self._put_aside(str(task), error)
                self._damaged[task] = Damage(PAGES_DAMAGED, str(error))
                return None
        for sender in answer.whole(kind, spec_id, pages):
            try:
                return read(answer.payloads(sender))
            except BadInput as error:
                self._put_aside(str(task), error)
                self._reasons[task] = Damage(PAGES_DAMAGED, str(error))
                before = answer.cost
                answer.give_up(sender)
                self.cost += answer.cost - before
        return None

    def _put_aside(self, what: str, error: BadInput) -> None:
        self.aside[Aside.DAMAGED] += 1
        self.said.append(f"{what} is put aside: {error}")


def _running(state: State) -> Iterator[tuple[SessionRow, SegmentRow, Step]]:
    """Segments whose present step has something to compare."""
    for owner in open_sessions(state):
        if owner.status is SessionStatus.RUNNING and owner.spec is not None:
            for row in running(state, owner):
                if row.step is not None and row.step.kind in ANSWERS:
                    yield owner, row, row.step


def _results(row: SegmentRow, step: Step) -> dict[TaskId, Result]:
    return {_id(row, step, task): task.result for task in row.tasks if task.result is not None}


def _id(row: SegmentRow, step: Step, task: Task) -> TaskId:
    return TaskId(row.session, row.index, step.number, task.replica, task.attempt)


def _findings_id(row: SegmentRow, step: int) -> TaskId:
    """Under which the pages of findings stand, whoever has written them."""
    return TaskId(row.session, row.index, step, "", 0)
