"""The secret of one life of a node, and its seal: who shows the secret speaks for the process of that life.

Threats. Whoever may write `heartbeats` says that a node is dead, or has stopped serving, or that its process is gone
from its data folder; others go on without its lease while it still acts, and two act for one partition.

How it works. A life, that is a node's incarnation, has a secret that only its process knows, the sentinel that speaks
for it when it is gone, and whoever holds the lock on its data folder behind it. Its joining carries the *seal*, a hash
of the secret, into the log. What ends a lease before its time shows the secret: a death certificate, a release, a join
that replaces a former life. What is not proved so waits for the lease, as for any node that is silent. A secret that
was shown is public, and nothing is left that it could end: its life has said with it that it acts no more. So a process
shows the secret of a former life only where the log says that it held the very lock which this process holds now; a
copy of a folder has its key, and no proof. And a process takes a joining in its name for its own only with its seal.

The secret follows from a key and the incarnation, so nothing is written for each life: the key of a node with a folder
lies in the folder, readable by its owner alone, and that of another one in the memory of its process.
"""

import hashlib

import msgspec

from topolog.events.ids import Incarnation, NodeId

SECRET_BYTES = 16


class Life(msgspec.Struct, frozen=True):
    """A life, by its seal or by that of a secret which somebody has shown for it."""

    node: NodeId
    incarnation: Incarnation
    seal: bytes


def secret_of(key: bytes, node: str, incarnation: Incarnation) -> bytes:
    """The secret of a life. `key`: up to 64 bytes that nobody else has, but perhaps other nodes that were made from the
    same disk."""
    life = incarnation.to_bytes(8, "big", signed=True) + node.encode()
    return hashlib.blake2b(life, digest_size=SECRET_BYTES, key=key, person=b"topolog secret").digest()


def seal_of(secret: bytes) -> bytes:
    """What the log has of a secret; a life without a seal is proved by nothing."""
    return hashlib.blake2b(secret, digest_size=SECRET_BYTES, person=b"topolog seal").digest()
