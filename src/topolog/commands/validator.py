"""`topolog run validator`, and that of a demo: the session of Spark and the sources that its replicas need."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from topolog.commands.metrics_port import served
from topolog.commands.spark import session_settings
from topolog.settings.model import Settings
from topolog.streams.local.stopping import Stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from topolog.projections.spark.session import SessionSettings
    from topolog.streams.validator.program import ReplicaName

STORE = {"service": "store"}
"""What the nodes of the example store say of themselves."""


def serve_replicas(
    settings: Settings, named: Sequence["ReplicaName"], stopping: Stop, spark: "SessionSettings | None" = None
) -> None:
    """Serve them until told to stop, by a session of Spark as `spark` says, or the settings. Raises what
    `run_validator` and the sources do, MissingExtra without Spark."""
    from topolog.projections.spark.session import spark_session
    from topolog.projections.spark.sources import catalogue as sources
    from topolog.streams.validator.program import wait_for_topics

    for each in named:
        sources.check(each.source)
    wait_for_topics(settings.kafka, settings.cluster.name)  # to fail at once, not after the start of Spark
    own_handler = signal.getsignal(signal.SIGINT)
    with spark_session(_folder(settings, named), spark or session_settings(settings.spark)) as session:
        signal.signal(signal.SIGINT, own_handler)  # PySpark has put one of its own there, which ends nothing in order
        serve_on(session, settings, named, stopping)


def serve_on(session: "SparkSession", settings: Settings, named: Sequence["ReplicaName"], stopping: Stop) -> None:
    """Serve them by a session that is there already, until told to stop. Raises what `run_validator` and the sources
    do."""
    from topolog.projections.spark.sources.catalogue import Catalogue
    from topolog.streams.validator.metrics import ValidatorMetrics
    from topolog.streams.validator.program import run_validator

    catalogue = Catalogue(session, _folder(settings, named), lambda: store_endpoints(settings))
    replicas = [
        catalogue.replica_from(
            each.source,
            each.table,
            each.name,
            datacenter=each.datacenter,
            ranges=each.ranges,
            boundaries=each.boundaries,
        )
        for each in named
    ]
    metrics = ValidatorMetrics(settings.cluster.name)
    with served(settings.metrics, lambda: metrics):
        run_validator(settings.kafka, settings.cluster.name, replicas, stopping, show=metrics.show)


def store_endpoints(settings: Settings) -> list[str]:
    """Where the nodes of the example store answer now. Raises NotFound without one, and what the API does."""
    from topolog.projections.cli.client import Api
    from topolog.projections.cli.service_nodes import endpoints

    own = settings.api
    with Api(own.url, settings.cluster.name, token_file=own.token_file, ca_file=own.ca_file) as api:
        return endpoints(api, STORE)


def _folder(settings: Settings, named: Sequence["ReplicaName"]) -> Path:
    """Of one process: what is named first is served by no other."""
    first = f"{named[0].table}@{named[0].name}".replace("/", "_")
    return settings.spark.data / first
