"""A batch of records as it lies in Kafka, with what no client would write; a broker that looks at no checksum takes it.

Records are (key, value, headers), all bytes.
"""

import socket
import struct
from collections.abc import Sequence

RawRecord = tuple[bytes, bytes, Sequence[tuple[bytes, bytes]]]
UNREADABLE: RawRecord = (b"n1", b"unreadable", [(b"\xff\xfe", b"")])
"""A record whose header has a name that is not UTF-8."""


def raw_batch(records: Sequence[RawRecord], base_offset: int = 0) -> bytes:
    body = b"".join(_record(index, *each) for index, each in enumerate(records))
    head = struct.pack(">hiqqqhii", 0, len(records) - 1, 0, 0, -1, -1, -1, len(records))
    rest = struct.pack(">ibI", 0, 2, 0) + head + body
    return struct.pack(">qi", base_offset, len(rest)) + rest


def produce(bootstrap: str, topic: str, batch: bytes) -> None:
    """Append a batch to partition 0: a Produce request of version 3, the reply is not looked at."""
    name = topic.encode()
    place = struct.pack(">ih", 1, len(name)) + name + struct.pack(">iii", 1, 0, len(batch))
    request = struct.pack(">hhihhhi", 0, 3, 1, -1, -1, -1, 5000) + place + batch
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        connection.recv(4)


def _record(index: int, key: bytes, value: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    told = b"".join(_sized(name) + _sized(content) for name, content in headers)
    body = b"\0" + _varint(0) + _varint(index) + _sized(key) + _sized(value) + _varint(len(headers)) + told
    return _sized(body)


def _sized(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _varint(number: int) -> bytes:
    rest, out = number << 1, bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])
