"""What was decided in a span of time, from the landed tables: a cell of a notebook, or

python docs/incident.py ARCHIVE 2026-11-22T02:00Z 2026-11-22T02:10Z
"""

import sys
import tempfile
from datetime import datetime
from pathlib import Path

from topolog.projections.archive.landings import Archive
from topolog.projections.spark.reports.incident import incident
from topolog.projections.spark.reports.landed import landed_in
from topolog.projections.spark.session import spark_session

if len(sys.argv) != 4:
    sys.exit(__doc__)
archive, start, end = sys.argv[1], *(datetime.fromisoformat(text).astimezone() for text in sys.argv[2:])
with tempfile.TemporaryDirectory() as scratch, spark_session(Path(scratch)) as spark:
    landed = landed_in(spark, Archive(Path(archive)))
    found = incident(landed, start, end)
    found.drop("content").show(100, truncate=60)
