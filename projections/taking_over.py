"""A rebuilt store that is offered to a projector: what it must be to be taken, and what it takes along."""

from contextlib import suppress
from itertools import islice
from pathlib import Path

from topolog.events.errors import BadInput, DamagedStore, NotCaughtUp
from topolog.projections.generations import admit
from topolog.projections.layout import Meta
from topolog.projections.projection import Projection
from topolog.projections.sides import SIDE_PARTITIONS, SIDE_ROWS, SideWrite
from topolog.projections.store import Store

RECORDS_BEHIND_MAX = 200_000
"""What is offered may be this far behind what is shown: nothing new is shown while it is read on."""

_BATCH_ROWS = 100


def opened(folder: Path, shown: Meta) -> Projection:
    """What was taken in the projector's folder, with all its rows.

    Raises BadInput for a store that is not of this version, cluster or log, NotCaughtUp for one that is too far behind,
    DamagedStore for one whose rows do not have the hash that it says.
    """
    path = admit(folder)
    if path is None:
        raise BadInput("It holds no store of this version: another one has made it.")
    store = Store(folder, shown.cluster, path)
    try:
        _check(store.meta, shown)
        return Projection(store, store.load())
    except Exception:  # whatever it is, RocksDB's lock must not outlive it
        store.close()
        raise


def _check(offered: Meta, shown: Meta) -> None:
    if offered.last_offset is None:
        raise BadInput("It is empty.")
    if shown.last_offset is None:
        return
    if offered.header.log_id != shown.header.log_id:
        raise BadInput(
            f"It is of log {_hex(offered.header.log_id)}, and what is shown is of log {_hex(shown.header.log_id)}."
        )
    behind = shown.last_offset - offered.last_offset
    if behind > RECORDS_BEHIND_MAX:
        raise NotCaughtUp(
            f"It is {behind:,} records behind what is shown, and {RECORDS_BEHIND_MAX:,} is the most: nothing new would "
            "be shown while they are read.",
            hint="Rebuild it while the broker answers: it is brought to the newest position then.",
        )


def take_sides_along(shown: Store, successor: Store) -> None:
    """Copy what is not in the log of decisions, and where to go on in its topics.

    What cannot be read is left behind: without an offset a topic is read again from its oldest record.
    """
    with suppress(DamagedStore), shown.reading() as reading:
        rows = (((kind.KIND, key), row) for kind in SIDE_ROWS for key, row in reading.sides(kind))
        while batch := dict(islice(rows, _BATCH_ROWS)):
            successor.write_sides(SideWrite(batch, {}))
        offsets = {partition: shown.side_offset(partition) for partition in SIDE_PARTITIONS}
        known = {partition: offset for partition, offset in offsets.items() if offset is not None}
        successor.write_sides(SideWrite({}, known))


def _hex(log_id: bytes | None) -> str:
    return log_id.hex() if log_id else "none"
