"""What a coordinator counts of itself while it works, for metrics: no decision depends on any of it.

The core decides and counts nothing; the driver tells here what went in and what came out. Numbers are since this
process started, whoever it was meanwhile: a stand-by, a leader, a leader again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from topolog.events.baseline import StateChangeFinished, StateChangeStarted
from topolog.events.decision import Decision
from topolog.events.exchange import AffinitySwitched, ExchangeCompleted, ExchangeStarted, HandOverPrepared
from topolog.events.ids import Position
from topolog.events.log import Entry, LogReader
from topolog.events.measuring import Durations
from topolog.events.metadata import (
    MetadataRemoveAccepted,
    MetadataRemoveProposed,
    MetadataUpdateAccepted,
    MetadataUpdateProposed,
    MetadataUpdateRejected,
)
from topolog.events.objects import SchemaChangeCommitted, SchemaChangePrepared, SchemaChangeRolledBack
from topolog.events.requests import RequestRefused, RequestUnchanged
from topolog.events.topics import REQUEST_TOPICS, Topic

INPUTS = (Topic.DECISIONS, *REQUEST_TOPICS, Topic.HEARTBEATS, Topic.MAPS)
_NS_PER_S = 1e9
_LOOK_NS = 100_000_000
_PENDING_MAX = 10_000
"""Verdicts that are awaited and timed; of more the later ones are not."""

_REFUSALS = (RequestRefused, MetadataUpdateRejected)
_ONLY = ""
"""One exchange is open at a time."""

PROTOCOLS = ("metadata", "schema", "state", "hand-over", "exchange")


class Measures:
    """Counters of one process. The driver's thread writes; any thread reads."""

    def __init__(self) -> None:
        self.take_overs = self.depositions = 0
        self.decided: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.read: Counter[Topic] = Counter()
        self.decision = Durations()
        self.verdicts = {protocol: Durations() for protocol in PROTOCOLS}
        self.behind_ms: dict[Topic, int | None] = {}
        """By input: when the newest record was appended that was read; None at its end; not there while not read."""
        self._newest_ms: dict[Topic, int] = {}
        self._pending: dict[tuple[str, object], int] = {}
        self._look_at_ns = 0

    def note_read(self, entries: Sequence[Entry], reader: LogReader, now_ns: int) -> None:
        """What one poll has brought, and whether there is more."""
        for entry in entries:
            self.read[entry.topic] += 1
            self._newest_ms[entry.topic] = entry.appended_at_ms
        if now_ns >= self._look_at_ns:
            self._look_at_ns = now_ns + _LOOK_NS
            self.behind_ms = {
                topic: None if reader.at_end(topic) else newest_ms for topic, newest_ms in self._newest_ms.items()
            }

    def note_asked(self, entry: Entry, decided: Sequence[Decision], now_ms: int) -> None:
        """A request was taken up; nothing is decided of one that is a repeat, or dead."""
        if not decided:
            self.requests["repeated"] += 1
            return
        first = decided[0]
        outcome = "refused" if isinstance(first, _REFUSALS) else "granted"
        self.requests["unchanged" if isinstance(first, RequestUnchanged) else outcome] += 1
        self.decision.observe((now_ms - entry.appended_at_ms) / 1000)

    def note_decided(self, decided: Sequence[Decision], last: Position, now_ns: int) -> None:
        """These are about to be appended; the last of them stands at position `last`."""
        first = last - len(decided) + 1
        for position, event in enumerate(decided, first):
            self.decided[type(event).__name__] += 1
            if isinstance(event, _REFUSALS):
                self.refusals[event.code] += 1
            self._time(event, position, now_ns)

    def start_over(self) -> None:
        """What was awaited is awaited by somebody else."""
        self._pending.clear()
        self._newest_ms.clear()
        self.behind_ms = {}

    def _time(self, event: Decision, position: int, now_ns: int) -> None:
        """A verdict begins to be awaited, or is there; what was proposed before this leader's time is not timed."""
        match event:
            case MetadataUpdateProposed() | MetadataRemoveProposed():
                self._begin("metadata", (event.type_name, event.version), now_ns)
            case SchemaChangePrepared():
                self._begin("schema", event.change or position, now_ns)
            case StateChangeStarted():
                self._begin("state", position, now_ns)
            case HandOverPrepared():
                self._begin("hand-over", position, now_ns)
            case ExchangeStarted():
                self._begin("exchange", _ONLY, now_ns)
            case _:
                for protocol, subject in _verdicts(event):
                    if not self._end(protocol, subject, now_ns):
                        break

    def _begin(self, protocol: str, subject: object, now_ns: int) -> None:
        if len(self._pending) < _PENDING_MAX:
            self._pending[protocol, subject] = now_ns

    def _end(self, protocol: str, subject: object, now_ns: int) -> bool:
        began_ns = self._pending.pop((protocol, subject), None)
        if began_ns is not None:
            self.verdicts[protocol].observe((now_ns - began_ns) / _NS_PER_S)
        return began_ns is not None


def _verdicts(event: Decision) -> Iterator[tuple[str, object]]:
    """What has its verdict by this, the newest first: behind one that was not timed stand no others that were."""
    match event:
        case MetadataUpdateAccepted():
            yield from (("metadata", (event.type_name, version)) for version in range(event.version, 0, -1))
        case MetadataRemoveAccepted():
            yield from (("metadata", (event.type_name, version)) for version in range(event.floor, 0, -1))
        case SchemaChangeCommitted():
            yield from (("schema", change) for change in sorted(event.changes, reverse=True))
        case SchemaChangeRolledBack():
            yield "schema", event.change
        case StateChangeFinished():
            yield "state", event.started
        case AffinitySwitched():
            yield "hand-over", event.prepared
        case ExchangeCompleted():
            yield "exchange", _ONLY
