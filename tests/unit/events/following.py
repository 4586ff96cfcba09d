"""A reader of a log in memory that looks ahead, as coordinators, nodes and projectors do."""

from topolog.events.codec import CODEC, Codec
from topolog.events.errors import Poisoned
from topolog.events.fold import Fold, Folded, Header, Ignored
from topolog.events.ids import Offset
from topolog.events.log import InMemoryLog
from topolog.events.lookahead import LookAhead
from topolog.events.state import State
from topolog.events.topics import Topic


class Reader:
    """A process that reads a log: from its beginning, or from the rows and the header that another has kept."""

    def __init__(
        self, log: InMemoryLog, kept: "Reader | None" = None, batch_max: int = 1_000, codec: Codec = CODEC
    ) -> None:
        self.offset: int = kept.offset if kept else 0
        self.fold: Fold = Fold(copy_of(kept.fold.state), kept.fold.header, codec) if kept else Fold(codec=codec)
        self.folded: list[Folded] = []
        reader = log.reader()
        reader.batch_max = batch_max
        self.ahead = LookAhead(reader)
        self.ahead.assign({(Topic.DECISIONS, 0): Offset(self.offset)})

    def step(self) -> None:
        for entry in self.ahead.poll(0):
            try:
                found = self.fold.read(entry.stamp, entry.value)
            except Poisoned as poisoned:
                self.ahead.look_ahead(self.fold, poisoned, entry.offset)
                return
            self.offset = entry.offset + 1
            self.folded += [] if isinstance(found, Ignored) else found

    def run(self) -> "Reader":
        """Read to the end."""
        self.step()
        while not self.ahead.at_end(Topic.DECISIONS):
            self.step()
        return self

    def sees(self) -> tuple[Header, bytes]:
        return self.fold.header, self.fold.state.hash()


def copy_of(state: State) -> State:
    """The rows as a store or a snapshot gives them back: in another order."""
    copy = State()
    for kind in sorted(state._rows, reverse=True):
        for key in sorted(state._rows[kind], reverse=True):
            copy.put(key, state._rows[kind][key])
    copy.drain()
    return copy
