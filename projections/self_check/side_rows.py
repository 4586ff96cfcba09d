"""Rows of side families: decoded one by one, for there is nothing to compare them with.

Their topics forget (`lease-health` is compacted, `dead` keeps 30 days, `trees` a week), so no rebuild of them would be
the same. What cannot be decoded is removed, and the offsets of its topic with it: the projector then reads that topic
again from the oldest record kept, which puts back whatever the topic still has.
"""

from collections.abc import Iterator

from topolog.projections import layout
from topolog.projections.rocks import View
from topolog.projections.self_check.findings import Family, Finding, What, finding, place_of
from topolog.projections.self_check.opened import rows_of_sides
from topolog.projections.sides import SIDE_PARTITIONS, SIDE_ROWS

_TOPICS = {row.KIND: row.TOPIC for row in SIDE_ROWS}
_OFFSET_KEYS = {layout.side_offset_key(partition) for partition in SIDE_PARTITIONS}


def damaged_sides(view: View) -> Iterator[tuple[bytes, Finding]]:
    """(key, finding) of each row that is none of a side family."""
    for key, value in rows_of_sides(view):
        found = finding(key, None, value)
        is_known = key in _OFFSET_KEYS or (found.place.family is Family.SIDE and found.place.kind in _TOPICS)
        if found.what is What.UNDECODABLE or not is_known:
            yield key, found


def removal(key: bytes) -> dict[bytes, None]:
    """What goes with such a row."""
    topic = _TOPICS.get(place_of(key).kind)
    offsets = [layout.side_offset_key(each) for each in SIDE_PARTITIONS if each[0] is topic]
    return dict.fromkeys([key, *offsets])
