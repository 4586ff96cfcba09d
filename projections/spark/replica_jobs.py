"""A job of Spark over a replica: what Spark says went wrong, as the code with which the replica's task fails."""

import re
from collections.abc import Callable

from pyspark.sql import SparkSession

from topolog.events.errors import ReplicaFailed, SparkEnded, SparkFailed
from topolog.projections.spark import jobs
from topolog.projections.spark.trees import too_large

# What Spark calls what went wrong; the first that is in its text decides.
_CODES = (
    ("COLUMN_ALREADY_EXISTS", "SCHEMA"),
    ("CONFLICTING_DIRECTORY_STRUCTURES", "SCHEMA"),
    ("CONFLICTING_PARTITION_COLUMN_NAMES", "SCHEMA"),
    ("ARITHMETIC_OVERFLOW", "LEAF_TOO_LARGE"),
    ("NUMERIC_VALUE_OUT_OF_RANGE", "SCHEMA"),
    ("CAST_OVERFLOW", "SCHEMA"),
    ("CAST_INVALID_INPUT", "SCHEMA"),
    ("MALFORMED_RECORD_IN_PARSING", "SCHEMA"),
    ("DUPLICATED_MAP_KEY", "CORRUPT"),
    ("FileNotFoundException", "CUT_LOST"),
    ("PATH_NOT_FOUND", "CUT_LOST"),
    ("UNABLE_TO_INFER_SCHEMA", "CUT_LOST"),
    ("FILE_NOT_EXIST", "CUT_LOST"),
    ("CANNOT_READ_FILE_FOOTER", "CORRUPT"),
    ("FAILED_READ_FILE", "CORRUPT"),
    ("is not a Parquet file", "CORRUPT"),
    ("ChecksumException", "CORRUPT"),
    ("No space left on device", "IO"),
)


def run(session: SparkSession, action: Callable[[], jobs.Result], told: jobs.OnProgress | None = None) -> jobs.Result:
    """As `jobs.run`; raises ReplicaFailed for what has a code."""
    try:
        return jobs.run(session, action, told)
    except SparkEnded:
        raise
    except SparkFailed as error:
        failed = _failed(jobs.told_by(error.__cause__ or error))
        raise failed or error from error.__cause__


def _failed(said: str) -> ReplicaFailed | None:
    for mark, code in _CODES:
        if mark in said:
            if code == "LEAF_TOO_LARGE":
                return too_large("The sums over a leaf do not fit 64 bits.")
            file = re.search(r"file:[^\s'\"\]]+", said)
            where = f" {file.group(0)}" if file else ""
            return ReplicaFailed(code, f"Spark says: {jobs.sentence(said, mark)}{where}")
    return None
