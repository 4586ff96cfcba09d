"""A folder of reports: tables, a page and a description, made anew as a whole.

Threats. Spark fails or the job is killed half-way, and the reports that were there are gone; the folder is somebody's
own; tables, page and description are of different moments.

Invariant. Until all of the new reports is made, the folder holds the former ones as they were.

Argument. All is written into a folder within, so who may write there needs no other right, and it is on the same disk;
then its parts take the place of the former ones, one rename each, the description first, by which the folder is known.
Who is killed between two of these leaves parts of both, and the next making replaces all of them.

    <report>/facts, summary    tables (Parquet)
    index.html                 the page
    reports.json               the description; it says that the folder is one of reports
    reports.new/               what is being made
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from topolog.events.errors import BadInput
from topolog.projections.spark.reports.making import REPORTS, Whole, as_json
from topolog.projections.spark.reports.page import page

PAGE, DESCRIPTION, _NEW = "index.html", "reports.json", "reports.new"


def check_folder(folder: Path) -> None:
    """Raise BadInput unless reports can be kept there: it is new, empty, or of reports, and can be written."""
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        held = {path.name for path in folder.iterdir()}
        if DESCRIPTION not in held and (others := sorted(held - {_NEW})):
            raise BadInput(
                f"{folder} has files that are no reports, such as {others[0]}.",
                hint="Name an empty folder, or a new one.",
            )
        with _locked(folder):
            _emptied(folder / _NEW).rmdir()


def keep(folder: Path, make: Callable[[Path], Whole]) -> Whole:
    """What `make` makes, kept in place of what was there: it is given the folder for its tables. Raises what it does,
    and as `check_folder`."""
    check_folder(folder)
    with _locked(folder):
        new = _emptied(folder / _NEW)
        try:
            whole = make(new)
            with _told(folder):
                (new / PAGE).write_text(page(whole), encoding="utf-8")
                (new / DESCRIPTION).write_text(as_json(whole), encoding="utf-8")
                _replace(folder, new)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return whole


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One at a time makes reports here; raises BadInput if another process does."""
    with _told(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BadInput(f"Another process makes reports in {folder}.", hint="Wait for it, or name another.") from None
    finally:
        os.close(descriptor)


def _replace(folder: Path, new: Path) -> None:
    for name in (DESCRIPTION, PAGE):
        (new / name).replace(folder / name)
    for name in (report.name for report in REPORTS):
        shutil.rmtree(folder / name, ignore_errors=True)
        if (new / name).exists():
            (new / name).replace(folder / name)


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"{folder} cannot be written: {error.strerror}.", hint="Name another folder with --to."
        ) from error
