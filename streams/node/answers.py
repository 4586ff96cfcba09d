"""What a node answers its service: a type as it may be used, and what became of a proposal."""

from concurrent.futures import Future

import msgspec

from topolog.events.ids import Position
from topolog.events.object_types import ObjectType
from topolog.events.requests import Status


class Metadata(msgspec.Struct, frozen=True):
    """One type as a reader may use it: its definition at `version`."""

    definition: ObjectType
    version: int


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
