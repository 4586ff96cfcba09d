"""Every address of the app is in the table, and the table takes addresses apart as the router does."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from topolog.projections.api.access.addresses import FOR_ANYBODY_KNOWN, METRICS, PROBES, wanted
from topolog.projections.api.access.grants import Asked, Right
from topolog.projections.api.app import make_app
from topolog.projections.api.served import Served
from topolog.projections.web import views
from topolog.projections.web.things import THINGS


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path of every route, those of included routers too; a mount as a path below it."""
    to_visit: list[Any] = list(app.routes)
    while to_visit:
        route = to_visit.pop()
        inner = getattr(route, "original_router", None)
        if inner is not None:
            prefix = route.include_context.prefix if hasattr(route.include_context, "prefix") else ""
            assert not prefix, "a router's own prefix is in its routes"
            to_visit.extend(inner.routes)
        elif isinstance(route, APIRoute) or getattr(route, "methods", None):
            yield from ((method, route.path) for method in route.methods or ())
        else:
            yield "GET", f"{route.path}/anything"


@pytest.fixture(scope="module")
def app() -> FastAPI:
    projector = MagicMock()
    projector.cluster = "main"
    return make_app([Served(projector, MagicMock())])


def test_no_route_is_undeclared(app: FastAPI) -> None:
    """An address that nobody has thought of would be denied to everybody: that is to be noticed here."""
    found = [each for each in routes(app) if "{view}" not in each[1]]
    assert len(found) > 80
    assert [each for each in found if wanted(each[0], filled(each[1])) is None] == []


def test_no_declared_address_is_without_a_route(app: FastAPI) -> None:
    """What nobody answers at must not be open either: the next route there would be so unseen."""
    assert {*FOR_ANYBODY_KNOWN, *PROBES, METRICS} - {path for _, path in routes(app)} == set()


def test_no_view_of_the_console_is_undeclared() -> None:
    assert [view for view in (*views.LISTS, *views.PAGES) if wanted("GET", f"/clusters/main/{view}") is None] == []
    named = {view: wanted("GET", f"/clusters/main/{view}/x1") for view in (*views.SINGLE, *THINGS)}
    assert [view for view, found in named.items() if found is None] == []
    assert all(each and each.asked and each.asked.name == "x1" for each in named.values())


def test_names_are_what_the_router_takes_them_for(app: FastAPI) -> None:
    """Grants are by name, so a path must not mean one thing here and another there."""
    for method, path in routes(app):
        segments = path.removeprefix("/v1/clusters/{cluster}/").split("/")
        if path.startswith("/v1/clusters/{cluster}/") and segments[0] not in ("diff", "export", "projections"):
            found = wanted(method, filled(path))
            assert found is not None
            named = [filled(each) for each in segments if each.startswith("{")]
            expected = "/".join(named) or None
            assert found.asked is None or (found.asked.resource, found.asked.name) == (segments[0], expected), path


def filled(path: str) -> str:
    return "/".join("x1" if part.startswith("{") else part for part in path.split("/"))


@pytest.mark.parametrize(
    ("method", "path", "query", "asked"),
    [
        ("GET", "/v1/clusters/main/groups", "", Asked(Right.READ, "main", "groups")),
        ("HEAD", "/v1/clusters/main/groups/orders/history", "", Asked(Right.READ, "main", "groups", "orders")),
        ("GET", "/v1/clusters/main/partitions/orders/17", "", Asked(Right.READ, "main", "partitions", "orders/17")),
        ("GET", "/v1/clusters/main/partitions", "group=orders", Asked(Right.READ, "main", "partitions", "orders/*")),
        ("GET", "/v1/clusters/main/partitions", "group=a&group=b", Asked(Right.READ, "main", "partitions")),
        ("GET", "/v1/clusters/main/export/groups", "", Asked(Right.READ, "main", "groups")),
        ("GET", "/v1/clusters/main/diff/audit", "", Asked(Right.AUDIT, "main", "audit")),
        ("GET", "/v1/clusters/main/dead-letters", "", Asked(Right.READ, "main", "dead-letters")),
        ("GET", "/v1/clusters/main/dead-letters/3", "", Asked(Right.READ_PAYLOAD, "main", "dead-letters", "3")),
        ("GET", "/v1/clusters/main/export/differences", "", Asked(Right.READ_PAYLOAD, "main", "differences")),
        ("GET", "/clusters/main/", "", Asked(Right.READ, "main", "cluster")),
        ("GET", "/clusters/main/heat", "group=orders", Asked(Right.READ, "main", "partitions", "orders/*")),
        ("GET", "/clusters/main/decisions/", "", Asked(Right.READ, "main", "decisions")),
        ("GET", "/clusters/main/dead-letters/3", "", Asked(Right.READ_PAYLOAD, "main", "dead-letters", "3")),
        ("GET", "/clusters/main/exchanges/4.0", "", Asked(Right.READ, "main", "exchanges", "4.0")),
        ("GET", "/clusters/main/audit", "", Asked(Right.AUDIT, "main", "audit")),
        ("POST", "/v1/clusters/main/nodes/n3/join", "", Asked(Right.READ, "main", "nodes", "n3")),
        ("POST", "/v1/clusters/main/projections/actions", "", Asked(Right.ADMINISTER, "main", "projections")),
    ],
)
def test_an_address_needs_what_it_shows_or_does(method: str, path: str, query: str, asked: Asked) -> None:
    found = wanted(method, path, query)
    assert found is not None
    assert found.asked == asked


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/clusters/main/secrets"),
        ("GET", "/v1/clusters/main/"),
        ("GET", "/v1/clusters//groups"),
        ("GET", "//v1/clusters/main/groups"),
        ("GET", "/v1/clusters/main/groups//orders"),
        ("GET", "/docs"),
        ("GET", "/livez/"),
        ("POST", "/v1/clusters/main/groups"),
        ("POST", "/v1/clusters/main/groups/orders"),
        ("POST", "/v1/clusters/main/can-i"),
        ("POST", "/clusters/main/groups"),
        ("GET", "/clusters/main/secrets"),
        ("GET", "/clusters/main/export/groups"),
        ("GET", "/clusters/main/groups//orders"),
        ("PUT", "/v1/clusters/main/groups"),
        ("DELETE", "/v1/clusters/main/groups/orders"),
        ("POST", "/livez"),
    ],
)
def test_what_nobody_has_declared_is_nothing_that_can_be_asked(method: str, path: str) -> None:
    assert wanted(method, path) is None
