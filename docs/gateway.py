"""A process that only asks, as a gateway does: it says whether somebody may read a table, whenever the answer changes.

python docs/gateway.py CLUSTER BOOTSTRAP PRINCIPAL TABLE
"""

import sys
import threading

from topolog import Node, NodeKind, Privilege
from topolog.errors import Fenced, LogDiverged, NotFound

PAUSE_S = 0.2


def answer(client: Node, principal: str, table: str) -> str:
    """What would become of a request that came now."""
    try:
        is_allowed = client.allows(principal, Privilege.READ, table)
    except Fenced as error:
        return f"refused, to be tried again: {error.message}"
    except NotFound as error:
        return f"refused: {error.message}"
    return "let through" if is_allowed else "refused: no right."


def main(cluster: str, bootstrap: str, principal: str, table: str) -> None:
    pause, said = threading.Event(), ""
    with Node(cluster, "gateway", kafka={"bootstrap.servers": bootstrap}, kind=NodeKind.CLIENT) as client:
        while not pause.wait(PAUSE_S):
            found = answer(client, principal, table)
            if found != said:
                say(f"{principal} on {table}: {found}")
            said = found


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except LogDiverged:
        say("ended: this log is not the one that it has read.")
        raise
