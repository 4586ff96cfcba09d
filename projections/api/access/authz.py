"""What a known caller may do: the address, then the form, against the grants. Pure.

A cluster of which nothing is granted is answered as one that is not there, to the letter: whoever has no access to a
tenant does not learn that there is one.
"""

from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import parse_qs

import msgspec

from topolog.events.errors import BadInput, NotFound
from topolog.events.requests import shortened
from topolog.projections.api import forms
from topolog.projections.api.access.addresses import Wanted
from topolog.projections.api.access.asked_changes import Change, change
from topolog.projections.api.access.grants import Right
from topolog.projections.api.access.losses import UNKNOWN, Stands
from topolog.projections.api.access.principals import Denied, Principal, forbidden
from topolog.projections.queries import not_found


def check_address(principal: Principal, wanted: Wanted | None, clusters: Sequence[str], what: str) -> None:
    """Raise Denied unless this principal may ask at this address; `what` is the address for people."""
    if wanted is None:
        raise _not_there(f"{what}: there is nothing that could be asked.", "/openapi.json lists all addresses.")
    seen, asked = principal.visible(clusters), wanted.asked
    if wanted.cluster is not None and wanted.cluster not in seen:
        error = not_found(wanted.cluster, seen, "cluster")
        raise _not_there(error.message, error.hint)
    needed = [] if asked is None else [asked]
    if wanted.of_all_seen and seen:
        needed = [msgspec.structs.replace(each, cluster=cluster) for each in needed for cluster in seen]
    if not all(principal.may(each) for each in needed):
        raise forbidden(principal, needed)


def asked_of(principal: Principal, cluster: str, body: bytes, query: str, stands: Stands) -> Change | None:
    """What the form in this body changes of what `stands`; for who may not read all of that, as if nobody knew it: what
    they are denied, and why, tells nothing of it.

    None for a body that is no form: whoever may change anything of the cluster is told so by the address itself, and
    whoever may not is told that; raises Denied.
    """
    is_dry_run = dry_run(query)
    try:
        form = forms.read_form(body)
        asked = change(form, cluster, UNKNOWN, is_dry_run=is_dry_run)
        reads = (msgspec.structs.replace(each, right=Right.READ) for each in asked.asked)
        return change(form, cluster, stands, is_dry_run=is_dry_run) if all(map(principal.may, reads)) else asked
    except BadInput:
        if any(grant.reaches(cluster) and Right.CHANGE in grant.rights for grant in principal.grants):
            return None
        raise Denied(
            HTTPStatus.FORBIDDEN,
            "forbidden",
            f"{principal.name} ({principal.method}) may change nothing in cluster {cluster}.",
            hint=f"It takes a grant such as operator@{cluster}.",
            missing=[f"operator@{cluster}"],
        ) from None


def check_change(principal: Principal, asked: Change) -> None:
    """Raise Denied unless the principal may do all of it.

    Who could change a thing that is not there hears so, and not of rights that would not help; the nearest names only
    with the right to list them.
    """
    if all(principal.may(each) for each in asked.asked):
        return
    could = (msgspec.structs.replace(each, right=Right.CHANGE) for each in asked.asked)
    if asked.absent is not None and all(map(principal.may, could)):
        lists = (msgspec.structs.replace(each, right=Right.READ, name=None) for each in asked.asked)
        raise _not_there(asked.absent.message, asked.absent.hint if all(map(principal.may, lists)) else "")
    raise forbidden(principal, asked.asked, because=loss(asked))


def loss(asked: Change) -> str:
    """What the change could lose, in one sentence; empty for one that is protected for another reason, or is not."""
    return f"It can lose data: {', '.join(asked.lost)}." if asked.lost else ""


_BLANK_LETTERS = "\u115f\u1160\u3164\uffa0"
"""Fillers of Hangul: letters to Unicode, and nothing to the eye."""


def check_reason(what: str, reason: str, because: str = "") -> None:
    """Raise Denied if nobody says why something protected is done, with a letter or a digit that can be seen."""
    if not any(each.isalnum() and each not in _BLANK_LETTERS for each in reason):
        raise Denied(
            HTTPStatus.BAD_REQUEST,
            "reason_required",
            f"{shortened(what)} takes a reason. {shortened(because)}"
            if because
            else f"{shortened(what)} takes a reason: it cannot be undone, or concerns everybody.",
            hint='Add "reason" to the body, or --reason to the command.',
        )


def dry_run(query: str) -> bool:
    """Whether nothing is to be sent; of several values the API takes the last, so all must say so here."""
    given = parse_qs(query, keep_blank_values=True).get("dry_run", [])
    return bool(given) and all(each == "true" for each in given)


def _not_there(why: str, hint: str) -> Denied:
    return Denied(HTTPStatus.NOT_FOUND, NotFound.code, shortened(why), hint=hint)
