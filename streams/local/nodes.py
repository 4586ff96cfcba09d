"""The nodes of the demo while `up` runs: more are started, some are killed, paused, continued, and all are stopped.

What is asked for comes through the door (door.py). A node is refused what it cannot be asked for now, in words that
say what it is doing instead; nobody is signalled but a child of ours that runs.
"""

import re
import signal
import time
from collections.abc import Callable

from topolog.events.errors import BadInput
from topolog.streams.local.children import Child, Children, Say
from topolog.streams.local.door import Act, Question
from topolog.streams.local.node_folders import NodeFolders
from topolog.streams.local.process import is_paused
from topolog.streams.local.roles import Role, demo_command

NODES_MAX = 16
"""As many as a machine can bear: each is a Python process with its sentinel."""

TAKES_EFFECT_S = 2.0
"""Longer than a signal takes to reach a process, however busy the machine is."""

LOOK_AGAIN_S = 0.005


class Nodes:
    """`make` gives the role of a node by its name."""

    def __init__(
        self,
        first: tuple[Role, ...],
        make: Callable[[str], Role],
        children: Children,
        folders: NodeFolders,
        say: Say,
    ) -> None:
        self._roles = {role.name: role for role in first}
        self._make = make
        self._children = children
        self._folders = folders
        self._say = say
        self._goes_on_at: dict[str, float] = {}

    @property
    def roles(self) -> tuple[Role, ...]:
        return tuple(self._roles.values())

    def start(self) -> None:
        self._children.start(self.roles)

    def watch(self) -> None:
        """Continue those whose pause is over."""
        for name, at in list(self._goes_on_at.items()):
            if time.monotonic() >= at:
                del self._goes_on_at[name]
                if self._is_paused(name):
                    self._say(self._resume(name))

    def answer(self, question: Question) -> tuple[str, ...]:
        """What was done, a sentence for each node. Raises BadInput, and then nothing was."""
        if not self._roles:
            raise BadInput("This `topolog up` runs no demo.", hint="Stop it, and start it with --demo.")
        names = tuple(dict.fromkeys(question.nodes))
        match question.act:
            case Act.NAMES:
                return tuple(self._roles)
            case Act.ADD:
                return self._add(names or (self._next(),))
            case Act.KILL:
                return self._kill_named([self._running(name) for name in names])
            case Act.PAUSE:
                self._check_all(names, paused=False)
                return tuple(self._pause(name, question.for_ms) for name in names)
            case Act.RESUME:
                self._check_all(names, paused=True)
                return tuple(self._resume(name) for name in names)
            case Act.POWER_CUT:
                return self._cut_power()
            case Act.POWER_ON:
                return self._switch_on(names)
            case Act.BACK_UP | Act.RESTORE | Act.WIPE:
                return self._about_folders(question.act, names)

    def _add(self, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            number = re.fullmatch(r"n([1-9]\d*)", name)
            if number is None or int(number[1]) > NODES_MAX:
                raise BadInput(f"{name!r} is no node of the demo.", hint=f"They are n1 to n{NODES_MAX}.")
            if self._process(name):
                raise BadInput(
                    f"Node {name} runs (pid {self._children[name].pid}).", hint="Without a name the next one is added."
                )
        return self._start([self._roles.setdefault(name, self._make(name)) for name in names])

    def _start(self, roles: list[Role]) -> tuple[str, ...]:
        self._children.watch()  # so that the end of its former process is said, and before this
        self._children.start(roles)
        return tuple(f"{role.title} starts (pid {self._children[role.name].pid})" for role in roles)

    def _kill_named(self, children: list[Child]) -> tuple[str, ...]:
        pids = [child.pid for child in children]
        self._kill(children)
        return tuple(
            f"{child.role.title} is killed (pid {pid}); back with: {child.role.by_hand}"
            for child, pid in zip(children, pids, strict=True)
        )

    def _cut_power(self) -> tuple[str, ...]:
        names = [name for name in self._roles if self._process(name)]
        if not names:
            hint = f"To start them: {demo_command(self.roles[0], 'power-on')}"
            raise BadInput("No node runs.", hint=hint)
        self._kill([self._children[name] for name in names])
        back = demo_command(self._roles[names[0]], "power-on")
        return (f"the power of nodes {', '.join(names)} is cut, at one moment; back with: {back}",)

    def _switch_on(self, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            self._check_known(name)
        off = [role for role in self.roles if not self._process(role.name)]
        wanted = [role for role in off if role.name in names or not names]
        if len(wanted) < len(names) or not wanted:
            running = [name for name in names or tuple(self._roles) if self._process(name)]
            raise BadInput(
                f"Node {running[0]} runs (pid {self._children[running[0]].pid}).",
                hint="Name nodes that are off; without a name all of these start.",
            )
        order = names or tuple(self._roles)
        return self._start(sorted(wanted, key=lambda role: order.index(role.name)))

    def _about_folders(self, act: Act, names: tuple[str, ...]) -> tuple[str, ...]:
        """A node that runs keeps the files that it has open: only a copy is made of them."""
        for name in names:
            self._check_known(name)
            if act is not Act.BACK_UP and self._process(name):
                message = f"Node {name} runs (pid {self._children[name].pid}), with its folder."
                raise BadInput(message, hint=f"Stop it first: {demo_command(self._roles[name], 'kill')} {name}")
            if act is Act.BACK_UP:
                self._folders.check_folder(name)
            if act is Act.RESTORE:
                self._folders.check_backup(name)
        return tuple(self._about_folder(act, name) for name in names)

    def _about_folder(self, act: Act, name: str) -> str:
        match act:
            case Act.BACK_UP:
                return f"the folder of node {name} is kept as it is now: {', '.join(self._folders.back_up(name))}"
            case Act.RESTORE:
                self._folders.restore(name)
                return f"the folder of node {name} is that of its backup; start it with: {self._roles[name].by_hand}"
            case _:
                self._folders.wipe(name)
                return f"the folder of node {name} is empty; start it with: {self._roles[name].by_hand}"

    def _kill(self, children: list[Child]) -> None:
        """All stand still before the first of them is killed: none of them sees another one die."""
        for child in children:
            child.send(signal.SIGSTOP)
        self._await(lambda: all(self._is_paused(child.role.name) for child in children))
        for child in children:
            child.send(signal.SIGKILL)
        for child in children:
            self._await(lambda child=child: child.process is None or child.process.poll() is not None)  # type: ignore[misc]
            self._goes_on_at.pop(child.role.name, None)

    def _pause(self, name: str, for_ms: int | None) -> str:
        """A process stands still once it has been given the processor to do so."""
        child = self._running(name)
        child.send(signal.SIGSTOP)
        self._await(lambda: self._is_paused(name))
        until = "until it is resumed"
        if for_ms is not None:
            self._goes_on_at[name] = time.monotonic() + for_ms / 1000
            until = f"for {for_ms / 1000:g} s"
        return f"{child.role.title} is paused (pid {child.pid}) {until}"

    def _resume(self, name: str) -> str:
        child = self._running(name)
        self._goes_on_at.pop(name, None)
        child.send(signal.SIGCONT)
        return f"{child.role.title} goes on (pid {child.pid})"

    def _check_all(self, names: tuple[str, ...], *, paused: bool) -> None:
        for name in names:
            self._running(name)
            if self._is_paused(name) is not paused:
                hint = "Only a paused node can go on." if paused else f"`topolog demo resume {name}` lets it go on."
                raise BadInput(f"Node {name} is {'not paused' if paused else 'paused already'}.", hint=hint)

    def _running(self, name: str) -> Child:
        self._check_known(name)
        if not self._process(name):
            raise BadInput(f"Node {name} does not run.", hint=f"To start it: {self._roles[name].by_hand}")
        return self._children[name]

    def _check_known(self, name: str) -> None:
        if name not in self._roles:
            raise BadInput(f"There is no node {name!r}.", hint=f"There are {', '.join(self._roles)}.")

    def _process(self, name: str) -> bool:
        return name in self._roles and self._children.is_running(self._roles[name])

    def _is_paused(self, name: str) -> bool:
        pid = self._children[name].pid
        return self._process(name) and pid is not None and is_paused(pid)

    def _next(self) -> str:
        """The first number that nobody has had here."""
        return next(name for number in range(1, NODES_MAX + 2) if (name := f"n{number}") not in self._roles)

    @staticmethod
    def _await(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TAKES_EFFECT_S
        while not holds() and time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN_S)
