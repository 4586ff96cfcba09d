"""Rows that rot: some of a table's backup copies, damaged on purpose, so that somebody can find them out.

Backups, because clients read from the acting copy: whatever rots there is answered to them, and no comparison of copies
can say which one is right.
"""

import random
from collections.abc import Iterable
from urllib.parse import quote

import msgspec

from topolog.events.errors import BadInput, NotFound, Unreachable
from topolog.streams.local.demo.copies import Rotten, Told, ToldRow
from topolog.streams.local.demo.others import Connections, Response

_DONE, _NOT_FOUND, _BAD = 200, 404, 400


class Damage(msgspec.Struct, frozen=True):
    """What became of one row in the copy of this node."""

    key: str
    node: str
    what: Rotten


def rot_backups(endpoints: Iterable[str], table: str, rows: int, seed: int) -> list[Damage]:
    """Damage so many rows, chosen at random by the seed, each in the copy that is its partition's backup.

    Raises NotFound without such a table, BadInput if there are fewer rows; Unreachable if a node does not answer.
    """
    with Connections() as nodes:
        found: dict[str, tuple[str, str]] = {}
        for endpoint in endpoints:
            response = nodes.ask(endpoint, "GET", f"/copies/{quote(table, safe='')}?role=backup")
            first, *lines = _told(endpoint, response).splitlines()
            node = msgspec.json.decode(first, type=Told).node
            found |= {msgspec.json.decode(line, type=ToldRow).key: (endpoint, node) for line in lines}
        if len(found) < rows:
            raise BadInput(f"{table} has {len(found)} rows with a backup, fewer than {rows}.")
        chosen = random.Random(seed).sample(sorted(found), rows)
        return [_rot(nodes, *found[key], table, key) for key in sorted(chosen)]


def _rot(nodes: Connections, endpoint: str, node: str, table: str, key: str) -> Damage:
    path = f"/rot/{quote(table, safe='')}/{quote(key, safe='')}"
    return Damage(key, node, msgspec.json.decode(_told(endpoint, nodes.ask(endpoint, "POST", path)), type=Rotten))


def _told(endpoint: str, response: Response) -> bytes:
    match response.status:
        case status if status == _DONE:
            return response.body
        case status if status == _NOT_FOUND:
            raise NotFound(f"{endpoint} answers: {response.detail}")
        case status if status == _BAD:
            raise BadInput(f"{endpoint} answers: {response.detail}")
        case _:
            raise Unreachable(f"{endpoint} answers {response.status}: {response.detail}", hint="Ask again.")
