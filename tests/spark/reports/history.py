"""Three days of a cluster, with something of all that reports tell of, and with records that do not count among it."""

from datetime import UTC, datetime

from tests.unit.projections.chronicle import START_MS, Chronicle
from tests.unit.projections.repairing import Rounds, definition, differing_tables, rows, union_definition
from tests.unit.projections.sharing import Sharing, shared_out
from tests.unit.streams.rules.changing import change
from tests.unit.streams.rules.exchanging import passed

from topolog.events.codec import CODEC
from topolog.events.health import Figures, LeaseHealth, Minute
from topolog.events.ids import Incarnation, NodeId, Offset
from topolog.events.leases import LeaveReason
from topolog.events.log import Entry
from topolog.events.object_definition import Definition, ObjectKind, Statement, Verb
from topolog.events.object_types import ObjectType
from topolog.events.repair_definition import SessionKind
from topolog.events.requests import RequestRefused, RequestUnchanged
from topolog.events.stamp import encode_stamp
from topolog.events.token_range import TokenRange
from topolog.events.topics import PARTITIONS, Topic

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HALF = TokenRange(0, 1 << 31)
FENCE_MS, HEARTBEAT_MS = 20_000, 1_000


class History:
    """`days`: the first and the last (UTC)."""

    def __init__(self) -> None:
        self.chronicle = Chronicle(pace_ms=250).start()
        self.cluster = shared_out(self.chronicle, "n1", "n2", "n3", "n4", partitions=24, backups=1)
        self.rounds = Rounds(self.chronicle)
        self._first_day()
        self.wait(DAY_MS)
        self._second_day()
        self.wait(DAY_MS)
        self._third_day()
        self._add_what_does_not_count()

    def wait(self, ms: int) -> None:
        self.chronicle.now_ms += ms

    def entries(self, *topics: Topic) -> list[Entry]:
        """Everything that the archive is to have."""
        chosen = topics or (Topic.DECISIONS, Topic.LEASE_HEALTH)
        return [
            each
            for topic in chosen
            for part in range(PARTITIONS[topic])
            for each in self.chronicle.log.entries(topic, part)
        ]

    @property
    def _sharing(self) -> Sharing:
        """Others have written since."""
        self.cluster.position = self.chronicle.position
        return self.cluster

    def _first_day(self) -> None:
        log = self.chronicle
        log.propose("Customer", {"id": "long"}, actor="ann", reason="new shop")
        self.wait(40)
        log.accept("Customer", "n1", "n2", "n3", "n4")
        log.propose("Customer", {"id": "long", "email": "String"}, actor="bob")
        log.propose("Customer", {"id": "long", "email": "String", "note": "String"}, actor="bob")
        self.wait(25_000)
        log.accept("Customer", "n1", "n2", presumed_fenced=("n3",))
        log.reject("Customer", ObjectType("Customer", {"id": "long"}), ObjectType("Customer", {"id": "String"}))
        self._refuse("ann", "node n9", "UNKNOWN_NODE", 2)
        self._refuse("ann", "group carts", "TOO_MANY_BACKUPS", 1, reason="more copies")
        log.decide(RequestUnchanged(log.ref("ann"), "type Customer", None), actor="ann", reason="again")
        self._tell_health("n1", gap_max_ms=1_200)
        self._tell_health("n2", gap_max_ms=12_000)

    def _second_day(self) -> None:
        """A primary dies, and what follows; n2 keeps an exchange waiting, is done without, and leaves."""
        cluster = self._sharing
        self.wait(7_000)
        cluster.leave("n3")
        self.wait(900)
        cluster.settle_exchange()
        self.wait(3_000)
        cluster.exchange()
        cluster.rest()
        self.wait(HOUR_MS)
        cluster.join("n3")
        cluster.exchange()
        cluster.rest()
        cluster.leave("n3")
        cluster.settle_exchange()
        cluster.answer("n1", "n4")
        self.wait(11_500)
        passed(cluster, "gather")
        cluster.settle_exchange()
        passed(cluster, "warn")
        cluster.settle_exchange()
        self.wait(2_000)
        cluster.leave("n2")
        cluster.exchange()
        cluster.rest()
        cluster.join("n2", "n3")
        cluster.rest()
        for minute in range(4):
            self._tell_health("n2", gap_max_ms=21_000, fencings=1, returns=1, minute=minute)

    def _third_day(self) -> None:
        log, cluster = self.chronicle, self._sharing
        log.remove_type("Customer")
        log.propose("Open", {"id": "long"}, actor="eve")
        database = Statement(Verb.CREATE, ObjectKind.DATABASE, "shop", Definition(ttl_ms=DAY_MS))
        log.decide(*cluster.decide(change(database)), actor="ada", reason="why not")
        self.wait(600)
        log.settle_changes("n1", "n2", "n3", "n4")
        differing_tables(self.rounds)
        self.rounds.declare("A", rows(1, 2), table="never")
        self.rounds.run(self.rounds.start(definition(ranges=(HALF,))))
        self.wait(2 * HOUR_MS)
        self.rounds.run(self.rounds.start(union_definition(SessionKind.REPAIR, ranges=(TokenRange(0, 1 << 30),))))
        self.wait(HOUR_MS)
        log.leave("n1", LeaveReason.FENCED)
        self._sharing.settle_exchange()
        self._sharing.join("n5")
        self._sharing.settle_exchange()
        self.wait(30_000)
        log.renew("n4")

    def _refuse(self, actor: str, subject: str, code: str, count: int, reason: str = "") -> None:
        for _ in range(count):
            event = RequestRefused(self.chronicle.ref(actor), subject, code, "R1", "No.", {})
            self.chronicle.decide(event, actor=actor, reason=reason)

    def _tell_health(self, node: str, *, gap_max_ms: int, fencings: int = 0, returns: int = 0, minute: int = 0) -> None:
        """Twice about each minute, the second time with all of it."""
        start_ms = self.chronicle.now_ms - self.chronicle.now_ms % 60_000 + minute * 60_000
        for beats in (10, 60):
            figures = Figures(
                beats=beats, gaps=beats - 1, gap_max_ms=gap_max_ms, fencings=fencings, returns=returns, lost=beats // 60
            )
            told = LeaseHealth(
                node=NodeId(node),
                incarnation=Incarnation(1),
                log_id=self.chronicle.log_id,
                partition=0,
                offset=Offset(8),
                sequence=beats,
                beat_ms=start_ms,
                lateness_ms=200,
                fence_ms=FENCE_MS,
                heartbeat_ms=HEARTBEAT_MS,
                fenced=False,
                released=False,
                minutes=(Minute(start_ms, figures),),
                whole=figures,
            )
            self.chronicle.log.put(Topic.LEASE_HEALTH, node, CODEC.encode(told))

    def _add_what_does_not_count(self) -> None:
        """A deposed coordinator's sends that arrive late, some of them twice, and half a set."""
        log = self.chronicle
        late = log.entries
        cut = encode_stamp(log._stamp(0, 2, "", "c1", ""))
        log.append_raw(cut, late[5].value)
        log.lead("c2")
        for entry in late[2:]:
            log.append_raw(entry.stamp, entry.value)
        log.renew("n4")


def day(number: int) -> str:
    """The date (UTC) of a day of the history, counted from 0."""
    return datetime.fromtimestamp((START_MS + number * DAY_MS) / 1000, UTC).date().isoformat()
