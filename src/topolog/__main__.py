"""The composition root: builds real objects from settings and gives each role its command.

It alone may import everything of ours. Heavy libraries load only inside the command that needs them, so that the node
client and the query commands start quickly and work without the extras of a server.
"""

import signal
import sys
from pathlib import Path

if (__name__ == "__main__" or Path(sys.argv[0]).name == "topolog") and (
    signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    # Ctrl-C while the libraries load: there is nothing to end in order, and a trace would tell nobody anything.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import contextlib
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.table import Table

from topolog.commands import support
from topolog.commands.access import access_of, tls_of, token_app
from topolog.commands.broker import app as broker_app
from topolog.commands.command_line import Config, Set, needs_extra
from topolog.commands.command_line import loaded as _loaded
from topolog.commands.command_line import say as _say
from topolog.commands.command_line import settings as _settings
from topolog.commands.demo import app as demo_app
from topolog.commands.demo import settings_of_demo
from topolog.commands.logs import log_as
from topolog.commands.metrics_port import registry_served, served
from topolog.commands.simulation import simulate
from topolog.commands.spark import app as spark_app
from topolog.commands.spark_archive import archive_topics
from topolog.commands.spark_rebuild import rebuild_projections
from topolog.commands.spark_report import report as spark_report
from topolog.commands.validator import serve_replicas
from topolog.commands.verify import verify_projections
from topolog.commands.voiding import void
from topolog.events.errors import BadInput
from topolog.events.failpoints import arm
from topolog.events.log import LogReader, LogWriter
from topolog.events.topics import ACLS, NEEDED, PLANS, topic_name, topic_prefix
from topolog.projections.cli import app as cli
from topolog.projections.cli.context_commands import standing_rows
from topolog.projections.cli.contexts import Defaults, stand
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.spreading import spread
from topolog.projections.cli.terminal import Screen
from topolog.settings.model import Loaded, cluster_folder, load
from topolog.streams.local.stopping import end_with_supervisor, stopping_when_told

if TYPE_CHECKING:
    from topolog.streams.coordinator.driver import Driver

T = TypeVar("T")

run_app = typer.Typer(no_args_is_help=True, help="One role, in the foreground.")
config_app = typer.Typer(no_args_is_help=True, help="The settings in force.")


def main() -> None:
    """The `topolog` command."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(cli.run(_app()))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


def _app() -> typer.Typer:
    loaded = functools.cache(load)
    app = cli.build(lambda: loaded().settings.api.url, lambda: _named_cluster(loaded()))
    support.add_to(app, api=lambda: loaded().settings.api.url, cluster=lambda: _named_cluster(loaded()))
    app.command(name="up")(up)
    app.command(name="simulate")(simulate)
    app.command(name="void")(void)
    app.add_typer(broker_app, name="broker")
    cli.group(app, "cluster").command("init")(cluster_init)
    app.add_typer(run_app, name="run")
    cli.group(app, "auth").add_typer(token_app, name="token")
    app.add_typer(config_app, name="config")
    app.add_typer(demo_app, name="demo")
    spark_app.command("archive")(needs_extra("spark")(spread(archive_topics)))
    spark_app.command("rebuild")(needs_extra("spark")(spread(rebuild_projections)))
    spark_app.command("report")(needs_extra("spark")(spark_report))
    app.add_typer(spark_app, name="spark")
    cli.group(app, "verify").command("projections")(needs_extra("server")(spread(verify_projections)))
    return app


def _named_cluster(loaded: Loaded) -> str | None:
    """The cluster that somebody has named; without a name the API is asked for its only one."""
    return loaded.settings.cluster.name if "cluster.name" in loaded.origins else None


# A managed cluster.


def cluster_init(
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be made, make nothing.")] = False,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Copies of each topic: 3 in production, 1 if nothing is said.")
    ] = None,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Make the topics of a cluster; its first coordinator begins the log."""
    from topolog.events.kafka_admin import KafkaAdmin

    settings = _settings(config, pairs)
    name = settings.cluster.name
    if plan:
        screen = Screen()
        screen.view(_topic_table(name, replicas or 1))
        screen.aside("\nThe access that each role needs, no more:")
        screen.view(_access_table(name))
        return
    admin = KafkaAdmin(settings.kafka)
    made = admin.create_topics(name, PLANS, replicas=replicas or 1)
    _say(f"Made {', '.join(made)}." if made else f"Cluster {name!r} has all its topics.")
    copies = {plan.topic.short_name: admin.replicas(name, plan.topic) for plan in PLANS}
    if single := [topic for topic, count in copies.items() if count == 1]:
        _say(f"One copy of {', '.join(single)}: not durable against loss of the disk.")
    if replicas and any(count != replicas for count in copies.values()):
        found = ", ".join(f"{topic} {count}" for topic, count in copies.items())
        _say(f"Topics that exist keep their copies: {found}. Kafka's kafka-reassign-partitions changes that.")
        raise typer.Exit(ExitCode.FOUND)


def _topic_table(name: str, replicas: int) -> Table:
    from topolog.events.kafka_admin import topic_config

    table = Table("TOPIC", "PARTITIONS", "REPLICAS", "CONFIG", box=None)
    for plan in PLANS:
        config = " ".join(f"{key}={value}" for key, value in topic_config(plan, replicas).items())
        table.add_row(topic_name(name, plan.topic), str(plan.partitions), str(replicas), config)
    return table


def _access_table(name: str) -> Table:
    """The ACLs of a cluster. Topics of one's own are named in full, so that no role has more than it uses."""
    table = Table("ROLE", "RESOURCE", "PATTERN", "NAME", "OPERATIONS", box=None)
    for access in sorted(ACLS, key=lambda each: each.role):
        resource = "Group" if access.is_group else "Topic"
        pattern = "prefixed" if access.topic is None else "literal"
        what = topic_name(name, access.topic) if access.topic else f"{topic_prefix(name)}{access.begins}"
        table.add_row(access.role, resource, pattern, what, ", ".join(access.operations))
    return table


# The roles.


@run_app.callback()
def _before_a_role() -> None:
    from topolog.events.fold import require_assertions

    require_assertions()
    arm(os.environ)


@run_app.command("coordinator")
def run_coordinator(
    instance: Annotated[str, typer.Option(help="Name of this process in the log and in `get cluster`.")] = "c1",
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Decide for a cluster, or stand by until its coordinator is silent."""
    from topolog.events.kafka import KafkaReader, KafkaWriter
    from topolog.events.kafka_admin import KafkaAdmin
    from topolog.events.registry import FramingReader, FramingWriter, Registry
    from topolog.streams.clock import CAN_FENCE, SystemClock
    from topolog.streams.coordinator.certificate import run_beside_sentinel
    from topolog.streams.coordinator.driver import Driver, LeaseTerms
    from topolog.streams.coordinator.measures import INPUTS
    from topolog.streams.coordinator.snapshots import Cadence
    from topolog.streams.node.sentinel import Sentinel
    from topolog.streams.rules.exchange import Patience

    if not instance.strip():
        raise BadInput("--instance is empty: the log would not say who leads.", hint="Such as --instance c2.")
    settings = _settings(config, pairs)
    known = log_as("coordinator", settings)
    name, lease = settings.cluster.name, settings.lease
    with stopping_when_told(os.environ) as stopping:
        admin = KafkaAdmin(settings.kafka)
        admin.wait_for_leaders(name, NEEDED)
        cadence = Cadence(settings.snapshot.every, settings.snapshot.every_mib << 20)
        with contextlib.ExitStack() as stack:
            reader: LogReader = stack.enter_context(contextlib.closing(KafkaReader(settings.kafka, name, INPUTS)))
            writer: LogWriter = stack.enter_context(contextlib.closing(KafkaWriter(settings.kafka, name, linger_ms=2)))
            if settings.registry.url:
                registry = stack.enter_context(contextlib.closing(Registry(settings.registry.url)))
                registry.start()
                reader, writer = FramingReader(reader, registry), FramingWriter(writer, registry)
            terms = LeaseTerms(lease.fence_ms, lease.margin_ms, lease.heartbeat_ms)
            driver = Driver(
                reader,
                writer,
                SystemClock(),
                name,
                instance,
                terms=terms,
                takeover_ms=settings.coordinator.takeover_ms,
                cadence=cadence,
                patience=Patience(settings.exchange.warn_ms, settings.exchange.evict_ms),
            )
            sentinel = Sentinel(settings.kafka, name, is_wanted=lease.sentinel and CAN_FENCE)
            known.look = lambda: {"term": driver.core.confirmed.term, "position": driver.core.confirmed.position}
            with served(settings.metrics, lambda: _coordinator_metrics(driver, name)):
                run_beside_sentinel(driver, sentinel, stopping.is_set)


def _coordinator_metrics(driver: "Driver", name: str) -> object:
    from topolog.streams.clock import SystemClock
    from topolog.streams.coordinator.metrics import CoordinatorMetrics

    return CoordinatorMetrics(driver, name, SystemClock())


@run_app.command("projector")
@needs_extra("server")
def run_projector(
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster", metavar="NAME", help="Serve this cluster; may be repeated. cluster.name unless said."
        ),
    ] = None,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Project the logs of clusters into stores, and answer the query API and the pages from them."""
    from topolog.events.kafka import KafkaReader, KafkaWriter
    from topolog.events.kafka_admin import KafkaAdmin
    from topolog.projections.api.server import Front, Source, serve
    from topolog.projections.upkeep.keeper import Terms
    from topolog.projections.upkeep.workshop import Processes

    end_with_supervisor(os.environ)
    settings = _settings(config, pairs)
    log_as("projector", settings, cluster=",".join(clusters or ()))
    access = access_of(settings)
    folders = _stores(clusters or [settings.cluster.name], config, pairs)
    admin = KafkaAdmin(settings.kafka)
    for name in folders:
        admin.wait_for_leaders(name, NEEDED)
    kept, kafka = settings.projector, settings.kafka
    terms = Terms(kept.former_kept_ms, kept.scrub_every_ms, kept.scrub_mib_per_s * 2**20)
    sources = [
        Source(
            name,
            KafkaReader(kafka, name),
            KafkaWriter(kafka, name),
            folder,
            Processes(functools.partial(KafkaReader, kafka, name)),
            terms,
        )
        for name, folder in folders.items()
    ]
    serve(
        sources,
        settings.api.host,
        settings.api.port,
        address=settings.kafka["bootstrap.servers"],
        front=Front(access, tls_of(settings), settings.api.environment),
        at_port=functools.partial(registry_served, settings.metrics),
    )


def _stores(clusters: Sequence[str], config: Path | None, pairs: list[str] | None) -> dict[str, Path]:
    """The folder of each cluster's store; a folder that somebody has set holds those of several side by side."""
    folders = {}
    for name in clusters:
        loaded = _loaded(config, [*(pairs or ()), f"cluster.name={name}"])
        is_shared = len(clusters) > 1 and "projector.data" in loaded.origins
        folders[name] = loaded.settings.projector.data / name if is_shared else loaded.settings.projector.data
    return folders


@run_app.command("lease-health")
@needs_extra("health")
def run_lease_health(config: Config = None, pairs: Set = None) -> None:
    """Measure how punctual the nodes' heartbeats are: for people and alarms, no decision depends on it."""
    from topolog.streams.clock import SystemClock
    from topolog.streams.lease_health.metrics import HealthMeasures, HealthMetrics
    from topolog.streams.lease_health.worker import run_worker

    settings = _settings(config, pairs)
    name, measures = settings.cluster.name, HealthMeasures()
    log_as("lease-health", settings)
    with (
        stopping_when_told(os.environ) as stopping,
        served(settings.metrics, lambda: HealthMetrics(measures, name, SystemClock())),
    ):
        run_worker(settings.kafka, name, settings.health.data, stopping, measures)


@run_app.command("rendezvous")
@needs_extra("health")
def run_rendezvous(config: Config = None, pairs: Set = None) -> None:
    """Compare what validators send of their replicas: trees two by two, and rows over all replicas."""
    from topolog.streams.rendezvous.metrics import RendezvousMetrics
    from topolog.streams.rendezvous.worker import run_worker

    settings = _settings(config, pairs)
    metrics = RendezvousMetrics(settings.cluster.name)
    log_as("rendezvous", settings)
    with stopping_when_told(os.environ) as stopping, served(settings.metrics, lambda: metrics):
        run_worker(settings.kafka, settings.cluster.name, stopping, metrics.show)


@run_app.command("validator")
@needs_extra("spark")
def run_validator(
    replicas: Annotated[
        list[str],
        typer.Option("--replica", help="TABLE@NAME=SOURCE, such as orders@r1=parquet:/data/orders; one or several."),
    ],
    datacenter: Annotated[
        list[str] | None,
        typer.Option("--datacenter", metavar="[TABLE@NAME=]DC", help="Where they are: all, or the one that is named."),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--ranges", metavar="[TABLE@NAME=]A..B", help="The tokens that it holds; may be repeated."),
    ] = None,
    boundaries: Annotated[
        list[str] | None,
        typer.Option(
            "--boundaries", metavar="[TABLE@NAME=]COUNT", help="Sample so many keys, for comparisons with --ordered."
        ),
    ] = None,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Serve replicas of tables: hash their rows, and write what a repair sends, as sessions ask for it."""
    from topolog.streams.validator import program

    named = [program.parse_replica(text) for text in replicas]
    named = program.told_of(named, datacenter or (), ranges or (), boundaries or ())
    settings = _settings(config, pairs)
    log_as("validator", settings)
    with stopping_when_told(os.environ) as stopping:
        serve_replicas(settings, named, stopping)


@run_app.command("demo-node")
@needs_extra("local")
def run_demo_node(
    name: Annotated[str, typer.Argument(help="n1, n2 …; n1 to n5 load rows, any other only holds and serves.")],
    data: Annotated[
        Path | None, typer.Option(help="Rows to load: a file or folder of CSV, JSON lines, Parquet.")
    ] = None,
    host: Annotated[str, typer.Option(help="This machine, as the other nodes reach it.")] = "127.0.0.1",
    may_rot: Annotated[bool, typer.Option("--may-rot", help="Rows are damaged for whoever asks.", hidden=True)] = False,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """One node of the example store: load rows, agree on their types, hold copies and serve."""
    from topolog.streams.local.demo import program
    from topolog.streams.node.metrics import NodeMetrics

    settings = _settings(config, pairs)
    log_as("demo-node", settings)
    with stopping_when_told(os.environ) as stopping:
        program.run_demo_node(
            settings.cluster.name,
            name,
            settings.kafka,
            sentinel=settings.lease.sentinel,
            stopping=stopping,
            say=_say,
            folder=cluster_folder(settings.cluster.name) / "nodes" / name,
            loading=program.Loading(data=data),
            host=host,
            may_rot=may_rot,
            telling=lambda node: served(settings.metrics, lambda: NodeMetrics(node)),
        )


def up(
    demo: Annotated[
        bool, typer.Option("--demo", help="Add five nodes that load real rows and agree on types.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Rows for the demo: a file or folder of CSV, JSON lines, Parquet.")
    ] = None,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Run everything on this machine: Kafka, a coordinator and its stand-by, the projector with API and page."""
    _up(demo, data, config, pairs)


@needs_extra("local")
def _up(demo: bool, rows: Path | None, config: Path | None, pairs: list[str] | None) -> None:
    from topolog.streams.local import up as local

    if rows and not demo:
        raise BadInput("--data names the rows of the demo.", hint="Add --demo.")
    settings = settings_of_demo(config, pairs) if demo else _settings(config, pairs)
    with stopping_when_told(os.environ) as stopping:
        folder = cluster_folder(settings.cluster.name)
        plan = local.plan(settings, folder, os.environ, demo=demo, rows=rows)
        local.run_up(plan, local.own_broker(settings, _say), _say, stopping)


# Settings.


@config_app.command("show")
def config_show(config: Config = None, pairs: Set = None) -> None:
    """Every setting, its value and where the value comes from; and whom the command line asks, which a context says."""
    loaded = _loaded(config, pairs)
    table = Table("KEY", "VALUE", "ORIGIN", box=None)
    for shown in loaded.shown():
        table.add_row(shown.key, shown.value, shown.origin)
    screen = Screen()
    screen.view(table)
    defaults = Defaults(lambda: loaded.settings.api.url, lambda: _named_cluster(loaded))
    table = Table("THE COMMAND LINE ASKS", "VALUE", "ORIGIN", box=None)
    for row in standing_rows(stand(None, None, None, defaults)):
        table.add_row(*row)
    screen.aside("")
    screen.view(table)


if __name__ == "__main__":
    main()
