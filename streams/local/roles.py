"""The processes that `topolog up` runs, and the settings that it hands them.

The children get every setting in their environment and read no file: what was in force when `up` started is in force
for each role, also for one that is started again after somebody has edited topolog.toml.
"""

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from topolog.settings.model import Settings
from topolog.settings.sources import NOT_SETTINGS, PREFIX
from topolog.settings.types import duration_text

DEMO_NODES = 5
DEMO_CLUSTER = "demo"
"""What the cluster of `up --demo` is called unless it is named."""


class Role(msgspec.Struct, frozen=True):
    """One process: `title` names it to people, `name` names its log file; `restarts` if `up` starts it again.

    `stop_limit_s` is how long it may take to stop in order before it is killed. `again`: how `up` is asked to start it,
    where that can be asked.
    """

    name: str
    title: str
    command: tuple[str, ...]
    restarts: bool = True
    stop_limit_s: float = 5.0
    again: tuple[str, ...] = ()

    @property
    def by_hand(self) -> str:
        """What a person types to start it: the same arguments for the `topolog` command, unless `up` can be asked."""
        if self.again:
            return shlex.join([own_command(), *self.again])
        arguments = self.command[3:] if self.command[1:3] == ("-m", "topolog") else self.command
        return shlex.join([own_command(), *arguments])


def demo_command(node: Role, act: str) -> str:
    """What a person types to ask for something else of the demo that this node is of."""
    return shlex.join([own_command(), "demo", act, *node.again[3:]])


def own_command() -> str:
    """The `topolog` that a person in this folder can type: the bare name only if the shell would find it."""
    if shutil.which("topolog"):
        return "topolog"
    script = Path(sysconfig.get_path("scripts"), "topolog")
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else os.fspath(script)


def coordinator(instance: str) -> Role:
    """To retire takes the read-back of one record, 5 s at most."""
    command = _topolog("run", "coordinator", "--instance", instance)
    return Role(instance, f"coordinator {instance}", command, stop_limit_s=8.0)


def projector() -> Role:
    return Role("projector", "projector", _topolog("run", "projector"))


def lease_health() -> Role:
    """It ends itself the hard way after 4 s."""
    return Role("lease-health", "lease health", _topolog("run", "lease-health"), stop_limit_s=6.0)


def rendezvous() -> Role:
    """It ends itself the hard way after 4 s."""
    return Role("rendezvous", "rendezvous", _topolog("run", "rendezvous"), stop_limit_s=6.0)


def demo_nodes(cluster: str, rows: Path | None, added: Sequence[str] = ()) -> tuple[Role, ...]:
    """Those that load rows, and those that have been added since."""
    names = dict.fromkeys((*(f"n{number}" for number in range(1, DEMO_NODES + 1)), *added))
    return tuple(demo_node(name, cluster, rows) for name in names)


def demo_node(name: str, cluster: str, rows: Path | None) -> Role:
    """Not started again by itself, so that its leaving can be watched."""
    named = ("--set", f"cluster.name={cluster}")
    options = (*named, *(() if rows is None else ("--data", os.fspath(rows))))
    again = ("demo", "add-node", name, *(named if cluster != DEMO_CLUSTER else ()))
    command = _topolog("run", "demo-node", name, "--may-rot", *options)
    return Role(name, f"node {name}", command, restarts=False, again=again)


def measured(roles: Sequence[Role], port: int | None) -> Sequence[Role]:
    """These roles with a port for metrics each, from `port` on; without one as they are."""
    if port is None:
        return roles
    return [
        msgspec.structs.replace(role, command=(*role.command, "--set", f"metrics.port={number}"))
        for number, role in enumerate(roles, port)
    ]


def environment_of(settings: Settings, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: `inherited` without topolog's own variables, and every setting.

    But for two: a port for metrics is of one role alone (`measured`), and files of one machine's own logs are for
    people.
    """
    log = settings.log.model_copy(update={"format": "text"}) if settings.log.format == "auto" else settings.log
    metrics = settings.metrics.model_copy(update={"port": None})
    settings = settings.model_copy(update={"log": log, "metrics": metrics})
    foreign = {key: value for key, value in inherited.items() if not key.startswith(PREFIX)}
    kept = {key: inherited[key] for key in NOT_SETTINGS if key in inherited}
    return {**foreign, **kept, "TOPOLOG_CONFIG": os.devnull, **_variables(settings)}


def _variables(settings: Settings) -> dict[str, str]:
    """TOPOLOG_<SECTION>__<KEY> -> the text that `settings.load` reads back as the same value."""
    texts = {("KAFKA", key): value for key, value in settings.kafka.items()}
    for section, table in settings:
        if isinstance(table, dict):
            continue
        for field, facts in type(table).model_fields.items():
            value = getattr(table, field)
            if value is not None:
                texts[section, facts.alias or field] = duration_text(value) if field.endswith("_ms") else str(value)
    return {f"{PREFIX}{section}__{key}".upper().replace(".", "_"): text for (section, key), text in texts.items()}


def _topolog(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "topolog", *arguments)
