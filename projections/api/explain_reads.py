"""Why things are as they are, where no other file has it: decisions, and everything that waits."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from topolog.projections import explain_decision, pending, pending_resources, resources
from topolog.projections.api import contract
from topolog.projections.api.parameters import Read
from topolog.projections.api.served import Here

Position = Annotated[int, Path(ge=0)]
router = APIRouter(prefix="/v1/clusters/{cluster}")


@router.get("/pending/{kind}/{name:path}", tags=["pending"], responses=contract.one(pending_resources.Pending))
async def get_pending(request: Request, here: Here, kind: str, name: str, given: Read) -> Response:
    """One thing that is not over, by its name, as `proposal/Customer/3`."""
    return await here.one(request, given, "Pending", lambda r, age_ms: pending.named(r, age_ms, f"{kind}/{name}"))


@router.get("/decisions/{position}/explain", tags=["decisions"], responses=contract.one(resources.Explanation))
async def explain_one_decision(request: Request, here: Here, position: Position, given: Read) -> Response:
    """The chain of causes of a decision back to its first one, and what followed from it."""
    return await here.one(
        request,
        given,
        "Explanation",
        lambda r, age_ms: explain_decision.explain_decision(r, age_ms, position),
    )
