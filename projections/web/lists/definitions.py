"""Lists of what is agreed on: types, databases, tables, views of tables, grants, changes of these."""

from topolog.projections.object_resources import SchemaChange, SchemaObject
from topolog.projections.resources import Type
from topolog.projections.web import values
from topolog.projections.web.frame import Frame
from topolog.projections.web.listing import Column, Listing
from topolog.projections.web.values import Shown, Value


def status_of(each: Type) -> str:
    if each.removing:
        return "REMOVING"
    return "ACCEPTED" if each.accepted_version == each.pending_version else "PENDING"


TYPES = Listing(
    view="types",
    title="Types",
    about="Metadata that members have agreed on, or are about to.",
    columns=(
        Column("Type", lambda f, each: Value(each.name, f.to("types", each.name)), sort="name"),
        Column("Status", lambda _, each: values.state(status_of(each))),
        Column("Accepted", lambda _, each: each.accepted_version, is_number=True, sort="accepted_version"),
        Column("Proposed", lambda _, each: each.pending_version, is_number=True),
        Column("Fields", lambda _, each: values.plain(each.enum if each.is_enum else each.fields), is_wide=True),
        Column("Affinity key", lambda _, each: each.affinity_key or "–"),
        Column("Proposed at", lambda f, each: values.position(f, each.proposed_at), is_number=True, sort="proposed_at"),
        Column("Accepted at", lambda f, each: values.position(f, each.accepted_at), is_number=True, sort="accepted_at"),
    ),
    empty="No type has been proposed yet. Try `topolog propose --file customer.json`.",
)


def _definition(_: Frame, each: SchemaObject) -> Shown:
    found = each.definition or each.pending
    if found is None:
        return "–"
    if found.privileges:
        return f"{', '.join(found.privileges).lower()} on {found.over}"
    columns = ", ".join(f"{column.name} {column.type.lower()}" for column in found.columns)
    return f"over {found.over}" if found.over else columns or "–"


def _objects(view: str, title: str, told: frozenset[str]) -> Listing:
    return Listing(
        view=view,
        title=title,
        about="As they are now; what is being changed is shown with what it is to become.",
        columns=(
            Column("Name", lambda f, each: Value(each.name, f.to(view, each.name)), sort="name"),
            Column("State", lambda _, each: values.state(each.state), sort="state"),
            Column("Version", lambda _, each: each.version, is_number=True, sort="version"),
            Column("What it is", _definition, is_wide=True),
            Column(
                "Change", lambda f, each: Value(str(each.change), f.to("changes", each.change)) if each.change else "–"
            ),
            Column("Committed at", lambda f, each: values.position(f, each.committed_at), is_number=True),
        ),
        empty=f"There are no {title.lower()} yet, or none as these filters say.",
        told=told,
    )


OBJECTS = {
    "databases": _objects("databases", "Databases", frozenset({"state"})),
    "tables": _objects("tables", "Tables", frozenset({"state", "database"})),
    "table-views": _objects("table-views", "Views of tables", frozenset({"state", "database"})),
    "grants": _objects("grants", "Grants", frozenset({"state", "database", "principal"})),
}


def waits_for(_: Frame, change: SchemaChange) -> Shown:
    if change.behind:
        return (
            f"change {', '.join(map(str, change.behind))}, which {'is' if len(change.behind) == 1 else 'are'} before it"
        )
    if change.silent:
        latest = "" if change.at_most_ms is None else f", {values.exact(change.at_most_ms)} at the latest"
        return Value(f"{', '.join(change.silent)}, not heard since{latest}", tone="bad")
    if change.asked:
        return f"not all have answered: {', '.join(change.asked)}"
    if change.undeleted:
        return f"{', '.join(change.undeleted)} to delete its data"
    return change.code or "–"


CHANGES = Listing(
    view="changes",
    title="Changes of definitions",
    about="Each change of databases, tables, views and grants: asked for, prepared, then committed or rolled back.",
    columns=(
        Column(
            "Change",
            lambda f, each: Value(str(each.number), f.to("changes", each.number)),
            is_number=True,
            sort="number",
        ),
        Column("Does", lambda _, each: each.does, is_wide=True),
        Column("State", lambda _, each: values.state(each.state), sort="state"),
        Column("Took", lambda _, each: values.exact(each.age_ms), is_number=True, sort="age_ms"),
        Column("Waits for", waits_for, is_wide=True),
        Column("Asked by", lambda _, each: each.actor),
        Column("Why", lambda _, each: each.message or each.reason or "–", is_wide=True),
    ),
    empty="Nothing has been changed yet, or nothing as these filters say.",
    told=frozenset({"state", "node"}),
)
