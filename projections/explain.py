"""Why something is as it is, in plain words: one sentence, the facts, the last causes, who was asked.

Causes come from stamps: each decision names what it answers (`cause`), who asked (`actor`) and why (`reason`). Chains
from one decision to the next are in `causes.py`; who was asked is in `patience.py`.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from topolog.events.evidence import Evidence
from topolog.events.groups import GroupRow, LossPolicy
from topolog.events.leases import NodeRow
from topolog.events.membership import WaitingJoinRow
from topolog.events.metadata import (
    FloorRow,
    MetadataRemoveAccepted,
    MetadataUpdateAccepted,
    MetadataUpdateRejected,
    TypeRow,
)
from topolog.events.requests import OutcomeRow, RequestRefused, Status
from topolog.events.views import REFUSED_KINSHIPS
from topolog.projections import groups, health, heard, partitions, patience, queries
from topolog.projections.cause_words import NEXT_MAX, commands_in
from topolog.projections.causes import cause_of
from topolog.projections.layout import Decided
from topolog.projections.resources import Cause, Explanation, Node
from topolog.projections.store import Reading

_FACTS_MAX = 100
"""Decisions about a type that are looked through for facts, the newest ones."""

_CAUSES_MAX = 20
"""Decisions that are named as causes: what stands follows from the last few; `history` and `get decisions` have all."""


def explain_type(reading: Reading, name: str) -> Explanation:
    """What is accepted and why it could be, what is pending and who was asked about it, what was refused."""
    row = queries.type_now(reading, name)
    if row is None:
        return _removed_type(reading, name)
    decided = _newest(reading, f"type {row.name}")
    wait = patience.for_type(reading, row)
    facts = {**wait.facts, **dict(_told(decided))}
    found = Explanation(_type_sentence(row, wait), facts, last_causes(decided), wait.asked)
    return with_next(found, *_last(decided), f"topolog history type {shlex.quote(row.name)}")


def explain_group(reading: Reading, name: str) -> Explanation:
    """What is shared out and by what rules, which servers may hold copies, what was refused."""
    row = reading.row(GroupRow, name)
    decided, quoted = _newest(reading, f"group {name}"), shlex.quote(name)
    facts = dict(_told(decided))
    if row is not None:
        found = Explanation(_group_sentence(row), {**dict(_group_facts(reading, row)), **facts}, last_causes(decided))
        return with_next(found, f"topolog get maps --group {quoted}", f"topolog history group {quoted}")
    dropped_at = groups.dropped_at(reading, name)
    if dropped_at is None:
        raise groups.no_group(reading, name)
    found = Explanation(f"Group {name} was dropped at position {dropped_at}.", facts, last_causes(decided))
    return with_next(found, *_last(decided), f"topolog history group {quoted}")


def explain_node(reading: Reading, age_ms: int, name: str) -> Explanation:
    """Whether the node is a member, what its lease says, why it is out."""
    waiting, quoted = reading.row(WaitingJoinRow, name), shlex.quote(name)
    causes = causes_about(reading, f"node {name}")
    last = (f"topolog explain decision {causes[-1].position}",) if causes else ()
    row = reading.row(NodeRow, name)
    imagined = f"topolog explain node {quoted} --if dies" if row and row.is_member else f"topolog explain join {quoted}"
    commands = (*last, imagined, f"topolog history node {quoted}")
    if waiting is not None:
        wait = patience.for_join(reading, waiting)
        sentence = (
            f"Node {name} asked to join at position {waiting.position} and waits until the lease of its former "
            f"incarnation {waiting.former} is over."
        )
        found = Explanation(sentence, {"request": str(waiting.request), **wait.facts}, causes, wait.asked)
        return with_next(found, *commands)
    refusal = _refused_join(reading, name)
    if refusal is not None and row is None:
        sentence = f"Node {name} has never been a member. {_refusal_sentence(name, refusal)}"
        return with_next(Explanation(sentence, refusal_facts(refusal), causes), *commands[:1])
    node = queries.node(reading, age_ms, name)
    facts = {
        "incarnation": str(node.incarnation),
        "joined at": f"position {node.joined_at}, number {node.order} by age",
        "kind": node.kind,
        "endpoint": node.endpoint,
        **_standing_facts(node),
    }
    if node.lease and node.lease.state:
        facts["lease"] = f"{node.lease.state}, heartbeat {node.lease.sequence} confirmed {node.lease.age_ms} ms ago"
        facts |= {"last heard": heard.in_words(node.lease)}
    sentence = _node_sentence(node)
    if reading.is_current and node.standing != "LEFT":
        about = health.lease_health_of(reading, age_ms, name)
        facts["lease health"] = f"{about.state}: {about.sentence}"
        sentence += f" Warning: {about.sentence}" if about.state in health.ALARMING else ""
    if refusal is not None:
        sentence += f" {_refusal_sentence(name, refusal)}"
        facts |= refusal_facts(refusal)
    wait = patience.for_node(reading, name)
    return with_next(Explanation(sentence, {**facts, **wait.facts}, causes, wait.asked), *commands)


def _type_sentence(row: TypeRow, wait: patience.Wait) -> str:
    accepted = (
        f"version {row.accepted_version} is accepted since position {row.accepted_at}"
        if row.accepted_version
        else "no version is accepted yet"
    )
    if row.removing:
        rest = "and it is being removed"
    elif row.pending_version > row.accepted_version:
        rest = f"version {row.pending_version}, proposed at position {row.proposed_at}, is pending"
    else:
        rest = "and nothing is pending"
    names = ", ".join(each.node for each in wait.asked)
    return f"Type {row.name}: {accepted}, {rest}{f'; asked, not all have answered: {names}' if names else ''}."


def _told(decided: Iterable[Decided]) -> Iterator[tuple[str, str]]:
    """One fact per accepted version and per refusal, newest first."""
    for each in decided:
        event = each.event
        match event:
            case MetadataUpdateAccepted():
                yield f"version {event.version}", f"accepted at position {each.position}: {in_words(event.evidence)}"
            case MetadataRemoveAccepted():
                fact = f"at position {each.position}, floor {event.floor}: {in_words(event.evidence)}"
                yield f"removed at {each.position}", fact
            case MetadataUpdateRejected() | RequestRefused():
                yield f"refused at {each.position}", f"{event.code} ({event.rule}): {event.message}"


def _group_sentence(row: GroupRow) -> str:
    copies = "no backup" if row.backups == 0 else "1 backup" if row.backups == 1 else f"{row.backups} backups"
    lasting = ", and copies outlive their process" if row.persistent else ""
    since = f"exists since position {row.created_at}" + (f", altered at {row.altered_at}" if row.altered_at else "")
    return f"Group {row.name} {since}: {row.partitions} partitions with {copies} each{lasting}."


def _group_facts(reading: Reading, row: GroupRow) -> Iterator[tuple[str, str]]:
    affinity, fitting = row.affinity, sorted(groups.admitted(reading, row), key=lambda node: node.node)
    servers = [node.node for node in fitting]
    required = " and ".join(f"{name} {value}" for name, value in sorted(affinity.node_filter.items()))
    yield "copies go to", f"servers with {required}" if required else "any server"
    yield "servers that fit now", ", ".join(servers) or "none"
    if affinity.exclude_neighbours_by:
        yield "copies of one partition", f"on different {affinity.exclude_neighbours_by} while there are enough"
    if affinity.backup_filter:
        yield "copies of one partition", f"never on the same {affinity.backup_filter}"
    for apart_by in filter(None, (affinity.exclude_neighbours_by, affinity.backup_filter)):
        if lacking := [node.node for node in fitting if apart_by not in node.attributes]:
            yield f"without {apart_by}", f"{', '.join(lacking)}: taken to be apart from every other"
    yield "partitions", partitions.in_words(partitions.condition_totals(reading, row.name))
    yield "while partitions are lost", _LOSS.get(row.loss_policy, row.loss_policy.value)
    if len(servers) <= row.backups:
        count = f"{len(servers)} server{'' if len(servers) == 1 else 's'}"
        yield "warning", f"{count} cannot hold {row.backups + 1} copies"


_LOSS: Mapping[LossPolicy, str] = {
    LossPolicy.IGNORE: "they begin again empty (IGNORE)",
    LossPolicy.READ_WRITE_SAFE: "the others are read and written (READ_WRITE_SAFE)",
    LossPolicy.READ_ONLY_SAFE: "the others are only read (READ_ONLY_SAFE)",
}


def in_words(evidence: Evidence) -> str:
    said = {
        "applied by": evidence.applied,
        "left before": evidence.left,
        "presumed fenced after proceed_ms": evidence.presumed_fenced,
    }
    parts = [f"{what} {', '.join(names)}" for what, names in said.items() if names]
    return "; ".join(parts) or "no server had to be asked"


def _removed_type(reading: Reading, name: str) -> Explanation:
    known = queries.type_ever(reading, name)
    floor = reading.row(FloorRow, str(known.type_id)) if known else None
    if floor is None:
        raise queries.no_type(reading, name)
    decided = _newest(reading, f"type {floor.name}")
    sentence = (
        f"Type {floor.name} was removed at position {floor.removed_at}; content based on version {floor.version} "
        f"or lower never comes back."
    )
    found = Explanation(sentence, dict(_told(decided)), last_causes(decided))
    return with_next(found, *_last(decided), f"topolog history type {shlex.quote(floor.name)}")


def _node_sentence(node: Node) -> str:
    match node.standing:
        case "LEFT":
            why = {
                "LEFT": "it said that it stopped",
                "FENCED": "its lease ran out in silence",
                "REMOVED": "it was removed by a request and its lease is over",
                "REPLACED": "a new process holds the lock on its data folder",
                "DIED": "its process has died, as its sentinel saw",
                "STUCK": "it kept an exchange waiting for too long",
            }.get(node.left_reason or "", "for a reason this version does not know")
            return f"Node {node.node} is out of the membership since position {node.left_at}: {why}."
        case "STOPPING":
            return (
                f"Node {node.node} is being removed since position {node.stopped_at}: it is out when it says that it "
                f"has stopped, or when its lease is over."
            )
        case _:
            state = node.lease.state if node.lease else None
            about = {
                "VALID": "its lease is renewed",
                "SILENT": "is silent: its lease is valid, and is not renewed any more",
                "NONE": "none of its heartbeats has been confirmed yet",
                "OVERDUE": "its lease is overdue, so it must have stopped serving",
            }.get(state or "", "it holds no lease" if node.kind == "CLIENT" else "renewals of the past are not kept")
            return f"Node {node.node} is a member since position {node.joined_at}, and {about}."


def _standing_facts(node: Node) -> dict[str, str]:
    """How it stands to the baseline, and what its disk said when it joined."""
    said = {"role": _ROLES.get(node.role or ""), "its disk": _KINSHIPS.get(node.kinship or "")}
    return {what: text for what, text in said.items() if text}


_ROLES: Mapping[str, str] = {
    "MEMBER": "member of the baseline",
    "AWAY": "member of the baseline, and away: its copies wait for it",
    "OUTSIDER": "online and not in the baseline, so it holds no copies of persistent groups",
    "DRAINING": "hands over all it holds; then it counts no more",
    "DRAINED": "has handed over all it held",
}
_KINSHIPS: Mapping[str, str] = {
    "NEW": "was new when it joined",
    "WIPED": "was empty when it joined, though the node had been a member: its copies were nobody's",
    "RESTORED": "was older than its last life when it joined: its copies were nobody's",
    "EQUAL": "had all up to the newest view when it joined",
    "BEHIND": "had been away when it joined, and had written in no other history",
}


def _refused_join(reading: Reading, name: str) -> OutcomeRow | None:
    """The last refusal about the node, if it came after its last joining."""
    about = [row for _, row in reading.rows(OutcomeRow) if row.subject == f"node {name}"]
    newest = max(about, key=lambda row: row.position, default=None)
    node = reading.row(NodeRow, name)
    if newest is None or newest.status is not Status.REFUSED or (node and node.joined_at > newest.position):
        return None
    return newest


def _refusal_sentence(name: str, row: OutcomeRow) -> str:
    what = "It was refused" if row.code in REFUSED_KINSHIPS else f"A request about {name} was refused"
    return f"{what} at position {row.position} ({row.code}): {row.message}"


def refusal_facts(row: OutcomeRow) -> dict[str, str]:
    """The evidence of a refusal in words; of a node's history also what shows more of it."""
    facts = {"code": row.code, "rule": row.rule}
    facts |= {_FACTS.get(what, what): said for what, said in row.facts.items()}
    if row.code in REFUSED_KINSHIPS:
        node = row.subject.removeprefix("node ")
        facts["shows more"] = f"`topolog explain join {node} --past FILE`, `topolog baseline graph --past FILE`"
    return facts


_FACTS: Mapping[str, str] = {
    "common_position": "last common position",
    "common_view": "the view there",
    "common_members": "its members",
    "theirs_position": "the node's first position behind it",
    "theirs_chain": "the chain there, on its side",
    "theirs_views": "views it has written in since",
    "ours_position": "the log's first position behind it",
    "ours_chain": "the chain there, on the log's side",
    "ours_view": "the log's view there",
    "ours_members": "the members there",
    "ours_members_since": "members here since",
    "end": "the log ends at",
    "log_id": "the log of its folder",
    "expected": "this log",
}


def _newest(reading: Reading, subject: str) -> list[Decided]:
    return list(islice(reading.decisions(subject=subject), _FACTS_MAX))


def causes_about(reading: Reading, subject: str) -> tuple[Cause, ...]:
    return last_causes(reading.decisions(subject=subject))


def _last(newest_first: Sequence[Decided]) -> tuple[str, ...]:
    """The command that explains the newest of these."""
    return tuple(f"topolog explain decision {each.position}" for each in newest_first[:1])


def with_next(found: Explanation, *commands: str) -> Explanation:
    """The same with what to do next: the commands that its facts name, then these; each once, three at most."""
    suggested = dict.fromkeys((*commands_in(found.sentence, *found.facts.values()), *commands))
    return msgspec.structs.replace(found, next=tuple(suggested)[:NEXT_MAX])


def last_causes(newest_first: Iterable[Decided]) -> tuple[Cause, ...]:
    """The newest few of these decisions, oldest first, whatever each of them follows from."""
    newest = list(islice(newest_first, _CAUSES_MAX))
    return tuple(cause_of(each) for each in reversed(newest))
