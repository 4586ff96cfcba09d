"""A cluster that lives while a test looks elsewhere: all that fills its topics happens again and again."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.broker.conftest import Process, eventually
from tests.broker.crash_site import CrashSite

from topolog.events.topics import Topic

NAMES = ("n1", "n2", "n3")
PAUSE_S = 0.3
TYPES, GROUPS = 20, 4
PROPOSALS = 20
"""So many for each death of a node, or of who leads."""


class Life:
    """A cluster, alive from the beginning of a `with` to its end. `lived` counts what has happened in it."""

    def __init__(self, site: CrashSite, chance: random.Random) -> None:
        self.lived: Counter[str] = Counter()
        self._site = site
        self._chance = chance
        self._members: dict[str, Process] = {}
        self._coordinators: dict[str, Process] = {}
        self._leaders_die = True
        self._turn = threading.Lock()
        self._ending = threading.Event()
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> "Life":
        for _ in range(2):
            self._coordinate()
        for name in NAMES:
            self._join(name)
        self._done = self._thread.submit(self._live)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.shutdown()
        self._done.result()

    def settle(self) -> None:
        """From here on no leader dies; what the last one's death has left in the log has decisions behind it."""
        with self._turn:
            self._leaders_die = False
            proposed = self.lived["proposed"]
        eventually(lambda: self.lived["proposed"] > proposed, "a decision of who leads")

    def _live(self) -> None:
        acts = [*[self._propose] * PROPOSALS, self._declare, self._disturb, self._kill, self._leave, self._behead]
        while True:
            self._chance.shuffle(acts)
            for act in acts:
                if self._ending.wait(PAUSE_S):
                    return
                with self._turn:
                    act()

    def _propose(self) -> None:
        number = next(self._site.numbers)
        self._ask("proposed", do="propose", type=f"T{number % TYPES}", fields={f"f{number}": "long"})

    def _declare(self) -> None:
        self._ask("group", do="group", group=f"g{next(self._site.numbers) % GROUPS}")

    def _ask(self, said: str, **order: object) -> None:
        """Have a node propose; one that a busy machine has cost its lease begins another life."""
        name = self._chance.choice(NAMES)
        self._members[name].tell(**order)
        if self._members[name].hear(said, "error", "left")["said"] == said:
            self.lived[said] += 1
        else:
            self._members[name].kill()
            self._join(name)

    def _disturb(self) -> None:
        """What is no request becomes a dead letter."""
        self._site.put(Topic.REQUESTS, "k", b"no request")
        self.lived["disturbed"] += 1

    def _kill(self) -> None:
        name = self._chance.choice(NAMES)
        self._members[name].kill()
        self.lived["killed"] += 1
        self._join(name)

    def _leave(self) -> None:
        name = self._chance.choice(NAMES)
        self._members[name].leave()
        self.lived["left"] += 1
        self._join(name)

    def _join(self, name: str) -> None:
        self._members[name] = self._site.forked("member", self._site.cluster, name, self._site.bootstrap, "True")
        self._members[name].hear("member")

    def _behead(self) -> None:
        if self._leaders_die:
            self._coordinators.pop(self._site.leader()).kill()
            self.lived["beheaded"] += 1
            self._coordinate()

    def _coordinate(self) -> None:
        name = f"c{next(self._site.numbers)}"
        self._coordinators[name] = self._site.coordinator(name)
