"""`topolog run …`: one role in the foreground, built from settings."""

import contextlib
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topolog.commands.access import access_of, bounds_of, tls_of
from topolog.commands.command_line import Config, Set, load_settings, say, settings_of
from topolog.commands.logs import log_as
from topolog.commands.metrics_port import registry_served, served
from topolog.commands.open_files import raise_open_files_max
from topolog.commands.spark import SparkOptions
from topolog.commands.validator import serve_replicas
from topolog.events.errors import BadInput
from topolog.events.failpoints import arm
from topolog.events.log import LogReader, LogWriter
from topolog.events.topics import NEEDED
from topolog.settings.model import cluster_folder
from topolog.streams.local.stopping import end_with_supervisor, stopping_when_told

if TYPE_CHECKING:
    from topolog.streams.coordinator.driver import Driver


def _prepare() -> None:
    """What every role does first: its decisions rest on assertions, its failpoints are to be hit from here on, and it
    opens as many files as it may.

    Raises BadInput for a failpoint that does not exist.
    """
    from topolog.events.fold import require_assertions

    require_assertions()
    arm(os.environ)
    raise_open_files_max()


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

    _prepare()
    if not instance.strip():
        raise BadInput("--instance is empty: the log would not say who leads.", hint="Such as --instance c2.")
    settings = settings_of(config, pairs)
    known = log_as("coordinator", settings)
    name, lease = settings.cluster.name, settings.lease
    with stopping_when_told(os.environ) as stopping:
        admin = KafkaAdmin(settings.kafka)
        admin.wait_for_leaders(name, NEEDED)
        cadence = Cadence(settings.snapshot.every, settings.snapshot.every_mib << 20)
        with contextlib.ExitStack() as stack:
            reader: LogReader = stack.enter_context(contextlib.closing(KafkaReader(settings.kafka, name, INPUTS)))
            kafka = stack.enter_context(
                contextlib.closing(KafkaWriter(settings.kafka, name, linger_ms=2, gives_up=True))
            )
            writer: LogWriter = kafka
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
                patience=Patience(
                    gather_ms=settings.exchange.gather_ms,
                    warn_ms=settings.exchange.warn_ms,
                    evict_ms=settings.exchange.evict_ms,
                ),
                interruptions=lambda: kafka.interruptions,
            )
            sentinel = Sentinel(settings.kafka, name, is_wanted=lease.sentinel and CAN_FENCE)
            known.look = lambda: {"term": driver.core.confirmed.term, "position": driver.core.confirmed.position}
            with served(settings.metrics, lambda: _coordinator_metrics(driver, name)):
                run_beside_sentinel(driver, sentinel, stopping.is_set)


def _coordinator_metrics(driver: "Driver", name: str) -> object:
    from topolog.streams.clock import SystemClock
    from topolog.streams.coordinator.metrics import CoordinatorMetrics

    return CoordinatorMetrics(driver, name, SystemClock())


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

    _prepare()
    end_with_supervisor(os.environ)
    settings = settings_of(config, pairs)
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
        front=Front(access, tls_of(settings), settings.api.environment, bounds_of(settings)),
        at_port=functools.partial(registry_served, settings.metrics),
    )


def _stores(clusters: Sequence[str], config: Path | None, pairs: list[str] | None) -> dict[str, Path]:
    """The folder of each cluster's store; a folder that somebody has set holds those of several side by side."""
    folders = {}
    for name in clusters:
        found = load_settings(config, [*(pairs or ()), f"cluster.name={name}"])
        is_shared = len(clusters) > 1 and "projector.data" in found.origins
        folders[name] = found.settings.projector.data / name if is_shared else found.settings.projector.data
    return folders


def run_lease_health(config: Config = None, pairs: Set = None) -> None:
    """Measure how punctual the nodes' heartbeats are: for people and alarms, no decision depends on it."""
    from topolog.streams.clock import SystemClock
    from topolog.streams.lease_health.metrics import HealthMeasures, HealthMetrics
    from topolog.streams.lease_health.worker import run_worker

    _prepare()
    settings = settings_of(config, pairs)
    name, measures = settings.cluster.name, HealthMeasures()
    log_as("lease-health", settings)
    with (
        stopping_when_told(os.environ) as stopping,
        served(settings.metrics, lambda: HealthMetrics(measures, name, SystemClock())),
    ):
        run_worker(settings.kafka, name, settings.health.data, stopping, measures)


def run_rendezvous(config: Config = None, pairs: Set = None) -> None:
    """Compare what validators send of their replicas: trees two by two, and rows over all replicas."""
    from topolog.streams.rendezvous.metrics import RendezvousMetrics
    from topolog.streams.rendezvous.worker import run_worker

    _prepare()
    settings = settings_of(config, pairs)
    metrics = RendezvousMetrics(settings.cluster.name)
    log_as("rendezvous", settings)
    with stopping_when_told(os.environ) as stopping, served(settings.metrics, lambda: metrics):
        run_worker(settings.kafka, settings.cluster.name, stopping, metrics.show)


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
    *,
    spark: SparkOptions,
) -> None:
    """Serve replicas of tables: hash their rows, and write what a repair sends, as sessions ask for it."""
    from topolog.streams.validator import program

    _prepare()
    named = [program.parse_replica(text) for text in replicas]
    named = program.told_of(named, datacenter or (), ranges or (), boundaries or ())
    settings = settings_of(config, spark.over(pairs))
    log_as("validator", settings)
    with stopping_when_told(os.environ) as stopping:
        serve_replicas(settings, named, stopping)


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

    _prepare()
    settings = settings_of(config, pairs)
    log_as("demo-node", settings)
    with stopping_when_told(os.environ) as stopping:
        program.run_demo_node(
            settings.cluster.name,
            name,
            settings.kafka,
            sentinel=settings.lease.sentinel,
            stopping=stopping,
            say=say,
            folder=cluster_folder(settings.cluster.name) / "nodes" / name,
            loading=program.Loading(data=data),
            host=host,
            may_rot=may_rot,
            telling=lambda node: served(settings.metrics, lambda: NodeMetrics(node)),
        )
