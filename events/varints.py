"""Numbers in as few bytes as they need: seven bits a byte, the low ones first; a set high bit says that more follow."""

import re
from collections.abc import Iterator

from topolog.events.errors import Undecodable

_LONGER_THAN_NINE = re.compile(rb"[\x80-\xff]{9}")


def put_varint(packed: bytearray, number: int) -> None:
    while number > 0x7F:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)


def varints(packed: bytes) -> Iterator[int]:
    """The numbers in bytes that `put_varint` has made."""
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0


def checked_varints(packed: bytes) -> Iterator[int]:
    """The numbers in anybody's bytes; raises Undecodable if one is cut off or longer than nine bytes."""
    if packed[-1:] >= b"\x80":
        raise Undecodable("A packed number is cut off.")
    if _LONGER_THAN_NINE.search(packed):
        raise Undecodable("A packed number has more than nine bytes.")
    return varints(packed)
