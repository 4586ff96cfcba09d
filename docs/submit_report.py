"""Reports on a cluster: spark-submit docs/submit_report.py ARCHIVE FOLDER [NAME ...] (docs/spark-submit.md)."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from topolog.projections.archive.landings import Archive
from topolog.projections.spark.reports import keeping, making

archive, folder, *names = sys.argv[1:]
spark = SparkSession.builder.appName("topolog report").config("spark.sql.session.timeZone", "UTC").getOrCreate()
held, reports = Archive(Path(archive)), making.chosen(names)
keeping.keep(Path(folder), lambda tables: making.make(spark, held, tables, reports))
spark.stop()
