"""Who asks: tokens of a file, of an issuer, a proxy's word; and every way in which they do not hold."""

import asyncio
import base64
import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.unit.projections.access.issuing import AUDIENCE, ISSUER, Key, write_keys

from topolog.events.errors import BadInput
from topolog.projections.api.access import signing_keys, tokens
from topolog.projections.api.access.authn import Authentication
from topolog.projections.api.access.bearer import BearerTokens, Issuer
from topolog.projections.api.access.grants import parse_all
from topolog.projections.api.access.principals import Denied, Unknown
from topolog.projections.api.access.proxies import Proxies, networks
from topolog.projections.api.access.signing_keys import SigningKeys

KEY = Key("k1")
STRANGER = Key("k1")
ROLES = {"ops": parse_all("operator@main"), "boss": parse_all("admin")}
OIDC = Issuer(ISSUER, AUDIENCE, ("RS256",), 30, "roles", "sub")


@pytest.fixture
def bearer(tmp_path: Path) -> BearerTokens:
    return BearerTokens(OIDC, SigningKeys(str(write_keys(tmp_path / "jwks.json", KEY.public))), ROLES)


def test_a_token_of_the_issuer_names_somebody_and_their_grants(bearer: BearerTokens) -> None:
    found = bearer.principal(KEY.token(roles=["ops", "boss", "strangers"]))
    assert (found.name, found.method) == ("ann", "oidc")
    assert [str(each) for each in found.grants] == ["operator@main", "admin"]


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "lacks"),
        ({"aud": "others"}, "another audience"),
        ({"aud": None}, "lacks"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": None}, "lacks"),
        ({"nbf": 2**40}, "not hold yet"),
        ({"sub": None}, "no claim 'sub'"),
        ({"sub": " "}, "no claim 'sub'"),
        ({"sub": 7}, "cannot be read|no claim"),
        ({"kid": "other"}, "does not publish"),
    ],
)
def test_a_token_that_is_not_for_us_does_not_hold(bearer: BearerTokens, claims: dict[str, Any], why: str) -> None:
    """Part 6: issuer, audience, times and key, each by itself."""
    with pytest.raises(Unknown, match=why):
        bearer.principal(KEY.token(**claims))


def test_clocks_may_differ_by_the_leeway(bearer: BearerTokens) -> None:
    now = datetime.now(UTC)
    assert bearer.principal(KEY.token(exp=now - timedelta(seconds=20))).name == "ann"
    with pytest.raises(Unknown, match="expired"):
        bearer.principal(KEY.token(exp=now - timedelta(seconds=40)))


def test_nobody_else_can_sign(bearer: BearerTokens) -> None:
    """Another pair under the same name; no signature; the published key as if it were a shared secret."""
    with pytest.raises(Unknown, match="signature is wrong"):
        bearer.principal(STRANGER.token())
    unsigned = jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "exp": 2**40, "sub": "ann"}, "", "none", {"kid": "k1"})
    with pytest.raises(Unknown):
        bearer.principal(unsigned)
    with pytest.raises(Unknown):
        bearer.principal(signed_with_the_published_key())
    head, body, _ = KEY.token().split(".")
    with pytest.raises(Unknown):
        bearer.principal(f"{head}.{body}.")


def signed_with_the_published_key() -> str:
    """The well-known attack: HS256 with the bytes of the public key."""
    import hashlib
    import hmac

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": 2**40, "sub": "ann", "roles": ["boss"]}
    text = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{part(claims)}"
    secret = json.dumps(KEY.public).encode()
    mark = base64.urlsafe_b64encode(hmac.digest(secret, text.encode(), hashlib.sha256)).rstrip(b"=").decode()
    return f"{text}.{mark}"


@pytest.mark.parametrize("text", ["", "a.b.c", "x" * 20_000, "....", "é.é.é", "e30.e30."])
def test_what_is_no_token_is_said_to_be_none(bearer: BearerTokens, text: str) -> None:
    with pytest.raises(Unknown) as caught:
        bearer.principal(text)
    assert not text.strip(".") or text not in caught.value.why


@pytest.mark.parametrize("name", ["HS256", "none", "rs256"])
def test_algorithms_that_cannot_be_believed_are_no_setting(tmp_path: Path, name: str) -> None:
    keys = SigningKeys(str(write_keys(tmp_path / "jwks.json", KEY.public)))
    with pytest.raises(BadInput, match="oidc_algorithms"):
        BearerTokens(Issuer(ISSUER, AUDIENCE, (name,), 30, "roles", "sub"), keys, ROLES)


def test_roles_may_stand_deep_in_the_claims(tmp_path: Path) -> None:
    keys = SigningKeys(str(write_keys(tmp_path / "jwks.json", KEY.public)))
    issuer = Issuer(ISSUER, AUDIENCE, ("RS256",), 30, "resource_access.topolog.roles", "email")
    claims: dict[str, Any] = {"email": "ann@example", "resource_access": {"topolog": {"roles": "ops boss"}}}
    found = BearerTokens(issuer, keys, ROLES).principal(KEY.token(roles=None, **claims))
    assert (found.name, len(found.grants)) == ("ann@example", 2)


def test_keys_are_read_anew_when_a_token_names_another(tmp_path: Path) -> None:
    """The issuer rotates: nobody restarts anything. Between two looks a while passes, whoever invents names."""
    now_s = [0.0]
    path = write_keys(tmp_path / "jwks.json", KEY.public)
    keys = SigningKeys(str(path), lambda: now_s[0])
    later = Key("k2")
    write_keys(path, KEY.public, later.public)
    now_s[0] += 1
    assert keys.key("k2").key_id == "k2"
    write_keys(path, later.public)
    now_s[0] += 1
    with pytest.raises(Unknown):
        keys.key("k3")
    assert keys.key("k1").key_id == "k1", "a moment after a look nobody looks again"
    now_s[0] += 3_000
    with pytest.raises(Unknown):
        keys.key("k1")


def test_an_issuer_that_is_down_locks_nobody_out_at_once_and_everybody_in_the_end(tmp_path: Path) -> None:
    now_s = [0.0]
    path = write_keys(tmp_path / "jwks.json", KEY.public)
    keys = SigningKeys(str(path), lambda: now_s[0])
    path.unlink()
    now_s[0] += 1_800
    assert keys.key("k1").key_id == "k1"
    now_s[0] += 3_600
    with pytest.raises(Denied) as caught:
        keys.key("k1")
    assert (caught.value.status, caught.value.code) == (503, "issuer_unreachable")


def test_secrets_in_a_key_set_are_no_keys(tmp_path: Path) -> None:
    shared = {"kty": "oct", "kid": "k1", "k": "c2VjcmV0"}
    with pytest.raises(BadInput, match="no key"):
        SigningKeys(str(write_keys(tmp_path / "jwks.json", shared)))
    found = SigningKeys(str(write_keys(tmp_path / "jwks.json", shared, KEY.public))).key("k1")
    assert found.key_type == "RSA"


@pytest.mark.parametrize("place", ["http://id.example/keys", "ftp://id.example/keys", "/nowhere/jwks.json"])
def test_keys_come_over_https_or_from_a_file(place: str) -> None:
    with pytest.raises(BadInput, match="oidc_jwks"):
        SigningKeys(place)


def test_an_address_on_this_machine_may_do_without_protection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "_PATIENCE_S", 0.1)
    with pytest.raises(Denied) as caught:
        SigningKeys("http://127.0.0.1:9/keys").key("k1")
    assert caught.value.code == "issuer_unreachable"


def test_a_silent_issuer_keeps_nobody_waiting_who_has_another_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invented bearer tokens waited for its keys in all worker threads, so that nothing else was answered."""
    answers, token, file = threading.Event(), tokens.new(), tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(tokens.line_of("ci", "viewer", token))
    keys = SigningKeys("https://id.example/keys")

    def never() -> bytes:
        answers.wait(30)
        raise OSError("nothing came")

    monkeypatch.setattr(keys, "_fetch", never)
    known = Authentication(tokens.TokensFile(file), BearerTokens(OIDC, keys, ROLES))

    async def ask() -> None:
        shown = [(b"authorization", f"Bearer {KEY.token()}".encode())]
        waiting = [asyncio.create_task(known.principal("", shown)) for _ in range(100)]
        await asyncio.sleep(0)
        try:
            found = await asyncio.wait_for(known.principal("", [(b"authorization", f"Bearer {token}".encode())]), 5)
            assert found.name == "ci"
        finally:
            answers.set()
        denied = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in denied} == {Denied}

    asyncio.run(ask())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.touch(0o600)
    return path


def test_a_static_token_names_its_holder_and_its_line_holds_no_token(file: Path) -> None:
    token = tokens.new()
    line = tokens.line_of("ci", "operator@main:groups/orders*,viewer@main", token)
    file.write_text(f"# scripts\n\n{line}\n")
    assert token not in line
    found = tokens.TokensFile(file).principal(token)
    assert found is not None
    assert (found.name, found.method, len(found.grants)) == ("ci", "token", 2)
    assert tokens.TokensFile(file).principal(tokens.new()) is None


def test_a_token_ends_on_its_day(file: Path) -> None:
    old, new = tokens.new(), tokens.new()
    today = datetime.now(UTC).date()
    tomorrow = today + timedelta(days=1)
    file.write_text(
        f"{tokens.line_of('a', 'viewer', old, today.isoformat())}\n"
        f"{tokens.line_of('b', 'viewer', new, tomorrow.isoformat())}\n"
    )
    held = tokens.TokensFile(file)
    assert (held.principal(old), held.principal(new) is None) == (None, False)


def test_it_is_known_until_when_somebody_is_known(bearer: BearerTokens, file: Path) -> None:
    """Then it is to be found out anew: at the token's end with the leeway, or once the keys are to be looked at."""
    now = datetime.now(UTC)
    soon = now.replace(microsecond=0) + timedelta(seconds=60)
    assert bearer.principal(KEY.token(exp=soon)).until_s == soon.timestamp() + 30
    late = bearer.principal(KEY.token(exp=now + timedelta(days=9))).until_s
    assert late is not None
    assert now.timestamp() + signing_keys.KEPT_S <= late < now.timestamp() + signing_keys.KEPT_S + 60
    day, ever = tokens.new(), tokens.new()
    file.write_text(f"{tokens.line_of('a', 'viewer', day, '2999-01-02')}\n{tokens.line_of('b', 'viewer', ever)}\n")
    held = [tokens.TokensFile(file).principal(each) for each in (day, ever)]
    assert [each and each.until_s for each in held] == [datetime(2999, 1, 2, tzinfo=UTC).timestamp(), None]


def test_the_state_is_another_one_when_somebody_s_answer_may_be(tmp_path: Path, file: Path) -> None:
    now_s = [0.0]
    path = write_keys(tmp_path / "jwks.json", KEY.public)
    keys = SigningKeys(str(path), lambda: now_s[0])
    authentication = Authentication(tokens.TokensFile(file), BearerTokens(OIDC, keys, ROLES))
    states = [authentication.state()]
    assert authentication.state() == states[0]
    file.write_text("# nobody\n")
    states.append(authentication.state())
    now_s[0] += signing_keys.KEPT_S + 1
    keys.key("k1")
    states.append(authentication.state())
    file.unlink()
    states.append(authentication.state())
    assert len(set(states)) == 4
    assert Authentication(anonymous=parse_all("viewer")).state() == Authentication().state()


def test_a_file_that_changes_holds_at_once(file: Path) -> None:
    """A token is taken back by deleting its line; a line that cannot be read gives nothing, the others hold."""
    first, second = tokens.new(), tokens.new()
    file.write_text(f"{tokens.line_of('a', 'viewer', first)}\n")
    held = tokens.TokensFile(file)
    assert held.principal(first)
    file.write_text(f"nonsense\n{tokens.line_of('b', 'viewer', second)}\n")
    assert held.principal(first) is None
    assert held.principal(second)
    file.unlink()
    assert held.principal(second) is None


def test_a_file_that_others_may_write_lets_nobody_in(file: Path) -> None:
    token = tokens.new()
    file.write_text(f"{tokens.line_of('a', 'viewer', token)}\n")
    held = tokens.TokensFile(file)
    assert held.principal(token)
    file.chmod(0o620)
    os.utime(file, (1, 1))
    assert held.principal(token) is None
    with pytest.raises(BadInput, match="written by others"):
        tokens.TokensFile(file)


@pytest.mark.parametrize("line", ["ci viewer", "ci viewer sha256$00", "ci root sha256$" + "0" * 64, "x"])
def test_a_bad_line_is_refused_at_the_start_by_its_number_and_not_by_its_text(file: Path, line: str) -> None:
    """It may be a token that somebody has pasted."""
    file.write_text(f"# one\n{line}\n")
    with pytest.raises(BadInput, match="line 2") as caught:
        tokens.TokensFile(file)
    assert "sha256$0" not in caught.value.message


PROXIES = Proxies(networks(["10.0.0.7", "10.1.0.0/16"]), "X-Forwarded-User", "X-Forwarded-Groups", ROLES)


def headers(*pairs: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in pairs]


def test_a_proxy_is_believed_from_its_address_alone() -> None:
    said = headers(("x-forwarded-user", "ann"), ("x-forwarded-groups", "ops,strangers"))
    found = PROXIES.principal("10.1.2.3", said)
    assert found is not None
    assert (found.name, found.method, [str(each) for each in found.grants]) == ("ann", "proxy", ["operator@main"])
    for peer in ("10.0.0.8", "127.0.0.1", "", "::1"):
        assert PROXIES.principal(peer, said) is None
    assert PROXIES.principal("::ffff:10.0.0.7", said)


def test_a_header_that_comes_twice_is_believed_in_neither_form() -> None:
    """A caller's own may have passed through beside the proxy's."""
    with pytest.raises(Unknown, match="two users"):
        PROXIES.principal("10.0.0.7", headers(("x-forwarded-user", "ann"), ("X-Forwarded-User", "root")))


def test_the_client_is_the_last_hop_before_the_proxies() -> None:
    """What stands further left a caller may have written."""
    said = headers(("x-forwarded-for", "6.6.6.6, 192.0.2.9, 10.1.0.1"))
    assert PROXIES.client("10.0.0.7", said) == "192.0.2.9"
    assert PROXIES.client("192.0.2.1", said) == "192.0.2.1"
    assert PROXIES.client("10.0.0.7", headers(("x-forwarded-for", "nonsense"))) == "10.0.0.7"
