"""Why replicas were asked, what differs and why it is left or repaired, why a schedule did or did not begin."""

import shlex
from collections.abc import Iterator

from topolog.projections import causes, differences, repairs, replicas, sessions, trees
from topolog.projections.durations import ago
from topolog.projections.explain import causes_about, with_next
from topolog.projections.explain_words import LEFT_ALONE, REMEDIES, rows
from topolog.projections.repair_resources import Repair, Replica, RowDifference, Schedule, Tree
from topolog.projections.resources import Awaited, Cause, Explanation
from topolog.projections.sentences import listed
from topolog.projections.store import Reading


def explain_tree(reading: Reading, name: str) -> Explanation:
    """One step of a session: what it was for, who was asked, who has failed, what came out; raises as `tree` does."""
    found = trees.tree(reading, name)
    asked = {
        each.replica: each.at_most_ms for each in sessions.tasks(reading, sessions.surely(reading, str(found.session)))
    }
    awaited = tuple(Awaited(each, found.started_at, asked.get(each)) for each in found.awaited)
    explained = Explanation(_tree_sentence(found), dict(_of_tree(found)), _chain(reading, found.started_at), awaited)
    more = (
        f"topolog get differences --session {found.session}" if found.rows_differ else f"topolog describe tree {name}"
    )
    return with_next(explained, f"topolog explain session {found.session}", more)


def _tree_sentence(found: Tree) -> str:
    what = (
        f"Step {found.step} of segment {found.segment} of session {found.session} ({found.kind}, for {found.purpose})"
    )
    if found.awaited:
        return f"{what} waits for {listed(found.awaited)} since position {found.started_at}."
    if not found.is_over:
        return f"{what} has all answers, and waits to be compared."
    if found.rows_differ is not None:
        return f"{what} is over: {rows(found.rows_differ)} differ."
    if found.roots is not None and found.roots > 1:
        return f"{what} is over: {found.leaves} leaves differ in {found.pairs_compared} comparisons."
    return f"{what} is over{': the trees are equal' if found.roots == 1 else ''}."


def _of_tree(found: Tree) -> Iterator[tuple[str, str]]:
    yield "of", f"table {found.table}, tokens {listed(found.ranges, 4)}"
    yield "asked", listed(found.asked, 16) or "nobody"
    if found.absent:
        yield "goes on without", listed(found.absent, 16)
    for task in found.tasks:
        if task.state == "FAILED":
            helps = f" What helps: {REMEDIES[task.code]}." if task.code in REMEDIES else ""
            yield f"{task.replica}, attempt {task.attempt}", f"failed with {task.code}: {task.message}{helps}"
        elif task.state == "DONE":
            yield f"{task.replica}, attempt {task.attempt}", f"done: {task.rows} rows in {ago(task.worked_ms)}"
    for pair in found.pairs[:8]:
        yield f"{pair.left} and {pair.right}", f"{pair.leaves} of {pair.leaves_compared} leaves differ"


def explain_difference(reading: Reading, name: str) -> Explanation:
    """Why one row differs and what a repair would do about it, or why it leaves it alone. It has no past."""
    found = differences.difference(reading, name)
    number = found.session
    facts = {
        f"content {each.content[:12]}": f"at {listed(each.replicas)}"
        f"{f', version {each.version}' if each.version else ''}{', a deletion' if each.is_tombstone else ''}"
        for each in found.versions
    }
    if found.missing:
        facts["lacked by"] = listed(found.missing)
    explained = Explanation(
        f"{_difference(found)} {_repaired(found)}", facts, causes_about(reading, f"session {number}")
    )
    return with_next(explained, f"topolog repair plan {number}", f"topolog explain session {number}")


def _difference(found: RowDifference) -> str:
    where = f"Row {found.key} (token {found.token}), found by session {found.session},"
    match found.kind:
        case "MISSING":
            return f"{where} is missing at {listed(found.missing)}."
        case "EXTRA":
            holders = dict.fromkeys(name for each in found.versions for name in each.replicas)
            return f"{where} is there only at {listed(list(holders))}."
        case "DUPLICATE_KEY":
            return f"{where} is there more than once at a replica."
        case _:
            return f"{where} has {len(found.versions)} contents."


def _repaired(found: RowDifference) -> str:
    if found.left_alone:
        why = LEFT_ALONE.get(found.left_alone, "of a reason this version does not know")
        return f"A repair by the session's policy leaves it alone ({found.left_alone}), because {why}."
    if found.deletes:
        return f"A repair by the session's policy deletes it at {listed(found.targets)}, as {found.source} has it."
    return f"A repair by the session's policy sends it from {found.source} to {listed(found.targets)}."


def explain_repair(reading: Reading, name: str) -> Explanation:
    """What a repair moves and what it leaves, and how it ended; raises as `repairs.repair` does."""
    found = repairs.repair(reading, name)
    chain = _chain(reading, found.number)
    explained = Explanation(_repair_sentence(found), dict(_of_repair(found)), chain)
    return with_next(explained, f"topolog explain session {name}", f"topolog get differences --session {name}")


def _repair_sentence(found: Repair) -> str:
    way = f"by {found.policy}{f' from {found.source}' if found.source else ''}"
    said = f"Repair {found.number} of {found.table} {way} is {found.state}"
    left = sum(found.unresolved.values())
    alone = f", {rows(left)} left alone" if left else ""
    why = f" ({found.code}: {found.message})" if found.code else ""
    return f"{said}{why}: {found.written} of {rows(found.rows)} written{alone}."


def _of_repair(found: Repair) -> Iterator[tuple[str, str]]:
    if found.preview is not None:
        yield "rests on", f"what preview {found.preview} has found to differ"
    for copy in found.copies:
        deletes = f", {copy.deletes} of them deletions" if copy.deletes else ""
        yield f"{copy.source} to {copy.target}", f"{rows(copy.rows)}{deletes}"
    for target in found.targets:
        skipped = f"; {target.skipped} had changed since, and were left" if target.skipped else ""
        yield f"written to {target.replica}", f"{target.written} of {target.rows}{skipped}"
    for reason, count in found.unresolved.items():
        yield f"left alone: {reason}", f"{rows(count)}: {LEFT_ALONE.get(reason, 'a reason this version does not know')}"
    yield "verified", f"{found.verified} of {found.segments} segments are equal now"
    if found.code in REMEDIES:
        yield "what helps", REMEDIES[found.code]


def explain_replica(reading: Reading, name: str) -> Explanation:
    """Since when a replica is declared, by whom, what it can do and what it is asked; raises as `replica` does."""
    found = replicas.replica(reading, name)
    declared = reading.surely_decision(found.declared_at)
    by = f" by {declared.asked_by}" if declared.asked_by else ""
    asked = f"sessions {listed([str(each) for each in found.open_sessions])} ask it" if found.open_sessions else ""
    sentence = (
        f"Replica {name} is declared since position {found.declared_at}{by}; {asked or 'no open session asks it'}."
    )
    explained = Explanation(sentence, dict(_of_replica(found)), _chain(reading, found.declared_at))
    commands = [f"topolog explain session {number}" for number in found.open_sessions[:1]]
    return with_next(explained, *commands, f"topolog history replica {shlex.quote(name)}", "topolog get schedules")


def _of_replica(found: Replica) -> Iterator[tuple[str, str]]:
    yield "holds", f"{found.percent} % of the tokens, about {rows(found.rows)} of {found.row_bytes} bytes"
    yield "data centre", found.datacenter or "none is named"
    yield "read points", "it can fix one" if found.gives_cuts else "none: rows may change while they are compared"
    yield "writes", "it takes rows that others have" if found.is_writable else "none: it is only read"
    yield "key", ", ".join(found.key) or "none: its rows cannot be repaired one by one"


def explain_schedule(reading: Reading, name: str) -> Explanation:
    """When a schedule is due, what it opened last, and why not if it did not; raises as `schedule` does."""
    found = replicas.schedule(reading, name)
    facts = {"opens": f"a {found.kind.lower()} of {found.table} each {ago(found.every_ms)}, if none of it is open"}
    if found.session is not None:
        facts["last session"] = f"{found.session}: `topolog explain session {found.session}`"
    if found.code:
        facts["put off"] = f"{found.code}: {found.message}"
    if found.code in REMEDIES:
        facts["what helps"] = REMEDIES[found.code]
    sentence = f"Schedule {name} {_due(found)}."
    explained = Explanation(sentence, facts, _chain(reading, found.since))
    turn = "topolog get schedules" if found.paused else f"topolog get sessions --table {shlex.quote(found.table)}"
    return with_next(explained, f"topolog history schedule {shlex.quote(name)}", turn)


def _due(found: Schedule) -> str:
    if found.paused:
        return "is paused: it opens nothing until it is set again without --paused"
    if not found.due_in_ms:
        return f"is due now, counted from position {found.since}"
    again = "is tried again" if found.code else "is due"
    return f"{again} in {ago(found.due_in_ms)}, counted from position {found.since}"


def _chain(reading: Reading, position: int) -> tuple[Cause, ...]:
    return tuple(causes.shown(each) for each in causes.chain(reading, position))
