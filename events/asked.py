"""What every request says, whatever it asks for: its id, the log it is meant for, who asks and why (K7)."""

from typing import ClassVar

import msgspec

from topolog.events.errors import BadInput

SUBJECT_CHARS_MAX = 200
"""Longest requester and longest node id; what else a refusal repeats of a request is cut at MESSAGE_CHARS_MAX."""

SEQUENCE_MAX = (1 << 63) - 1


class RequestId(msgspec.Struct, frozen=True):
    """`requester` is unique to one process life, `sequence` counts its requests from 1."""

    requester: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.requester}/{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> "RequestId":
        """The id written as `requester/sequence`; raises BadInput for anything else."""
        requester, slash, sequence = text.rpartition("/")
        if not slash or not requester or not sequence.isdecimal() or len(sequence) > len(str(SEQUENCE_MAX)):
            raise BadInput(f"{text!r} is no request id.", hint="One looks like cli-4f2a/3.")
        return cls(requester, int(sequence))


UNNUMBERED = RequestId("", 0)
"""Of a request whose sender has yet to number it."""


class RequestRef(msgspec.Struct, frozen=True):
    """A request id with the digest (8 bytes) of the request's content, as decisions carry it."""

    requester: str
    sequence: int
    digest: bytes

    def __str__(self) -> str:
        return f"{self.requester}/{self.sequence}"


class Request(msgspec.Struct, frozen=True):
    """Parent of every request: its id, the log it is meant for, who asks and why.

    `SUBJECT` is what it is about, in the words of the CLI; its fields stand in it as `{0.node}`.
    """

    SUBJECT: ClassVar[str]

    id: RequestId
    log_id: bytes
    actor: str
    reason: str

    @property
    def subject(self) -> str:
        """What it is about: `node n3`, `type Customer`."""
        return self.SUBJECT.format(self)
