"""A validator that dies where it is told to, for `test_validator_failpoints.py`.

    validating ENTRY CLUSTER BOOTSTRAP TABLE NAME FILE

ENTRY is one of TOPOLOG_FAILPOINT, empty for none. The rows of the replica are in the FILE, as JSON, and outlive the
process; a few rows are written at a time. A fork of `nursery.py`.
"""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from topolog.events import failpoints
from topolog.events.replica import Cut, ReplicaDefinition, SentRow, Written
from topolog.events.replica_access import Fence, Progress
from topolog.events.tree_spec import Column, TreeSpec
from topolog.streams.local.stopping import stopping_when_told
from topolog.streams.validator.memory import MemoryReplica, Values
from topolog.streams.validator.program import run_validator

COLUMNS = (Column("id", "long"), Column("name", "string"), Column("changed", "long"))
BATCH_ROWS = 2


def rows_in(file: Path) -> list[Values]:
    """By their key."""
    found: list[Values] = msgspec.json.decode(file.read_bytes())
    return sorted(found, key=lambda row: str(row["id"]))


def keep(file: Path, rows: Sequence[Values]) -> None:
    """All of them or none: whoever dies here has not written."""
    beside = file.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(rows))
    beside.replace(file)


class KeptReplica(MemoryReplica):
    """One whose rows are in a file, and what is written too."""

    def __init__(self, table: str, name: str, file: Path) -> None:
        super().__init__(ReplicaDefinition(table, name, COLUMNS, ("id",)), rows_in(file))
        self._file = file

    def write(
        self, spec: TreeSpec, rows: Sequence[SentRow], cut: Cut | None, fence: Fence, progress: Progress
    ) -> Written:
        written = super().write(spec, rows, cut, fence, progress)
        keep(self._file, self.rows_now)
        return written


def main(entry: str, cluster: str, bootstrap: str, table: str, name: str, file: str) -> None:
    failpoints.arm({failpoints.VARIABLE: entry})
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    with stopping_when_told(os.environ) as stopping:
        replica = KeptReplica(table, name, Path(file))
        run_validator({"bootstrap.servers": bootstrap}, cluster, [replica], stopping, batch_rows=BATCH_ROWS)
