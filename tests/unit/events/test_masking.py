"""What is masked in texts that others read, and what can still be read."""

import json
from typing import Any

import pytest

from topolog.events.masking import MASK, masked, masked_values

TOLD = "hunter2+Tr0ub4dor"
FORMS = (
    f"sasl.password={TOLD} was refused",
    f"sasl.password={TOLD}@3; next",
    f'password="{TOLD} and more" user',
    f"{{'password': '{TOLD}, it is'}}",
    f'{{"password": "{TOLD}"}}',
    f'{{"password":"{TOLD} \\"quoted\\" {TOLD}"}}',
    f'"{{\\"password\\": \\"{TOLD} x {TOLD}\\"}}"',
    f"client_secret={TOLD}",
    f"client_secret: '{TOLD}'",
    f"aws_secret_access_key = {TOLD}",
    f"access_token={TOLD}&x=1",
    f'"refreshToken": "{TOLD}"',
    f"X-Api-Key: {TOLD}",
    f"Authorization: Basic {TOLD}==",
    f"Authorization: Bearer {TOLD}",
    f'"authorization": "Bearer {TOLD}"',
    f"authorization: bearer {TOLD}",
    f"it sent Basic {TOLD}",
    f"it sent basic {TOLD}",
    f"it sent bearer {TOLD}",
    f"GET /v1/clusters?token={TOLD}&limit=5",
    f"GET /v1/clusters?limit=5&token={TOLD}",
    f"http://ann:{TOLD}@registry:8080/",
    f"-----BEGIN RSA PRIVATE KEY-----\n{TOLD}\n{TOLD}\n-----END RSA PRIVATE KEY-----",
)


@pytest.mark.parametrize("text", FORMS)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    """OP28: never in logs, nor in a bundle."""
    assert TOLD not in masked(text)
    assert MASK in masked(text)


@pytest.mark.parametrize("text", FORMS)
def test_it_is_masked_deep_in_data_that_stays_what_it_was(text: str) -> None:
    found = masked_values({"items": [{"note": text, "count": 3}], text: None})
    assert TOLD not in json.dumps(found)
    assert [item["count"] for item in found["items"]] == [3]


@pytest.mark.parametrize(
    "text",
    [
        "The API answers at http://127.0.0.1:8642",
        "No Kafka broker answers at broker-1:9092,broker-2:9092; trying again until one does.",
        "the primary acts under token 17: n1@127.0.0.1:7001",
        "the bearer of this lease",
        "basic authentication",
        '{"u":"http://h:80","m":"a@b"}',
        '{"token": "412.9c", "password": "", "public_key": "abc"}',
    ],
)
def test_what_is_no_secret_can_be_read(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"sasl.password": TOLD, "user": "ann"}, {"sasl.password": MASK, "user": "ann"}),
        ({"password": 12345678, "api_key": None}, {"password": MASK, "api_key": None}),
        ({"secret": [TOLD, {"of": "x"}], "is_password": True}, {"secret": [MASK, {"of": "x"}], "is_password": True}),
        ({"asOf": {"token": "412.9c"}, "key": "sasl.password"}, {"asOf": {"token": "412.9c"}, "key": "sasl.password"}),
    ],
)
def test_a_value_is_known_by_its_name(given: Any, shown: Any) -> None:
    assert masked_values(given) == shown


def test_known_secrets_are_masked_wherever_they_stand() -> None:
    assert masked("librdkafka says correct horse is wrong", ["correct horse"]) == f"librdkafka says {MASK} is wrong"
    assert masked_values({"correct horse": ["a correct horse"]}, ["correct horse"]) == {MASK: [f"a {MASK}"]}
