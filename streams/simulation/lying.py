"""Somebody who may write heartbeats, reads all that others write, and lies: the adversary of `events/proof.py`.

It says that a member has died, or has stopped serving, and shows what may pass for that one's secret: one that somebody
else has shown, or one of a former life of it, or any. What it can do besides, with heartbeats that end nothing,
stands in docs/security.md.
"""

import random

from topolog.events.codec import CODEC
from topolog.events.membership import FENCING, Heartbeat, NodeDied
from topolog.events.proof import SECRET_BYTES
from topolog.events.topics import PARTITIONS, Topic
from topolog.streams.node.core import Phase
from topolog.streams.simulation.network import Fate, Send
from topolog.streams.simulation.processes import NodeProcess
from topolog.streams.simulation.world import World

LIAR = "liar"
"""The author of what is a lie."""

_AHEAD = 1_000


def forge(world: World, draw: random.Random) -> None:
    node = world.on(draw.choice(world.node_names))
    if not isinstance(node, NodeProcess) or node.session.core.phase is not Phase.MEMBER:
        return
    core, shown = node.session.core, _shown(world)
    secret = draw.choice(shown) if shown and draw.random() < 0.5 else draw.randbytes(SECRET_BYTES)
    died = NodeDied(core.node, core.incarnation, secret)
    sequence, applied = core.sent + _AHEAD, core.applied
    stopped = Heartbeat(
        *(core.node, core.incarnation, sequence, applied, applied.position, None, (FENCING,)),
        fenced=False,
        secret=secret,
    )
    lie = draw.choice((died, stopped))
    world.note_deed(f"LIE {type(lie).__name__} of {node.describe()}")
    world.broker.put(Send(LIAR, Topic.HEARTBEATS, core.node, CODEC.encode(lie), (), None, Fate.LANDS))


def _shown(world: World) -> list[bytes]:
    """The secrets that were ever shown on the topic."""
    numbers = range(PARTITIONS[Topic.HEARTBEATS])
    entries = (entry for number in numbers for entry in world.broker.log.entries(Topic.HEARTBEATS, number))
    records = (CODEC.decode(entry.value) for entry in entries)
    return [each.secret for each in records if isinstance(each, Heartbeat | NodeDied) and each.secret]
