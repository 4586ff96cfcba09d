"""An archive on a cluster (docs/spark-submit.md); with --once what is there, then the end.

spark-submit docs/submit_archive.py CLUSTER BROKERS FOLDER [--once]
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from topolog.commands.spark_archive import Work, begun, keep_landing
from topolog.projections.archive import java_settings
from topolog.settings.model import load
from topolog.streams.local.stopping import stopping_when_told

cluster, brokers, folder, *once = sys.argv[1:]
settings = load({"cluster.name": cluster, "kafka.bootstrap.servers": brokers}).settings
java = java_settings.translated(settings.kafka).settings
spark = SparkSession.builder.appName("topolog archive").config("spark.sql.session.timeZone", "UTC").getOrCreate()
with stopping_when_told(os.environ) as stopping:
    work = Work(settings, java, stopping, every_s=60, once=once == ["--once"])
    with begun(work, Path(folder)) as (pipeline, _):
        keep_landing(pipeline, spark, work)
spark.stop()
