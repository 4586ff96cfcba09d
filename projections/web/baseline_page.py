"""The baseline: who counts, the graph of its branching points, all baselines there were."""

from itertools import islice

from topolog.projections import baselines, explain_cluster, joins, situation
from topolog.projections.web import things, values
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.branch_picture import LANE_HEIGHT, drawn
from topolog.projections.web.templates import rendered

_BASELINES = 40


def page(asked: PageRequest) -> str:
    reading, frame = asked.reading, asked.frame
    found = list(islice(baselines.baselines(reading), _BASELINES))
    beside = list(joins.branches(reading)) if asked.may("branches") else []
    has_cluster = asked.may("cluster")
    return rendered(
        "baselines.html",
        frame,
        cluster=situation.cluster(reading, asked.age_ms) if has_cluster else None,
        state=values.state,
        baseline=found[0] if found else None,
        baselines=found,
        branches=beside,
        graph=drawn(found, beside) if found else (),
        lane_height=LANE_HEIGHT,
        explanation=things.explained(lambda: explain_cluster.explain_cluster(reading, asked.age_ms))
        if has_cluster
        else None,
        commands=frame.commands(
            "get baselines", "history baseline current", "explain cluster", api=frame.api("baselines")
        ),
        api=frame.api("baselines"),
    )
