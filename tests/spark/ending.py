"""A process whose JVM is killed, as a system that is short of memory does it: what is raised then, and how it ends."""

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark import SparkContext

from topolog.events.errors import TopologError
from topolog.projections.spark.jobs import run
from topolog.projections.spark.session import SessionSettings, spark_session


def told_of(job: Callable[[], object]) -> None:
    try:
        job()
    except TopologError as error:
        sys.stdout.write(f"{error.code}\n")


def main(folder: Path) -> None:
    quick_to_start = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    settings = SessionSettings(cores=1, memory="512m", java_options=quick_to_start)
    with spark_session(folder, settings) as session:
        gateway = SparkContext._gateway
        assert gateway is not None
        endless = session.range(1 << 50).selectExpr("sum(id % 7)")
        told_of(lambda: run(session, endless.collect, lambda _: gateway.proc.kill()))
        told_of(lambda: run(session, lambda: session.range(3).count()))
    sys.stdout.write("over\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
