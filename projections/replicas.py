"""What can be asked of replicas of tables and of schedules: all of them, and one by its name."""

from collections.abc import Iterator, Mapping

from topolog.events import tree_spec
from topolog.events.replicas import ReplicaRow
from topolog.events.schedules import ScheduleRow
from topolog.events.token_range import FULL
from topolog.projections import changes, queries, sessions
from topolog.projections.moments import position_time
from topolog.projections.repair_resources import Replica, Schedule
from topolog.projections.store import Reading


def replicas(reading: Reading, filters: Mapping[str, str], after: str = "") -> Iterator[Replica]:
    """All that are declared, by name; those behind the name `after` only. Filters: table, datacenter."""
    asking = _asking(reading)
    for key, row in reading.rows(ReplicaRow, start=after):
        about = {"table": row.definition.table, "datacenter": row.definition.datacenter}
        if key != after and all(filters.get(name) in (None, value) for name, value in about.items()):
            yield _replica(reading, row, asking)


def replica(reading: Reading, name: str) -> Replica:
    """One replica by `table@name`; raises NotFound if there is none."""
    row = reading.row(ReplicaRow, name)
    if row is None:
        raise queries.not_found(name, (key for key, _ in reading.rows(ReplicaRow)), "replica")
    return _replica(reading, row, _asking(reading))


def _asking(reading: Reading) -> Mapping[tuple[str, str], tuple[int, ...]]:
    """The open sessions by (table, replica)."""
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for row in sessions.opened(reading):
        for name in sessions.shown(reading, row).replicas:
            place = row.definition.table, name
            found[place] = (*found.get(place, ()), row.number)
    return found


def _replica(reading: Reading, row: ReplicaRow, asking: Mapping[tuple[str, str], tuple[int, ...]]) -> Replica:
    definition = row.definition
    return Replica(
        name=definition.id,
        table=definition.table,
        replica=definition.name,
        datacenter=definition.datacenter,
        columns={column.name: column.type for column in definition.columns},
        key=definition.key,
        ranges=sessions.texts(definition.ranges),
        percent=sessions.percent_of(definition.ranges, (FULL,)),
        rows=definition.rows,
        row_bytes=definition.row_bytes,
        gives_cuts=definition.gives_cuts,
        is_writable=definition.is_writable,
        is_ordered=bool(definition.boundaries),
        schema=tree_spec.fingerprint(definition.columns, definition.key).hex(),
        life=f"{row.life & (1 << 64) - 1:016x}",
        declared_at=row.declared_at,
        declared_time=position_time(reading, row.declared_at),
        open_sessions=asking.get((definition.table, definition.name), ()),
    )


def schedules(reading: Reading, filters: Mapping[str, str], after: str = "") -> Iterator[Schedule]:
    """All schedules, by name; those behind the name `after` only. Filters: table."""
    for key, row in reading.rows(ScheduleRow, start=after):
        if key != after and filters.get("table") in (None, row.definition.table):
            yield _schedule(reading, row)


def schedule(reading: Reading, name: str) -> Schedule:
    row = reading.row(ScheduleRow, name)
    if row is None:
        raise queries.not_found(name, (key for key, _ in reading.rows(ScheduleRow)), "schedule")
    return _schedule(reading, row)


def _schedule(reading: Reading, row: ScheduleRow) -> Schedule:
    waited_ms = changes.now_ms(reading) - reading.surely_decision(row.counted_from).logged_at_ms
    return Schedule(
        name=row.name,
        table=row.definition.table,
        kind=row.definition.kind.value,
        policy=row.definition.policy.value,
        every_ms=row.every_ms,
        paused=row.paused,
        due_in_ms=None if row.paused else max(0, row.wait_ms - waited_ms),
        session=row.session,
        code=row.code,
        message=row.message,
        since=row.counted_from,
        definition=sessions.said(row.definition),
    )
