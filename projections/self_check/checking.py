"""A store beside the log: what differs, and what is mended of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path

import msgspec

from topolog.events.errors import DamagedStore
from topolog.events.ids import NOWHERE
from topolog.projections import layout
from topolog.projections.generations import generation_path, move_aside
from topolog.projections.layout import Decided, Meta
from topolog.projections.rocks import View
from topolog.projections.self_check.comparing import Comparison, PastSide, StoreSide
from topolog.projections.self_check.opened import Holding, beside, store_path, was_set_aside
from topolog.projections.self_check.rebuild import Rebuild
from topolog.projections.self_check.side_rows import damaged_sides, removal
from topolog.projections.self_check.standing import OtherLog, stand_beside, stored_meta
from topolog.projections.self_check.verdict import State, Verdict, told_of, unreadable

BATCH_ROWS = 500
"""Rows that one atomic write mends."""

Told = Callable[[str], None]
Written = Mapping[bytes, bytes | None]


def nearest_first(folders: Iterable[Path]) -> list[Path]:
    """The folders in the order in which one rebuild reaches their stores; raises BadInput if one holds none."""
    return sorted(folders, key=_claimed_position)


def check(rebuild: Rebuild, folder: Path) -> Verdict:
    """Compare the store in a projector's folder with the rebuild, which is brought to its position.

    The projector may run; nothing is written. Raises BadInput if the folder holds no store, and what `Rebuild.to` does.
    """
    try:
        with beside(store_path(folder)) as view:
            return _checked(rebuild, folder, view)
    except DamagedStore as error:
        return unreadable(folder, error)


def check_reached(rebuild: Rebuild, folder: Path) -> Verdict:
    """As `check`, with a rebuild of something that may end before the store does, such as an archive. Then they are
    compared where it ends, in all that a store keeps of the past."""
    try:
        with beside(store_path(folder)) as view:
            meta = stored_meta(view)
            if meta is None or rebuild.to(meta.position) or not _is_past_of(rebuild, view, meta):
                return _checked(rebuild, folder, view)
            up_to = rebuild.position
            comparison = Comparison(PastSide(rebuild, up_to), StoreSide(view, up_to))
            why = f"Compared is its past up to position {up_to}, where the rebuild ends; it stands at {meta.position}."
            return msgspec.structs.replace(told_of(folder, up_to, comparison), why=why)
    except DamagedStore as error:
        return unreadable(folder, error)


def mend(rebuild: Rebuild, folder: Path, told: Told) -> Verdict:
    """As `check`; what differs is mended, and compared again. Raises BadInput if a projector uses the folder."""
    damage = "It was set aside, and none has taken its place."
    if not was_set_aside(folder):
        path = store_path(folder)
        try:
            with closing(Holding(path)) as holding:
                return _mended(rebuild, folder, holding, told)
        except DamagedStore as error:
            damage = error.message
        rebuild.to_end()
        move_aside(path)
    _put_in_place(rebuild, folder, told)
    after = check(rebuild, folder)
    if after.state is not State.EQUAL:
        return after
    hint = "What was there is beside it; its name ends in .damaged."
    return msgspec.structs.replace(after, state=State.REBUILT, why=damage, hint=hint)


def _claimed_position(folder: Path) -> int:
    if was_set_aside(folder):
        return NOWHERE
    try:
        with beside(store_path(folder)) as view:
            meta = stored_meta(view)
    except DamagedStore:
        return NOWHERE
    return meta.position if meta else NOWHERE


def _checked(rebuild: Rebuild, folder: Path, view: View) -> Verdict:
    try:
        stand_beside(rebuild, view)
    except OtherLog as error:
        return Verdict(str(folder), State.OTHER_LOG, why=error.message, hint=error.hint)
    comparison = Comparison(rebuild, StoreSide(view))
    sides = (found for _, found in damaged_sides(view))
    return told_of(folder, rebuild.position, comparison, sides)


def _is_past_of(rebuild: Rebuild, view: View, meta: Meta) -> bool:
    """Whether the store has gone through where the rebuild stands, by the chain hash there."""
    if not NOWHERE < rebuild.position < meta.position:
        return False
    held = view.get(layout.decision_key(rebuild.position))
    return held is not None and layout.decode(held, Decided).chain == rebuild.meta.header.chain


def _mended(rebuild: Rebuild, folder: Path, holding: Holding, told: Told) -> Verdict:
    with closing(holding.view()) as view:
        before = _checked(rebuild, folder, view)
        if before.state is not State.DIFFERENT:
            return before
        written = 0
        for batch in _cures(rebuild, view):
            holding.write(batch)
            written += len(batch)
            told(f"mending {folder}: {written} rows")
    with closing(holding.view()) as view:
        after = _checked(rebuild, folder, view)
    if after.state is not State.EQUAL:
        hint = "Look for a failing disk, then build the store anew in another folder."
        return msgspec.structs.replace(after, why="It still differs after it was mended.", hint=hint)
    return msgspec.structs.replace(before, state=State.MENDED, rows=after.rows, digest=after.digest)


def _cures(rebuild: Rebuild, view: View) -> Iterator[Written]:
    """What has to be written, in batches: the header first, so that whoever goes on after a crash knows the place."""
    (header,) = rebuild.rows(layout.META_KEY, layout.META_KEY + b"\0")
    yield dict([header])
    mismatches = Comparison(rebuild, StoreSide(view)).mismatches()
    yield from _batches((each.key, each.expected) for each in mismatches if each.key != layout.META_KEY)
    for key, _ in damaged_sides(view):
        yield removal(key)


def _put_in_place(rebuild: Rebuild, folder: Path, told: Told) -> None:
    """Copy a rebuild of the whole log to where the projector looks for its store.

    The header comes last: a copy that was not finished says nowhere that it is whole.
    """
    rebuild.to_end()
    written = 0
    with closing(Holding(generation_path(folder), is_new=True)) as holding:
        for batch in _batches(row for row in rebuild.rows() if row[0] != layout.META_KEY):
            holding.write(batch)
            written += len(batch)
            told(f"putting a rebuild into {folder}: {written} rows")
        holding.write(dict(rebuild.rows(layout.META_KEY, layout.META_KEY + b"\0")))


def _batches(rows: Iterable[tuple[bytes, bytes | None]]) -> Iterator[Written]:
    left = iter(rows)
    while batch := dict(islice(left, BATCH_ROWS)):
        yield batch
