"""What befalls the world, and what is asked of it, drawn from the seed within a budget.

The plan is drawn before the run and is plain data: a run can be repeated with a shorter one. Each seed leaves some
sorts of acts out altogether: many defects show only where nothing else distracts.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import msgspec

from topolog.events.asked import Request
from topolog.events.codec import CODEC
from topolog.events.exchange_requests import ExchangeRequested, LossResetRequested
from topolog.events.group_definition import Affinity, GroupDefinition
from topolog.events.groups import GroupAlterationRequested, GroupCreationRequested, GroupDropRequested
from topolog.events.leases import FENCING
from topolog.events.membership import NodeRemovalRequested
from topolog.events.metadata import TypeRemovalRequested, UpdateRequested
from topolog.events.object_types import ObjectType
from topolog.events.topics import REQUEST_TOPICS, Topic
from topolog.streams.node.core import Phase
from topolog.streams.simulation.lying import forge
from topolog.streams.simulation.network import Fate
from topolog.streams.simulation.operations import change_state, change_terms, let_a_day_pass, log_id_of, operate
from topolog.streams.simulation.processes import TERMS, CoordinatorProcess, NodeProcess, Process
from topolog.streams.simulation.schemas import change
from topolog.streams.simulation.world import ROLES, World

_DURATION_MS = (20.0, 3.0 * TERMS.fence_ms)
_FIELDS = (8, 100)
"""From how many fields a proposal takes its own: of few, so that proposals meet; of many, so that types still grow."""

_PERSISTENT = 0.7
_BARE = 0.3
"""How often a disk is put back without what says where the node has written."""

_COORDINATORS = "cd"
_BLACKOUT_MS = (500, 2_000, 5_000)
_COORDINATORS_TOO = 0.3

_KEPT_SHARE = 0.6
"""Share of the sorts of faults that one seed uses."""


class Faults(msgspec.Struct, frozen=True):
    """How many acts of each sort a run has at most. The last ones, from `operations` on, are of histories and disks."""

    crashes: int = 4
    pauses: int = 4
    suspends: int = 2
    cuts: int = 4
    losses: int = 4
    slow_reads: int = 2
    usurpers: int = 3
    retirements: int = 2
    twins: int = 1
    leaves: int = 2
    node_removals: int = 2
    type_removals: int = 4
    repeats: int = 6
    proposals: int = 25
    groups: int = 8
    mutes: int = 2
    operations: int = 0
    power_cuts: int = 0
    wipes: int = 0
    backups: int = 0
    restores: int = 0
    copies: int = 0
    moves: int = 0
    terms: int = 0
    changes: int = 0
    states: int = 0
    hangs: int = 0
    garbles: int = 0
    services: int = 0
    days: int = 0
    forgeries: int = 0

    @classmethod
    def of_seed(cls, seed: int) -> "Faults":
        """What `topolog simulate` draws a seed from: every second has a baseline, every fourth two logs, every fourth
        changes of definitions, in every eighth under a state that changes, and in every third the terms of leases are
        changed. Of sixteen the first eight have two services, and servers that hang; in every fifth an operator is idle
        for days. In all of them somebody may lie."""
        if seed % 2 == 0:
            faults = cls() if seed % 4 == 0 else cls.of_schema()
            faults = msgspec.structs.replace(faults, states=6) if seed % 8 == 2 else faults
        else:
            faults = cls.of_histories() if seed % 4 == 3 else cls.of_disks()
        if seed % 16 < 8:
            faults = msgspec.structs.replace(faults, hangs=6, garbles=2, services=6)
        if seed % 5 == 0:
            faults = msgspec.structs.replace(faults, days=4)
        faults = msgspec.structs.replace(faults, forgeries=6)
        return msgspec.structs.replace(faults, terms=4) if seed % 3 == 0 else faults

    @classmethod
    def of_disks(cls) -> "Faults":
        """One log; its operators use all they have, and disks are lost and found."""
        return msgspec.structs.replace(
            cls(), proposals=6, suspends=1, losses=2, operations=16, power_cuts=2, wipes=1, backups=2, restores=1
        )

    @classmethod
    def of_histories(cls) -> "Faults":
        """A copy of the log goes live beside it, and nodes are moved between both."""
        fewer = dict.fromkeys(("crashes", "pauses", "cuts", "losses", "slow_reads", "usurpers", "proposals"), 2)
        return msgspec.structs.replace(cls.of_disks(), **fewer, operations=10, power_cuts=1, copies=3, moves=10)

    @classmethod
    def of_schema(cls) -> "Faults":
        """Operators change definitions, while services read and write."""
        return msgspec.structs.replace(cls(), proposals=2, groups=2, changes=80)

    @classmethod
    def calm(cls) -> "Faults":
        """Nothing goes wrong: work only, on a network and clocks as they are."""
        return msgspec.structs.replace(
            cls(**dict.fromkeys(cls.__struct_fields__, 0)), repeats=6, proposals=25, groups=8
        )


class Kind(Enum):
    """The sorts of acts, by the field of `Faults` that is their budget."""

    CRASH = "crashes"
    PAUSE = "pauses"
    SUSPEND = "suspends"
    CUT = "cuts"
    LOSE = "losses"
    SLOW = "slow_reads"
    USURP = "usurpers"
    RETIRE = "retirements"
    TWIN = "twins"
    LEAVE = "leaves"
    REMOVE_NODE = "node_removals"
    REMOVE_TYPE = "type_removals"
    REPEAT = "repeats"
    PROPOSE = "proposals"
    SHARE = "groups"
    MUTE = "mutes"
    OPERATE = "operations"
    POWER = "power_cuts"
    WIPE = "wipes"
    BACK_UP = "backups"
    RESTORE = "restores"
    COPY = "copies"
    MOVE = "moves"
    TERMS = "terms"
    CHANGE = "changes"
    STATE = "states"
    HANG = "hangs"
    GARBLE = "garbles"
    SERVE = "services"
    IDLE = "days"
    FORGE = "forgeries"


_ALL = frozenset(Topic)
_NONE: frozenset[Topic] = frozenset()
_CUTS = ((_ALL, True), (_ALL, False), (_NONE, True), (frozenset({Topic.HEARTBEATS}), False))
"""What a process that is cut off can no longer read, and whether it can no longer send."""

_WORK = (
    Kind.REPEAT,
    Kind.PROPOSE,
    Kind.SHARE,
    Kind.OPERATE,
    Kind.COPY,
    Kind.MOVE,
    Kind.CHANGE,
    Kind.STATE,
    Kind.SERVE,
    Kind.IDLE,
)
OF_DISKS = (Kind.OPERATE, Kind.POWER, Kind.WIPE, Kind.BACK_UP, Kind.RESTORE, Kind.COPY, Kind.MOVE)
"""Where one of these is among the acts, each node has a folder."""


class Act(msgspec.Struct, frozen=True):
    """One thing that happens at `at_ms` of true time; `draw` decides whom it meets and how."""

    at_ms: int
    kind: Kind
    duration_ms: float
    draw: int


def plan(seed: int, budget: Faults, span_ms: int) -> list[Act]:
    """The acts of one run, in order."""
    chance = random.Random(f"{seed} plan")
    acts = []
    for kind in Kind:
        most = getattr(budget, kind.value)
        if kind in _WORK or chance.random() < _KEPT_SHARE:
            for _ in range(chance.randint(0, most)):
                duration_ms = _DURATION_MS[0] + chance.random() ** 2 * (_DURATION_MS[1] - _DURATION_MS[0])
                acts.append(Act(chance.randrange(span_ms), kind, duration_ms, chance.getrandbits(32)))
    return sorted(acts, key=lambda act: act.at_ms)


def perform(world: World, act: Act) -> None:
    """Let the act happen now, as far as there is anybody it can happen to."""
    draw = random.Random(act.draw)
    match act.kind:
        case Kind.CRASH | Kind.PAUSE | Kind.SUSPEND | Kind.CUT | Kind.LOSE | Kind.SLOW:
            process = world.on(draw.choice(world.machines))
            if process:
                process.disturbed = True
                world.note_deed(f"{act.kind.name} {process.describe()}, {act.duration_ms:.0f} ms")
                _strike(world, process, act, draw)
        case Kind.USURP | Kind.RETIRE:
            _depose(world, act, draw)
        case Kind.LEAVE | Kind.MUTE | Kind.HANG | Kind.GARBLE:
            node = world.on(draw.choice(world.node_names))
            if isinstance(node, NodeProcess):
                _silence(world, node, act)
        case Kind.TWIN:
            _double(world, act, draw)
        case Kind.FORGE:
            forge(world, draw)
        case Kind.POWER:
            _cut_power(world, draw)
        case Kind.WIPE | Kind.BACK_UP | Kind.RESTORE:
            _change_disk(world, act, draw)
        case _:
            _ask(world, act, draw)


def _strike(world: World, process: Process, act: Act, draw: random.Random) -> None:
    match act.kind:
        case Kind.CRASH:
            world.kill(process, act.duration_ms, late=draw.random() < 0.3)
        case Kind.PAUSE:
            world.pause(process, act.duration_ms)
        case Kind.SUSPEND:
            world.suspend(process, act.duration_ms)
        case Kind.CUT:
            reads, sends = draw.choice(_CUTS)
            world.cut(process, act.duration_ms, reads=reads, sends=sends, loses=draw.random() < 0.5)
        case Kind.LOSE:
            fates = draw.choices([Fate.LOST, Fate.TWICE, Fate.DOUBTED, Fate.LATE, Fate.LANDS], k=draw.randint(1, 6))
            process.link.fates.extend(fates)
        case Kind.SLOW:
            world.slow_down(process, act.duration_ms, draw.randint(50, 1_500), draw.randint(1, 8))


def _silence(world: World, node: NodeProcess, act: Act) -> None:
    """For ever, by leaving in order, or for a while: what it applies, its single maps, or that these come in time."""
    if act.kind is Kind.LEAVE:
        world.note_deed(f"LEAVE {node.describe()}")
        node.leave()
        return
    node.disturbed = True
    befall, times = {Kind.MUTE: (world.mute, 2), Kind.GARBLE: (world.garble, 2), Kind.HANG: (world.hang, 1)}[act.kind]
    world.note_deed(f"{act.kind.name} {node.describe()}, {times * act.duration_ms:.0f} ms")
    befall(node, times * act.duration_ms)


def _depose(world: World, act: Act, draw: random.Random) -> None:
    """Two leaders at once, or none for a moment."""
    coordinator = world.on(draw.choice([each for each in world.machines if each[0] in _COORDINATORS]))
    if not isinstance(coordinator, CoordinatorProcess):
        return
    world.note_deed(f"{act.kind.name} {coordinator.describe()}")
    if act.kind is Kind.USURP:
        world.usurp(coordinator)
    else:
        for each in world.coordinators:
            world.retire(each)


def _double(world: World, act: Act, draw: random.Random) -> None:
    """A node's process is stopped and another one of the same node started elsewhere; then the first goes on."""
    node = world.on(draw.choice(world.node_names))
    if node is None:
        return
    world.note_deed(f"TWIN of {node.describe()}")
    world.pause(node, act.duration_ms)
    world.start_node(node.name, elsewhere=True)
    for each in world.nodes:
        each.disturbed |= each.name == node.name


def _cut_power(world: World, draw: random.Random) -> None:
    """All nodes are gone at one moment, or all but a few, and come back in any order; so do coordinators, or not."""
    spared = draw.sample(world.nodes, k=draw.choice((0, 0, 0, 1, len(world.nodes) // 2)) if len(world.nodes) > 1 else 0)
    struck: list[Process] = [node for node in world.nodes if node not in spared]
    if draw.random() < _COORDINATORS_TOO:
        struck += world.coordinators
    world.note_deed(f"POWER cut of {', '.join(each.name for each in struck)}")
    for process in struck:
        process.disturbed = True
        world.kill(process, draw.choice(_BLACKOUT_MS) * draw.random(), unseen=True)


def _change_disk(world: World, act: Act, draw: random.Random) -> None:
    """The node is stopped for it: what a backup holds is all that was there when its process ended."""
    name = draw.choice(world.node_names)
    if world.on(name) is None and world.site.runs(name):
        return
    world.note_deed(f"{act.kind.name} {name}")
    world.stop(name, act.duration_ms)
    match act.kind:
        case Kind.WIPE:
            world.wipe(name)
        case Kind.BACK_UP:
            world.back_up(name)
        case _:
            world.restore(name, bare=draw.random() < _BARE)


def _ask(world: World, act: Act, draw: random.Random) -> None:
    match act.kind:
        case Kind.REMOVE_NODE | Kind.REMOVE_TYPE:
            _remove(world, act, draw)
        case kind if kind in _ASKED:
            ask, times = _ASKED[kind]
            for _ in range(draw.choice(times) if len(times) > 1 else times[0]):
                ask(world, draw)


def _remove(world: World, act: Act, draw: random.Random) -> None:
    log_id = log_id_of(world)
    if log_id is None:
        return
    request_id = world.operator.next_id()
    if act.kind is Kind.REMOVE_NODE:
        name = draw.choice(world.node_names)
        if FENCING not in world.site.joiners[name].capabilities:
            world.stop(name, act.duration_ms)  # nothing else ends its lease
        world.operator.send(NodeRemovalRequested(request_id, log_id, "op", "drill", name))
    else:
        world.operator.send(TypeRemovalRequested(request_id, log_id, "op", "drill", f"T{draw.randrange(3)}"))


def _repeat(world: World, draw: random.Random) -> None:
    """An earlier request comes again, byte for byte, or with other content under its id."""
    entries = [entry for topic in REQUEST_TOPICS for entry in world.broker.log.entries(topic)]
    if not entries:
        return
    entry = draw.choice(entries)
    request = CODEC.decode(entry.value)
    assert isinstance(request, Request)
    if draw.random() < 0.2:
        request = msgspec.structs.replace(request, reason="another content")
    world.operator.send(request, entry.topic)


def _propose(world: World, draw: random.Random) -> None:
    """A few fields for one of three types: mostly agreeing, sometimes contradicting, sometimes of a stale process."""
    log_id = log_id_of(world)
    if log_id is None:
        return
    names = draw.sample(range(draw.choice(_FIELDS)), k=draw.randint(1, 3))
    fields = {f"f{name}": "long" if draw.random() < 0.9 else "String" for name in names}
    definition = ObjectType(f"T{draw.randrange(3)}", fields)
    based_on = draw.choice((0, 0, 0, 1, 2))
    members = [node for node in world.nodes if node.session.core.phase is Phase.MEMBER and not world.is_paused(node)]
    if not members or draw.random() < 0.2:
        world.operator.send(UpdateRequested(world.operator.next_id(), log_id, "op", "", definition, based_on))
        return
    _send_as(draw.choice(members), definition, based_on, stale=draw.random() < 0.1)


def _send_as(node: NodeProcess, definition: ObjectType, based_on: int, *, stale: bool) -> None:
    session = node.session
    log_id = session.core.log_id
    assert log_id is not None
    incarnation = session.core.incarnation ^ stale
    session.requests.send(
        UpdateRequested(session.requests.next_id(), log_id, node.name, "", definition, based_on, node.name, incarnation)
    )


def _share(world: World, draw: random.Random) -> None:
    """One of two groups is declared, by a service or an operator, altered or dropped; some of it cannot be."""
    log_id = log_id_of(world)
    if log_id is None:
        return
    kind = draw.choice(("declare", "declare", "declare", "alter", "drop", "reset", "exchange"))
    name = f"G{draw.randrange(2)}"
    filters = Affinity(backup_filter=draw.choice(("", "rack")))
    group = GroupDefinition(name, draw.choice((16, 16, 16, 64, 0)), draw.randint(0, 2), filters)
    _ask_of(world, draw, kind, group)


def _serve(world: World, draw: random.Random) -> None:
    """One of the groups of two services, which lie on the nodes of the one or the other only."""
    role = draw.choice(ROLES)
    kind = draw.choice(("declare", "declare", "declare", "declare", "alter", "drop", "reset"))
    filters = Affinity(node_filter={"role": role})
    if log_id_of(world) is not None:
        _ask_of(world, draw, kind, GroupDefinition(f"S{role}", 16, draw.randint(0, 2), filters))


def _ask_of(world: World, draw: random.Random, kind: str, group: GroupDefinition) -> None:
    """What is asked of a group that is, or is to be, like this one."""
    log_id, name = log_id_of(world), group.name
    assert log_id is not None, "it has been asked for"
    if world.is_durable:
        group = msgspec.structs.replace(group, persistent=draw.random() < _PERSISTENT)
    members = [node for node in world.nodes if node.session.core.phase is Phase.MEMBER and not world.is_paused(node)]
    if kind == "declare" and members and draw.random() < 0.5:
        node = draw.choice(members)
        node.session.requests.send(
            GroupCreationRequested(node.session.requests.next_id(), log_id, node.name, "", group)
        )
        return
    head = (world.operator.next_id(), log_id, "op", "drill")
    match kind:
        case "declare":
            world.operator.send(GroupCreationRequested(*head, group))
        case "alter":
            world.operator.send(GroupAlterationRequested(*head, name, backups=group.backups))
        case "reset":
            world.operator.send(LossResetRequested(*head, name))
        case "exchange":
            world.operator.send(ExchangeRequested(*head))
        case _:
            world.operator.send(GroupDropRequested(*head, name))


def describe(acts: Sequence[Act]) -> str:
    """How often each sort of act stands in a plan: `2 crashes, 1 pauses`."""
    counts = {kind: sum(act.kind is kind for act in acts) for kind in Kind}
    return ", ".join(f"{count} {kind.value}" for kind, count in counts.items() if count)


_ASKED: Mapping[Kind, tuple[Callable[[World, random.Random], None], tuple[int, ...]]] = {
    Kind.OPERATE: (operate, (1,)),
    Kind.TERMS: (change_terms, (1,)),
    Kind.CHANGE: (change, (1, 1, 2, 3)),
    Kind.STATE: (change_state, (1,)),
    Kind.REPEAT: (_repeat, (1,)),
    Kind.PROPOSE: (_propose, (1, 1, 2, 4)),
    Kind.SHARE: (_share, (1, 2, 4)),
    Kind.SERVE: (_serve, (1, 2)),
    Kind.IDLE: (let_a_day_pass, (1,)),
}
"""What is asked, and how often in one act."""
