"""An archive on a cluster (docs/spark-submit.md); with --once what is there, then the end.

spark-submit docs/submit_archive.py CLUSTER BROKERS FOLDER [--once]
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from topolog.events.kafka_admin import KafkaAdmin
from topolog.projections.archive import java_settings, topics
from topolog.projections.archive.landings import opened
from topolog.projections.spark.pipeline import Pipeline
from topolog.settings import load
from topolog.spark_archive import Work, keep_landing, now_ms
from topolog.streams.local.stopping import stopping_when_told

cluster, brokers, folder, *once = sys.argv[1:]
settings = load({"cluster.name": cluster, "kafka.bootstrap.servers": brokers}).settings
java = java_settings.translated(settings.kafka).settings
spark = SparkSession.builder.appName("topolog archive").config("spark.sql.session.timeZone", "UTC").getOrCreate()
with stopping_when_told(os.environ) as stopping, opened(Path(folder), cluster) as archive:
    pipeline = Pipeline(archive, KafkaAdmin(settings.kafka), java, now_ms, print)
    pipeline.begin(topics.log_id(settings.kafka, cluster))
    keep_landing(pipeline, spark, Work(settings, java, stopping, every_s=60, once=once == ["--once"]))
spark.stop()
