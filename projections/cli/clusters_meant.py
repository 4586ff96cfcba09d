"""Which clusters are meant while the API, which would say, does not answer.

Threat. An operator who has named no cluster looks at one in the worst hour, and is sent to another, of the default
name, which does not exist: he is told to make its topics, and what he looks for is not looked at.

So a cluster that somebody has named counts, then those of which earlier commands have heard from that API, then all
that the broker has. The default counts where there is none of these.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from topolog.events.topics import clusters


@dataclass(frozen=True)
class Meant:
    """`named`: the cluster that the API or a person has named, by `origin`; `heard`: those that earlier commands have
    seen at that address; `default`: what settings say if nobody says anything."""

    named: str = ""
    origin: str = ""
    heard: Sequence[str] = ()
    default: str = ""

    def among(self, topics: Iterable[str]) -> tuple[Sequence[str], str]:
        """The clusters to look at where a broker has topics of these names, and why these."""
        if self.named:
            return [self.named], self.origin
        there = clusters(topics)
        if heard := [each for each in self.heard if each in there]:
            return heard, "earlier commands asked this API about it" if len(heard) == 1 else "earlier commands did"
        if there:
            return there, "it is the only one on the broker" if len(there) == 1 else "all that are on the broker"
        return [self.default] if self.default else [], "nobody has named one, and the broker has none"
