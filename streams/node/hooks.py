"""What a service is told as the log is applied: types as they are accepted, and that it is out of the membership."""

from collections.abc import Callable

from topolog.events.fold import Folded
from topolog.events.ids import NOWHERE
from topolog.events.membership import LeaveReason, NodeLeft
from topolog.events.metadata import MetadataRemoveAccepted, MetadataUpdateAccepted, TypeRow, type_row
from topolog.events.state import State
from topolog.streams.node.answers import Metadata

TypeHook = Callable[[str, Metadata | None], None]
LeftHook = Callable[[LeaveReason], None]


class Hooks:
    """The hooks of one node, called in the order of the log."""

    def __init__(self) -> None:
        self.on_type: list[TypeHook] = []
        self.on_left: list[LeftHook] = []
        self._said: dict[str, None] = {}

    def begin(self, state: State) -> None:
        """The state comes from a snapshot: say each type that is accepted there, in the order of acceptance.

        Before that, take back whatever was said of a state that proved wrong.
        """
        for name in list(self._said):
            self._say(name, None)
        accepted = [row for _, row in state.rows(TypeRow) if row.accepted]
        for row in sorted(accepted, key=lambda row: row.accepted_at or NOWHERE):
            assert row.accepted is not None
            self._say(row.name, Metadata(row.accepted, row.accepted_version))

    def run(self, state: State, folded: Folded, life: tuple[str, int]) -> None:
        """Say what `folded`, which `state` reflects, means for the service; `life` is its node and incarnation."""
        match folded.event:
            case MetadataUpdateAccepted(type_name=name, version=version):
                row = type_row(state, name)
                assert row is not None, "an accepted type has a row"
                assert row.accepted is not None, "an accepted type has a definition"
                self._say(name, Metadata(row.accepted, version))
            case MetadataRemoveAccepted(type_name=name):
                self._say(name, None)
            case NodeLeft(reason=reason) as left if (left.node, left.incarnation) == life:
                for hook in self.on_left:
                    hook(reason)

    def _say(self, name: str, metadata: Metadata | None) -> None:
        if metadata is None:
            self._said.pop(name, None)
        else:
            self._said[name] = None
        for hook in self.on_type:
            hook(name, metadata)
