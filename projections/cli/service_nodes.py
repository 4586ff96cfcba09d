"""Where the nodes of a service answer, by the query API."""

from collections.abc import Mapping

from topolog.events.errors import NotFound
from topolog.projections.cli.client import PAGE_ROWS, Api

_MEMBER = "MEMBER"


def endpoints(api: Api, attributes: Mapping[str, str]) -> list[str]:
    """Of the members with these attributes. Raises NotFound if there is none, and what the API does."""
    items = api.get_rows(("nodes",), {}, PAGE_ROWS).items
    members = (each for each in items if each["standing"] == _MEMBER and each["endpoint"])
    found = [str(each["endpoint"]) for each in members if attributes.items() <= each["attributes"].items()]
    if not found:
        wanted = ", ".join(f"{name}={value}" for name, value in attributes.items())
        raise NotFound(f"Cluster {api.cluster!r} has no member with {wanted}.", hint="Start it: topolog up --demo")
    return found
