"""Stores beside each other, without the log: do they agree. Who is wrong is not said, for nothing here could know."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from topolog.events.errors import DamagedStore
from topolog.projections.layout import Meta
from topolog.projections.rocks import View
from topolog.projections.self_check.comparing import Comparison, StoreSide
from topolog.projections.self_check.opened import beside, store_path
from topolog.projections.self_check.standing import stored_meta
from topolog.projections.self_check.verdict import State, Verdict, told_of, unreadable, with_distances

_LOG_KNOWS = "Which of the two is wrong, the log knows: leave out --no-log."


class _Opened(msgspec.Struct, frozen=True):
    folder: Path
    view: View
    meta: Meta
    rows: int


def compare(folders: Sequence[Path]) -> list[Verdict]:
    """Compare each store with the furthest of them, as of its own position; the verdicts as the folders were given.

    Two at one position are compared in all that follows from `decisions`; of one that is behind, what both have of the
    past: history, decisions and subjects. Raises BadInput if a folder holds no store.
    """
    verdicts: dict[Path, Verdict] = {}
    with ExitStack() as stack:
        opened: list[_Opened] = []
        for folder in folders:
            try:
                opened.append(_opened(stack, folder))
            except DamagedStore as error:
                verdicts[folder] = unreadable(folder, error)
        furthest = max(opened, key=lambda each: each.meta.position, default=None)
        if furthest is not None:
            others = {each.folder: _compared(furthest, each) for each in opened if each is not furthest}
            verdicts |= {furthest.folder: _furthest(furthest, others.values()), **others}
    return with_distances(verdicts[folder] for folder in folders)


def _opened(stack: ExitStack, folder: Path) -> _Opened:
    """With all its rows read once, so that a comparison meets no block that cannot be."""
    view = stack.enter_context(beside(store_path(folder)))
    meta = stored_meta(view)
    if meta is None:
        raise DamagedStore("It does not say where it stands.")
    return _Opened(folder, view, meta, StoreSide(view).buckets().rows)


def _furthest(store: _Opened, others: Iterable[Verdict]) -> Verdict:
    agree = all(each.state is State.EQUAL for each in others)
    return Verdict(
        str(store.folder),
        State.EQUAL if agree else State.DIFFERENT,
        store.meta.position,
        rows=store.rows,
        why="" if agree else "The others are compared with this one.",
    )


def _compared(furthest: _Opened, store: _Opened) -> Verdict:
    position = store.meta.position
    if store.meta.header.log_id != furthest.meta.header.log_id:
        why = f"It is of another log than {furthest.folder}."
        return Verdict(str(store.folder), State.OTHER_LOG, position, rows=store.rows, why=why)
    up_to = None if position == furthest.meta.position else position
    sides = StoreSide(furthest.view, up_to), StoreSide(store.view, up_to)
    verdict = told_of(store.folder, position, Comparison(*sides))
    if verdict.state is State.EQUAL:
        return verdict
    return msgspec.structs.replace(verdict, why=f"Compared with {furthest.folder}.", hint=_LOG_KNOWS)
