"""Sessions of anti-entropy as people would tell them: the transcripts in `repair/`, compared to the letter.

A block is one or more commands, a line `----`, and what was decided. Lines that start with `#` are the story.
`TOPOLOG_WRITE_SCENARIOS=1 pytest tests/unit/streams/rules/test_repair_transcripts.py` writes them anew, for review by
`git diff`.

    replicas R1 R2 R3 rows:40     tables of so many equal rows, and their validators; first of all
    change R2 7 / lack R2 7       another version of row 7 there, or none
    poison R2 12345678            R2 cannot read what is at this token
    open preview|pull|union [within:10000000..20000000 segments:2 halves ...]      the operator asks for a session
    go [until LEAVES]             everybody works, until nothing more comes or until the session asks for that
    serve R1 / meet               just this validator works; just the rendezvous
    stop R2 / start R2            its validator dies; another serves the same table
    crash                         the coordinator dies, and another leads
    expire R2                     the deadlines with this in their key pass
    abort 5 / pause 5 / resume 5  the operator asks for it
    rows R1 / tables              the rows that are not as they were; which tables are equal
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.streams.rules.repairing import PREVIEW, PULL, UNION, World, row, rows

from topolog.events import repair as e
from topolog.events import repair_requests as rr
from topolog.events import requests as q
from topolog.events.decision import Decision
from topolog.events.errors import ReplicaFailed
from topolog.events.repair_tasks import TaskKind
from topolog.events.replicas import ReplicaDeclared
from topolog.events.terms import TermStarted
from topolog.events.token_range import Ranges, TokenRange, contains, parse

TRANSCRIPTS = sorted((Path(__file__).parent / "repair").glob("*.txt"))
SEPARATOR = "----"
ASKED = {"preview": PREVIEW, "pull": PULL, "union": UNION}


class Transcript:
    """A world, and how far its decisions have been told."""

    def __init__(self) -> None:
        self.world = World({})
        self._told = 0

    def run(self, command: str) -> list[str]:
        name, *words = command.split()
        commands: dict[str, Callable[..., list[str] | None]] = {
            each.removeprefix("do_"): getattr(self, each) for each in dir(self) if each.startswith("do_")
        }
        return (commands[name](*words) or []) + list(self._news())

    def _news(self) -> Iterator[str]:
        decided = list(self.world.decisions())
        for place, event in enumerate(decided[self._told :], start=self._told):
            if text := told(event):
                yield f"{place:>3}  {text}"
        self._told = len(decided)

    def do_replicas(self, *words: str) -> None:
        (count,) = (int(word.removeprefix("rows:")) for word in words if word.startswith("rows:"))
        self.world = World({name: rows(count) for name in words if not name.startswith("rows:")})

    def do_change(self, name: str, key: str) -> None:
        self.world.table(name).put(row(int(key), "another", 2))

    def do_lack(self, name: str, key: str) -> None:
        self.world.table(name).drop(int(key))

    def do_poison(self, name: str, token: str) -> None:
        bad = TokenRange(int(token, 16), int(token, 16) + 1)

        def poison(ranges: Ranges) -> ReplicaFailed | None:
            return ReplicaFailed("CORRUPT", "A page is damaged.") if contains(ranges, [bad]) else None

        self.world.table(name).poison = poison

    def do_open(self, kind: str, *words: str) -> None:
        said = dict(word.partition(":")[::2] for word in words)
        within = parse(said.pop("within", "full"))
        numbers = {name: int(value) if value else True for name, value in said.items()}
        self.world.open(ASKED[kind], ranges=within, **numbers)

    def do_go(self, _: str = "", kind: str = "") -> None:
        if not kind:
            self.world.run()
            return
        (number,) = self.world.open_sessions()
        self.world.run_to(TaskKind[kind], number)

    def do_serve(self, name: str) -> None:
        self.world.servers[name].step()

    def do_meet(self) -> None:
        self.world.turn_of_the_rendezvous()

    def do_stop(self, name: str) -> None:
        self.world.servers[name].is_up = False

    def do_start(self, name: str) -> None:
        self.world.restart(name)

    def do_crash(self) -> None:
        self.world.crash()

    def do_expire(self, part: str) -> None:
        self.world.expire(containing=part)

    def do_abort(self, number: str) -> None:
        self.world.ask(rr.SessionAbortRequested, int(number))

    def do_pause(self, number: str) -> None:
        self.world.ask(rr.SessionAlterationRequested, int(number), paused=True)

    def do_resume(self, number: str) -> None:
        self.world.ask(rr.SessionAlterationRequested, int(number), paused=False)

    def do_rows(self, name: str) -> list[str]:
        usual = rows()
        return [f"{each['id']}: {each['note']}" for each in self.world.table(name).content if each not in usual]

    def do_tables(self) -> list[str]:
        held = self.world.contents()
        return ["all tables are equal" if all(each == held[0] for each in held) else "the tables differ"]


def told(event: Decision) -> str:
    """One line on a decision; empty for those of which there is nothing to tell."""
    text = _told_of_segment(event)
    match event:
        case ReplicaDeclared():
            text = f"ReplicaDeclared: {event.replica.id}"
        case TermStarted():
            text = f"TermStarted: term {event.term}" if event.term > 1 else ""
        case e.SessionQueued():
            text = "SessionQueued"
        case e.SessionOpened():
            parts = "; ".join(f"{_ranges(each.ranges)} on {' '.join(each.replicas)}" for each in event.segments)
            text = f"SessionOpened: {event.definition.kind.value} of {event.definition.table}, {parts}"
        case e.SessionAltered():
            text = f"SessionAltered: paused {event.paused}"
        case e.SessionEnded():
            why = f", {event.code}: {event.message}" if event.code else ""
            left = f"; left: {_ranges(event.left)}" if event.left else ""
            text = f"SessionEnded: {event.status.value}{why}{left}"
        case q.RequestUnchanged():
            text = f"RequestUnchanged: {event.subject}"
        case q.RequestRefused():
            text = f"RequestRefused: {event.subject}, {event.code} ({event.rule}): {event.message}"
    return text


def _told_of_segment(event: Decision) -> str:
    text = ""
    match event:
        case e.StepStarted():
            bits = f", {event.step.bits} bits" if event.step.bits else ""
            without = f", without {' '.join(event.absent)}" if event.absent else ""
            what = f"{event.step.kind.value} to {event.step.purpose.value}"
            return (
                f"StepStarted: {event.segment}/{event.step.number}: {what} {_ranges(event.step.ranges)}{bits}{without}"
            )
        case e.TaskAssigned():
            text = f"TaskAssigned: {_task(event)}"
        case e.TaskCompleted():
            text = f"TaskCompleted: {_task(event)}, {event.result.rows} rows"
        case e.TaskFailed():
            text = f"TaskFailed: {_task(event)}, {event.code}: {event.message}"
        case e.PairCompared():
            pair = event.pair
            text = f"PairCompared: {pair.left} and {pair.right}: {pair.leaves} of {pair.leaves_compared} leaves differ"
        case e.RowsCompared():
            kinds = ", ".join(f"{count} {kind}" for kind, count in event.found.kinds.items()) or "none"
            copies = "".join(f"; {each.source} to {each.target}: {each.rows}" for each in event.found.copies)
            gone = f", {event.found.gone} gone" if event.found.gone else ""
            text = f"RowsCompared: {kinds}{gone}{copies}"
        case e.SegmentHalved():
            parts = " and ".join(_ranges(each.ranges) for each in event.halves)
            text = f"SegmentHalved: {event.segment} into {parts}"
        case e.SegmentEnded():
            why = f", {event.code}: {event.message}" if event.code else ""
            text = f"SegmentEnded: {event.segment} {event.status.value}{why}"
    return text


def _task(event: e.TaskAssigned | e.TaskCompleted | e.TaskFailed) -> str:
    task = event.task
    again = f", attempt {task.attempt}" if task.attempt > 1 else ""
    return f"{task.segment}/{task.step} {task.replica}{again}"


def _ranges(ranges: Ranges) -> str:
    return " ".join("full" if each.cells == 1 << 32 else str(each) for each in ranges)


def blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """(story and commands, what followed) of each block."""
    for block in text.strip().split("\n\n"):
        above, _, below = block.partition(f"\n{SEPARATOR}")
        yield above.splitlines(), below.strip("\n").splitlines()


def played(text: str) -> str:
    """The transcript as it comes out now."""
    transcript, found = Transcript(), []
    for above, _ in blocks(text):
        lines = [line for command in above if not command.startswith("#") for line in transcript.run(command)]
        found.append("\n".join([*above, SEPARATOR, *(lines or ["(nothing)"])]))
    return "\n\n".join(found) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_transcript(path: Path) -> None:
    text = path.read_text()
    now = played(text)
    if os.environ.get("TOPOLOG_WRITE_SCENARIOS"):
        path.write_text(now)
    assert now == path.read_text()


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 5
