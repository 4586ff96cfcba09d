"""Where a store stands in the log: found by chain hashes, since its header may be what is damaged.

A header is believed if the log has its chain hash at its position. If not, there are two cases. The newest decision of
the store agrees with the header: then the store is whole in itself, and the log is not the one it has folded (swapped,
restored, cut short), which nobody may mend by writing. They do not agree: then the header is damaged, and the newest
decision of the store that is the log's own, chain hash and all, says how far the store has come.
"""

from topolog.events.errors import DamagedStore, LogDiverged, Poisoned
from topolog.events.ids import NOWHERE
from topolog.projections import layout
from topolog.projections.layout import Decided, Meta
from topolog.projections.rocks import View
from topolog.projections.self_check.opened import rows_of_log
from topolog.projections.self_check.rebuild import Rebuild


class OtherLog(LogDiverged):
    """A store that is whole in itself and has not been folded from this log."""


def stand_beside(rebuild: Rebuild, view: View) -> None:
    """Bring the rebuild to where the store stands; raises OtherLog if it stands nowhere in the log."""
    if next(rows_of_log(view), None) is None:
        rebuild.to(NOWHERE)
        return
    meta = stored_meta(view)
    is_whole = meta is not None and _is_whole(view, meta)
    if meta is not None and _is_in_log(rebuild, meta, is_whole=is_whole):
        return
    rebuild.to_end()
    shared = _newest_shared(rebuild, view)
    if meta is not None and is_whole:
        raise OtherLog(
            f"The store stands at position {meta.position} of {_whose(meta, rebuild)}. {_parted(shared, rebuild)}",
            hint="It is not touched. The topic was cut short, made again or swapped for a copy, or the settings name "
            "another log (cluster.name, kafka.bootstrap.servers).",
        )
    if shared is None:
        raise OtherLog(
            "None of the store's decisions is one of this log, and its header says nothing that could be believed.",
            hint="It is not touched. If it is this cluster's store, move it away: the projector builds it anew.",
        )
    rebuild.to(shared.position if shared.set_end == shared.position else shared.set_start - 1)


def stored_meta(view: View) -> Meta | None:
    """What the store says of itself, None if that is lost or no header."""
    stored = view.get(layout.META_KEY)
    try:
        return None if stored is None else layout.decode(stored, Meta)
    except DamagedStore:
        return None


def _is_in_log(rebuild: Rebuild, meta: Meta, *, is_whole: bool) -> bool:
    """Whether the log is at the header's position what the header says; the rebuild stands there then."""
    try:
        has_position = meta.position >= NOWHERE and rebuild.to(meta.position)
    except Poisoned:
        if is_whole:
            raise
        return False  # no position that could be believed
    return has_position and rebuild.meta.header.chain == meta.header.chain


def _is_whole(view: View, meta: Meta) -> bool:
    """Whether header and newest decision say the same."""
    newest = _decision(view.get(layout.decision_key(meta.position))) if 0 <= meta.position < 1 << 63 else None
    return newest is not None and newest.chain == meta.header.chain


def _newest_shared(rebuild: Rebuild, view: View) -> Decided | None:
    """The newest decision of the log that the store has at its place, as the log has it; both have the same history up
    to it, for that is what a chain hash says."""
    newest: Decided | None = None
    for key, own in rebuild.decisions():
        held = _decision(view.get(key))
        if held is not None and held.chain == own.chain:
            newest = own
    return newest


def _decision(value: bytes | None) -> Decided | None:
    try:
        return None if value is None else layout.decode(value, Decided)
    except DamagedStore:
        return None


def _whose(meta: Meta, rebuild: Rebuild) -> str:
    is_same = meta.header.log_id == rebuild.meta.header.log_id
    return "this log as it once was" if is_same else "another log"


def _parted(shared: Decided | None, rebuild: Rebuild) -> str:
    if shared is None:
        return "They have no decision in common."
    if shared.position == rebuild.position:
        return f"The log ends at position {shared.position}, and all of it is in the store."
    return f"They part behind position {shared.position}, where the log goes on otherwise."
