"""What everything that waits is measured by: the time it is now, who is there, who was heard when, by which terms."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from topolog.events.ids import Position
from topolog.events.leases import FENCING, NodeRow
from topolog.events.state import State
from topolog.projections import changes, patience, queries, silence
from topolog.projections.cause_words import NEXT_MAX
from topolog.projections.durations import ago
from topolog.projections.heard import heard_ms
from topolog.projections.moments import iso
from topolog.projections.pending_resources import Pending, PendingHolder, PendingKind
from topolog.projections.resources import Lease
from topolog.projections.sentences import listed
from topolog.projections.store import Reading
from topolog.streams.rules.verdict import holders


class What(msgspec.Struct, frozen=True):
    """What waits: its kind and name, what `explain` takes for it, the commands that show more or help."""

    kind: PendingKind
    name: str
    about: str
    commands: Sequence[str]


class PendingView:
    """One reading, with what many pending things have in common read once."""

    def __init__(self, reading: Reading, age_ms: int) -> None:
        self.reading = reading
        self.age_ms = age_ms
        self.now_ms = changes.now_ms(reading)
        self.cluster = queries.cluster_row(reading)

    @cached_property
    def nodes(self) -> State:
        """The rows of all nodes, for rules that want a state."""
        return self.reading.state(NodeRow)

    @cached_property
    def leases(self) -> dict[str, Lease]:
        return {each.node: each for each in queries.leases(self.reading, self.age_ms)}

    @cached_property
    def clock(self) -> silence.Clock | None:
        """What silences are measured by; None where nothing is known of now."""
        return silence.clock(self.reading, self.cluster, self.age_ms)

    @cached_property
    def _heard(self) -> dict[str, int]:
        return dict(heard_ms(self.reading, self.age_ms))

    def heard_ms(self, node: str) -> int | None:
        """How many ms ago it was heard last; None where that is not known."""
        return self._heard.get(node)

    def logged_ms(self, position: Position) -> int:
        """When the decision there was logged."""
        return self.reading.surely_decision(position).logged_at_ms

    def node(self, name: str) -> NodeRow | None:
        return next((row for _, row in self.nodes.rows(NodeRow) if row.node == name), None)

    def holder(self, node: str, since: Position, at_most_ms: int | None) -> PendingHolder:
        """Somebody who is waited for."""
        lease = self.leases.get(node)
        return PendingHolder(node, since, self.heard_ms(node), lease.state if lease else None, at_most_ms)

    def holders(self, nodes: Iterable[str], since: Position, at_most_ms: int | None) -> tuple[PendingHolder, ...]:
        return tuple(self.holder(node, since, at_most_ms) for node in nodes)

    def verdict(self, position: Position) -> tuple[PendingHolder, ...]:
        """Whom the verdict on the decision there asks, by the very rule the coordinator goes by; the silent first."""
        left_ms = patience.longest_wait(self.reading, position).left_ms
        found = [
            self.holder(row.node, position, left_ms if FENCING in row.capabilities else None)
            for row in holders(self.nodes, position)
        ]
        return tuple(sorted(found, key=lambda each: (each.at_most_ms is not None, -(each.heard_ms or 0))))

    def of_verdict(self, what: What, sentence: str, position: Position) -> Pending:
        """Something that the verdict on the decision at `position` ends."""
        asked = self.verdict(position)
        endless = [each.node for each in asked if each.at_most_ms is None]
        if endless:
            why = f"{listed(endless)} must answer or be removed, for {_it(endless)} not fence {_self(endless)}"
            return self.item(what, sentence, position, asked, None, f"at no fixed time, because {why}")
        left_ms = max((each.at_most_ms or 0 for each in asked), default=0)
        ends = "" if asked else "now, for nobody has to be asked"
        return self.item(what, sentence, position, asked, left_ms, ends)

    def item(
        self,
        what: What,
        sentence: str,
        since: Position,
        waits_for: Sequence[PendingHolder],
        at_most_ms: int | None,
        ends: str = "",
    ) -> Pending:
        """`ends` may be empty where a time ends it: then that time is said."""
        since_ms = self.logged_ms(since)
        if not ends:
            ends = f"in {ago(at_most_ms)} at the latest" if at_most_ms else "now, for its time is over"
        return Pending(
            name=f"{what.kind.lower()}/{what.name}",
            kind=what.kind,
            sentence=sentence,
            since=since,
            since_time=iso(since_ms),
            waited_ms=max(0, self.now_ms - since_ms),
            waits_for=tuple(waits_for),
            at_most_ms=at_most_ms,
            ends=ends,
            about=what.about,
            next=tuple(dict.fromkeys(what.commands))[:NEXT_MAX],
        )


def _it(names: Sequence[str]) -> str:
    return "it does" if len(names) == 1 else "they do"


def _self(names: Sequence[str]) -> str:
    return "itself" if len(names) == 1 else "themselves"
