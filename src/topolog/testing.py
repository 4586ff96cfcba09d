"""For the unit tests of a service: a whole cluster in memory, with the real coordinator and the service's own nodes.

    from topolog.testing import LocalCluster

    with LocalCluster() as cluster, cluster.node("n1") as node:
        ...

A part of the public face (docs/stability.md).
"""

from topolog.events.membership import NodeJoined, NodeLeft
from topolog.streams.clock import ManualClock, SystemClock
from topolog.streams.coordinator.driver import LeaseTerms
from topolog.streams.node.testing import LocalCluster

__all__ = ["LeaseTerms", "LocalCluster", "ManualClock", "NodeJoined", "NodeLeft", "SystemClock"]
