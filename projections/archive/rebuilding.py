"""A projection store built anew from an archive, from the topic, or from both, and put where a projector finds it.

It is the projector's own fold (`self_check/rebuild.py`), so the store is byte for byte what the projector would have.
One log is folded in one process, record by record: what one decision means depends on all before it. Many logs are
folded side by side (`projections/spark/rebuild.py`).
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec

from topolog.events.errors import BadInput, LogDiverged, TopologError
from topolog.events.ids import NOWHERE
from topolog.events.log import LogReader
from topolog.projections.archive.landings import Archive
from topolog.projections.archive.log import ArchiveReader, ArchiveThenTopic
from topolog.projections.generations import is_pending, put, rebuilding, why_refused
from topolog.projections.self_check import checking
from topolog.projections.self_check.rebuild import Rebuild
from topolog.projections.self_check.verdict import Verdict

_LOOK_S = 0.05
_OBJECTS_BETWEEN_LOOKS = 200_000
OpenTopic = Callable[[str], LogReader]
"""A reader of the topics of the cluster of this name."""


class Standing(StrEnum):
    """PUT: it is the folder's store, for there was none. OFFERED: the folder's projector is to take it over. TAKEN,
    REFUSED: it did, or does not. COMPARED: nothing was put, as was asked. FAILED: there is none. `error` says why."""

    PUT = "PUT"
    OFFERED = "OFFERED"
    TAKEN = "TAKEN"
    REFUSED = "REFUSED"
    COMPARED = "COMPARED"
    FAILED = "FAILED"


class Outcome(msgspec.Struct, frozen=True):
    """What has become of one cluster. `decisions` were folded, `ignored` records did not count; chain and state hash
    (hex) are those at `position`. `verdict` is of the folder's own store, if it was to be compared."""

    cluster: str
    folder: str
    standing: Standing
    position: int = NOWHERE
    chain: str = ""
    state_hash: str = ""
    decisions: int = 0
    ignored: int = 0
    seconds: float = 0.0
    error: str = ""
    hint: str = ""
    verdict: Verdict | None = None


class Task(msgspec.Struct, frozen=True):
    """One cluster to rebuild into `folder`: from `archive`, and behind its end, or without one, from the topic."""

    cluster: str
    folder: Path
    archive: Path | None = None
    open_topic: OpenTopic | None = None
    check: bool = False
    """Compare the folder's own store first."""
    puts: bool = True


def rebuild_store(task: Task, now_s: Callable[[], float], told: Callable[[str], None]) -> Outcome:
    """Rebuild one cluster to the newest position that can be read.

    Raises BadInput for an archive of another cluster, a folder that is in use or nothing to fold, DamagedArchive and
    ArchiveIncomplete for an archive that is not whole, Poisoned, and LogDiverged if topic and archive are two logs.
    """
    began_s = now_s()
    with ExitStack() as stack:
        archive = ArchiveReader(_archive(task)) if task.archive else None
        topic = stack.enter_context(closing(task.open_topic(task.cluster))) if task.open_topic else None
        scratch = stack.enter_context(rebuilding(task.folder))
        with (
            _seldom_collected(),
            closing(Rebuild(_reader(archive, topic), task.cluster, scratch, now_s, told)) as rebuild,
            _explained(archive),
        ):
            verdict = checking.check_reached(rebuild, task.folder) if task.check else None
            _to_end(rebuild, archive)
            meta = rebuild.meta
        standing = (Standing.PUT if put(task.folder) else Standing.OFFERED) if task.puts else Standing.COMPARED
    return Outcome(
        cluster=task.cluster,
        folder=str(task.folder),
        standing=standing,
        position=meta.position,
        chain=meta.header.chain.hex(),
        state_hash=meta.state_hash.hex(),
        decisions=meta.position + 1,
        ignored=sum(meta.ignored.values()),
        seconds=round(now_s() - began_s, 3),
        verdict=verdict,
    )


def awaited(offered: Outcome, until_s: float, now_s: Callable[[], float], sleep: Callable[[float], None]) -> Outcome:
    """What the folder's projector does with it; as it was if that takes longer than until `until_s` of `now_s`."""
    folder = Path(offered.folder)
    while offered.standing is Standing.OFFERED:
        if not is_pending(folder):
            why = why_refused(folder)
            standing = Standing.TAKEN if why is None else Standing.REFUSED
            return msgspec.structs.replace(offered, standing=standing, error=why or "")
        if now_s() >= until_s:
            break
        sleep(_LOOK_S)
    return offered


def archives(root: Path) -> tuple[dict[str, Path], list[Outcome]]:
    """Every archive in a folder or below it, by cluster; and what became of those that cannot be opened.

    Raises BadInput if there is none, or two of one cluster.
    """
    folders: dict[str, Path] = {}
    failed = []
    for path in _archive_folders(root):
        try:
            about = Archive(path).about
        except TopologError as error:
            failed.append(Outcome(path.name, "", Standing.FAILED, error=error.message, hint=error.hint))
            continue
        if (former := folders.setdefault(about.cluster, path)) != path:
            raise BadInput(
                f"{former} and {path} are both archives of cluster {about.cluster!r}.",
                hint="Rebuild one of them by itself: without --all.",
            )
    if not folders and not failed:
        raise BadInput(f"There is no archive in {root}, nor below it.", hint="`topolog spark archive` makes one.")
    return folders, failed


def _archive_folders(root: Path) -> Iterator[Path]:
    if Archive.is_at(root):
        yield root
        return
    for path in sorted(each for each in root.iterdir() if each.is_dir()) if root.is_dir() else ():
        yield from _archive_folders(path)


def _archive(task: Task) -> Archive:
    assert task.archive is not None
    archive = Archive(task.archive)
    if archive.about.cluster != task.cluster:
        raise BadInput(
            f"The archive in {task.archive} is that of cluster {archive.about.cluster!r}, not of {task.cluster!r}.",
            hint="Name the cluster: --set cluster.name=…",
        )
    return archive


def _reader(archive: ArchiveReader | None, topic: LogReader | None) -> LogReader:
    if archive is None:
        if topic is None:
            raise BadInput("There is nothing to rebuild from.", hint="Name an archive, or have the topic read.")
        return topic
    return archive if topic is None else ArchiveThenTopic(archive, topic)


def _to_end(rebuild: Rebuild, archive: ArchiveReader | None) -> None:
    poisoned = rebuild.to_end()
    if poisoned is not None:
        raise poisoned
    incomplete = archive.incomplete() if archive else None
    if incomplete is not None:
        raise incomplete
    if rebuild.position == NOWHERE:
        raise BadInput(f"There is no decision of cluster {rebuild.cluster!r} to fold.")


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """A fold makes millions of objects and next to no cycles: to look for them all the time takes an eighth of it."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _explained(archive: ArchiveReader | None) -> Iterator[None]:
    """Where offsets are missing it is not the log that has parted from its history."""
    try:
        yield
    except LogDiverged as error:
        incomplete = archive.incomplete() if archive else None
        raise incomplete or error from error
