"""topolog: the topology of a sharded cluster as one ordered log of decisions on Kafka.

    from topolog import Group, Node, ObjectType

    with Node("demo", "n1", kafka={"bootstrap.servers": "127.0.0.1:19092"}) as node:
        node.propose(ObjectType("Customer", {"id": "long", "name": "String"}, affinity_key="id"))
        node.create_group(Group("customers", partitions=64, backups=1))

This is the public face, with `topolog.errors` and `topolog.testing`; docs/stability.md says what of it is stable. Every
other module is internal. Nothing is imported here: a name loads its module when it is first used, so that a service
pays for the clients that it uses, and the command line for none.
"""

TYPE_CHECKING = False  # as type checkers know it; `typing` itself would be most of what this import costs

if TYPE_CHECKING:
    from topolog import errors, testing
    from topolog.events.cluster_state import ClusterState
    from topolog.events.group_definition import Affinity, LossPolicy
    from topolog.events.group_definition import GroupDefinition as Group
    from topolog.events.ids import NodeId, Position
    from topolog.events.leases import NodeKind
    from topolog.events.object_definition import (
        Column,
        ColumnAction,
        ColumnType,
        ColumnVerb,
        Definition,
        ObjectKind,
        Privilege,
        Statement,
        Verb,
    )
    from topolog.events.object_types import ObjectType
    from topolog.events.partitions import PartitionState
    from topolog.projections.cli.client import Answer
    from topolog.projections.cli.client import Api as Client
    from topolog.projections.cli.following import WatchEvent
    from topolog.streams.node.aio import AsyncNode
    from topolog.streams.node.answers import Metadata, Outcome
    from topolog.streams.node.client import Node
    from topolog.streams.node.deletions import Deletion
    from topolog.streams.node.metrics import NodeMetrics as NodeMetrics
    from topolog.streams.node.objects import Database, Table, View
    from topolog.streams.node.views import CopyView, Move, PartitionView, Route
    from topolog.streams.rules.affinity import partition_of

    __version__: str

_OBJECTS = {
    "Affinity": "topolog.events.group_definition:Affinity",
    "Answer": "topolog.projections.cli.client:Answer",
    "AsyncNode": "topolog.streams.node.aio:AsyncNode",
    "Client": "topolog.projections.cli.client:Api",
    "ClusterState": "topolog.events.cluster_state:ClusterState",
    "Column": "topolog.events.object_definition:Column",
    "ColumnAction": "topolog.events.object_definition:ColumnAction",
    "ColumnType": "topolog.events.object_definition:ColumnType",
    "ColumnVerb": "topolog.events.object_definition:ColumnVerb",
    "CopyView": "topolog.streams.node.views:CopyView",
    "Database": "topolog.streams.node.objects:Database",
    "Definition": "topolog.events.object_definition:Definition",
    "Deletion": "topolog.streams.node.deletions:Deletion",
    "Group": "topolog.events.group_definition:GroupDefinition",
    "LossPolicy": "topolog.events.group_definition:LossPolicy",
    "Metadata": "topolog.streams.node.answers:Metadata",
    "Move": "topolog.streams.node.views:Move",
    "Node": "topolog.streams.node.client:Node",
    "NodeId": "topolog.events.ids:NodeId",
    "NodeKind": "topolog.events.leases:NodeKind",
    "NodeMetrics": "topolog.streams.node.metrics:NodeMetrics",
    "ObjectKind": "topolog.events.object_definition:ObjectKind",
    "ObjectType": "topolog.events.object_types:ObjectType",
    "Outcome": "topolog.streams.node.answers:Outcome",
    "PartitionState": "topolog.events.partitions:PartitionState",
    "PartitionView": "topolog.streams.node.views:PartitionView",
    "Position": "topolog.events.ids:Position",
    "Privilege": "topolog.events.object_definition:Privilege",
    "Route": "topolog.streams.node.views:Route",
    "Statement": "topolog.events.object_definition:Statement",
    "Table": "topolog.streams.node.objects:Table",
    "Verb": "topolog.events.object_definition:Verb",
    "View": "topolog.streams.node.objects:View",
    "WatchEvent": "topolog.projections.cli.following:WatchEvent",
    "errors": "topolog.errors",
    "partition_of": "topolog.streams.rules.affinity:partition_of",
    "testing": "topolog.testing",
}
"""Where each public name is defined; the imports above say the same to type checkers, and a test compares the two."""

_EXTRAS = {"NodeMetrics": "metrics"}
"""Names that need more than the base installation: public, but not listed, for a star import must do without them."""

__all__ = [
    "Affinity",
    "Answer",
    "AsyncNode",
    "Client",
    "ClusterState",
    "Column",
    "ColumnAction",
    "ColumnType",
    "ColumnVerb",
    "CopyView",
    "Database",
    "Definition",
    "Deletion",
    "Group",
    "LossPolicy",
    "Metadata",
    "Move",
    "Node",
    "NodeId",
    "NodeKind",
    "ObjectKind",
    "ObjectType",
    "Outcome",
    "PartitionState",
    "PartitionView",
    "Position",
    "Privilege",
    "Route",
    "Statement",
    "Table",
    "Verb",
    "View",
    "WatchEvent",
    "__version__",
    "errors",
    "partition_of",
    "testing",
]

if not TYPE_CHECKING:  # so that type checkers know of no other names than these

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("topolog")
        if name not in _OBJECTS:
            raise AttributeError(f"module 'topolog' has no attribute {name!r}")
        value = globals()[name] = _load(name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


def _load(name: str) -> object:
    from pkgutil import resolve_name

    try:
        return resolve_name(_OBJECTS[name])
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        from topolog.events.errors import missing_extra

        raise missing_extra(f"topolog.{name}", error.name, _EXTRAS[name]) from error
