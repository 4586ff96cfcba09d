"""Whose numbers a caller may use: those of requesters that are called as the caller is."""

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from tests.unit.projections.access.letting_in import Doorkeeper
from tests.unit.projections.chronicle import Chronicle

from topolog.events.topics import Topic
from topolog.projections.api.access.principals import Principal

REQUESTS = "/v1/clusters/main/requests"
FAR_AHEAD = 9_000_000_000_000_000


@pytest.fixture
def keeper(tmp_path: Path) -> Doorkeeper:
    return Doorkeeper(tmp_path)


def post(client: httpx.Client, who: Mapping[str, str], type_: str, key: str | None = None) -> httpx.Response:
    body = {"kind": "propose", "definition": {"name": type_, "fields": {"id": "long"}}}
    headers = {**who, **({"Idempotency-Key": key} if key else {})}
    return client.post(REQUESTS, json=body, headers=headers)


def test_nobody_uses_up_the_numbers_of_somebody_else(
    client: httpx.Client, keeper: Doorkeeper, chronicle: Chronicle
) -> None:
    """One number far ahead, and all that its owner has yet to ask would be refused."""
    mallory = keeper.let_in("mallory", "operator@main:types/Mine*")
    billing = keeper.let_in("billing", "operator@main:types/Bill*")
    for requester in ("billing", "billing/eu", "mallory2", "api-2", "n1"):
        answer = post(client, mallory, "Mine", f"{requester}/{FAR_AHEAD}")
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
        assert "mallory/1" in answer.json()["hint"]
    assert len(chronicle.log.entries(Topic.OPERATIONS)) == 0
    assert post(client, billing, "Bill", "billing/1").status_code == 200


def test_a_principal_may_have_several_requesters(client: httpx.Client, keeper: Doorkeeper) -> None:
    """Each with numbers of its own; what was asked is found under its name, in which there may be more of `/`."""
    ann = keeper.let_in("ann", "operator@main")
    for key in ("ann/7", "ann/laptop/1", "ann/laptop/jobs/1"):
        answer = post(client, ann, "Order", key)
        assert (answer.status_code, answer.json()["item"]["id"]) == (200, key)
        for address in (answer.headers["Location"], f"{REQUESTS}/{key}"):
            assert client.get(address, headers=ann).json()["item"]["id"] == key
            for aspect in ("history", "explain"):
                assert client.get(f"{address}/{aspect}", headers=ann).status_code == 200


def test_an_id_that_was_given_out_can_be_repeated(client: httpx.Client, keeper: Doorkeeper) -> None:
    """K7: who heard nothing repeats it as it was, under the id that the API has given it; not under the next one."""
    ann = keeper.let_in("ann", "operator@main")
    given = post(client, ann, "Order").json()["item"]["id"]
    assert post(client, ann, "Order", given).json()["item"]["id"] == given
    requester, _, sequence = given.rpartition("/")
    assert post(client, ann, "Order", f"{requester}/{int(sequence) + 1}").status_code == 400


@pytest.mark.parametrize(
    ("name", "requester", "owns"),
    [
        ("ann", "ann", True),
        ("ann", "ann/b", True),
        ("ann", "anna", False),
        ("ann", "Ann", False),
        ("ann/b", "ann/b", False),
        ("ann/b", "ann%2Fb", True),
        ("ann%2Fb", "ann%2Fb", False),
        ("Ånn Ö", "%C3%85nn %C3%96", True),
        ("a:b", "a%3Ab", True),
        ("oidc:ann", "oidc:ann", False),
        ("", "ann", False),
    ],
)
def test_no_two_names_own_the_same_requester(name: str, requester: str, owns: bool) -> None:
    assert Principal(name, "token", ()).owns(requester) is owns


@pytest.mark.parametrize("method", ["oidc", "proxy", "anonymous"])
def test_of_another_method_the_same_name_owns_another_requester(method: str) -> None:
    """OP10: with the numbers of one, the other was told what it had asked, or was refused."""
    principal = Principal("ann", method, ())
    assert not principal.owns("ann")
    assert not principal.owns("ann/b")
    assert principal.owns(f"{method}:ann")
    assert principal.owns(f"{method}:ann/b")
    assert not Principal(f"{method}:ann", "token", ()).owns(f"{method}:ann")
