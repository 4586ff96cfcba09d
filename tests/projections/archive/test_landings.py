"""The log of an archive: a landing stands at once or not at all, whoever dies (issue 9.1)."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from topolog.events.errors import BadInput, DamagedStore
from topolog.projections.archive import landings
from topolog.projections.archive.landings import Archive, ArchiveWriter, LandedElsewhere, opened
from topolog.projections.archive.spans import Span

TABLE = "tables/NodeJoined/date=2026-11-22"


class Died(BaseException):
    """The process is killed here."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def stage(archive: ArchiveWriter, name: str, *, text: str = "rows") -> None:
    path = archive.staged() / TABLE / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (path.parent / "_SUCCESS").write_text("")


def land(archive: ArchiveWriter, start: int, end: int) -> None:
    stage(archive, f"part-{start}.parquet", text=f"{start}-{end}")
    archive.land("stream 1", [Span("decisions", 0, start, end)], {"tables/NodeJoined": end - start}, 5)


def texts(archive: Archive) -> list[str]:
    return sorted(path.read_text() for path in archive.files("tables"))


def test_what_has_landed_is_found_with_its_files_and_rows(folder: Path) -> None:
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
        land(archive, 10, 15)
    found = Archive(folder)
    assert found.spans() == (Span("decisions", 0, 0, 15),)
    assert found.rows() == {"tables/NodeJoined": 15}
    assert texts(found) == ["0-10", "10-15"]
    assert {str(path.relative_to(folder).parent) for path in found.files("tables/NodeJoined")} == {TABLE}
    assert found.files("tables/NodeJoin") == []


def deaths() -> Iterator[tuple[str, Callable[[pytest.MonkeyPatch, int], None]]]:
    def at(name: str) -> Callable[[pytest.MonkeyPatch, int], None]:
        def arm(patch: pytest.MonkeyPatch, after: int) -> None:
            left = [after]
            real = getattr(os, name) if name == "link" else getattr(Path, name)

            def mortal(*given: object, **named: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    raise Died
                return real(*given, **named)

            patch.setattr(os if name == "link" else Path, name, mortal)

        return arm

    yield from ((name, at(name)) for name in ("link", "replace", "mkdir"))


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize(("where", "arm"), list(deaths()), ids=lambda value: value if isinstance(value, str) else "")
def test_killed_anywhere_a_landing_stands_whole_or_not_at_all(
    where: str, arm: Callable[[pytest.MonkeyPatch, int], None], after: int, folder: Path
) -> None:
    """The next process finishes what stands, removes what does not, and lands the rest."""
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
    with pytest.MonkeyPatch.context() as patch, suppress(Died), opened(folder, "shop") as archive:
        arm(patch, after)
        land(archive, 10, 15)
    stood = Archive(folder)
    assert texts(stood) in (["0-10"], ["0-10", "10-15"]), where
    assert len(texts(stood)) == len(stood.landings)
    with opened(folder, "shop") as archive:
        assert archive.spans() == stood.spans()
        assert sorted(folder.rglob("*.parquet")) == sorted(archive.files("tables"))
        if len(archive.landings) == 1:
            land(archive, 10, 15)
        assert texts(archive) == ["0-10", "10-15"]


def test_of_two_jobs_one_has_made_a_landing(folder: Path) -> None:
    """Two processes are kept apart by a lock; where that does not reach, by the name of the landing."""
    with opened(folder, "shop") as archive:
        other = ArchiveWriter(folder)
        land(archive, 0, 10)
        stage(other, "part-other.parquet")
        with pytest.raises(LandedElsewhere):
            other.land("stream 1", [Span("decisions", 0, 0, 10)], {}, 5)
    assert texts(Archive(folder)) == ["0-10"]


def test_an_archive_has_one_writer(folder: Path) -> None:
    with opened(folder, "shop"), pytest.raises(BadInput, match="Another process lands"), opened(folder, "shop"):
        raise AssertionError("two at once")


def test_the_archive_of_another_cluster_is_refused(folder: Path) -> None:
    with opened(folder, "shop"):
        pass
    with pytest.raises(BadInput, match="cluster 'shop', not of 'bank'"), opened(folder, "bank"):
        raise AssertionError("another's archive")


def test_the_log_of_another_life_is_refused(folder: Path) -> None:
    """A topic that was made anew has another log id in its first record."""
    with opened(folder, "shop") as archive:
        archive.identify(b"a" * 16)
        archive.identify(b"a" * 16)
    with opened(folder, "shop") as archive, pytest.raises(BadInput, match="made anew"):
        archive.identify(b"b" * 16)


def test_a_folder_without_an_archive_is_said_to_be_none(folder: Path) -> None:
    with pytest.raises(BadInput, match="is no archive"):
        Archive(folder)


def test_a_description_that_is_damaged_is_named(folder: Path) -> None:
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
    next((folder / "landings").iterdir()).write_text("{")
    with pytest.raises(DamagedStore, match=r"000000000000\.json"):
        Archive(folder)


def test_an_archive_of_another_format_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(folder, "shop"):
        pass
    monkeypatch.setattr(landings, "FORMAT", 2)
    with pytest.raises(BadInput, match="format 1"):
        Archive(folder)
