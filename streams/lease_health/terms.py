"""Where a worker learns by what terms it measures: from the log itself, not from settings.

The terms of a lease are what LogStarted says, and what the newest LeaseTermsChanged says since; settings may have been
edited, and a worker that measured by other terms than the nodes live by would warn too late, or be believed dead by
those who read it. Heartbeats do not carry them. They name their log, though: one of another log means that the topics
were made again, and sends whoever reads it here once more.
"""

from topolog.events.codec import CODEC
from topolog.events.fold import Accepted, Fold, Ignored, Judge, ends_term
from topolog.events.lease_terms import LeaseTermsChanged
from topolog.events.log import LogReader
from topolog.events.terms import ClusterRow, LogStarted
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


class Follower:
    """Reads the whole log for its terms and nothing else: each record is judged, hardly one is decoded.

    `newest`: the terms at the end of the log, None until that has been reached.
    """

    def __init__(self, reader: LogReader) -> None:
        self.newest: Terms | None = None
        self._reader = reader
        self._judge = Judge()
        self._terms: Terms | None = None
        reader.assign({(Topic.DECISIONS, 0): None})

    def step(self, timeout_s: float) -> None:
        """Read what is there; raises what the reader raises, and LogDiverged if this is no longer the same log."""
        for entry in self._reader.poll(timeout_s):
            found = self._judge.judge(entry.stamp, entry.value)
            if isinstance(found, Ignored):
                continue
            if self._terms is not None:
                self._reader.counted(entry, self._terms.fence_ms)
            for accepted in found:
                self._note(accepted)
        if self._reader.at_end(Topic.DECISIONS):
            self.newest = self._terms

    def _note(self, accepted: Accepted) -> None:
        if ends_term(accepted.value):
            self._judge.end_term()
        if CODEC.type_of(accepted.value) not in (LogStarted, LeaseTermsChanged):
            return
        match CODEC.read(accepted.value):
            case LogStarted() as started:
                self._terms = Terms(started.log_id, started.fence_ms, started.heartbeat_ms)
            case LeaseTermsChanged(fence_ms=fence_ms) if self._terms is not None:
                self._terms = Terms(self._terms.log_id, fence_ms, self._terms.heartbeat_ms)
