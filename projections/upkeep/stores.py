"""What there is of a projector's stores, for people: the one that is shown first."""

from collections.abc import Iterator
from pathlib import Path

from topolog.projections import generations, layout
from topolog.projections.layout import Meta
from topolog.projections.moments import iso
from topolog.projections.projection_resources import Generation, ScrubNow
from topolog.projections.recovery import Recovering, eta_s
from topolog.projections.store import Store
from topolog.projections.upkeep.about import about
from topolog.projections.upkeep.keeper import Keeper, bytes_of
from topolog.projections.upkeep.orders import Refusal, UpkeepOrder

BUILDING, REFUSED = "building", "refused"


def listed(keeper: Keeper, shown: Store, recovering: Recovering, age_ms: int) -> Iterator[Generation]:
    """Every store of the folder that could be shown, is, or was."""
    yield _shown(keeper, shown, recovering, age_ms)
    status = keeper.status
    if status.wanted is not None:
        yield _building(keeper, status.wanted, shown.meta)
    if status.refused is not None:
        yield _refused(status.refused)
    former = generations.former_path(keeper.folder)
    if former is not None and former != shown.path:
        yield _kept(former, "FORMER")
    for path in generations.damaged_paths(keeper.folder):
        yield _kept(path, "DAMAGED")


def _shown(keeper: Keeper, shown: Store, recovering: Recovering, age_ms: int) -> Generation:
    status, known, meta = keeper.status, about(shown.path), shown.meta
    state, why, by = "SHOWN", known.why, ""
    if status.paused is not None:
        state, why, by = "PAUSED", status.paused.reason, status.paused.by
    if status.damage is not None and status.damage.store == shown.path.name:
        state, why, by = "DAMAGED", status.damage.why, ""
    return Generation(
        name=str(generations.number_of(shown.path)),
        state=state,
        position=meta.position,
        of=meta.position if recovering.eta_s == 0 else recovering.of,
        rate=recovering.rate,
        eta_s=recovering.eta_s,
        age_ms=age_ms,
        hash=meta.state_hash.hex(),
        shape=layout.shape(),
        bytes=bytes_of(shown.path),
        started_at=_time(known.began_ms),
        why=why,
        by=by,
        compared=known.compared,
        scrub=_scrub(keeper, shown),
    )


def _building(keeper: Keeper, wanted: UpkeepOrder, shown: Meta) -> Generation:
    progress = keeper.progress
    position = progress.done if progress else None
    rate = progress.rate if progress else 0.0
    path = generations.building_path(keeper.folder)
    return Generation(
        name=BUILDING,
        state="BUILDING",
        position=position,
        of=shown.position,
        rate=round(rate, 1),
        eta_s=None if position is None else eta_s(position, shown.position, rate),
        age_ms=None,
        hash=progress.state_hash if progress else "",
        shape=layout.shape(),
        bytes=bytes_of(path) if path else 0,
        started_at=_time(wanted.at_ms),
        why=keeper.waits_for or wanted.reason,
        by=wanted.by,
        phase=keeper.phase,
    )


def _refused(refusal: Refusal) -> Generation:
    order = refusal.order
    return Generation(
        name=REFUSED,
        state="REFUSED",
        position=None,
        of=None,
        rate=None,
        eta_s=None,
        age_ms=None,
        hash="",
        shape=layout.shape(),
        bytes=0,
        started_at=_time(order.at_ms),
        why=refusal.why,
        by=order.by,
    )


def _kept(path: Path, state: str) -> Generation:
    known = about(path)
    return Generation(
        name=str(generations.number_of(path)),
        state=state,
        position=known.position,
        of=None,
        rate=None,
        eta_s=None,
        age_ms=None,
        hash=known.state_hash,
        shape=layout.shape(),
        bytes=bytes_of(path),
        started_at=_time(known.began_ms),
        why=known.doubt or known.why,
        compared=known.compared,
    )


def _scrub(keeper: Keeper, shown: Store) -> ScrubNow | None:
    status, progress = keeper.status, keeper.scrub_progress
    size = bytes_of(shown.path)
    if progress is not None:
        return ScrubNow("RUNNING", progress.done, size, _time(progress.began_ms))
    if status.scrub is not None:
        return ScrubNow("WANTED", 0, size, None)
    last = status.scrubbed
    if last is None or last.store != shown.path.name:
        return None
    return ScrubNow("FOUND" if last.findings else "WELL", last.bytes, last.bytes, _time(last.ended_ms), last.findings)


def _time(time_ms: int) -> str | None:
    return iso(time_ms) if time_ms else None
