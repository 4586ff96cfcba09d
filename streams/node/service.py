"""What a session tells the service that it runs for, and asks of it; by itself a service hears and holds nothing."""

from collections.abc import Sequence, Set

from topolog.events.fold import Folded
from topolog.events.membership import NodeDied
from topolog.events.state import Key
from topolog.streams.node.confirming import newly_owed
from topolog.streams.node.copies import Disk, PartitionId
from topolog.streams.node.core import NodeCore


class Service:
    """All of it is called on the thread that applies the log, but for `running`, which any thread may ask.

    Whatever it raises ends the node, for going on would count as applied what it has not done.
    """

    def begin(self, core: NodeCore) -> None:
        """The state comes from a snapshot, or, should that prove wrong before the first join, begins anew."""

    def hook(self, core: NodeCore, folded: Folded) -> None:
        """One decision of a set that the state reflects."""

    def adopt(self, core: NodeCore, keys: Sequence[Key]) -> None:
        """These rows have changed by a whole set; behind its hooks, and before it counts as applied.

        Who holds nothing has deleted what is to be deleted.
        """
        for change in newly_owed(core, keys):
            core.deletions.done(change.number)

    def announce(self, died: NodeDied) -> None:
        """An incarnation is about to ask to join; this will be true of it once the process has died."""

    def whole(self) -> Disk:
        """The whole copies that are here, with their update counters."""
        return {}

    def running(self, places: Set[PartitionId]) -> Set[PartitionId]:
        """For which of these partitions an operation still runs."""
        return frozenset()
