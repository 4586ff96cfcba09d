"""What each view shows, and the keys."""

from topolog.projections.web.asking import PageRequest
from topolog.projections.web.templates import rendered

KEYS = (
    ("?", "this list"),
    ("/", "to the filters"),
    ("j, k", "the next line, the line before"),
    ("Enter", "open the line's first link"),
    ("← →", "one decision back, one on"),
    ("n", "now"),
    ("g o", "overview"),
    ("g h", "heat map"),
    ("g e", "exchanges"),
    ("g l", "leases"),
    ("g b", "baseline"),
    ("g s", "sessions"),
    ("g d", "decisions"),
    ("g p", "proposals"),
    ("g n", "nodes"),
    ("t", "light, dark, as the system has it"),
    ("z", "times in UTC, local, how long ago"),
    ("c", "copy the first command"),
)
ABOUT = (
    (
        "",
        "Overview",
        "What goes on in one sentence, what is wrong with the worst first, six numbers, what happened last.",
    ),
    ("heat", "Heat map", "Partitions by node; one group down to the single partition."),
    ("exchanges", "Exchanges", "How long each took, and of one a lane for each node: the longest is the culprit."),
    ("leases", "Leases", "Renewals, validity, gaps and fences of each node over time."),
    ("baselines", "Baseline", "Who counts, the graph of branching points, histories that parted."),
    ("sessions", "Sessions", "Where the replicas of a table differ, by pairs and by tokens."),
    ("decisions", "Decisions", "The log, decoded; of each decision its causes and what followed."),
    ("proposals", "Proposals", "What members were asked to agree on, and how long that took."),
    ("changes", "Changes", "Changes of databases, tables, views and grants."),
    ("requests", "Requests", "What was asked, and its one outcome."),
    ("dead-letters", "Dead letters", "Input that nobody could read."),
    ("projections", "Projection", "How far this reader is behind the log, in seconds."),
)


def page(asked: PageRequest) -> str:
    return rendered("help.html", asked.frame, keys=KEYS, about=ABOUT)
