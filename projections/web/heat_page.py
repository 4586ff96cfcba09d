"""The heat map page: partitions by node, each group's picture in turn, or one group down to the single partition."""

from topolog.events.errors import NotFound
from topolog.events.groups import GroupRow
from topolog.projections import partitions
from topolog.projections.groups import group as group_named
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.heat import BLOCK, of_group
from topolog.projections.web.listing import shell_word
from topolog.projections.web.templates import rendered

_NOT_AS_WANTED = 24


def page(asked: PageRequest) -> str:
    """All groups, the most urgent six; or the one that is named."""
    return _one(asked, asked.filters["group"]) if "group" in asked.filters else _all(asked)


def _all(asked: PageRequest) -> str:
    heat = asked.gallery.of(asked.reading)
    frame = asked.frame
    return rendered(
        "heat.html",
        frame,
        groups=heat.groups,
        more=heat.more,
        blocks=(),
        block=None,
        links=(),
        unwanted=(),
        choices=asked.choices,
        commands=frame.commands("get maps", "get partitions", api=frame.api("maps")),
        api=frame.api("maps"),
    )


def _one(asked: PageRequest, name: str) -> str:
    group_named(asked.reading, name)
    row = asked.reading.row(GroupRow, name)
    assert row is not None
    blocks = tuple(range(-(-row.partitions // BLOCK)))
    block = _block(asked, len(blocks), name)
    heat = of_group(asked.reading, row, block)
    frame = asked.frame
    return rendered(
        "heat.html",
        frame,
        groups=(heat,),
        more=0,
        blocks=[(each * BLOCK, min(row.partitions, (each + 1) * BLOCK) - 1) for each in blocks]
        if len(blocks) > 1
        else (),
        block=block,
        links=range(heat.first, heat.first + heat.partitions) if heat.span == 1 else (),
        unwanted=_unwanted(asked, name),
        choices=asked.choices,
        commands=frame.commands(
            f"get maps --group {shell_word(name)}",
            f"get partitions --group {shell_word(name)}",
            api=frame.api("maps", group=name),
        ),
        api=frame.api("maps", group=name),
    )


def _block(asked: PageRequest, blocks: int, name: str) -> int | None:
    """The one that is named, or the only one there is; raises NotFound for one behind the last."""
    if "block" not in asked.filters:
        return 0 if blocks == 1 else None
    block = int(asked.filters["block"])
    if block >= blocks:
        raise NotFound(f"Group {name} has no block {block}.", hint=f"Its blocks of {BLOCK} are 0 to {blocks - 1}.")
    return block


def _unwanted(asked: PageRequest, name: str) -> list[object]:
    """The first partitions that are not as wanted, the most urgent first: what the picture would have one look at."""
    found: list[object] = []
    counts = partitions.condition_totals(asked.reading, name)
    for condition in counts:
        if condition.name != "OWNING" and len(found) < _NOT_AS_WANTED:
            listed = partitions.partitions(asked.reading, {"group": name, "state": condition.name})
            found += [each for each, _ in zip(listed, range(_NOT_AS_WANTED - len(found)), strict=False)]
    return found
