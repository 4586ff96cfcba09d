"""Somebody who may write what nodes write, reads all, and lies: the adversary of `events/proof.py` and
`events/operations.py`.

It says that a member has died, or has stopped serving, and shows what may pass for that one's secret: one that somebody
else has shown, or one of a former life of it, or any. And it asks for what is an operator's, in a name by which a
process or an operator numbers its requests. What it can do besides, with heartbeats and joinings that end nothing and
requests that a node may make, stands in docs/security.md.
"""

import random

from topolog.events.asked import SEQUENCE_MAX, RequestId
from topolog.events.codec import CODEC, Record
from topolog.events.ids import NodeId
from topolog.events.leases import FENCING
from topolog.events.membership import Heartbeat, NodeDied, NodeRemovalRequested
from topolog.events.proof import SECRET_BYTES
from topolog.events.requesters import is_of, joining, requester_of
from topolog.events.topics import PARTITIONS, Topic
from topolog.streams.node.core import Phase
from topolog.streams.simulation.network import Fate, Send
from topolog.streams.simulation.operations import log_id_of
from topolog.streams.simulation.processes import NodeProcess
from topolog.streams.simulation.world import World

LIAR = "liar"
"""The author of what is a lie."""

_AHEAD = 1_000


def forge(world: World, draw: random.Random) -> None:
    node = world.on(draw.choice(world.node_names))
    if not isinstance(node, NodeProcess) or node.session.core.phase is not Phase.MEMBER:
        return
    topic, lie = draw.choice((_sign, _request))(world, node, draw)
    world.note_deed(f"LIE {type(lie).__name__} of {node.describe()}")
    sent = Send(LIAR, topic, node.name, CODEC.encode(lie), (), None, Fate.LANDS)
    world.timeline.after(0, lambda: _put(world, sent))


def _put(world: World, sent: Send) -> None:
    world.broker.put(sent)


def _request(world: World, node: NodeProcess, draw: random.Random) -> tuple[Topic, Record]:
    """A removal of the node: in its name by a lane of its own, in the operator's, or numbered out of reach."""
    core = node.session.core
    requester = _requester(world, core.node)
    operator = world.operator
    request, actor = draw.choice(
        (
            (RequestId(f"{requester}.7", 1), core.node),
            (RequestId(operator.name, operator.sequence + draw.randint(1, 5)), operator.name),
            (RequestId(requester, SEQUENCE_MAX), core.node),
        )
    )
    return Topic.REQUESTS, NodeRemovalRequested(request, log_id_of(world) or b"", actor, "a lie", core.node)


def _requester(world: World, node: NodeId) -> str:
    """By what the node has numbered what it asked for last; nobody's, if it has asked for nothing but to join."""
    numbers = range(PARTITIONS[Topic.REQUESTS])
    keys = (entry.key for number in numbers for entry in world.broker.log.entries(Topic.REQUESTS, number))
    own = [key for key in keys if key is not None and is_of(key, node) and not key.endswith(joining(""))]
    return own[-1] if own else requester_of(node, 0)


def _sign(world: World, node: NodeProcess, draw: random.Random) -> tuple[Topic, Record]:
    """That the node is dead, or has stopped."""
    core, shown = node.session.core, _shown(world)
    secret = draw.choice(shown) if shown and draw.random() < 0.5 else draw.randbytes(SECRET_BYTES)
    died = NodeDied(core.node, core.incarnation, secret)
    sequence, applied = core.sent + _AHEAD, core.applied
    stopped = Heartbeat(
        *(core.node, core.incarnation, sequence, applied, applied.position, None, (FENCING,)),
        fenced=False,
        secret=secret,
    )
    return Topic.HEARTBEATS, draw.choice((died, stopped))


def _shown(world: World) -> list[bytes]:
    """The secrets that were ever shown on the topic."""
    numbers = range(PARTITIONS[Topic.HEARTBEATS])
    entries = (entry for number in numbers for entry in world.broker.log.entries(Topic.HEARTBEATS, number))
    records = (CODEC.decode(entry.value) for entry in entries)
    return [each.secret for each in records if isinstance(each, Heartbeat | NodeDied) and each.secret]
