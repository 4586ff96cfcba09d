"""What an archive has when the power goes: what has landed has landed, at any step (`landings.py`, `durable.py`)."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from tests.unit.projections.archive.test_landings import EFFECTS, land, texts
from tests.unit.projections.dying import Died, die_at
from tests.unit.projections.forgetful import ForgetfulDisk

from topolog.projections.archive import durable
from topolog.projections.archive.landings import Archive, opened

FORGETS = pytest.mark.parametrize("forgets_removals", [True, False], ids=["removed is back", "removed is gone"])


@contextmanager
def forgetful(folder: Path) -> Iterator[ForgetfulDisk]:
    folder.mkdir(parents=True)
    disk = ForgetfulDisk(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", disk.fsync)
        yield disk
    disk.close()


@FORGETS
def test_a_file_that_is_written_is_there_with_all_of_its_content(tmp_path: Path, *, forgets_removals: bool) -> None:
    """Also in place of another of its name."""
    with forgetful(tmp_path / "disk") as disk:
        for content in (b"first", b"second"):
            durable.write(tmp_path / "disk" / "file", content)
            assert list(disk.survivors(forgets_removals=forgets_removals)) == [(Path("file"), content)]


@FORGETS
def test_killed_while_a_file_is_written_the_former_one_is_there(tmp_path: Path, *, forgets_removals: bool) -> None:
    """Or the new one: a name stands for all of its content."""
    found = set()
    for step in range(4):
        with forgetful(tmp_path / str(step)) as disk:
            durable.write(tmp_path / str(step) / "file", b"first")
            with pytest.MonkeyPatch.context() as patch, suppress(Died):
                die_at(patch, step, (os, "fsync"), (Path, "replace"))
                durable.write(tmp_path / str(step) / "file", b"second")
            found.add(dict(disk.survivors(forgets_removals=forgets_removals))[Path("file")])
    assert found == {b"first", b"second"}


@FORGETS
def test_what_has_landed_is_there_when_the_power_is_back(tmp_path: Path, *, forgets_removals: bool) -> None:
    """Whoever was told that it has landed does not land it again: the folder that is made for it, too."""
    with forgetful(tmp_path / "disk") as disk:
        with opened(tmp_path / "disk" / "archives" / "shop", "shop") as archive:
            land(archive, 0, 10)
            land(archive, 10, 15)
        disk.restore(tmp_path / "back", forgets_removals=forgets_removals)
    found = Archive(tmp_path / "back" / "archives" / "shop")
    assert (texts(found), found.missing()) == (["0-10", "10-15"], [])


@FORGETS
def test_at_any_step_of_a_landing_the_power_may_go(tmp_path: Path, *, forgets_removals: bool) -> None:
    """It stands whole or not at all, what has landed before stands, and the next process goes on with that."""
    for step in count():
        folder, has_died = tmp_path / str(step), True
        with forgetful(folder / "disk") as disk:
            with opened(folder / "disk" / "archive", "shop") as archive:
                land(archive, 0, 10)
            with (
                pytest.MonkeyPatch.context() as patch,
                suppress(Died),
                opened(folder / "disk" / "archive", "shop") as archive,
            ):
                die_at(patch, step, *EFFECTS)
                land(archive, 10, 15)
                has_died = False
            disk.restore(folder / "back", forgets_removals=forgets_removals)
        with opened(folder / "back" / "archive", "shop") as archive:
            assert texts(archive) == ["0-10", "10-15"][: len(archive.landings)], step
            if len(archive.landings) == 1:
                land(archive, 10, 15)
            assert texts(archive) == ["0-10", "10-15"]
        shutil.rmtree(folder)
        if not has_died:
            break
