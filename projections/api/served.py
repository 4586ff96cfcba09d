"""The clusters that one process serves, and how a route gets the one in its address."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends, Request

from topolog.projections.api.access.losses import UNKNOWN, Stands
from topolog.projections.api.access.principals import Principal
from topolog.projections.api.answers import Answers
from topolog.projections.api.desk import Desk
from topolog.projections.api.waiting import Commits
from topolog.projections.api.watch.feed import Feeds
from topolog.projections.projector import Projector
from topolog.projections.queries import not_found
from topolog.projections.requester import Requester
from topolog.projections.web.heat import Gallery

KNOWS_MS = 10_000
"""How long a reader that hears of no end of the log counts as knowing what stands: as long as a change of
leaders, when nobody is to be told that raising backups is not theirs. What was decided meanwhile the rules compare."""


class Served:
    """One cluster: what answers questions about it, takes requests to it, and draws it."""

    def __init__(self, projector: Projector, requester: Requester) -> None:
        self.projector = projector
        self.commits = Commits()
        self.answers = Answers(projector, self.commits)
        self.desk = Desk(self.answers, requester)
        self.feeds = Feeds(projector, self.commits)
        self.gallery = Gallery()
        projector.on_commit(self.commits.notify)

    @contextmanager
    def standing(self) -> Iterator[Stands]:
        """What is served now. A reader that has stopped, is not at the end yet, or is behind, does not know what
        stands."""
        projector = self.projector
        if projector.stopped is not None or not projector.has_started or projector.age_ms > KNOWS_MS:
            yield UNKNOWN
            return
        with self.projector.reading() as reading:
            yield reading


def all_served(request: Request) -> Mapping[str, Served]:
    """Every cluster that this process serves and the caller may know of, by name."""
    served: Mapping[str, Served] = request.app.state.served
    principal: Principal = request.state.principal
    return {name: each for name, each in served.items() if principal.sees(name)}


def served_of(request: Request, cluster: str) -> Served:
    """The cluster in the address; raises NotFound for one that is not served."""
    served = all_served(request)
    if cluster not in served:
        raise not_found(cluster, list(served), "cluster")
    return served[cluster]


def _answers_of(served: Annotated[Served, Depends(served_of)]) -> Answers:
    return served.answers


def _desk_of(served: Annotated[Served, Depends(served_of)]) -> Desk:
    return served.desk


Everything = Annotated[Mapping[str, Served], Depends(all_served)]
There = Annotated[Served, Depends(served_of)]
Here = Annotated[Answers, Depends(_answers_of)]
AtDesk = Annotated[Desk, Depends(_desk_of)]
