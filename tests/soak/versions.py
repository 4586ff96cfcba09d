"""Whether the versions of each type follow from what was asked, one after the other. Pure.

The log is replayed with nothing but the contents in mind: what was granted is what was there and what was asked, what
was refused contradicts what was there, and what needed nothing was there.
"""

from collections.abc import Iterator, Mapping

from tests.soak.history import Decided, History, Rule, Violation

from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events.asked import Request, RequestRef
from topolog.events.errors import MergeConflict


def versions(history: History) -> Iterator[Violation]:
    """Every step of every type, in the order of the log."""
    replay = _Replay(history.requests)
    for each in history.decided:
        match each.event:
            case md.MetadataUpdateProposed() as proposed:
                yield from replay.propose(each, proposed)
            case md.MetadataUpdateAccepted() as accepted:
                yield from replay.accept(each, accepted)
            case md.MetadataUpdateRejected() as rejected:
                yield from replay.reject(each, rejected)
            case q.RequestUnchanged() as unchanged:
                yield from replay.leave(each, unchanged)


class _Replay:
    """The newest version and content, and the last acceptance, of each type."""

    def __init__(self, requests: Mapping[str, Request]) -> None:
        self._requests = requests
        self._newest: dict[str, tuple[int, md.ObjectType]] = {}
        self._accepted: dict[str, int] = {}

    def propose(self, each: Decided, event: md.MetadataUpdateProposed) -> Iterator[Violation]:
        name, version, fields = event.type_name, event.version, dict(event.definition.fields)
        was, had = self._known(name)
        self._newest[name] = (version, event.definition)
        if version != was + 1:
            yield Violation(Rule.VERSIONS, f"{name} goes from version {was} to {version} at {each.position}")
        asked = self._asked(event.request)
        if event.request and fields != {**(asked.fields if asked else {}), **had.fields}:
            yield Violation(Rule.VERSIONS, f"{name} version {version} is not version {was} with what was asked")

    def accept(self, each: Decided, event: md.MetadataUpdateAccepted) -> Iterator[Violation]:
        """An acceptance covers all before it, so none is said again; and only what was proposed."""
        name, version = event.type_name, event.version
        was, newest = self._accepted.get(name, 0), self._known(name)[0]
        self._accepted[name] = version
        if not was < version <= newest:
            what = f"{name} version {version} is accepted at {each.position}, after version {was}, of {newest}"
            yield Violation(Rule.ACCEPTANCES, what)

    def reject(self, each: Decided, event: md.MetadataUpdateRejected) -> Iterator[Violation]:
        was, had = self._known(event.type_name)
        asked = self._asked(event.request)
        if asked is not None and (not was or _agree(had, asked)):
            what = f"{event.request} is refused at {each.position} and contradicts nothing of version {was}"
            yield Violation(Rule.REFUSALS, what)

    def leave(self, each: Decided, event: q.RequestUnchanged) -> Iterator[Violation]:
        asked = self._asked(event.request)
        if asked is None:
            return
        newest, had = self._known(asked.name)
        if event.version != newest or not asked.fields.items() <= had.fields.items():
            what = f"{event.request} changes nothing at {each.position}, and version {newest} lacks what it asked for"
            yield Violation(Rule.VERSIONS, what)

    def _known(self, name: str) -> tuple[int, md.ObjectType]:
        return self._newest.get(name, (0, md.ObjectType(name, {})))

    def _asked(self, ref: RequestRef | None) -> md.ObjectType | None:
        request = self._requests.get(str(ref))
        return request.definition if isinstance(request, md.UpdateRequested) else None


def _agree(had: md.ObjectType, asked: md.ObjectType) -> bool:
    try:
        md.merge(had, asked)
    except MergeConflict:
        return False
    return True
