"""A member process that answers about tables all the time, and keeps a diary of it, for tests that stop and kill.

    python -m tests.integration.schema_reader CLUSTER NODE BOOTSTRAP FOLDER

Says "member" when it is one. Obeys lines of JSON: {"do": "turn", "page": …} goes on in another file of FOLDER; {"do":
"arm", "entry": …} arms a failpoint; {"do": "require"} is answered by "valid" or "error". The end of its input makes it
leave.
"""

import json
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.member import say
from tests.integration.schema_answers import Diary, answer_all

from topolog.events import failpoints
from topolog.events.errors import TopologError
from topolog.streams.node.client import Node

PAUSE_S = 0.003
PATIENCE_S = 30.0


def obey(node: Node, diary: Diary, order: Mapping[str, Any]) -> None:
    match order["do"]:
        case "turn":
            diary.turn(order["page"])
            say("turned")
        case "arm":
            failpoints.arm({failpoints.VARIABLE: order["entry"]})
            say("armed")
        case "require":
            node.lease.require()
            say("valid", position=node.position)


def main(cluster: str, name: str, bootstrap: str, folder: str) -> None:
    node = Node(cluster, name, kafka={"bootstrap.servers": bootstrap}, join_timeout_s=PATIENCE_S)
    diary, ending = Diary(Path(folder), name), threading.Event()

    def answer() -> None:
        while not ending.wait(PAUSE_S):
            answer_all(node, diary)

    with node:
        say("member", incarnation=node.incarnation)
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        for line in sys.stdin:
            try:
                obey(node, diary, json.loads(line))
            except TopologError as error:
                say("error", code=error.code, message=str(error))
        ending.set()
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
