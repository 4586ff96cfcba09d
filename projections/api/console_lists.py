"""What the address of a page may hold, and the page of a list: filters and order are those of the API's list.

Anything else is refused by name, for a typo in a filter must not widen a list on a page either.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field, ValidationError

from topolog.projections.api.access.reads import AuditFilters
from topolog.projections.api.filters import Filters
from topolog.projections.api.listing import Listing, ListQuery
from topolog.projections.api.listings import LISTINGS
from topolog.projections.api.problems import InvalidParameter, reason_of
from topolog.projections.cursors import Page
from topolog.projections.store import Reading
from topolog.projections.web import lease_page
from topolog.projections.web.asking import Filter
from topolog.projections.web.listing import ROWS

STATE = ("as_of", "sort", "behind")
"""What every page takes: its moment, and of a list its order and where it goes on."""


class HeatFilters(Filters):
    group: Annotated[str | None, Field(description="Only this group's picture.")] = None
    block: Annotated[int | None, Field(ge=0, description="Only these 256 partitions, each in a cell of its own.")] = (
        None
    )


class StripFilters(Filters):
    node: Annotated[str | None, Field(description="Only this node's strip.")] = None
    window: Annotated[
        Literal["1m", "5m", "15m", "1h"] | None, Field(description="How long before the moment the strips begin.")
    ] = None


class ProposalFilters(Filters):
    outcome: Annotated[
        Literal["ACCEPTED", "PENDING", "REJECTED"] | None, Field(description="Only proposals with this outcome.")
    ] = None
    type: Annotated[str | None, Field(description="Only proposals of this type.")] = None


_OWN: Mapping[str, type[Filters]] = {
    "heat": HeatFilters,
    "leases": StripFilters,
    "proposals": ProposalFilters,
    "baselines": Filters,
    "audit": AuditFilters,
}
_USUAL: Mapping[str, str] = {"window": lease_page.WINDOW}


def filters_of(view: str, given: Mapping[str, str]) -> tuple[Filter, ...]:
    """The filters of a view with the values that the address gives them; raises InvalidParameter for what is none."""
    model = _model(view)
    names = list(model.model_fields)
    asked = {name: value for name, value in given.items() if value and name not in STATE}
    for name in asked:
        if name not in names:
            raise InvalidParameter(name, "this view has no such filter", hint=_hint(names))
    try:
        model.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidParameter(str(first["loc"][0]), reason_of(first), hint=_hint(names)) from error
    return tuple(_filter(name, model.model_fields[name], asked.get(name, "")) for name in names)


def page_of(
    listing: Listing[Any],
    reading: Reading,
    age_ms: int,
    now_ms: int,
    filters: Mapping[str, str],
    sort: str,
    behind: str | None,
) -> Page[Any]:
    """One page of the API's list of this name, as the API itself would cut it."""
    asked = ListQuery(age_ms, listing.resolved(reading, filters, now_ms), behind)
    return listing.page(reading, asked, listing.order(sort), ROWS)


def _model(view: str) -> type[Filters]:
    if view in _OWN:
        return _OWN[view]
    return LISTINGS[view].filters if view in LISTINGS else Filters


def _filter(name: str, field: Any, value: str) -> Filter:
    return Filter(name, field.description or "", _choices(field.annotation), value, _USUAL.get(name, "any"))


def _choices(annotation: Any) -> tuple[str, ...]:
    """The texts of a Literal, wherever it stands in the annotation."""
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    return next((found for each in get_args(annotation) if each is not NoneType and (found := _choices(each))), ())


def _hint(names: list[str]) -> str:
    return f"Its filters are {', '.join(names)}." if names else "It has no filters."
