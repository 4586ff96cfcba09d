"""Another service in the demo's cluster, which has nothing to do with the store: a group of its own, on its own node.

It serves nothing. Asked to hang, it does what a service must not (docs/services.md): the hook that tells of its first
partitions does not return. So its node applies nothing more of the log, while its heartbeats go on and its lease still
runs. Nodes of the store may die and join meanwhile: no exchange waits for it.

Its rows are nobody's, so its group is dropped in the end, and anew in the beginning if a former one was killed.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import count

from topolog.events.errors import TopologError
from topolog.events.groups import Affinity, GroupDefinition
from topolog.streams.local.stopping import Stopping, Told
from topolog.streams.node.client import Node
from topolog.streams.node.views import PartitionView

NAME = "stranger"
ATTRIBUTES = {"service": NAME}
"""What its node says of itself: the store's group is not for it, nor its group for the store's nodes."""

GROUP = GroupDefinition(NAME, partitions=8, affinity=Affinity(node_filter=ATTRIBUTES))

LOOK_S, LOOK_AGAIN_S = 0.02, 0.5
LOOKS = 500
"""After so many the cluster would have given it partitions, if it gave it any."""

Say = Callable[[str], None]


class Hook:
    """What the node tells of partitions; `hangs` from the first of ours on, until it is let go."""

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs
        self.told = threading.Event()
        self._is_ready = False
        self._goes_on = threading.Event()

    def __call__(self, found: Sequence[PartitionView]) -> None:
        if self._is_ready and any(each.group == GROUP.name and each.copies for each in found):
            self.told.set()
            if self.hangs:
                self._goes_on.wait()

    def be_ready(self) -> None:
        """What is told from here on is of this life of the service."""
        self._is_ready = True

    def let_go(self) -> None:
        self._goes_on.set()


def run_stranger(node: Node, drop: Callable[[], None], stopping: Stopping, say: Say, *, hangs: bool) -> None:
    """Be that service until told to stop, also while the hook hangs. `node` is not entered yet, with ATTRIBUTES.

    `drop` drops the group; it may raise a TopologError. Raises LeftCluster when the node has been removed, Unreachable
    if it cannot join, Refused if it may have no group.
    """
    hook = Hook(hangs=hangs)
    node.on_map(hook)
    with suppress(Told), ExitStack() as stack:
        with stopping.interrupting():
            stack.enter_context(node)
            stack.callback(hook.let_go)
            stack.callback(_leave_nothing, drop, say)
            _found(node, hook, drop, stopping)
        _tell(node, hook, stopping, say)


def _found(node: Node, hook: Hook, drop: Callable[[], None], stopping: Stopping) -> None:
    """Its group, and as a new one."""
    if GROUP.name in node.groups():
        drop()
        while GROUP.name in node.groups():
            stopping.wait(LOOK_S)
    hook.be_ready()
    node.create_group(GROUP, reason="another service")


def _tell(node: Node, hook: Hook, stopping: Stopping, say: Say) -> None:
    """What happens to it, until it is told to stop. Raises what has ended the node."""
    say(f"{node.name} is another service of cluster {node.cluster}, with partitions of its own; Ctrl-C ends it")
    if _is_told(node, hook, stopping, say) and hook.hangs:
        say(
            "its hook hangs from now on: it applies nothing more of the log, and its heartbeats go on. "
            "Kill nodes of the store, let them join: nothing of that waits for it"
        )
    had_lease = True
    while not stopping.wait(LOOK_AGAIN_S):
        _check(node)
        if hook.hangs and had_lease and not node.lease.is_valid:
            say("its lease is over, for it has applied nothing for so long; soon it is out of the cluster")
        had_lease = node.lease.is_valid


def _is_told(node: Node, hook: Hook, stopping: Stopping, say: Say) -> bool:
    """Whether it was given partitions before it was told to stop."""
    for look in count(1):
        if hook.told.is_set() or stopping.wait(LOOK_S):
            break
        _check(node)
        if look == LOOKS:
            say(f"no partition is given to it yet: `topolog explain partition {GROUP.name}/0` says why")
    return hook.told.is_set()


def _leave_nothing(drop: Callable[[], None], say: Say) -> None:
    try:
        drop()
    except TopologError as error:
        say(f"its group stays, without an owner: {error} `topolog drop group {GROUP.name}` drops it")


def _check(node: Node) -> None:
    if node.failure:
        raise node.failure
