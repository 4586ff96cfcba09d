"""Lists of what is shared out: groups, partitions, what nodes hold of groups."""

from collections.abc import Mapping

from topolog.projections.partition_resources import Partition
from topolog.projections.web import values
from topolog.projections.web.frame import Frame
from topolog.projections.web.listing import Column, Listing
from topolog.projections.web.values import Shown, Value

GROUPS = Listing(
    view="groups",
    title="Groups",
    about="What is shared out over the members, and by what rules.",
    columns=(
        Column("Group", lambda f, group: Value(group.name, f.to("groups", group.name)), sort="name"),
        Column(
            "Partitions",
            lambda f, group: Value(str(group.partitions), f.to("partitions", group=group.name)),
            is_number=True,
            sort="partitions",
        ),
        Column("Backups", lambda _, group: group.backups, is_number=True, sort="backups"),
        Column("Kept", lambda _, group: "on disk" if group.persistent else "in memory"),
        Column("Copies go to", lambda _, group: values.plain(group.node_filter) if group.node_filter else "any server"),
        Column("While partitions are lost", lambda _, group: group.loss_policy.replace("_", " ").lower()),
        Column("Picture", lambda f, group: Value("heat map", f.to("heat", group=group.name))),
        Column("Created at", lambda f, group: values.position(f, group.created_at), is_number=True, sort="created_at"),
    ),
    empty="No group has been created yet. `topolog create group orders` makes one.",
)


def _backups(frame: Frame, each: Partition) -> Shown:
    return values.names(frame, "nodes", each.backups)


def _others(_: Frame, each: Partition) -> Shown:
    told = [f"{copy.node} {copy.state.lower()}" for copy in each.copies if copy.state != "OWNING" or not copy.wanted]
    return ", ".join(told) or "–"


PARTITIONS = Listing(
    view="partitions",
    title="Partitions",
    about="Who acts for each partition, who else has all of it, what is not as it should be.",
    columns=(
        Column("Partition", lambda f, each: Value(each.name, f.to("partitions", each.group, each.partition))),
        Column("State", lambda _, each: values.state(each.state), sort="state"),
        Column(
            "Primary",
            lambda f, each: Value(each.primary, f.to("nodes", each.primary)) if each.primary else "–",
            sort="primary",
        ),
        Column("Backups", _backups),
        Column("Not as wanted", _others, is_wide=True),
        Column("Awaits", lambda _, each: ", ".join(each.awaits) or "–"),
        Column("Token", lambda f, each: values.position(f, each.token), is_number=True, sort="token"),
        Column("Since", lambda f, each: values.position(f, each.since), is_number=True, sort="since"),
    ),
    empty="No group has been created yet, or nothing is as these filters say.",
    told=frozenset({"group", "state", "node", "primary"}),
)

MAPS = Listing(
    view="maps",
    title="Maps",
    about="What each node holds of each group, as the log has it.",
    columns=(
        Column("Group", lambda f, each: Value(each.group, f.to("groups", each.group)), sort="group"),
        Column("Node", lambda f, each: Value(each.node, f.to("nodes", each.node)), sort="node"),
        Column("Member", lambda _, each: "yes" if each.is_member else Value("no", tone="busy")),
        Column(
            "Primary of",
            lambda f, each: _narrowed(f, each.primaries, each.group, primary=each.node),
            is_number=True,
            sort="primaries",
        ),
        Column(
            "Copies",
            lambda f, each: _narrowed(f, each.copies, each.group, node=each.node),
            is_number=True,
            sort="copies",
        ),
        Column("Wanted", lambda _, each: each.wanted, is_number=True, sort="wanted"),
        Column("By state", lambda _, each: values.plain({key.lower(): n for key, n in each.states.items()})),
        Column("In detail", lambda f, each: Value("map", f.to("maps", each.group, each.node))),
    ),
    empty="Nothing is shared out yet, or nothing is as these filters say.",
    told=frozenset({"group", "node"}),
)

SINGLE_MAPS = Listing(
    view="single-maps",
    title="Single maps",
    about="What each server says itself that it holds, beside what the log says. It has no past.",
    columns=(
        Column("Node", lambda f, each: Value(each.node, f.to("single-maps", each.node)), sort="node"),
        Column("State", lambda _, each: values.state(each.state), sort="state"),
        Column("Why", lambda _, each: each.sentence, is_wide=True),
        Column("Says", lambda _, each: _counts(each.copies)),
        Column("In the log", lambda f, each: Value(_counts(each.in_log), f.to("maps", node=each.node))),
        Column("Differences", lambda _, each: each.differences, is_number=True, sort="differences"),
        Column("Finished", lambda _, each: each.finished, is_number=True, sort="finished"),
        Column("Outdated", lambda _, each: each.outdated, is_number=True, sort="outdated"),
        Column("Sequence", lambda _, each: "–" if each.sequence is None else each.sequence, is_number=True),
        Column("Applied", lambda f, each: "–" if each.applied is None else values.position(f, each.applied)),
        Column(
            "Exchange", lambda f, each: Value(each.exchange, f.to("exchanges", each.exchange)) if each.exchange else "–"
        ),
        Column("Came", lambda _, each: values.time(each.time) if each.time else "–"),
    ),
    empty="There is no server.",
    has_past=False,
    told=frozenset({"node", "state"}),
)


def _counts(states: Mapping[str, int]) -> str:
    return values.plain({state.lower(): count for state, count in states.items()}) if states else "nothing"


def _narrowed(frame: Frame, count: int, group: str, **by: str) -> Value:
    return Value(str(count), frame.to("partitions", group=group, **by))
