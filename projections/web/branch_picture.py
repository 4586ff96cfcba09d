"""The graph of `baseline_graph.py` as a picture: a strip of lanes beside each row, drawn so that strips join."""

from collections.abc import Iterable, Sequence

import msgspec

from topolog.projections import baseline_graph
from topolog.projections.baseline_graph import GraphRow
from topolog.projections.baseline_resources import Baseline, Branch

LANE_HEIGHT = 30
_LANE_WIDTH = 18
_MIDDLE = LANE_HEIGHT // 2


class Drawn(msgspec.Struct, frozen=True):
    """A row, and its strip: `lines` as (lane, path), the dot at `x`, all of `width`."""

    row: GraphRow
    lines: tuple[tuple[int, str], ...]
    x: int
    width: int


def drawn(baselines: Iterable[Baseline], beside: Sequence[Branch]) -> tuple[Drawn, ...]:
    rows = baseline_graph.rows(baselines, beside)
    width = _x(max((row.lane for row in rows), default=0)) + _LANE_WIDTH // 2
    lanes = [_occupied(row) for row in rows]
    around = zip([set[int](), *lanes], rows, [*lanes[1:], set[int]()], strict=False)
    return tuple(Drawn(row, tuple(_lines(above, row, below)), _x(row.lane), width) for above, row, below in around)


def _lines(above: set[int], row: GraphRow, below: set[int]) -> Iterable[tuple[int, str]]:
    for lane in row.through:
        yield lane, f"M{_x(lane)} 0V{LANE_HEIGHT}"
    for lane in row.ends:
        yield lane, f"M{_x(lane)} 0Q{_x(lane)} {_MIDDLE} {_x(0)} {_MIDDLE}"
    if row.lane in above:
        yield row.lane, f"M{_x(row.lane)} 0V{_MIDDLE}"
    if row.lane in below:
        yield row.lane, f"M{_x(row.lane)} {_MIDDLE}V{LANE_HEIGHT}"


def _occupied(row: GraphRow) -> set[int]:
    return {row.lane, *row.through, *row.ends}


def _x(lane: int) -> int:
    return _LANE_WIDTH // 2 + lane * _LANE_WIDTH
