"""An archive on a cluster: spark-submit docs/submit_archive.py CLUSTER BROKERS FOLDER (docs/spark-submit.md)."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from topolog.projections.archive.landings import opened
from topolog.projections.spark.landing import Job

cluster, brokers, folder = sys.argv[1:]
spark = SparkSession.builder.appName("topolog archive").config("spark.sql.session.timeZone", "UTC").getOrCreate()
with opened(Path(folder), cluster) as archive:
    job = Job(spark, archive, {"bootstrap.servers": brokers}, lambda: time.time_ns() // 1_000_000)
    job.stream().awaitTermination()
