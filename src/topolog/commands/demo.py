"""`topolog demo`: what an operator does to the nodes of a running `topolog up --demo`, and clients of its store."""

import os
from pathlib import Path
from typing import Annotated

import typer

from topolog.commands.command_line import Config, Set, load_settings, say
from topolog.commands.validator import serve_replicas, store_endpoints
from topolog.events.errors import BadInput, TopologError
from topolog.events.leases import NodeKind
from topolog.projections.cli.exit_codes import ExitCode
from topolog.settings.model import Settings, cluster_folder
from topolog.settings.types import duration_ms
from topolog.streams.local.door import Act, Question, ask
from topolog.streams.local.roles import DEMO_CLUSTER
from topolog.streams.local.stopping import stopping_when_told

CLIENT = "load"
"""The client node that `topolog demo load` is."""

DROPPED_S = 10.0
"""How long the cluster may take to drop the group of a stranger."""


def _complete(incomplete: str) -> list[str]:
    try:
        names = ask(_folder(settings_of_demo(None, None)), Question(Act.NAMES))
    except TopologError:
        return []
    return [name for name in names if name.startswith(incomplete)]


Names = Annotated[
    list[str], typer.Argument(metavar="NODE...", help="Such as n3; several at once.", autocompletion=_complete)
]


def add_node(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NODE...]", help="One that was killed; the next one, if none.", autocompletion=_complete
        ),
    ] = None,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Start another node, or one that was killed: it joins, and partitions move to it."""
    _ask(Question(Act.ADD, tuple(names or ())), config, pairs)


def kill(names: Names, config: Config = None, pairs: Set = None) -> None:
    """Kill nodes as `kill -9` does, all at once; their rows are on disk."""
    _ask(Question(Act.KILL, tuple(names)), config, pairs)


def pause(
    names: Names,
    span: Annotated[str | None, typer.Option("--for", metavar="30s", help="Go on by themselves after that.")] = None,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Stop nodes from running (SIGSTOP): beyond its lease such a node is out, and others serve."""
    _ask(Question(Act.PAUSE, tuple(names), None if span is None else span_ms(span)), config, pairs)


def resume(names: Names, config: Config = None, pairs: Set = None) -> None:
    """Let paused nodes go on (SIGCONT): they refuse until they have read the log, and join again if they are out."""
    _ask(Question(Act.RESUME, tuple(names)), config, pairs)


def power_cut(config: Config = None, pairs: Set = None) -> None:
    """Kill all nodes at one moment; they stay off."""
    _ask(Question(Act.POWER_CUT), config, pairs)


def power_on(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NODE...]", help="In this order; all that are off, if none.", autocompletion=_complete),
    ] = None,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Start nodes that are off."""
    _ask(Question(Act.POWER_ON, tuple(names or ())), config, pairs)


def backup(names: Names, config: Config = None, pairs: Set = None) -> None:
    """Keep a copy of the nodes' folders as they are now; one that was kept before is replaced."""
    _ask(Question(Act.BACK_UP, tuple(names)), config, pairs)


def restore(names: Names, config: Config = None, pairs: Set = None) -> None:
    """Put the backup in the place of the folder of nodes that are off: an old disk, which the cluster notices."""
    _ask(Question(Act.RESTORE, tuple(names)), config, pairs)


def wipe(names: Names, config: Config = None, pairs: Set = None) -> None:
    """Empty the folder of nodes that are off, as when a disk is replaced."""
    _ask(Question(Act.WIPE, tuple(names)), config, pairs)


def corrupt(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Such as shop.orders.")],
    rows: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 3,
    seed: Annotated[int, typer.Option(help="Another one chooses other rows.")] = 0,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Let rows rot on the disks that hold their backup copies: no client sees it until such a node acts for them."""
    from topolog.streams.local.demo.rotting import rot_backups

    nodes = store_endpoints(settings_of_demo(config, pairs))
    for each in rot_backups(nodes, table, rows, seed):
        change = f"{each.what.column} was {each.what.before!r}, is {each.what.after!r}"
        typer.echo(f"{table}/{each.key} in the copy of {each.node}: {change}")


def validator(
    table: Annotated[str, typer.Argument(metavar="[TABLE]", help="Of the store.")] = "shop.orders",
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Serve a table's acting copies and its backups as two replicas, until Ctrl-C: `topolog verify` compares them."""
    from topolog.projections.spark.session import SessionSettings
    from topolog.streams.validator.program import ReplicaName

    settings = settings_of_demo(config, pairs)
    store_endpoints(settings)  # to fail at once if no demo runs, not after the start of Spark
    named = [ReplicaName(table, part, f"store:{table}@{part}") for part in ("acting", "backup")]
    with stopping_when_told(os.environ) as stopping:
        say(f"A validator for {table}@acting and {table}@backup; Ctrl-C ends it.")
        serve_replicas(settings, named, stopping, SessionSettings(cores=2, memory="512m", shuffle_partitions=2))


def load(
    clients: Annotated[int, typer.Option(min=1, max=64, help="How many.")] = 4,
    span: Annotated[str | None, typer.Option("--for", metavar="60s", help="End by themselves after that.")] = None,
    config: Config = None,
    pairs: Set = None,
) -> int:
    """Run clients that write and read until Ctrl-C, then read back all acknowledged writes: exit code 8 if one is lost
    or a table was not answered as it is defined, 7 if a write is not answered."""
    from topolog.streams.local.demo.clients import report, run_clients
    from topolog.streams.node.client import Node
    from topolog.streams.node.folder import FolderInUse

    settings = settings_of_demo(config, pairs)
    name = settings.cluster.name
    folder = _folder(settings) / "nodes" / CLIENT
    node = Node(name, CLIENT, kafka=settings.kafka, kind=NodeKind.CLIENT, folder=folder)
    for_s = None if span is None else span_ms(span) / 1000
    with stopping_when_told(os.environ) as stopping:
        try:
            ledger = run_clients(node, clients, stopping, say, for_s=for_s)
        except FolderInUse as error:
            hint = "Ctrl-C ends it; --clients says how many clients one load has."
            raise BadInput(f"A load of cluster {name!r} runs already.", hint=hint) from error
    typer.echo(report(ledger))
    if ledger.lost or ledger.definitions.wrong:
        return ExitCode.FOUND
    return ExitCode.UNKNOWN if ledger.unread else ExitCode.OK


def stranger(
    hangs: Annotated[
        bool, typer.Option("--hangs", help="Its hook does not return from its first partitions on.")
    ] = False,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Be another service of the cluster, with partitions of its own, until Ctrl-C; one that hangs delays nobody."""
    from topolog.streams.local.demo.stranger import ATTRIBUTES, NAME, run_stranger
    from topolog.streams.node.client import Node
    from topolog.streams.node.folder import FolderInUse

    settings = settings_of_demo(config, pairs)
    name, data = settings.cluster.name, _folder(settings)
    ask(data, Question(Act.NAMES))  # to fail at once if no demo runs
    node = Node(name, NAME, kafka=settings.kafka, attributes=ATTRIBUTES, folder=data / "nodes" / NAME)
    with stopping_when_told(os.environ) as stopping:
        try:
            run_stranger(node, lambda: _drop(settings, NAME), stopping, _say_sentence, hangs=hangs)
        except FolderInUse as error:
            raise BadInput(f"A stranger of cluster {name!r} runs already.", hint="Ctrl-C ends it.") from error


def _drop(settings: Settings, group: str) -> None:
    """Returns when that is decided. Raises Refused, and what the API does."""
    from topolog.projections.cli.client import Api

    own, request = settings.api, {"kind": "drop-group", "name": group, "reason": "the stranger is gone"}
    with Api(own.url, settings.cluster.name, token_file=own.token_file, ca_file=own.ca_file) as api:
        answer = api.submit(request, {"wait": "decided", "timeout": f"{DROPPED_S:g}s"}, DROPPED_S)
    if answer.is_refusal:
        raise answer.error


def settings_of_demo(config: Path | None, pairs: list[str] | None) -> Settings:
    """The settings of the cluster that `up --demo` runs with the same options."""
    found = load_settings(config, pairs)
    if "cluster.name" not in found.origins:
        return load_settings(config, [*(pairs or []), f"cluster.name={DEMO_CLUSTER}"]).settings
    return found.settings


def span_ms(text: str) -> int:
    try:
        found = duration_ms(text)
    except ValueError as error:
        raise BadInput(f"--for {text!r}: {error}.", hint="Such as --for 30s.") from error
    if not found:
        raise BadInput(f"--for {text!r} is no time at all.")
    return found


def _ask(question: Question, config: Path | None, pairs: list[str] | None) -> None:
    for sentence in ask(_folder(settings_of_demo(config, pairs)), question):
        _say_sentence(sentence)


def _say_sentence(sentence: str) -> None:
    say(f"{sentence[0].upper()}{sentence[1:]}.")


def _folder(settings: Settings) -> Path:
    return cluster_folder(settings.cluster.name)
