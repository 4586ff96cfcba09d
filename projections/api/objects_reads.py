"""Databases, tables, views of tables, grants, and the changes of these."""

from collections.abc import Callable, Iterable

from fastapi import APIRouter, Request
from starlette.responses import Response

from topolog.events.object_definition import ObjectKind
from topolog.projections import changes, explain_change, history, object_resources, objects, resources
from topolog.projections.api import contract, parameters
from topolog.projections.api.answers import Asked
from topolog.projections.api.reads import number, position_key
from topolog.projections.api.served import Here
from topolog.projections.object_resources import SchemaObject
from topolog.projections.store import Reading

router = APIRouter(prefix="/v1/clusters/{cluster}")


def _listed(kind: ObjectKind) -> Callable[[Reading, Asked], Iterable[SchemaObject]]:
    return lambda reading, asked: objects.objects(reading, kind, asked.filters, asked.after or "")


def _name(found: SchemaObject) -> str:
    return found.name


def _add(kind: ObjectKind, path: str, title: str) -> None:
    """The addresses of one kind of object."""
    noun, one, many = path.replace("-", " "), title, f"{title}List"

    async def list_objects(request: Request, here: Here, given: parameters.Objects) -> Response:
        return await here.page(request, given, many, _listed(kind), _name, begins_after=True)

    async def get_object(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
        return await here.one(request, given, one, lambda r, _: objects.object_named(r, kind, name))

    async def get_history(request: Request, here: Here, name: str, given: parameters.History) -> Response:
        return await here.page(request, given, "History", lambda r, _: history.of_object(r, kind, name), position_key)

    async def explain_object(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
        def ask(reading: Reading, age_ms: int) -> resources.Explanation:
            return explain_change.explain_object(reading, age_ms, kind, name)

        return await here.one(request, given, "Explanation", ask, is_lasting=False)

    listed, named = contract.many(SchemaObject, many), contract.one(SchemaObject, one)
    changed, explained = contract.many(resources.Change, "History"), contract.one(resources.Explanation)
    for address, call, said, responses in (
        ("", list_objects, f"All {noun}, by name; what is being created only with `state`.", listed),
        ("/{name}", get_object, f"One of the {noun}, with the change that has it and what waits for it.", named),
        ("/{name}/history", get_history, f"Every change of one of the {noun}, newest first.", changed),
        ("/{name}/explain", explain_object, "In which state it is, what it waits for, what can be done.", explained),
    ):
        router.add_api_route(
            f"/{path}{address}",
            call,
            tags=["definitions"],
            responses=responses,
            description=said,
            name=f"{call.__name__} {path}",
        )


_add(ObjectKind.DATABASE, "databases", "Database")
_add(ObjectKind.TABLE, "tables", "Table")
_add(ObjectKind.VIEW, "table-views", "TableView")
_add(ObjectKind.GRANT, "grants", "Grant")


@router.get("/changes", tags=["definitions"], responses=contract.many(object_resources.SchemaChange))
async def list_changes(request: Request, here: Here, given: parameters.Changes) -> Response:
    """Changes of databases, tables, views and grants, newest first; all that are open, and the last that are over."""
    return await here.page(
        request,
        given,
        "SchemaChangeList",
        lambda r, asked: changes.changes(r, asked.age_ms, asked.filters, number(asked.after)),
        lambda each: str(each.number),
        begins_after=True,
        is_lasting=False,
    )


@router.get("/changes/{name}", tags=["definitions"], responses=contract.one(object_resources.SchemaChange))
async def get_change(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One change by its number, however long ago, with what it does in detail."""
    return await here.one(
        request, given, "SchemaChange", lambda r, age_ms: changes.change(r, age_ms, name), is_lasting=False
    )


@router.get("/changes/{name}/history", tags=["definitions"], responses=contract.many(resources.Change, "History"))
async def get_change_history(request: Request, here: Here, name: str, given: parameters.History) -> Response:
    """How one change was queued, prepared, committed or rolled back, and who deleted what it closed. Newest first."""
    return await here.page(request, given, "History", lambda r, _: history.of_change(r, name), position_key)


@router.get("/changes/{name}/explain", tags=["definitions"], responses=contract.one(resources.Explanation))
async def explain_one_change(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """Behind whom and for whom a change waits, until when at the latest; how and why it ended."""
    return await here.one(
        request,
        given,
        "Explanation",
        lambda r, age_ms: explain_change.explain_change(r, age_ms, name),
        is_lasting=False,
    )
