"""Rebuilds of many clusters on a cluster, without their topics (docs/spark-submit.md).

spark-submit docs/submit_rebuild.py ARCHIVES FOLDER
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from topolog.projections.archive.rebuilding import Standing, Task, archives
from topolog.projections.spark import rebuild

root, folder = (Path(each) for each in sys.argv[1:])
found, told = archives(root)
spark = SparkSession.builder.appName("topolog rebuild").getOrCreate()
tasks = [Task(cluster, folder / cluster, archive) for cluster, archive in found.items()]
told += rebuild.collected(rebuild.outcomes(spark, tasks)) if tasks else []
for each in told:
    sys.stdout.write(f"{each.cluster} {each.standing.value} {each.position} {each.state_hash} {each.error}\n")
spark.stop()
sys.exit(8 if any(each.standing is Standing.FAILED for each in told) else 0)
