"""One partition: who holds which copy, where that differs from what is wanted, why, and all that has changed it."""

from topolog.projections import explain_partition, partition_history, partitions
from topolog.projections.groups import group as group_named
from topolog.projections.partition_resources import Partition
from topolog.projections.web import things, values
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.templates import rendered
from topolog.projections.web.values import Value

_SHOWN_ELSEWHERE = frozenset({"name", "copies", "group", "partition", "lost"})


def page(asked: PageRequest, name: str) -> str:
    group, number = things.group_and_number(name)
    here = partitions.partition(asked.reading, group, number)
    last = group_named(asked.reading, group).partitions - 1
    frame = asked.frame
    neighbours = [
        Value(f"{group}/{each}", frame.to("partitions", group, each))
        for each in (number - 1, number + 1)
        if 0 <= each <= last
    ]
    told = things.explained(lambda: explain_partition.explain_partition(asked.reading, asked.age_ms, group, number))
    return rendered(
        "partition.html",
        frame,
        title=f"Partition {here.name}",
        partition=here,
        state=values.state(here.state),
        disagree=_disagree(here),
        colours={copy.node: _colour(here, copy.node, copy.state) for copy in here.copies},
        explanation=told,
        fields=list(values.fields(frame, here, _SHOWN_ELSEWHERE)),
        turns=list(things.turns(asked, partition_history.of_partition(asked.reading, group, number))),
        links=(Value("heat map", frame.to("heat", group=group)), *neighbours),
        commands=things.commands(asked, "partition", here.name),
        api=frame.api("partitions", group, number),
    )


def _disagree(here: Partition) -> list[str]:
    """Where what is held is not what the affinity wants, in words."""
    found = [f"{copy.node} has a copy that is no longer wanted" for copy in here.copies if not copy.wanted]
    found += [
        f"{copy.node} is wanted and {copy.state.lower()}"
        for copy in here.copies
        if copy.wanted and copy.state != "OWNING"
    ]
    if here.wanted and here.primary and here.primary != here.wanted[0]:
        found.append(f"{here.primary} acts, wanted is {here.wanted[0]}")
    return found


def _colour(here: Partition, node: str, state: str) -> str:
    if here.state in ("LOST", "PAUSED"):
        return here.state.lower()
    if state != "OWNING":
        return state.lower()
    return "acts4" if node == here.primary else "backup"
