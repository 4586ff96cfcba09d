"""A node process for tests that kill and pause: it says a line for each thing that happens, and obeys lines of JSON.

    python -m tests.broker.member CLUSTER NODE BOOTSTRAP True|False [ROLE]

The fourth argument is whether it has a sentinel, the last one its attribute `role`.

Says {"said": "member", …} when it has joined; {"do": "propose", "type": …, "fields": {…}}, {"do": "group", "group": …},
{"do": "require"} and {"do": "metadata", "type": …} are answered by one line each, as are {"do": "acts", "group": …},
what it may begin to act for, and {"do": "close-pipe"}, the one to its sentinel; {"do": "fork"} by one of the child. The
end of its input makes it leave.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from tests.unit.streams.node.shard import Shard

from topolog.events.errors import TopologError
from topolog.events.group_definition import GroupDefinition
from topolog.events.metadata import ObjectType
from topolog.streams.node.client import Node


def say(said: str, **facts: Any) -> None:
    sys.stdout.write(json.dumps({"said": said, **facts}) + "\n")
    sys.stdout.flush()


def obey(node: Node, shard: Shard, order: Mapping[str, Any]) -> None:
    match order["do"]:
        case "propose":
            outcome = node.propose(ObjectType(order["type"], order["fields"]), timeout_s=30)
            say("proposed", status=outcome.status.value, version=outcome.version, accepted=outcome.accepted)
        case "group":
            row = node.create_group(GroupDefinition(order["group"], partitions=8, backups=1))
            say("group", number=row.number)
        case "require":
            node.lease.require()
            say("valid", remaining_ms=node.lease.remaining_ms, incarnation=node.incarnation, position=node.position)
        case "close-pipe":
            process = node._sentinel._process
            assert process is not None
            assert process.stdin is not None
            process.stdin.close()
            say("closed")
        case "acts":
            say("acts", partitions=sorted(shard.acts_for(order["group"])))
        case "fork":
            fork(node)
        case "metadata":
            metadata = node.metadata(order["type"])
            say("metadata", fields=dict(metadata.definition.fields) if metadata else None)


def fork(node: Node) -> None:
    """A child that says what it is worth, and lives until it is killed."""
    if os.fork() == 0:
        say("forked", pid=os.getpid(), valid=node.lease.is_valid, remaining_ms=node.lease.remaining_ms)
        signal.pause()


def main(cluster: str, name: str, bootstrap: str, sentinel: str, role: str = "") -> None:
    node = Node(
        cluster,
        name,
        kafka={"bootstrap.servers": bootstrap},
        attributes={"role": role} if role else {},
        join_timeout_s=30,
        sentinel=sentinel == "True",
    )
    node.on_left(lambda reason: say("left", reason=reason.value))
    shard = Shard(node)
    with node:
        say("member", incarnation=node.incarnation)
        for line in sys.stdin:
            try:
                obey(node, shard, json.loads(line))
            except TopologError as error:
                say("error", code=error.code, message=str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
