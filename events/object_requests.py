"""What can be asked of definitions: changes of them, and that what they have closed is deleted."""

from typing import ClassVar

from topolog.events.asked import Request
from topolog.events.object_definition import Statement


class SchemaChangeRequested(Request, frozen=True):
    """Change definitions, all of them or none; given up after `deadline_ms`, None for as long as it takes."""

    SUBJECT: ClassVar[str] = "schema"

    statements: tuple[Statement, ...]
    deadline_ms: int | None = None


class ChangeCancellationRequested(Request, frozen=True):
    """Give up a change that is not committed yet."""

    SUBJECT: ClassVar[str] = "change {0.change}"

    change: int


class DeletionsConfirmed(Request, frozen=True):
    """This life of a server has deleted all data that these changes have closed."""

    SUBJECT: ClassVar[str] = "node {0.node}"

    node: str
    incarnation: int
    changes: tuple[int, ...]


ObjectRequest = SchemaChangeRequested | ChangeCancellationRequested | DeletionsConfirmed
