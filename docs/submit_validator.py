"""A validator on a cluster, until told to stop (docs/spark-submit.md).

spark-submit docs/submit_validator.py CLUSTER BROKERS FOLDER TABLE@NAME=SOURCE ...
"""

import os
import sys

from pyspark.sql import SparkSession

from topolog.commands.validator import serve_on
from topolog.projections.spark.session import REQUIRED
from topolog.settings.model import load
from topolog.streams.local.stopping import stopping_when_told
from topolog.streams.validator.program import parse_replica

cluster, brokers, folder, *replicas = sys.argv[1:]
settings = load({"cluster.name": cluster, "kafka.bootstrap.servers": brokers, "spark.data": folder}).settings
named = [parse_replica(text) for text in replicas]
spark = SparkSession.builder.appName("topolog validator").config(map=dict(REQUIRED)).getOrCreate()
with stopping_when_told(os.environ) as stopping:
    serve_on(spark, settings, named, stopping)
spark.stop()
