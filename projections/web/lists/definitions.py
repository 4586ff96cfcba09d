"""Lists of what is agreed on: types, databases, tables, views of tables, grants, changes of these."""

from topolog.events.object_definition import ObjectKind
from topolog.projections import changes, objects, queries
from topolog.projections.object_resources import SchemaChange, SchemaObject
from topolog.projections.resources import Type
from topolog.projections.web import values
from topolog.projections.web.asking import Asked
from topolog.projections.web.frame import Frame
from topolog.projections.web.listing import Column, Listing
from topolog.projections.web.values import Shown, Value


def status_of(each: Type) -> str:
    if each.removing:
        return "REMOVING"
    return "ACCEPTED" if each.accepted_version == each.pending_version else "PENDING"


def _types(asked: Asked) -> list[Type]:
    wanted = asked.filters.get("status")
    return [each for each in queries.types(asked.reading) if wanted in (None, status_of(each))]


TYPES = Listing(
    view="types",
    title="Types",
    about="Metadata that members have agreed on, or are about to.",
    find=_types,
    key=lambda each: each.name,
    columns=(
        Column("Type", lambda f, each: Value(each.name, f.to("types", each.name))),
        Column("Status", lambda _, each: values.state(status_of(each))),
        Column("Accepted", lambda _, each: each.accepted_version, is_number=True),
        Column("Proposed", lambda _, each: each.pending_version, is_number=True),
        Column("Fields", lambda _, each: values.plain(each.enum if each.is_enum else each.fields), is_wide=True),
        Column("Affinity key", lambda _, each: each.affinity_key or "–"),
        Column("Proposed at", lambda f, each: values.position(f, each.proposed_at), is_number=True),
        Column("Accepted at", lambda f, each: values.position(f, each.accepted_at), is_number=True),
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


def _objects(view: str, title: str, kind: ObjectKind, told: frozenset[str]) -> Listing:
    return Listing(
        view=view,
        title=title,
        about="As they are now; what is being changed is shown with what it is to become.",
        find=lambda asked: objects.objects(asked.reading, kind, asked.filters, asked.after or ""),
        key=lambda each: each.name,
        columns=(
            Column("Name", lambda f, each: Value(each.name, f.to(view, each.name))),
            Column("State", lambda _, each: values.state(each.state)),
            Column("Version", lambda _, each: each.version, is_number=True),
            Column("What it is", _definition, is_wide=True),
            Column("Change", lambda f, each: Value(str(each.change), f.to("changes", each.change)) if each.change else "–"),
            Column("Committed at", lambda f, each: values.position(f, each.committed_at), is_number=True),
        ),
        empty=f"There are no {title.lower()} yet, or none as these filters say.",
        begins_after=True,
        told=told,
    )


OBJECTS = {
    "databases": _objects("databases", "Databases", ObjectKind.DATABASE, frozenset({"state"})),
    "tables": _objects("tables", "Tables", ObjectKind.TABLE, frozenset({"state", "database"})),
    "table-views": _objects("table-views", "Views of tables", ObjectKind.VIEW, frozenset({"state", "database"})),
    "grants": _objects("grants", "Grants", ObjectKind.GRANT, frozenset({"state", "database", "principal"})),
}


def waits_for(_: Frame, change: SchemaChange) -> Shown:
    if change.behind:
        return f"change {', '.join(map(str, change.behind))}, which {'is' if len(change.behind) == 1 else 'are'} before it"
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
    find=lambda asked: changes.changes(
        asked.reading, asked.age_ms, asked.filters, None if asked.after is None else int(asked.after)
    ),
    key=lambda each: str(each.number),
    columns=(
        Column("Change", lambda f, each: Value(str(each.number), f.to("changes", each.number)), is_number=True),
        Column("Does", lambda _, each: each.does, is_wide=True),
        Column("State", lambda _, each: values.state(each.state)),
        Column("Took", lambda _, each: values.exact(each.age_ms), is_number=True),
        Column("Waits for", waits_for, is_wide=True),
        Column("Asked by", lambda _, each: each.actor),
        Column("Why", lambda _, each: each.message or each.reason or "–", is_wide=True),
    ),
    empty="Nothing has been changed yet, or nothing as these filters say.",
    begins_after=True,
    told=frozenset({"state", "node"}),
)
