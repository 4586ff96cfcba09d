"""`topolog broker …`: Apache Kafka on this machine, started, found running, stopped."""

from typing import Annotated, Any

import typer

from topolog.commands.command_line import Config, Set, say, settings_of
from topolog.events.errors import BadInput
from topolog.projections.cli.exit_codes import ExitCode
from topolog.settings.model import Settings

Nodes = Annotated[int | None, typer.Option(help="1, or 3 that survive the loss of one; as the folder has it.")]


def broker_start(nodes: Nodes = None, config: Config = None, pairs: Set = None) -> None:
    """Start Kafka on this machine, or find it running; it goes on when this command has ended."""
    found = _local_broker(settings_of(config, pairs), nodes).start(ready=_wait_for_broker)
    statuses = found if isinstance(found, tuple) else (found,)
    for status in statuses:
        say(f"Kafka answers at {status.bootstrap} (pid {status.pid}, data in {status.folder}).")
    if len(statuses) > 1:
        servers = ",".join(status.bootstrap for status in statuses)
        say(f"Name all of them to clients: --set kafka.bootstrap.servers={servers}")
        say("Make topics with three copies: topolog cluster init --replicas 3")


def broker_stop(config: Config = None, pairs: Set = None) -> None:
    """Stop the Kafka that `broker start` started; its data stay."""
    say("stopped" if _local_broker(settings_of(config, pairs)).stop() else "No broker was running.")


def broker_status(config: Config = None, pairs: Set = None) -> int:
    """Say whether the broker runs; exit code 8 if it does not, or not with all its nodes."""
    found = _local_broker(settings_of(config, pairs)).status()
    statuses = found if isinstance(found, tuple) else (found,)
    for status in statuses:
        if status.is_running:
            typer.echo(f"running at {status.bootstrap}, pid {status.pid}, data in {status.folder}")
        else:
            typer.echo(f"not running; data in {status.folder}. {status.ended or ''}".strip())
    return ExitCode.OK if all(status.is_running for status in statuses) else ExitCode.FOUND


def _local_broker(found: Settings, nodes: int | None = None) -> Any:
    """The one node or the three of the data folder; `nodes` decides for a new folder and must fit another."""
    from topolog.streams.local.broker import LocalBroker
    from topolog.streams.local.quorum import NODES, LocalQuorum, is_quorum

    broker = found.broker
    if nodes not in (None, 1, NODES):
        raise BadInput(f"--nodes takes 1 or {NODES}, not {nodes}.", hint="Two nodes survive no more than one does.")
    if nodes == NODES or (nodes is None and is_quorum(broker.data)):
        return LocalQuorum(broker.data, port=broker.port, java_home=broker.java, say=say)
    return LocalBroker(broker.data, port=broker.port, java_home=broker.java, say=say)


def _wait_for_broker(bootstrap: str) -> None:
    from topolog.events.kafka_admin import KafkaAdmin

    KafkaAdmin({"bootstrap.servers": bootstrap}).wait_until_usable()
