"""What must hold of definitions and of what is answered from them, judged from outside.

Whatever a service has answered, admitted or deleted is held against the definitions that were in force, by true time,
while it did so (`schema_ledger.py`).
"""

from collections.abc import Iterator, Sequence

from topolog.events import groups as g
from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import objects as ob
from topolog.events.baseline import cluster_state
from topolog.events.claims import line
from topolog.events.cluster_state import ClusterState
from topolog.events.ids import Incarnation, Position
from topolog.events.leases import FENCING, NodeRow
from topolog.events.object_definition import FOREVER, Column, ObjectKind, Step, Verb
from topolog.events.objects import ChangeRow
from topolog.events.state import State
from topolog.streams.simulation.ledger import Ledger, Standing
from topolog.streams.simulation.processes import NodeProcess
from topolog.streams.simulation.rules import Broken, Rule
from topolog.streams.simulation.schema_ledger import SchemaLedger, Span
from topolog.streams.simulation.store import Cell
from topolog.streams.simulation.tables import Admitted, Allowed, Deleted, Expired, Read
from topolog.streams.simulation.terms_in_force import TermsInForce
from topolog.streams.simulation.world import World

Origin = tuple[Position, Position | None]
"""Of which table, by the place of its creation, and of which life of which of its columns a value is."""


class SchemaChecks:
    """Raises Broken."""

    def __init__(self, ledger: Ledger, world: World, terms: TermsInForce) -> None:
        self._terms = terms
        self._ledger = ledger
        self._world = world
        self._schema = SchemaLedger(ledger.state)
        self._blocked: dict[tuple[Incarnation, Position], str] = {}
        self._written: dict[int, Origin] = {}
        self._state = cluster_state(State())
        self._revocations: set[Position] = set()

    @property
    def committed_through(self) -> Position:
        """Up to here every server that holds a lease has applied the log (LE1)."""
        return self._schema.committed_through

    def judge_set(self, whole: Sequence[Standing]) -> None:
        """A set of decisions; the ledger's state is that of its end."""
        for standing in whole:
            self._schema.judge(standing)
            self._check_bound(standing)
            if isinstance(standing.event, ob.SchemaChangeCommitted):
                self._check_evidence(standing.event, standing)
        if any(isinstance(each.event, ob.SchemaChangeCommitted) for each in whole):
            for node in self._world.nodes:
                self._check_versions(node)
        self._state = cluster_state(self._ledger.state)

    def note_heartbeat(self, heartbeat: m.Heartbeat) -> None:
        if heartbeat.blocked is not None:
            self._blocked[heartbeat.incarnation, heartbeat.blocked.position] = heartbeat.blocked.code

    def look_at(self, node: NodeProcess) -> None:
        """What a node has done in its turn, against what the log says by now."""
        if not node.is_server:
            for allowed in node.tables.allowed:
                self._check_heard(node, allowed, self._world.timeline.now_ns)
        elif self._is_judged(node):
            self._check_state(node)
            self._check_done(node)

    def _check_done(self, node: NodeProcess) -> None:
        tables, now_ns = node.tables, self._world.timeline.now_ns
        for read in tables.reads:
            self._check_read(node, read)
        for admitted in tables.admitted:
            self._check_admitted(node, admitted)
        for allowed in tables.allowed:
            self._check_allowed(node, allowed, now_ns)
        for expired in tables.expired:
            self._check_expired(node, expired, now_ns)
        for deleted in tables.deleted:
            self._check_deleted(node, deleted)
        for number in tables.confirmed:
            self._check_confirmed(node, number)
        if tables.reads or tables.admitted:
            self._check_versions(node)

    def unrest(self) -> str:
        """Why some change is not over yet; nothing if all are."""
        state = self._ledger.state
        if waiting := line(state):
            return f"changes {waiting} are open"
        for _, row in state.rows(ChangeRow):
            if row.undeleted:
                return f"what change {row.number} has closed is not deleted by {', '.join(row.undeleted)}"
        return ""

    def _is_judged(self, node: NodeProcess) -> bool:
        """A server that does not fence itself is the operator's affair once it is no member any more."""
        core = node.session.core
        row = self._ledger.state.get(NodeRow, core.node)
        return node.fences or (row is not None and row.holds_lease and row.incarnation == core.incarnation)

    def _check_evidence(self, committed: ob.SchemaChangeCommitted, standing: Standing) -> None:
        state = self._ledger.state
        for number in committed.changes:
            prepared = self._schema.prepared(number)
            if prepared is None:
                continue
            is_early = standing.at_ns < self._terms.waited_ns(prepared.place.position)
            if committed.evidence.presumed_fenced and is_early:
                waited_ms = (standing.at_ns - prepared.at_ns) / 1e6
                raise Broken(Rule.PRESUMED_IN_TIME, f"{committed}, after {waited_ms:.1f} ms")
            for name in committed.evidence.applied:
                row = state.get(NodeRow, name)
                if row and (row.incarnation, prepared.place.position) in self._blocked:
                    raise Broken(Rule.NACK, f"change {number} of position {prepared.place.position}: {name}")
        for name in committed.evidence.presumed_fenced:
            row = state.get(NodeRow, name)
            if row is None or FENCING not in row.capabilities:
                raise Broken(Rule.PRESUMED_IN_TIME, f"{committed}: {name} does not fence itself")

    def _check_bound(self, standing: Standing) -> None:
        """What is decided, against the state that was in force before its set."""
        event, is_forbidden = standing.event, False
        match event:
            case ob.SchemaChangePrepared():
                number = standing.place.position if event.change is None else event.change
                if all(self._takes_away(step) for step in event.steps):
                    self._revocations.add(number)
                is_forbidden = number not in self._revocations
            case ob.SchemaChangeCommitted(changes=numbers):
                changing = {number for number in numbers if self._schema.prepared(number) is not None}
                is_forbidden = not changing <= self._revocations
            case g.GroupCreated() | g.GroupAltered() | g.GroupDropped():
                is_forbidden = True
            case md.MetadataUpdateProposed() | md.MetadataRemoveProposed():
                is_forbidden = True
        if is_forbidden and self._state.allowed is not ClusterState.ACTIVE:
            raise Broken(Rule.STATE_BINDS, f"{event} while {self._state}")

    def _takes_away(self, step: Step) -> bool:
        """Whether a step, as it is prepared, leaves less of a right than there was."""
        if step.kind is not ObjectKind.GRANT or step.verb not in (Verb.DROP, Verb.ALTER):
            return False
        span, then = self._schema.in_force(step.name), step.definition.privileges if step.definition else ()
        return span is not None and set(then) < set(span.definition.privileges)

    def _check_state(self, node: NodeProcess) -> None:
        """What is done, against the state that everybody who may act has applied."""
        tables, state = node.tables, self._state.state
        answered = [read for read in tables.reads if not read.is_unknown]
        if answered and state is ClusterState.INACTIVE:
            raise Broken(Rule.STATE_BINDS, f"{node.describe()} has shown {answered[0]}: {self._state}")
        done = [*tables.admitted, *tables.expired, *tables.deleted]
        if done and state is not ClusterState.ACTIVE:
            raise Broken(Rule.STATE_BINDS, f"{node.describe()} has done {done[0]}: {self._state}")

    def _check_heard(self, node: NodeProcess, allowed: Allowed, now_ns: int) -> None:
        since_ns = now_ns - self._terms.longest_lease_ns
        spans = list(self._schema.during(f"{allowed.principal}@{allowed.name}", since_ns, now_ns))
        if allowed.is_allowed and not any(allowed.privilege in span.definition.privileges for span in spans):
            raise Broken(Rule.HEARD, f"{node.describe()} has said {allowed}: {spans}")

    def _check_confirmed(self, node: NodeProcess, number: Position) -> None:
        for incarnation, column in self._schema.closed_by(number):
            for row in node.tables.store.of(incarnation):
                if column is None or column in row.cells:
                    raise Broken(Rule.DELETE_AFTER_CLOSE, f"{node.describe()} has {row}, closed by change {number}")

    def _check_versions(self, node: NodeProcess) -> None:
        """What a server that may act uses is in force, or follows what is (TA23)."""
        if not (node.is_server and node.holds_lease and self._is_judged(node)):
            return
        for name, incarnation, version in node.tables.in_use():
            used = self._schema.generation(incarnation, version)
            now = self._schema.generations.get(incarnation)
            is_closed = (incarnation, None) in self._schema.closed
            if is_closed or used is None or now is None or used - now not in (0, 1):
                raise Broken(Rule.TWO_ADJACENT, f"{node.describe()}: {name} {incarnation}.{version}: {used}, {now}")

    def _check_read(self, node: NodeProcess, read: Read) -> None:
        during = [s for s in self._schema.during(read.name, read.began_ns, read.ended_ns) if s.kind is read.kind]
        if read.is_unknown:
            if any(span.from_ns < read.began_ns for span in during):
                raise Broken(Rule.NO_STALE_DEFINITION, f"{node.describe()} knows no {read.name}: {during[0]}")
            return
        spans = [span for span in during if span.incarnation == read.incarnation]
        if read.kind is ObjectKind.VIEW:
            spans = [span for span in spans if _numbers(span.definition.columns) == _numbers(read.columns)]
        tables = [
            span
            for span in self._schema.during(read.table, read.began_ns, read.ended_ns)
            if span.incarnation == read.of and self._is_shown(read, span)
        ]
        if not spans or not tables:
            known = [*self._schema.spans.get(read.name, ())[-3:], *self._schema.about(read.name)[-2:]]
            raise Broken(Rule.NO_STALE_DEFINITION, f"{node.describe()} has shown {read}: {known}")
        self._check_rows(node, read, tables)

    def _is_shown(self, read: Read, span: Span) -> bool:
        """Whether the read shows this definition of its table, or one that was to follow it."""
        found = [span.definition.columns]
        for pending in self._schema.about(read.table):
            is_over = pending.until_ns is not None and pending.until_ns < read.began_ns - self._terms.longest_lease_ns
            if pending.base is span and pending.step.definition and pending.from_ns <= read.ended_ns and not is_over:
                found.append(pending.step.definition.columns)
        if read.kind is ObjectKind.VIEW:
            shown = _numbers(read.columns)
            found = [tuple(column for column in columns if column.number in shown) for columns in found]
        return read.columns in found

    def _check_rows(self, node: NodeProcess, read: Read, tables: Sequence[Span]) -> None:
        types = {column.number: column.type for column in read.columns}
        lives = {(span.born, span.lives.get(number)) for span in tables for number in types}
        shown = {cell.write for row in read.shown for cell in row.values()}
        for row in read.shown:
            for number, cell in row.items():
                if self._written.get(cell.write, (None, None)) not in lives or not cell.fits(types[number]):
                    found = self._written.get(cell.write)
                    raise Broken(Rule.CLOSED_STAYS_CLOSED, f"{node.describe()} shows {cell} of {found} in {read}")
        for cell in self._owed(node, read):
            if cell.write not in shown:
                raise Broken(Rule.CLOSED_STAYS_CLOSED, f"{node.describe()} does not show {cell} in {read}")

    def _owed(self, node: NodeProcess, read: Read) -> Iterator[Cell]:
        for row in read.owed:
            if row.number not in node.tables.store.gone:
                yield from (row.cells[each.number] for each in read.columns if each.number in row.cells)

    def _check_admitted(self, node: NodeProcess, admitted: Admitted) -> None:
        spans = [
            span
            for span in self._schema.during(admitted.name, admitted.began_ns, admitted.ended_ns)
            if span.incarnation == admitted.incarnation
        ]
        if not spans:
            known = self._schema.spans.get(admitted.name, ())[-3:]
            raise Broken(Rule.NO_STALE_DEFINITION, f"{node.describe()} has admitted {admitted}: {known}")
        suited = [span for span in spans if _suits(admitted, span)]
        if not suited:
            raise Broken(Rule.WRITES_SUIT_BOTH, f"{node.describe()} has admitted {admitted}: {spans}")
        for number, cell in admitted.cells.items():
            self._written[cell.write] = (suited[-1].born, suited[-1].lives[number])

    def _check_allowed(self, node: NodeProcess, allowed: Allowed, now_ns: int) -> None:
        spans = list(self._schema.during(f"{allowed.principal}@{allowed.name}", now_ns, now_ns))
        if allowed.is_allowed and not any(allowed.privilege in span.definition.privileges for span in spans):
            raise Broken(Rule.RIGHTS, f"{node.describe()} has said {allowed}: {spans}")

    def _check_expired(self, node: NodeProcess, expired: Expired, now_ns: int) -> None:
        if not node.holds_lease:
            raise Broken(Rule.TTL, f"{node.describe()}: {expired}")
        for span in self._schema.during(expired.name, now_ns, now_ns):
            ttl_ms = span.definition.ttl_ms or FOREVER
            if ttl_ms != FOREVER and expired.ttl_ms >= ttl_ms:
                return
        raise Broken(Rule.TTL, f"{node.describe()}: {expired}, {self._schema.in_force(expired.name)}")

    def _check_deleted(self, node: NodeProcess, deleted: Deleted) -> None:
        what = {(deleted.incarnation, None), (deleted.incarnation, deleted.column)}
        if not what & self._schema.closed:
            raise Broken(Rule.DELETE_AFTER_CLOSE, f"{node.describe()} has deleted {deleted}")


def _suits(admitted: Admitted, span: Span) -> bool:
    types = {column.number: column.type for column in span.definition.columns}
    return all(number in types and cell.fits(types[number]) for number, cell in admitted.cells.items())


def _numbers(columns: Sequence[Column]) -> set[int]:
    return {column.number for column in columns}
