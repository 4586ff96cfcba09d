"""What is due if nothing changes: the deadlines of all rows, kept up to date from the state's journal."""

from topolog.events.awaited import UnheardRow
from topolog.events.baseline import AutoAdjustRow
from topolog.events.exchange import ExchangeRow
from topolog.events.ids import NOWHERE
from topolog.events.leases import LeaseRow
from topolog.events.objects import ChangeRow
from topolog.events.requests import RequesterRow
from topolog.events.schedules import ScheduleRow
from topolog.events.sessions import SegmentRow, SessionRow
from topolog.events.state import Key, State
from topolog.streams.rules import baseline, exchange, membership, objects, repair, requesters
from topolog.streams.rules.deadlines import Deadline
from topolog.streams.rules.exchange import Patience

_KINDS = (
    LeaseRow,
    RequesterRow,
    ExchangeRow,
    UnheardRow,
    AutoAdjustRow,
    ChangeRow,
    SessionRow,
    SegmentRow,
    ScheduleRow,
)


class Agenda:
    """Deadlines by key, and which of them have passed.

    `gaps` counts how often the coordinator was not hearing heartbeats (LE27), `map_gaps` maps; `lapsed`, `idle`,
    `overdue`, `adjusting`, `late`, `stalled`: passed deadlines of leases, requesters, single maps, the baseline,
    changes of definitions, and comparisons of replicas, still due.
    `waited_through`: every decision up to this position was read back proceed_ms ago. Many decisions wait that long and
    none shorter, so that wait is one position for all of them, no deadline of each.
    """

    def __init__(self, patience: Patience = Patience()) -> None:  # noqa: B008 (frozen value)
        self.gaps = 0
        self.map_gaps = 0
        self.waited_through = NOWHERE
        self.lapsed: set[str] = set()
        self.idle: set[str] = set()
        self.overdue: set[str] = set()
        self.adjusting: set[str] = set()
        self.late: set[str] = set()
        self.stalled: set[str] = set()
        self._passed = {
            "lease": self.lapsed,
            "idle": self.idle,
            "exchange": self.overdue,
            "adjust": self.adjusting,
            "change": self.late,
            **dict.fromkeys(("session", "task", "retry", "schedule"), self.stalled),
        }
        self._patience = patience
        self._due: dict[str, Deadline] = {}
        self._keys: dict[Key, list[str]] = {}
        self._changed: dict[str, Deadline | None] = {}

    def begin(self, state: State) -> None:
        """A new leader: every wait starts now."""
        for kind in _KINDS:
            for key, _ in state.rows(kind):
                self.revise(state, (kind.KIND, key))

    def revise(self, state: State, key: Key) -> None:
        """The row under `key` has changed. A deadline that stands as it was goes on, or has passed already."""
        deadlines = {each.key: each for each in self._deadlines(state, key)}
        for old in self._keys.pop(key, ()):
            if deadlines.get(old) == self._due[old]:
                del deadlines[old]
                self._keys.setdefault(key, []).append(old)
                continue
            del self._due[old]
            self._changed[old] = None
            for passed in self._passed.values():
                passed.discard(old)
        if deadlines:
            self._keys.setdefault(key, []).extend(deadlines)
        for each in deadlines.values():
            self._due[each.key] = self._changed[each.key] = each

    @property
    def waits_for_maps(self) -> bool:
        return any(kind == UnheardRow.KIND for kind, _ in self._keys)

    def interrupt_maps(self, state: State) -> None:
        """Every silence of a server starts again."""
        self.map_gaps += 1
        for key, _ in state.rows(UnheardRow):
            self.revise(state, (UnheardRow.KIND, key))

    def drain(self) -> dict[str, Deadline | None]:
        """Deadlines that are new, and None for keys that are gone, since the last drain."""
        changed, self._changed = self._changed, {}
        return changed

    def pass_deadline(self, key: str) -> bool:
        """Note that a deadline has passed; False if it is no longer due."""
        if key not in self._due:
            return False
        self._passed[key.partition("/")[0]].add(key)
        return True

    def _deadlines(self, state: State, key: Key) -> list[Deadline]:
        match state.lookup(key):
            case LeaseRow() as row:
                return membership.deadlines(state, row, self.gaps)
            case RequesterRow() as row:
                return requesters.deadlines(key[1], row)
            case ExchangeRow() as row:
                return exchange.deadlines(row, self._patience)
            case UnheardRow() as row:
                return exchange.deadlines_of_unheard(row, self._patience, self.map_gaps)
            case AutoAdjustRow() as row:
                return baseline.deadlines(row)
            case ChangeRow() as row:
                return objects.deadlines(row)
            case SessionRow() | SegmentRow() | ScheduleRow() as row:
                return repair.deadlines(state, row)
        return []
