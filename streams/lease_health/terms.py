"""Where a worker learns by what terms it measures: from the log itself, not from settings.

The terms of a lease are what LogStarted says; settings may have been edited since, and a worker that measured by other
terms than the nodes live by would warn too late. Heartbeats do not carry them. They name their log, though: one of
another log means that the topics were made again, and sends whoever reads it here once more.
"""

from topolog.events.fold import Fold
from topolog.events.log import LogReader
from topolog.events.terms import ClusterRow
from topolog.events.topics import Topic
from topolog.streams.lease_health.windows import Terms
from topolog.streams.local.stopping import Stop

_POLL_S = 0.1


def read_terms(reader: LogReader, stop: Stop) -> Terms | None:
    """The terms at the beginning of the log; waits for them while it is empty. None if told to stop before.

    Raises what the reader raises, and Poisoned or Undecodable if the log begins with what this version cannot read.
    """
    reader.assign({(Topic.DECISIONS, 0): None})
    fold = Fold()
    while not stop.is_set():
        for entry in reader.poll(_POLL_S):
            fold.read(entry.stamp, entry.value)
            row = fold.state.get(ClusterRow, "")
            if row is not None:
                return Terms(bytes.fromhex(row.log_id), row.fence_ms, row.heartbeat_ms)
    return None
