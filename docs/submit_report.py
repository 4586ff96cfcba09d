"""Reports on a cluster: spark-submit docs/submit_report.py ARCHIVE FOLDER [NAME ...] (docs/spark-submit.md)."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from topolog.projections.archive.landings import Archive
from topolog.projections.spark.reports import keeping, making
from topolog.projections.spark.reports.landed import landed_in

archive, folder, *names = sys.argv[1:]
spark = SparkSession.builder.appName("topolog report").config("spark.sql.session.timeZone", "UTC").getOrCreate()
reports = making.chosen(names)
landed = landed_in(spark, Archive(Path(archive)))
keeping.keep(Path(folder), lambda tables: making.make(landed, tables, reports))
spark.stop()
