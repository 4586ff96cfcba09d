"""Who asks, as the rest of this process sees it, and what a caller is told who is turned away. Pure."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from urllib.parse import quote

import msgspec

from topolog.events.requests import FACTS_MAX, shortened
from topolog.projections.api.access.grants import Asked, Grant, covering, least

_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F))
_OF_REQUESTERS = _PRINTABLE.replace("/", "").replace("%", "").replace(":", "")
_NAMED_ALONE = "token"

Key = tuple[str, str]
"""By which principals are told apart: two that have one name, known by two methods, are two."""
_NAME_CHARS_MAX = 300


class Principal(msgspec.Struct, frozen=True):
    """Somebody whom `method` (open, anonymous, token, oidc or proxy) has made known, with what is granted to them.

    `until_s`: the time (Unix) from which on that is to be found out anew, None if it does not end by itself.
    """

    name: str
    method: str
    grants: tuple[Grant, ...]
    until_s: float | None = None

    def may(self, asked: Asked) -> bool:
        return covering(self.grants, asked) is not None

    def sees(self, cluster: str) -> bool:
        """Whether the cluster's existence is no secret to them."""
        return any(grant.reaches(cluster) for grant in self.grants)

    def visible(self, clusters: Iterable[str]) -> list[str]:
        return [each for each in clusters if self.sees(each)]

    @property
    def key(self) -> Key:
        return (self.method, self.name)

    @property
    def requester(self) -> str:
        """The requester that is theirs: `ci` of a token, `oidc:ci` of whom another method has made known, so that no
        two principals own the same. What would end a part of it, or stand for another character, is %XX."""
        name = quote(self.name, safe=_OF_REQUESTERS)
        return name if self.method == _NAMED_ALONE else f"{self.method}:{name}"

    def owns(self, requester: str) -> bool:
        """Whether the numbers of this requester are theirs: it is called as they are, or so with `/…` behind it."""
        return requester == self.requester or requester.startswith(f"{self.requester}/")

    @property
    def actor(self) -> str:
        """The name as the log shows it: a header's worth of ASCII, other characters as %XX."""
        return quote(self.name, safe=_PRINTABLE)[:_NAME_CHARS_MAX]


class Denied(Exception):
    """A caller is turned away: with this status and code, why, and what to do about it."""

    def __init__(self, status: HTTPStatus, code: str, why: str, *, hint: str = "", missing: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.status = status
        self.code = code
        self.why = why
        self.hint = hint
        self.missing = tuple(missing)


class Unknown(Denied):
    """Nobody knows who asks."""

    def __init__(self, why: str, hint: str = "", code: str = "unauthenticated") -> None:
        super().__init__(HTTPStatus.UNAUTHORIZED, code, why, hint=hint)


def forbidden(principal: Principal, asked: Iterable[Asked], because: str = "") -> Denied:
    """What is missing of all that was asked; `because`: a sentence, why it takes that."""
    lacking = [each for each in asked if not principal.may(each)]
    missing = [shortened(str(least(each))) for each in lacking[:FACTS_MAX]]
    what = shortened("; ".join(map(str, lacking)))
    grants = shortened(" and ".join(missing))
    return Denied(
        HTTPStatus.FORBIDDEN,
        "forbidden",
        f"{principal.name} ({principal.method}) may not {what}.{because and f' {shortened(because)}'}",
        hint=f"It takes a grant such as {grants}. `topolog auth explain` shows what you have.",
        missing=missing,
    )
