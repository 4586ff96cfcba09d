"""Pages that belong to no moment of a cluster: the list of clusters, and what went wrong with the next step."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from topolog.events.errors import NotCaughtUp, TopologError
from topolog.projections.web import problems_first
from topolog.projections.web.asking import May
from topolog.projections.web.templates import rendered

if TYPE_CHECKING:
    from topolog.projections.projector import Projector


class ClusterLine(msgspec.Struct, frozen=True):
    """A cluster in the list: its overview in a line."""

    name: str
    href: str
    tone: str
    sentence: str
    position: int
    age_ms: int


def clusters(seen: Iterable[tuple["Projector", May]]) -> str:
    """The clusters that this server reads, each with what of it may be shown, the worst first."""
    found = [_served(projector, may) for projector, may in seen]
    found.sort(key=lambda each: (problems_first.TONES.index(each.tone), each.name))
    return rendered("clusters.html", None, clusters=found)


def _served(projector: "Projector", may: May) -> ClusterLine:
    name, age_ms = projector.cluster, projector.age_ms
    href = f"/clusters/{quote(name, safe='')}/"
    with projector.reading() as reading:
        try:
            tone, sentence = problems_first.in_a_line(reading, age_ms, projector.stopped, may)
        except NotCaughtUp as error:
            tone, sentence = "busy", error.message
        return ClusterLine(name, href, tone, sentence, reading.position, age_ms)


def error(cluster: str, found: TopologError, status: int, again_s: int | None, hint: str) -> str:
    """What went wrong, and the next step; `again_s`: after so many seconds the page asks again."""
    return rendered(
        "error.html",
        None,
        cluster=cluster,
        error=found,
        hint=hint,
        status=status,
        again_s=again_s,
        home=f"/clusters/{quote(cluster, safe='')}/",
        steps=_steps(found),
    )


def _steps(found: TopologError) -> Sequence[str]:
    """Commands that say more, by what went wrong."""
    if isinstance(found, NotCaughtUp):
        return ("topolog get cluster", "topolog up")
    return ()
