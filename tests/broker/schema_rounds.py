"""Rounds in which one of three members is stopped and goes on while tables change, and all answers are judged.

A round is a seed: who is stopped, when and for how long, and what the operator asks meanwhile. The changes of a seed
are always the same; what the machine does meanwhile is not.
"""

import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from tests.broker.conftest import Process, Site, eventually
from tests.broker.schema_answers import PRINCIPALS, TABLES, Answer, answers
from tests.broker.schema_judge import Era, Eras, stale
from tests.broker.schema_operator import Operator, commits_of
from tests.unit.streams.rules.changing import INT, LONG, add, alter, database, drop, drop_column, grant, retype, table

from topolog.events.ids import Position
from topolog.events.object_definition import ObjectKind, Privilege, Statement, Verb
from topolog.events.objects import object_row

FENCE_MS = 1_000
READERS = ("n1", "n2", "n3")
PAUSE_S = 0.2
STOPS_S = (0.3, 0.9, 1.4)
"""Shorter than the fence, about as long, nearly as long as anybody waits for it."""
MISSED_MAX = 3

READER = "tests.broker.schema_reader"


def wait(seconds: float) -> None:
    threading.Event().wait(seconds)


class Played(msgspec.Struct, frozen=True):
    """`commits`: how many there were, `missed` of them while a member was stopped. `stale`: answers that nothing
    justifies."""

    seed: int
    answers: int
    commits: int
    missed: int
    seconds: float
    stale: Sequence[tuple[Answer, Sequence[Era]]]


class Rounds:
    """Rounds on one cluster, which has a coordinator. To be closed."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._folder = folder
        self._page = 0
        command = [sys.executable, "-m", READER, site.cluster]
        self._readers = {name: site.started([*command, name, site.bootstrap, str(folder)]) for name in READERS}
        for reader in self._readers.values():
            reader.hear("member")
        self._operator = Operator(site.kafka, site.cluster).__enter__()
        self._operator.change(database(), *(table(name, note=INT, more=INT) for name in TABLES))
        self._eras = Eras(self._operator.asked_ns)
        for known in self._operator.known:
            self._eras.read(known)

    def break_one(self, name: str) -> None:
        """The member answers by what it knows now, whatever comes, and whether it holds a lease or not.

        It knows all changes so far as ended: about one that it knows as open it would never say anything.
        """
        told = self._operator.known[-1].folded.place.position
        eventually(lambda: self._position(self._readers[name]) >= told, f"{name} to have read all changes")
        self._readers[name].tell(do="break")
        self._readers[name].hear("broken")

    def close(self) -> None:
        """The members leave, and are well, but for one that was broken."""
        self._operator.__exit__(None, None, None)
        for reader in self._readers.values():
            assert reader.leave() == 0, reader.complaints

    def play(self, seed: int) -> Played:
        began_s, chance = time.monotonic(), random.Random(seed)
        first = len(self._operator.known)
        self._turn()
        victim, stopped_ns = self._readers[chance.choice(READERS)], list[int]()
        is_long = chance.random() < 0.5
        lasts = partial(self._miss, chance.randint(1, MISSED_MAX)) if is_long else partial(wait, chance.choice(STOPS_S))
        stop = partial(self._stop, victim, chance.random() / 4, lasts, stopped_ns)
        stopping = threading.Thread(target=stop)
        stopping.start()
        while stopping.is_alive():
            self._ask(chance)
            stopping.join(chance.random() * PAUSE_S)
        self._operator.eventually(lambda: not self._operator.open_changes(), "every change to end")
        for name, reader in self._readers.items():
            eventually(partial(self._is_valid, reader), f"{name} to serve again")
        eventually(self._has_all_answered, "an answer of each member")
        return self._judge(seed, first, stopped_ns, began_s)

    def _stop(self, victim: Process, after_s: float, lasts: Callable[[], None], stopped_ns: list[int]) -> None:
        """Notes when it was stopped, and when it went on."""
        wait(after_s)
        victim.send(signal.SIGSTOP)
        stopped_ns.append(time.monotonic_ns())
        try:
            lasts()
        finally:
            stopped_ns.append(time.monotonic_ns())
            victim.send(signal.SIGCONT)

    def _miss(self, commits: int) -> None:
        """Return when there were so many more commits."""
        goal = self._operator.commits + commits
        self._operator.eventually(lambda: self._operator.commits >= goal, "commits while a member is stopped")

    def _turn(self) -> None:
        self._page += 1
        for reader in self._readers.values():
            reader.tell(do="turn", page=self._page)
            reader.hear("turned")

    def _is_valid(self, reader: Process) -> bool:
        return self._position(reader) >= 0

    def _position(self, reader: Process) -> int:
        """Up to where it serves; -1 while it holds no lease."""
        reader.tell(do="require")
        return int(reader.hear("valid", "error").get("position", -1))

    def _has_all_answered(self) -> bool:
        return {each.node for each in answers(self._folder, self._page)} == set(READERS)

    def _ask(self, chance: random.Random) -> None:
        """A change, by how things stand, or stood a moment ago; most are waited for, some of them cancelled."""
        deadline_ms = chance.choice((None, None, None, 300))
        request = self._operator.ask(self._statement(chance), deadline_ms=deadline_ms)
        row = self._operator.outcome(request)
        if chance.random() < 0.7 and row.subject.startswith("change "):
            number = Position(int(row.subject.removeprefix("change ")))
            if chance.random() < 0.1:
                self._operator.cancel(number)
            self._operator.eventually(lambda: number not in self._operator.open_changes(), f"the end of {number}")

    def _statement(self, chance: random.Random) -> Statement:
        if chance.random() < 0.25:
            return self._right(f"{chance.choice(PRINCIPALS)}@{TABLES[0]}")
        name = chance.choice(TABLES)
        with self._operator.looking() as state:
            row = object_row(state, name)
        if row is None or row.definition is None:
            return table(name, note=INT, more=INT)
        word = f"c{row.columns_ever}"
        others = [each.name for each in row.definition.columns if each.name != "id"]
        narrow = [each.name for each in row.definition.columns if each.type is INT]
        possible = [drop(name), alter(name, add(word, INT)), self._ttl(name, chance)]
        if others:
            possible.append(alter(name, drop_column(chance.choice(others))))
        if narrow:
            possible.append(alter(name, retype(chance.choice(narrow), LONG)))
        return chance.choice(possible)

    def _right(self, name: str) -> Statement:
        with self._operator.looking() as state:
            is_there = object_row(state, name) is not None
        return drop(name, ObjectKind.GRANT) if is_there else grant(name, Privilege.READ)

    def _ttl(self, name: str, chance: random.Random) -> Statement:
        return Statement(Verb.ALTER, ObjectKind.TABLE, name, ttl_ms=chance.choice((0, 60_000, 120_000)))

    def _judge(self, seed: int, first: int, stopped_ns: Sequence[int], began_s: float) -> Played:
        """All answers on the page, by what the log has made of their names."""
        told = self._operator.known[first:]
        for known in told:
            self._eras.read(known)
        page = list(answers(self._folder, self._page))
        found = list(stale(page, self._eras))
        for path in self._folder.glob(f"{self._page}.*.answers"):
            path.unlink()
        commits = [known.ns for known in told for _ in commits_of(known.folded)]
        missed = sum(stopped_ns[0] < ns < stopped_ns[1] for ns in commits)
        return Played(seed, len(page), len(commits), missed, time.monotonic() - began_s, found)
