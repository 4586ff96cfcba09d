"""An example of a projector's store, as /openapi.json shows it."""

from topolog.projections.projection_resources import Generation, ScrubNow
from topolog.projections.upkeep.compared import Compared

GENERATION = Generation(
    name="3",
    state="SHOWN",
    position=18_204,
    of=18_204,
    rate=0.0,
    eta_s=0,
    age_ms=12,
    hash="5c91b589ff86c1be5251ad5ab56b71c8",
    shape="4f0c2f1e7d9b",
    bytes=7_340_032,
    started_at="2026-11-23T06:58:11.020Z",
    why="a new disk",
    compared=Compared(
        "rows-4f0c2f1e7d9b-2",
        18_190,
        61_733,
        0,
        "77e4c2f9d0a34c05a1f3e2b1d7c60a94",
        "77e4c2f9d0a34c05a1f3e2b1d7c60a94",
    ),
    scrub=ScrubNow("WELL", 7_012_441, 7_012_441, "2026-11-23T07:11:40.733Z"),
)
