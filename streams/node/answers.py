"""What a node answers its service: a type as it may be used, what became of a proposal, and that it takes longer."""

from concurrent.futures import Future

import msgspec

from topolog.events.asked import RequestId
from topolog.events.errors import NotCaughtUp, OutcomeUnknown, TopologError
from topolog.events.ids import Position
from topolog.events.metadata import RemovalRow, TypeRow
from topolog.events.object_types import ObjectType
from topolog.events.requests import Status

_NS_PER_MS = 1_000_000


class Metadata(msgspec.Struct, frozen=True):
    """One type as a reader may use it: its definition at `version`. `age_ms`: how old the answer may be, None if it is
    proven to be of now."""

    definition: ObjectType
    version: int
    age_ms: int | None = None

    def after(self, span_ns: int) -> "Metadata":
        """The same, given so much later than it was taken."""
        if self.age_ms is None:
            return self
        return msgspec.structs.replace(self, age_ms=self.age_ms - (-span_ns // _NS_PER_MS))  # rounded up


class Outcome(msgspec.Struct, frozen=True):
    """What became of a proposal: `version`, decided at `position`, holds it; no `request_id` if nothing was sent."""

    request_id: str | None
    status: Status
    type_name: str
    version: int
    position: Position
    accepted: bool


class Submitted(msgspec.Struct, frozen=True):
    """A proposal under way: `request_id`, None if nothing had to be sent, can be asked about after a time-out."""

    request_id: str | None
    outcome: Future[Outcome]


def not_settled(request: RequestId | None, timeout_s: float) -> TopologError:
    """The error for a caller whose time was over before his request was settled; without one, before the version
    was accepted that contains what he proposed."""
    if request is None:
        return NotCaughtUp(
            f"The type contains this already, but its version is not accepted after {timeout_s:g} s.",
            hint="Nothing was sent; the same call again goes on waiting.",
        )
    return OutcomeUnknown(
        f"Request {request} is not settled after {timeout_s:g} s.",
        request_id=str(request),
        hint="Ask again with outcome(request_id); it is applied once or not at all.",
    )


def not_accepted(row: TypeRow | None, timeout_s: float) -> TopologError:
    """The error for a reader whose time was over before the version was accepted that he had seen pending."""
    assert row is not None, "there is nothing to wait for without a type"
    return NotCaughtUp(
        f"Type {row.name!r}: version {row.pending_version} (proposed at position {row.proposed_at}) is not "
        f"accepted after {timeout_s:g} s.",
        hint=f"`topolog explain type {row.name}` says whom it waits for.",
    )


def not_removed(row: RemovalRow, timeout_s: float) -> TopologError:
    """The error for a reader whose time was over before the removal was accepted that he had seen under way."""
    return NotCaughtUp(
        f"Type {row.name!r}: its removal (proposed at position {row.position}) is not accepted after {timeout_s:g} s.",
        hint=f"`topolog explain type {row.name}` says whom it waits for.",
    )
