"""Examples of what waits: a version of Customer that n3 has not applied yet."""

from topolog.projections.pending_resources import Pending, PendingHolder

_HOLDER = PendingHolder(node="n3", since=40, heard_ms=15_200, lease="VALID", at_most_ms=10_800)
EXAMPLES = (
    _HOLDER,
    Pending(
        name="proposal/Customer/3",
        kind="PROPOSAL",
        sentence="Version 3 of type Customer is proposed, and not every server has applied it.",
        since=40,
        since_time="2026-11-21T02:00:00.000Z",
        waited_ms=14_200,
        waits_for=(_HOLDER,),
        at_most_ms=10_800,
        ends="in 10 s at the latest",
        about="type Customer",
        next=("topolog explain type Customer", "topolog explain decision 40"),
    ),
)
