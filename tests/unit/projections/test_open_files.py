"""A process that may open no more files has a good store all the same."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rocksdict import Rdict
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import project

from topolog.projections import opening
from topolog.projections.generations import generation_path
from topolog.projections.rocks import TooManyOpenFiles


@contextmanager
def one_more_file() -> Iterator[None]:
    """Within, this process lists a folder, but has no room for the files of a store."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(int(each.name) for each in Path("/proc/self/fd").iterdir()) + 2
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < most:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    os.close(taken.pop(0))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in taken:
            os.close(each)


def test_a_store_is_not_taken_for_damaged_where_no_file_can_be_opened(chronicle: Chronicle, tmp_path: Path) -> None:
    """It was set aside and built anew, from a log of hours, for a limit of the process."""
    project(chronicle, tmp_path)
    before = sorted(tmp_path.iterdir())
    with one_more_file(), pytest.raises(TooManyOpenFiles, match="Too many open files"):
        opening.opened(tmp_path, chronicle.cluster, holds=False)
    assert sorted(tmp_path.iterdir()) == before
    shown, damage = opening.opened(tmp_path, chronicle.cluster, holds=False)
    shown.store.close()
    assert (shown.store.path, damage) == (generation_path(tmp_path), None)


def test_a_store_that_could_open_no_more_files_is_closed_in_order(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB says at its end once more why an earlier write failed: that is known already."""
    project(chronicle, tmp_path)
    shown, _ = opening.opened(tmp_path, chronicle.cluster, holds=False)
    close = shown.store._db.close

    def failing(db: Rdict) -> None:
        close()
        raise Exception("IO error: While open a file for appending: /a/1.sst: Too many open files")

    monkeypatch.setattr(type(shown.store._db), "close", failing)
    shown.store.close()
