"""What the address of a page may hold: the filters of the same list in the API, checked by the same models.

Anything else is refused by name, for a typo in a filter must not widen a list on a page either.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field, ValidationError

from topolog.projections.api import parameters
from topolog.projections.api.parameters import PageParameters
from topolog.projections.api.problems import InvalidParameter
from topolog.projections.web.asking import Filter

STATE = ("as_of", "after")
"""What every page takes: its moment, and where a list goes on."""


class HeatFilters(PageParameters):
    group: Annotated[str | None, Field(description="Only this group's picture.")] = None
    block: Annotated[int | None, Field(ge=0, description="Only these 256 partitions, each in a cell of its own.")] = None


class StripFilters(PageParameters):
    node: Annotated[str | None, Field(description="Only this node's strip.")] = None
    window: Annotated[
        Literal["1m", "5m", "15m", "1h"] | None, Field(description="How long before the moment the strips begin.")
    ] = None


class ProposalFilters(PageParameters):
    outcome: Annotated[
        Literal["ACCEPTED", "PENDING", "REJECTED"] | None, Field(description="Only proposals with this outcome.")
    ] = None
    type: Annotated[str | None, Field(description="Only proposals of this type.")] = None


MODELS: Mapping[str, type[PageParameters]] = {
    "heat": HeatFilters,
    "leases": StripFilters,
    "proposals": ProposalFilters,
    "nodes": parameters.NodeFilters,
    "lease-health": parameters.LeaseHealthFilters,
    "dead-letters": parameters.DeadLetterFilters,
    "types": parameters.TypeFilters,
    "groups": parameters.GroupFilters,
    "partitions": parameters.PartitionFilters,
    "maps": parameters.MapFilters,
    "exchanges": parameters.ExchangeFilters,
    **dict.fromkeys(("databases", "tables", "table-views", "grants"), parameters.ObjectFilters),
    "changes": parameters.ChangeFilters,
    "sessions": parameters.SessionFilters,
    "repairs": parameters.RepairFilters,
    "trees": parameters.TreeFilters,
    "differences": parameters.DifferenceFilters,
    "replicas": parameters.ReplicaFilters,
    "schedules": parameters.ScheduleFilters,
    "decisions": parameters.DecisionFilters,
    "requests": parameters.RequestFilters,
}


def filters_of(view: str, given: Mapping[str, str]) -> tuple[Filter, ...]:
    """The filters of a view with the values that the address gives them; raises InvalidParameter for what is none."""
    model = MODELS.get(view, PageParameters)
    names = [name for name in model.model_fields if name not in PageParameters.model_fields]
    asked = {name: value for name, value in given.items() if value and name not in STATE}
    for name in asked:
        if name not in names:
            raise InvalidParameter(name, "this view has no such filter", hint=_hint(names))
    try:
        model.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidParameter(str(first["loc"][0]), str(first["msg"]), hint=_hint(names)) from error
    return tuple(_filter(name, model.model_fields[name], asked.get(name, "")) for name in names)


def _filter(name: str, field: Any, value: str) -> Filter:
    return Filter(name, field.description or "", _choices(field.annotation), value)


def _choices(annotation: Any) -> tuple[str, ...]:
    """The texts of a Literal, wherever it stands in the annotation."""
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    return next((found for each in get_args(annotation) if each is not NoneType and (found := _choices(each))), ())


def _hint(names: list[str]) -> str:
    return f"Its filters are {', '.join(names)}." if names else "It has no filters."
