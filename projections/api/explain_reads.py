"""Why things are as they are, where no other file has it: decisions, and everything that waits."""

import re
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from topolog.events.errors import BadInput
from topolog.projections import (
    differences,
    explain_baseline,
    explain_decision,
    explain_lease,
    explain_letter,
    explain_repair,
    health,
    letters,
    pending,
    pending_resources,
    single_maps,
)
from topolog.projections.api import contract
from topolog.projections.api.parameters import Read
from topolog.projections.api.served import Here
from topolog.projections.resources import Explanation
from topolog.projections.store import Reading

router = APIRouter(prefix="/v1/clusters/{cluster}")


@router.get("/pending/{kind}/{name:path}", tags=["pending"], responses=contract.one(pending_resources.Pending))
async def get_pending(request: Request, here: Here, kind: str, name: str, given: Read) -> Response:
    """One thing that is not over, by its name, as `proposal/Customer/3`."""
    return await here.one(request, given, "Pending", lambda r, age_ms: pending.named(r, age_ms, f"{kind}/{name}"))


Explain = Callable[..., Explanation]
"""Of a reading, the answer's age (ms), and the segments of the name."""


def _add(tag: str, path: str, explain: Explain, says: str, *, no_past: str = "") -> None:
    """One address; it stands behind that of the thing itself."""

    async def explain_one(request: Request, here: Here, given: Read) -> Response:
        if given.as_of is not None and no_past:
            raise BadInput(no_past, hint="Ask for what is, without as_of.")
        named = request.path_params
        name = [value for key, value in named.items() if key != "cluster"]
        return await here.one(request, given, "Explanation", lambda r, age_ms: explain(r, age_ms, *name))

    router.add_api_route(
        f"/{path}/explain",
        explain_one,
        tags=[tag],
        responses=contract.one(Explanation),
        description=says,
        name=f"explain {path.partition('/')[0]}",
        openapi_extra={"parameters": [_segment(name) for name in re.findall(r"{(\w+)}", path)]},
    )


def _segment(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _of_decision(reading: Reading, age_ms: int, position: str) -> Explanation:
    if not (position.isascii() and position.isdecimal() and len(position) <= _DIGITS_MAX):
        raise BadInput(f"{position!r} is no position.", hint="A decision is named by its position, a number from 0.")
    return explain_decision.explain_decision(reading, age_ms, int(position))


_DIGITS_MAX = 18


def _of_tree(reading: Reading, _: int, session: str, segment: str, step: str) -> Explanation:
    return explain_repair.explain_tree(reading, f"{session}/{segment}/{step}")


def _of_difference(reading: Reading, _: int, session: str, segment: str, key: str) -> Explanation:
    return explain_repair.explain_difference(reading, f"{session}/{segment}/{key}")


_add(
    "decisions",
    "decisions/{position}",
    _of_decision,
    "The chain of causes of a decision back to its first one; what followed from it, and what ended it.",
)
_add(
    "leases",
    "leases/{name}",
    explain_lease.explain_lease,
    "Until when the member may serve, and when others go on without it.",
)
_add(
    "leases",
    "lease-health/{name}",
    explain_lease.explain_lease_health,
    "What is measured of a member's heartbeats, and by whom. It has no past.",
    no_past=health.NO_PAST,
)
_add(
    "partitions",
    "maps/{group}/{node}",
    explain_lease.explain_map,
    "What a node holds of a group and why: what loads, what is to be handed over.",
)
_add(
    "exchanges",
    "single-maps/{name}",
    explain_lease.explain_single_map,
    "What a server says that it holds, where the log differs, and whether an exchange needs it. It has no past.",
    no_past=single_maps.NO_PAST,
)
_add(
    "baselines",
    "baselines/{name}",
    explain_baseline.explain_baseline,
    "Who counts and why, and what is about to change.",
)
_add(
    "views",
    "views/{version}",
    lambda r, _, version: explain_baseline.explain_view(r, version),
    "What made a view, who came and went with it, which exchange it asked for.",
)
_add("anti-entropy", "trees/{session}/{segment}/{step}", _of_tree, "What a step was for, who was asked, what came out.")
_add(
    "anti-entropy",
    "differences/{session}/{segment}/{key}",
    _of_difference,
    "Why a row differs, and what a repair would do about it. It has no past.",
    no_past=differences.NO_PAST,
)
_add(
    "anti-entropy",
    "repairs/{name}",
    lambda r, _, name: explain_repair.explain_repair(r, name),
    "What a repair moves and what it leaves alone, and how it ended.",
)
_add(
    "anti-entropy",
    "replicas/{name}",
    lambda r, _, name: explain_repair.explain_replica(r, name),
    "Since when a replica is declared, what it can do, what it is asked.",
)
_add(
    "anti-entropy",
    "schedules/{name}",
    lambda r, _, name: explain_repair.explain_schedule(r, name),
    "When a schedule is due, and why it did not begin if it did not.",
)
_add(
    "dead letters",
    "dead-letters/{name}",
    lambda r, _, name: explain_letter.explain_letter(r, name),
    "What could not be read, whether it can be now, what became of what it asked for. It has no past.",
    no_past=letters.NO_PAST,
)
