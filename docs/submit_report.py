"""Reports on a cluster: spark-submit docs/submit_report.py ARCHIVE FOLDER [NAME ...] (docs/spark-submit.md)."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from topolog.projections.archive.landings import Archive
from topolog.projections.spark.reports import making
from topolog.projections.spark.reports.page import page

archive, folder, *names = sys.argv[1:]
spark = SparkSession.builder.appName("topolog report").config("spark.sql.session.timeZone", "UTC").getOrCreate()
kept = making.writable(Path(folder))
whole = making.make(spark, Archive(Path(archive)), kept, making.chosen(names))
(kept / "index.html").write_text(page(whole))
(kept / making.ABOUT).write_text(json.dumps(making.document(whole), indent=2))
spark.stop()
