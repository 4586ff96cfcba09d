"""A member process that answers about tables all the time, and keeps a diary of it, for tests that stop and kill.

    python -m tests.broker.schema_reader CLUSTER NODE BOOTSTRAP FOLDER

Says "member" when it is one. Obeys lines of JSON: {"do": "turn", "page": …} goes on in another file of FOLDER; {"do":
"arm", "entry": …} arms a failpoint; {"do": "require"} is answered by "valid" or "error"; {"do": "break"} makes it go on
with what it knows by then, and without a lease. The end of its input makes it leave.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.broker.member import say
from tests.broker.schema_answers import Diary, answer_all

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
        case "break":
            node._session.folding.acquire()
            node.lease.require = lambda: None  # type: ignore[method-assign]
            say("broken")
        case "require":
            node.lease.require()
            say("valid", position=node.position)


def main(cluster: str, name: str, bootstrap: str, folder: str) -> None:
    node = Node(cluster, name, kafka={"bootstrap.servers": bootstrap}, join_timeout_s=PATIENCE_S)
    diary, ending = Diary(Path(folder), name), threading.Event()

    def answer() -> None:
        try:
            while not ending.wait(PAUSE_S):
                answer_all(node, diary)
        except BaseException:  # noqa: BLE001 (whatever it is, it is shown and ends the process)
            traceback.print_exc()
            os._exit(1)  # who reads no more must not pass for one that is never wrong

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
        if "require" in vars(node.lease):  # it was broken
            node._session.folding.release()


if __name__ == "__main__":
    main(*sys.argv[1:])
