"""The transcripts in `scenarios/`, run against real coordinators and nodes and compared to the letter.

A block is one or more commands, a line `----`, and what followed: the decisions that were logged (all but lease
renewals), each under its position, or what was asked for. Lines that start with `#` are the story.
`TOPOLOG_WRITE_SCENARIOS=1 pytest tests/unit/test_scenarios.py` writes the transcripts anew, for review by `git diff`.

    start c1                      a coordinator comes up
    node n1 [as n1b] [client] [unfenced] [exclusive] [disk] [mute] [knows Customer@2 id:long]
                                  a process of node n1 comes up, called n1b here; `unfenced`: it cannot fence itself;
                                  `disk`: it finds the copies that it owned when it was killed
    propose n1 Customer id:long [on 2]       n1 proposes fields, built on version 2
    remove type Customer / remove node n1    the operator asks
    create n1 orders partitions:64 backups:1 only:zone=eu differ:rack neighbours:host loss:IGNORE persistent:yes
                                  n1 declares a group, of which it says what is not usual; `create operator ...` too
    alter orders backups:2 only:  the operator alters it; nothing behind the colon takes a filter away
    drop orders                   the operator drops it
    reset orders                  the operator gives up what is lost of it
    load n1 / clear n1            n1 finishes all its loads; clears all copies that it is to clear
    begin n1 / end n1             operations run on n1, for all partitions it acts for; they end
    mute n1 / unmute n1           n1 sends no maps; it does again
    hang n1 / unhang n1           a hook of n1 does not return: it applies nothing, and its heartbeats go on; it returns
    advance 500ms                 time passes, everybody works
    kill / pause / resume NAME    kill -9, SIGSTOP, SIGCONT; without time passing
    leave n1 / retire c1          an orderly stop
    activate / deactivate / read-only / hold / let go / warm            the operator asks for it
    baseline set n1 n2 / add n3 / remove n2 [accepting loss] / version 3.0
    follow soft:1000 hard:5000 / unfollow       the baseline follows the servers by itself; no longer
    drain n2 / undrain n2         the operator wants n2 to hold nothing; takes that back
    change create table shop.orders id:INT64 ; drop table shop.old [within 500ms]
                                  the operator changes objects (`scenarios/schema.py`)
    cancel 12                     he takes change 12 back
    block n1 12 / unblock n1      n1 cannot apply the decision at position 12; it can apply everything
    deleted n1 12                 n1 has deleted the data which change 12 has closed
    part n1                       n1, which is down, has meanwhile written in a copy of the log that went live beside it
    nodes, types, groups, leases, coordinators, partitions orders, state, objects, changes
                                  what stands where now
    read n1 Customer              what n1 answers its callers

After each command everybody who has read the same log must hold the same state.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.scenarios.baselines import baseline_lines, change_of, content_of_baseline
from tests.unit.scenarios.partitions import content_of_exchange, partition_lines
from tests.unit.scenarios.schema import change_lines, content_of_schema, object_lines, statements_of
from tests.unit.scenarios.world import Member, World

from topolog.events import groups as g
from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import ownership as o
from topolog.events import requests as q
from topolog.events import terms
from topolog.events.asked import Request
from topolog.events.baseline_requests import (
    AutoAdjustRequested,
    BaselineChangeRequested,
    ClusterStateRequested,
    HoldRequested,
    WarmRequested,
)
from topolog.events.cluster_state import ClusterState
from topolog.events.drains import DrainRequested
from topolog.events.errors import TopologError
from topolog.events.evidence import Evidence
from topolog.events.fold import Event
from topolog.events.ids import Position
from topolog.events.leases import FENCING, NodeKind, NodeRow
from topolog.events.object_requests import ChangeCancellationRequested, DeletionsConfirmed, SchemaChangeRequested
from topolog.events.object_types import DeclaredType
from topolog.events.partitions import PartitionState
from topolog.events.views import Point

FOLDER = Path(__file__).parent / "scenarios"
SCENARIOS = sorted(FOLDER.rglob("*.txt"))
SEPARATOR = "----"
NOTHING = "(nothing)"


class Scenario:
    """A world, and how far its decisions have been told."""

    def __init__(self) -> None:
        self.world = World()
        self._told = 0
        self._commands: dict[str, Callable[..., list[str]]] = {
            name.removeprefix("do_").replace("_", "-"): getattr(self, name)
            for name in dir(self)
            if name.startswith("do_")
        }

    def run(self, command: str) -> list[str]:
        """Carry out one command and give what there is to tell of it."""
        name, *words = command.split()
        answer = self._commands[name](*words)
        self._check_one_fold()
        return answer + list(self._news())

    def _news(self) -> Iterator[str]:
        decisions = self.world.decisions()
        for each in decisions[self._told :]:
            if text := told(each.event, o.names(self.world.state)):
                yield f"{each.place.position:>3}  {text}"
        self._told = len(decisions)

    def _check_one_fold(self) -> None:
        """Coordinator = node = a reader of its own, at the same position."""
        expected = self.world.decisions()[-1].place.position, self.world.state.hash()
        for node in self.world.nodes.values():
            if node.session.core.applied.position == expected[0]:
                assert node.state.hash() == expected[1], f"{node.name} has folded another state"
        for coordinator in self.world.coordinators.values():
            core = coordinator.driver.core
            if core.unread == 0 and core.confirmed.position == expected[0]:
                assert core.state.hash() == expected[1], f"{coordinator.name} has folded another state"

    # What happens.

    def do_start(self, name: str) -> list[str]:
        self.world.start(name)
        return []

    def do_node(self, name: str, *words: str) -> list[str]:
        kind = NodeKind.CLIENT if "client" in words else NodeKind.SERVER
        known: tuple[DeclaredType, ...] = ()
        if "knows" in words:
            type_and_version, *fields = words[words.index("knows") + 1 :]
            type_name, _, version = type_and_version.partition("@")
            known = (DeclaredType(definition(type_name, fields), int(version)),)
        capabilities = () if "unfenced" in words else (FENCING,)
        self.world.node(
            name,
            process=words[words.index("as") + 1] if "as" in words else None,
            kind=kind,
            capabilities=capabilities,
            folder=f"folder of {name}" if "exclusive" in words else "",
            types=known,
            disk="disk" in words,
            mute="mute" in words,
        )
        return []

    def do_propose(self, node: str, type_name: str, *words: str) -> list[str]:
        fields, based_on = (words[:-2], int(words[-1])) if "on" in words else (words, 0)
        self.world.propose(node, definition(type_name, fields), based_on)
        self.world.settle()
        return []

    def do_remove(self, what: str, name: str) -> list[str]:
        (self.world.remove_type if what == "type" else self.world.remove_node)(name)
        self.world.settle()
        return []

    def do_create(self, who: str, name: str, *words: str) -> list[str]:
        said = asked_of_group(words)
        affinity = g.Affinity(**{field: said.pop(field) for field in g.Affinity.__struct_fields__ if field in said})
        self.world.create_group(who, g.GroupDefinition(name, affinity=affinity, **said))
        self.world.settle()
        return []

    def do_alter(self, name: str, *words: str) -> list[str]:
        self.world.alter_group(name, asked_of_group(words))
        self.world.settle()
        return []

    def do_drop(self, name: str) -> list[str]:
        self.world.drop_group(name)
        self.world.settle()
        return []

    def do_reset(self, name: str) -> list[str]:
        self.world.reset(name)
        self.world.settle()
        return []

    def do_activate(self) -> list[str]:
        return self._ask(ClusterStateRequested, ClusterState.ACTIVE)

    def do_deactivate(self) -> list[str]:
        return self._ask(ClusterStateRequested, ClusterState.INACTIVE)

    def do_read_only(self) -> list[str]:
        return self._ask(ClusterStateRequested, ClusterState.ACTIVE_READ_ONLY)

    def do_hold(self) -> list[str]:
        return self._ask(HoldRequested, True)

    def do_let(self, _: str) -> list[str]:
        return self._ask(HoldRequested, False)

    def do_warm(self) -> list[str]:
        return self._ask(WarmRequested)

    def do_baseline(self, *words: str) -> list[str]:
        return self._ask(BaselineChangeRequested, **change_of(words))

    def do_follow(self, *words: str) -> list[str]:
        said = {f"{name}_ms": int(value) for name, value in (word.split(":") for word in words)}
        return self._ask(AutoAdjustRequested, enabled=True, **said)

    def do_unfollow(self) -> list[str]:
        return self._ask(AutoAdjustRequested, enabled=False)

    def do_drain(self, node: str) -> list[str]:
        return self._ask(DrainRequested, node, False)

    def do_undrain(self, node: str) -> list[str]:
        return self._ask(DrainRequested, node, True)

    def do_change(self, *words: str) -> list[str]:
        if "within" not in words:
            return self._ask(SchemaChangeRequested, statements_of(words))
        deadline_ms = int(words[-1].removesuffix("ms"))
        return self._ask(SchemaChangeRequested, statements_of(words[:-2]), deadline_ms)

    def do_cancel(self, number: str) -> list[str]:
        return self._ask(ChangeCancellationRequested, int(number))

    def do_deleted(self, name: str, number: str) -> list[str]:
        incarnation = self.world.nodes[name].session.core.incarnation
        return self._ask(DeletionsConfirmed, name, incarnation, (int(number),))

    def do_block(self, name: str, position: str) -> list[str]:
        self.world.nodes[name].wire.blocked = m.Blocked(Position(int(position)), "NO_CODEC", "no codec for it")
        return []

    def do_unblock(self, name: str) -> list[str]:
        self.world.nodes[name].wire.blocked = None
        return []

    def do_part(self, name: str) -> list[str]:
        disk = self.world.pasts[f"folder of {name}"]
        past = disk.load()
        assert past is not None
        behind = self.world.decisions()[-1].place.position
        disk.store(msgspec.structs.replace(past, points=(*past.points, Point(behind, bytes(16)))))
        return []

    def _ask(self, request: type[Request], *values: object, **rest: object) -> list[str]:
        self.world.ask(request(self.world.operator_id(), self.world.log_id, "ada", "", *values, **rest))
        self.world.settle()
        return []

    def do_load(self, name: str) -> list[str]:
        self.world.nodes[name].finish(PartitionState.MOVING)
        self.world.settle()
        return []

    def do_clear(self, name: str) -> list[str]:
        self.world.nodes[name].finish(PartitionState.RENTING)
        self.world.settle()
        return []

    def do_begin(self, name: str) -> list[str]:
        self.world.nodes[name].service.is_busy = True
        return []

    def do_end(self, name: str) -> list[str]:
        self.world.nodes[name].service.is_busy = False
        self.world.nodes[name].session.core.look_at_drains()
        self.world.settle()
        return []

    def do_mute(self, name: str) -> list[str]:
        self.world.nodes[name].wire.is_mute = True
        return []

    def do_hang(self, name: str) -> list[str]:
        self.world.nodes[name].hangs = True
        return []

    def do_unhang(self, name: str) -> list[str]:
        self.world.nodes[name].hangs = False
        self.world.settle()
        return []

    def do_unmute(self, name: str) -> list[str]:
        self.world.nodes[name].wire.is_mute = False
        self.world.nodes[name].session.core.unsay_map()
        self.world.settle()
        return []

    def do_advance(self, time: str) -> list[str]:
        self.world.run(int(time.removesuffix("ms")))
        self.world.settle()
        return []

    def do_kill(self, name: str) -> list[str]:
        self.world.kill(name)
        return []

    def do_pause(self, name: str) -> list[str]:
        self.world.process(name).paused = True
        return []

    def do_resume(self, name: str) -> list[str]:
        self.world.process(name).paused = False
        return []

    def do_leave(self, name: str) -> list[str]:
        self.world.nodes[name].session.close()
        self.world.settle()
        return []

    def do_retire(self, name: str) -> list[str]:
        self.world.coordinators[name].driver.retire()
        self.world.settle()
        return []

    # What stands where.

    def do_nodes(self) -> list[str]:
        rows = (row for _, row in self.world.state.rows(NodeRow))
        return [f"{row.node}  {row.kind.value.lower()}  {standing(row)}" for row in rows] or [NOTHING]

    def do_types(self) -> list[str]:
        rows = (row for _, row in self.world.state.rows(md.TypeRow))
        return [type_line(row) for row in rows] or [NOTHING]

    def do_leases(self) -> list[str]:
        return [f"{name}  {lease(node)}" for name, node in self.world.nodes.items()]

    def do_coordinators(self) -> list[str]:
        return [
            f"{name}  {each.driver.role.value}" + (" (paused)" if each.paused else "")
            for name, each in self.world.coordinators.items()
        ]

    def do_groups(self) -> list[str]:
        view = terms.cluster(self.world.state).topology_version
        return [f"view {view}", *(group_line(row) for _, row in self.world.state.rows(g.GroupRow))]

    def do_state(self) -> list[str]:
        return list(baseline_lines(self.world.state))

    def do_objects(self) -> list[str]:
        return object_lines(self.world.state) or [NOTHING]

    def do_changes(self) -> list[str]:
        return change_lines(self.world.state) or [NOTHING]

    def do_partitions(self, group: str) -> list[str]:
        return partition_lines(self.world.state, group)

    def do_read(self, name: str, type_name: str) -> list[str]:
        node = self.world.nodes[name]
        row = md.type_row(node.state, type_name)
        if node.is_fenced:
            return [f"{name} refuses: it holds no valid lease"]
        if row is None:
            return [f"{name} knows no type {type_name}"]
        if row.removing:
            return [f"{name} waits for the removal"]
        if row.accepted_version < row.pending_version:
            return [f"{name} waits for version {row.pending_version}"]
        return [f"{name} answers from version {row.accepted_version}: {fields_of(row.pending)}"]


def definition(name: str, fields: Iterable[str]) -> md.ObjectType:
    return md.ObjectType(name, dict(field.split(":") for field in fields))


GROUP_WORDS = {"only": "node_filter", "differ": "backup_filter", "neighbours": "exclude_neighbours_by"}


def asked_of_group(words: Iterable[str]) -> dict[str, Any]:
    """The fields of a group that these words name."""
    said: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition(":")
        match name:
            case "partitions" | "backups":
                said[name] = int(value)
            case "persistent":
                said[name] = value == "yes"
            case "loss":
                said["loss_policy"] = g.LossPolicy(value)
            case "only":
                said["node_filter"] = dict([value.split("=")] if value else [])
            case _:
                said[GROUP_WORDS[name]] = value
    return said


def group_line(row: g.GroupRow) -> str:
    return f"{row.name}, number {row.number}: {told_of_group(row.definition)}"


def told_of_group(of: g.GroupDefinition) -> str:
    lasting = ", persistent" if of.persistent else ""
    return f"{of.partitions} partitions, {of.backups} backups{lasting}{told_of_rules(of.affinity, of.loss_policy)}"


def told_of_rules(affinity: g.Affinity, policy: g.LossPolicy) -> str:
    rules = {
        "only": " ".join(f"{name}={value}" for name, value in affinity.node_filter.items()),
        "differ": affinity.backup_filter,
        "neighbours": affinity.exclude_neighbours_by,
    }
    return "".join(f", {name}:{value}" for name, value in rules.items() if value) + f", {policy.value}"


def fields_of(of: md.ObjectType) -> str:
    return " ".join(f"{name}:{type_name}" for name, type_name in of.fields.items())


def standing(row: NodeRow) -> str:
    reason = f" {row.left_reason.value}" if row.left_reason else ""
    return f"{row.standing.value}{reason}"


def lease(node: Member) -> str:
    failure: TopologError | None = node.session.failure
    state = "fenced" if node.is_fenced else f"valid for {node.remaining_ms} ms"
    return f"{node.session.core.phase.value}, {state}" + (f"; {failure}" if failure else "")


def type_line(row: md.TypeRow) -> str:
    removing = ", being removed" if row.removing else ""
    versions = f"accepted {row.accepted_version}  pending {row.pending_version}"
    return f"{row.name}  {versions}  {fields_of(row.pending)}{removing}"


def told(event: Event, names: tuple[str, ...]) -> str:
    """One decision in words; nothing of lease renewals, which come all the time."""
    return "" if isinstance(event, m.LeasesRenewed) else f"{type(event).__name__}: {content(event, names)}"


def content(event: Event, names: tuple[str, ...]) -> str:
    match event:
        case terms.LogStarted():
            return f"fence {event.fence_ms} ms, margin {event.margin_ms} ms"
        case terms.TermStarted():
            return f"term {event.term}, led by {event.instance}"
        case terms.TermEnded():
            return f"term {event.term}"
        case q.RequestRefused():
            return f"{event.subject}, {event.code} ({event.rule}): {event.message}"
        case q.RequestUnchanged():
            return event.subject + (f" {event.version}" if event.version else "")
        case q.RequestersForgotten():
            return " ".join(event.requesters)
        case _:
            sharing = content_of_groups(event) or content_of_exchange(event, names) or content_of_baseline(event)
            return sharing or content_of_types(event) or content_of_schema(event) or content_of_members(event)


def content_of_types(event: Event) -> str:
    match event:
        case md.MetadataUpdateProposed():
            return f"{event.type_name} {event.version} = {fields_of(event.definition)}"
        case md.MetadataUpdateRejected():
            return f"{event.type_name}, {event.rule}: {event.message}"
        case md.MetadataUpdateAccepted():
            return f"{event.type_name} {event.version}{told_of_evidence(event.evidence)}"
        case md.MetadataRemoveProposed():
            return f"{event.type_name} {event.version}"
        case md.MetadataRemoveAccepted():
            return f"{event.type_name}, floor {event.floor}{told_of_evidence(event.evidence)}"
        case _:
            return ""


def content_of_groups(event: Event) -> str:
    match event:
        case g.GroupCreated():
            group = event.group
            return f"{group.name}, number {event.number}, view {event.topology_version}: {told_of_group(group)}"
        case g.GroupAltered():
            rules = told_of_rules(event.affinity, event.loss_policy)
            return f"{event.name}, view {event.topology_version}: {event.backups} backups{rules}"
        case g.GroupDropped():
            return f"{event.name}, number {event.number}, view {event.topology_version}"
        case _:
            return ""


def content_of_members(event: Event) -> str:
    match event:
        case m.NodeJoined():
            kinship = f", {event.kinship.value}" if event.kinship else ""
            return f"{event.joiner.node}, {event.joiner.kind.value.lower()}, view {event.topology_version}{kinship}"
        case m.JoinWaiting():
            return f"{event.joiner.node}, for the lease of its former life"
        case m.LeaseStopped():
            return f"{event.node}, {event.reason.value}"
        case m.NodeLeft():
            return f"{event.node}, {event.reason.value}, view {event.topology_version}"
        case m.JoinWithdrawn():
            return event.node
        case _:
            raise AssertionError(f"no words for a {type(event).__name__}")


def told_of_evidence(evidence: Evidence) -> str:
    parts = {"applied": evidence.applied, "left": evidence.left, "presumed fenced": evidence.presumed_fenced}
    return "".join(f"; {what}: {' '.join(nodes)}" for what, nodes in parts.items() if nodes)


def rewritten(text: str) -> str:
    """The transcript with what follows each block's commands as it is now."""
    scenario = Scenario()
    lines: list[str] = []
    answers: list[str] = []
    inside_answer = False
    for line in text.splitlines():
        if inside_answer and line:
            continue
        inside_answer = line == SEPARATOR
        lines.append(line)
        if inside_answer:
            lines += answers or [NOTHING]
            answers = []
        elif line and not line.startswith("#"):
            answers += scenario.run(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.relative_to(FOLDER).with_suffix("").as_posix())
def test_the_transcript_is_what_happens(path: Path) -> None:
    """Each transcript, read aloud, is the specification of what it tells."""
    text = path.read_text(encoding="utf-8")
    happened = rewritten(text)
    if os.environ.get("TOPOLOG_WRITE_SCENARIOS") == "1":
        path.write_text(happened, encoding="utf-8")
    assert happened == text


def test_there_are_transcripts() -> None:
    """A run that finds none would pass for ever."""
    assert len(SCENARIOS) >= 11
