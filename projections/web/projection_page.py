"""How far this reader is: its position, how old that is in seconds, what it has seen and what it left out."""

from topolog.projections import situation
from topolog.projections.moments import iso
from topolog.projections.upkeep.stores import listed
from topolog.projections.web import values
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.templates import rendered


def page(asked: PageRequest) -> str:
    """It tells of this process as it is now; its past is in the metrics."""
    projector, frame, newest = asked.projector, asked.frame, asked.newest
    now_ms, logged_ms = projector.wall_ms(), newest.meta.logged_at_ms
    return rendered(
        "projection.html",
        frame,
        age_s=projector.age_ms / 1000,
        newest_position=newest.position,
        newest_time=iso(logged_ms),
        quiet_s=max(0, now_ms - logged_ms) / 1000,
        stopped=projector.stopped,
        ignored=sorted(newest.meta.ignored.items()),
        has_decided=asked.may("decisions"),
        decided=projector.decided.most_common(20),
        generations=list(projector.told(listed)),
        state=values.state,
        cluster=situation.cluster(newest, projector.age_ms) if asked.may("cluster") else None,
        commands=frame.commands("projection status", api=frame.api("projections")),
        api=frame.api("projections"),
    )
