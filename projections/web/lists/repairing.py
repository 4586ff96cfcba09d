"""Lists of anti-entropy: sessions, trees, differences, repairs, replicas, schedules."""

from topolog.projections.explain_words import LEFT_ALONE
from topolog.projections.repair_resources import RowDifference, Session
from topolog.projections.web import values
from topolog.projections.web.frame import Frame
from topolog.projections.web.listing import Column, Listing
from topolog.projections.web.values import Shown, Value

_VERDICTS = {"AGREE": "agree", "DIFFER": "differ", "REPAIRED": "agree now", "INCONCLUSIVE": "nobody can say"}


def _state(_: Frame, each: Session) -> Shown:
    return values.state(each.state, ", ".join(filter(None, ("paused" if each.paused else "", each.code))))


def _verdict(_: Frame, each: Session) -> Shown:
    shown = values.state(each.verdict)
    return Value(_VERDICTS.get(each.verdict or "", "–"), tone=shown.tone)


SESSIONS = Listing(
    view="sessions",
    title="Sessions",
    about="Comparisons of the replicas of a table, and repairs of them.",
    columns=(
        Column(
            "Session",
            lambda f, each: Value(str(each.number), f.to("sessions", each.number)),
            is_number=True,
            sort="number",
        ),
        Column("Table", lambda _, each: each.table, sort="table"),
        Column("Does", lambda _, each: {"PREVIEW": "compares", "REPAIR": "repairs"}.get(each.kind, each.kind)),
        Column("State", _state, sort="state"),
        Column("Replicas", _verdict),
        Column("Segments", lambda _, each: f"{each.segments_done}/{each.segments}", is_number=True),
        Column(
            "Differ",
            lambda f, each: Value(str(each.rows_differ), f.to("differences", session=each.number)),
            is_number=True,
            sort="rows_differ",
        ),
        Column("Written", lambda _, each: each.rows_written, is_number=True),
        Column("Covered", lambda _, each: f"{each.covered_percent} %", is_number=True),
        Column("Took", lambda _, each: values.exact(each.age_ms), is_number=True, sort="age_ms"),
        Column("Asked by", lambda _, each: each.actor),
        Column("Why", lambda _, each: each.message or each.reason or "–", is_wide=True),
    ),
    empty="No replicas have been compared yet. `topolog repair run` begins a session.",
    told=frozenset({"state", "kind", "verdict", "table"}),
)

TREES = Listing(
    view="trees",
    title="Trees",
    about="Each step of a session: who was asked what, and what was compared.",
    columns=(
        Column("Tree", lambda f, each: Value(each.name, f.to("trees", *each.name.split("/")))),
        Column("Table", lambda _, each: each.table),
        Column("Does", lambda _, each: f"{each.kind.lower()}, {each.purpose.lower()}"),
        Column("Asked", lambda _, each: ", ".join(each.asked), is_wide=True),
        Column("Awaited", lambda _, each: ", ".join(each.awaited) or "–"),
        Column("Leaves that differ", lambda _, each: each.leaves, is_number=True),
        Column("Rows that differ", lambda _, each: each.rows_differ, is_number=True),
        Column("Began", lambda _, each: values.time(each.started_time)),
    ),
    empty="No trees have been asked for, or none as these filters say.",
    told=frozenset({"session", "kind"}),
)


def _versions(_: Frame, each: RowDifference) -> Shown:
    told = (
        "+".join(version.replicas) + ("" if version.version is None else f" ({version.version})")
        for version in each.versions
    )
    return ", ".join(told) or "–"


def plan(_: Frame, each: RowDifference) -> Shown:
    if not each.targets:
        return f"left alone: {LEFT_ALONE.get(each.left_alone, each.left_alone)}"
    return f"{'delete at' if each.deletes else f'{each.source} →'} {', '.join(each.targets)}"


DIFFERENCES = Listing(
    view="differences",
    title="Differences",
    about="Keys on which replicas differ, and what a repair would do. They have no past.",
    columns=(
        Column("Key", lambda f, each: Value(each.key, f.to("differences", *each.name.split("/")), is_code=True)),
        Column("Session", lambda f, each: Value(str(each.session), f.to("sessions", each.session)), is_number=True),
        Column("What", lambda _, each: each.kind.replace("_", " ").lower()),
        Column("Held by", _versions, is_wide=True),
        Column("Missing at", lambda _, each: ", ".join(each.missing) or "–"),
        Column("What the plan does", plan, is_wide=True),
    ),
    empty="No session has found rows that differ, or none as these filters say.",
    has_past=False,
    told=frozenset({"session", "kind", "replica"}),
)

REPAIRS = Listing(
    view="repairs",
    title="Repairs",
    about="What sessions that repair have moved.",
    columns=(
        Column("Repair", lambda f, each: Value(str(each.number), f.to("repairs", each.number)), is_number=True),
        Column("Table", lambda _, each: each.table),
        Column("State", lambda _, each: values.state(each.state, each.code)),
        Column("Policy", lambda _, each: each.policy),
        Column("Rows to copy", lambda _, each: each.rows, is_number=True),
        Column("To delete", lambda _, each: each.deletes, is_number=True),
        Column("Written", lambda _, each: each.written, is_number=True),
        Column("Passed over", lambda _, each: each.skipped, is_number=True),
        Column("Verified", lambda _, each: f"{each.verified}/{each.segments}", is_number=True),
        Column("Why", lambda _, each: each.message or "–", is_wide=True),
    ),
    empty="Nothing has been repaired yet, or nothing as these filters say.",
    told=frozenset({"state", "table"}),
)

REPLICAS = Listing(
    view="replicas",
    title="Replicas",
    about="Who has a copy of which table, as its validator has declared it.",
    columns=(
        Column("Replica", lambda f, each: Value(each.name, f.to("replicas", each.name)), sort="name"),
        Column("Table", lambda _, each: each.table, sort="table"),
        Column("Data centre", lambda _, each: each.datacenter or "–"),
        Column("Rows, about", lambda _, each: f"{each.rows:,}", is_number=True, sort="rows"),
        Column("Of the tokens", lambda _, each: f"{each.percent} %", is_number=True),
        Column("Read point", lambda _, each: "yes" if each.gives_cuts else "no"),
        Column("Writable", lambda _, each: "yes" if each.is_writable else "no"),
        Column("Open sessions", lambda f, each: values.names(f, "sessions", tuple(map(str, each.open_sessions)))),
        Column("Declared at", lambda f, each: values.position(f, each.declared_at), is_number=True),
    ),
    empty="No replica has been declared: `topolog run validator` does that for its own.",
    told=frozenset({"table", "datacenter"}),
)

SCHEDULES = Listing(
    view="schedules",
    title="Schedules",
    about="Sessions that are opened by themselves, again and again.",
    columns=(
        Column("Schedule", lambda f, each: Value(each.name, f.to("schedules", each.name))),
        Column("Table", lambda _, each: each.table),
        Column("Does", lambda _, each: {"PREVIEW": "compares", "REPAIR": "repairs"}.get(each.kind, each.kind)),
        Column("Every", lambda _, each: values.span(each.every_ms), is_number=True),
        Column("Due in", lambda _, each: "paused" if each.paused else values.span(each.due_in_ms), is_number=True),
        Column(
            "Last session",
            lambda f, each: Value(str(each.session), f.to("sessions", each.session)) if each.session else "–",
        ),
        Column("Put off", lambda _, each: each.message or each.code or "–", is_wide=True),
    ),
    empty="Nothing is scheduled. `topolog repair schedule` does that.",
    told=frozenset({"table"}),
)
