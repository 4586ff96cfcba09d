"""Every view of the console by its name in the address: lists, pictures, and the pages of single things."""

from collections.abc import Callable, Mapping

from topolog.events.errors import NotFound
from topolog.projections.queries import not_found
from topolog.projections.web import (
    baseline_page,
    decision_page,
    exchange_page,
    heat_page,
    help_page,
    lease_page,
    listing,
    overview,
    partition_page,
    projection_page,
    proposals,
    session_picture,
    things,
)
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.listing import Listing
from topolog.projections.web.lists import definitions, log, members, partitioning, repairing
from topolog.projections.web.things import THINGS

LISTS: Mapping[str, Listing] = {
    each.view: each
    for each in (
        members.NODES,
        members.LEASE_HEALTH,
        members.VIEWS,
        partitioning.GROUPS,
        partitioning.PARTITIONS,
        partitioning.MAPS,
        partitioning.SINGLE_MAPS,
        definitions.TYPES,
        *definitions.OBJECTS.values(),
        definitions.CHANGES,
        repairing.SESSIONS,
        repairing.TREES,
        repairing.DIFFERENCES,
        repairing.REPAIRS,
        repairing.REPLICAS,
        repairing.SCHEDULES,
        log.PENDING,
        log.TOPICS,
        log.AUDIT,
        log.DECISIONS,
        log.REQUESTS,
        log.DEAD_LETTERS,
    )
}
PAGES: Mapping[str, Callable[[PageRequest], str]] = {
    "": overview.page,
    "heat": heat_page.page,
    "exchanges": exchange_page.many,
    "leases": lease_page.page,
    "baselines": baseline_page.page,
    "proposals": proposals.page,
    "projections": projection_page.page,
    "help": help_page.page,
}
SINGLE: Mapping[str, Callable[[PageRequest, str], str]] = {
    "partitions": partition_page.page,
    "exchanges": exchange_page.one,
    "sessions": session_picture.page,
    "decisions": decision_page.page,
}
WITHOUT_PAST = frozenset({*(name for name, each in LISTS.items() if not each.has_past), "projections"})
REFRESHED = frozenset({*LISTS, *PAGES, *SINGLE, *THINGS} - {"help"})


def many(asked: PageRequest, view: str) -> str:
    """The list or the picture of this name; raises NotFound if there is none."""
    if view in PAGES:
        return PAGES[view](asked)
    if view in LISTS:
        return listing.page(LISTS[view], asked)
    raise no_view(view)


def one(asked: PageRequest, view: str, name: str) -> str:
    """The page of one thing; raises NotFound, and what the API says of such a name."""
    if view in SINGLE:
        return SINGLE[view](asked, name)
    if view in THINGS:
        return things.page(THINGS[view], asked, name)
    raise no_view(view)


def no_view(view: str) -> NotFound:
    error = not_found(view, [*LISTS, *PAGES], "view")
    return NotFound(error.message, hint=error.hint or "The menu has all of them.")
