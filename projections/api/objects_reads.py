"""Databases, tables, views of tables, grants, and the changes of these."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from topolog.events.object_definition import ObjectKind
from topolog.projections import changes, explain_change, history, object_resources, objects, resources
from topolog.projections.api import contract, parameters
from topolog.projections.api.list_routes import History
from topolog.projections.api.listings import HISTORY
from topolog.projections.api.served import Here
from topolog.projections.object_resources import SchemaObject
from topolog.projections.store import Reading

router = APIRouter(prefix="/v1/clusters/{cluster}")


def _add(kind: ObjectKind, path: str, title: str) -> None:
    """The addresses of one kind of object."""
    noun, one = path.replace("-", " "), title

    async def get_object(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
        return await here.one(request, given, one, lambda r, _: objects.object_named(r, kind, name))

    async def get_history(request: Request, here: Here, name: str, given: History) -> Response:
        return await here.page(request, given, HISTORY, lambda r, _: history.of_object(r, kind, name))

    async def explain_object(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
        def ask(reading: Reading, age_ms: int) -> resources.Explanation:
            return explain_change.explain_object(reading, age_ms, kind, name)

        return await here.one(request, given, "Explanation", ask)

    named = contract.one(SchemaObject, one)
    changed, explained = contract.many(resources.Change, "History"), contract.one(resources.Explanation)
    for address, call, said, responses in (
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


@router.get("/changes/{name}", tags=["definitions"], responses=contract.one(object_resources.SchemaChange))
async def get_change(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One change by its number, however long ago, with what it does in detail."""
    return await here.one(request, given, "SchemaChange", lambda r, age_ms: changes.change(r, age_ms, name))


@router.get("/changes/{name}/history", tags=["definitions"], responses=contract.many(resources.Change, "History"))
async def get_change_history(request: Request, here: Here, name: str, given: History) -> Response:
    """How one change was queued, prepared, committed or rolled back, and who deleted what it closed. Newest first."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_change(r, name))


@router.get("/changes/{name}/explain", tags=["definitions"], responses=contract.one(resources.Explanation))
async def explain_one_change(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """Behind whom and for whom a change waits, until when at the latest; how and why it ended."""
    return await here.one(
        request,
        given,
        "Explanation",
        lambda r, age_ms: explain_change.explain_change(r, age_ms, name),
    )
