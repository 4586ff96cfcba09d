"""The baselines as a graph: their branching points, and beside them the histories of nodes that were refused.

A row is one place; the log's own stand in lane 0, newest first. A node's branch has a lane of its own, from its newest
place down to the last one that both histories have. Text and picture are drawn from the same rows.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from topolog.projections.baseline_resources import Baseline, Branch, Join

LANES_MAX = 4
_SHORT = 12


class GraphRow(msgspec.Struct, frozen=True):
    """One place of the graph. `through`: lanes that pass by; `ends`: lanes of branches that part here, and go up."""

    position: int
    chain: str
    lane: int
    text: str
    is_current: bool
    through: tuple[int, ...]
    ends: tuple[int, ...]


def of_join(found: Join) -> Branch | None:
    """The branch of a node that would be refused; None for one that has written in no other history."""
    if not found.their_points:
        return None
    common = found.common.position if found.common else None
    return Branch(found.node, found.kinship, common, found.their_points, len(found.their_points), None, None, None)


def rows(baselines: Iterable[Baseline], branches: Sequence[Branch]) -> list[GraphRow]:
    """The graph from the top, newest first."""
    drawn = branches[:LANES_MAX]
    marks = [*_log_marks(baselines, drawn), *_branch_marks(drawn)]
    marks.sort(key=lambda mark: (-mark.position, -mark.lane))
    return list(_laid_out(marks, drawn))


class _Mark(msgspec.Struct, frozen=True):
    position: int
    chain: str
    lane: int
    text: str
    is_current: bool = False


def _log_marks(baselines: Iterable[Baseline], branches: Sequence[Branch]) -> Iterator[_Mark]:
    parted = {branch.common: branch for branch in branches if branch.common is not None}
    for baseline in baselines:
        for point in reversed(baseline.points):
            branch = parted.pop(point.position, None)
            text = _of_point(baseline, point.why, point.online)
            more = f"; the last place that {branch.node} has too" if branch else ""
            is_current = baseline.state == "CURRENT" and point is baseline.points[-1]
            yield _Mark(point.position, point.chain, 0, text + more, is_current)
    for position, branch in parted.items():
        yield _Mark(position or 0, "", 0, f"the last place that {branch.node} has too")


def _of_point(baseline: Baseline, why: str, online: Sequence[str]) -> str:
    count, all_of = len(online), len(baseline.members)
    here = f"{count} of {all_of} online" + (f": {', '.join(online)}" if 0 < count < all_of else "")
    if why != "SET":
        return (
            f"baseline {baseline.number} {'activated' if why == 'ACTIVATED' else 'goes on after a cold time'}, {here}"
        )
    changes = "".join(f" +{node}" for node in baseline.added) + "".join(f" -{node}" for node in baseline.dropped)
    return f"baseline {baseline.number}: {', '.join(baseline.members)} ({changes.strip() or 'attributes'}), {here}"


def _branch_marks(branches: Sequence[Branch]) -> Iterator[_Mark]:
    for lane, branch in enumerate(branches, start=1):
        newest, first = branch.places[-1], branch.places[0]
        for place in branch.places:
            text = f"{branch.node} has written here" if place is not first else _first_of(branch)
            if place is newest and branch.refused_at is not None:
                text += f"; refused at position {branch.refused_at}"
            yield _Mark(place.position, place.chain, lane, text)


def _first_of(branch: Branch) -> str:
    hidden = branch.places_in_all - len(branch.places)
    more = f", and at {hidden} more views since" if hidden > 0 else ""
    return f"{branch.node} has written here{more}, in another history ({branch.kinship})"


def _laid_out(marks: Sequence[_Mark], branches: Sequence[Branch]) -> Iterator[GraphRow]:
    begun: set[int] = {0} if marks and marks[0].lane == 0 else set()
    for mark in marks:
        ends = tuple(
            lane
            for lane, branch in enumerate(branches, start=1)
            if mark.lane == 0 and lane in begun and branch.common == mark.position
        )
        through = tuple(sorted(begun - {mark.lane} - set(ends)))
        yield GraphRow(mark.position, mark.chain[:_SHORT], mark.lane, mark.text, mark.is_current, through, ends)
        begun = (begun | {mark.lane}) - set(ends)


def as_text(graph: Sequence[GraphRow]) -> Iterator[str]:
    """The graph line by line."""
    lanes = max((row.lane for row in graph), default=0)
    wide = max((len(str(row.position)) for row in graph), default=0)
    for row in graph:
        mark = "◉" if row.is_current else "●" if row.lane == 0 else "○"
        current = "  <- current" if row.is_current else ""
        drawn = _drawn(row, mark, lanes)
        yield f"{drawn}  {row.position:>{wide}}  {row.chain or '-':{_SHORT}}  {row.text}{current}"


def _drawn(row: GraphRow, mark: str, lanes: int) -> str:
    last = max(row.ends, default=0)
    cells = []
    for lane in range(lanes + 1):
        line = "─" if lane < last else " "
        if lane == row.lane:
            cells.append(mark + line)
        elif lane in row.ends:
            cells.append(("┘" if lane == last else "┴") + line)
        elif lane in row.through:
            cells.append(("┼" if lane < last else "│") + line)
        else:
            cells.append(line * 2)
    return "".join(cells).rstrip().ljust(2 * lanes + 1)
