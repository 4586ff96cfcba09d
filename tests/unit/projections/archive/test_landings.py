"""The log of an archive: a landing stands at once or not at all, whoever dies (RD26)."""

import os
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from tests.unit.projections.dying import Died, die_at

from topolog.events.errors import BadInput
from topolog.projections.archive import landings
from topolog.projections.archive.landings import Archive, ArchiveWriter, DamagedArchive, LandedElsewhere, opened
from topolog.projections.archive.spans import Span

TABLE = "tables/NodeJoined/date=2026-11-22"


EFFECTS = ((os, "link"), (os, "fsync"), (shutil, "rmtree"), (Path, "replace"), (Path, "mkdir"))


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


def test_killed_at_any_step_a_landing_stands_whole_or_not_at_all(tmp_path: Path) -> None:
    """The next process finishes what stands, removes what does not, and lands the rest; so does one that is killed at
    any step of that."""
    seen = set()
    for step in count():
        folder = tmp_path / str(step)
        with opened(folder, "shop") as archive:
            land(archive, 0, 10)
        has_died = True
        with pytest.MonkeyPatch.context() as patch, suppress(Died), opened(folder, "shop") as archive:
            die_at(patch, step, *EFFECTS)
            land(archive, 10, 15)
            has_died = False
        stood = Archive(folder)
        assert texts(stood) == ["0-10", "10-15"][: len(stood.landings)], step
        seen.add((len(stood.landings), any((folder / "staging").rglob("*.parquet"))))
        with pytest.MonkeyPatch.context() as patch, suppress(Died):
            die_at(patch, step % 7)
            with opened(folder, "shop"):
                pass
        with opened(folder, "shop") as archive:
            assert archive.spans() == stood.spans()
            assert sorted(folder.rglob("*.parquet")) == sorted(archive.files("tables"))
            assert archive.missing() == []
            if len(archive.landings) == 1:
                land(archive, 10, 15)
            assert texts(archive) == ["0-10", "10-15"]
        if not has_died:
            break
    assert seen == {(1, False), (1, True), (2, True), (2, False)}, "each of the states that a kill can leave"


def test_what_was_deleted_before_it_landed_is_noted_and_not_read_again(folder: Path) -> None:
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
        archive.give_up([Span("decisions", 0, 10, 20)], 5)
        stage(archive, "part-20.parquet")
        read = [Span("decisions", 0, 20, 26)]
        archive.land("stream 1", [Span("decisions", 0, 21, 25)], {"tables/NodeJoined": 4}, 5, read)
    found = Archive(folder)
    assert found.lost() == (Span("decisions", 0, 10, 20),)
    assert found.spans() == (Span("decisions", 0, 0, 10), Span("decisions", 0, 21, 25))
    assert found.covered() == (Span("decisions", 0, 0, 26),)
    assert found.rows() == {"tables/NodeJoined": 14}


def test_a_file_that_is_gone_is_named(folder: Path) -> None:
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
        land(archive, 10, 15)
        gone = archive.files("tables")[1]
        gone.unlink()
        assert [path.name for path in archive.missing()] == [gone.name]


def test_a_file_that_is_moved_meanwhile_is_not_missing(folder: Path) -> None:
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
        (staged := folder / "staging" / "000000000000").mkdir(parents=True)
        (folder / "tables").rename(staged / "tables")
        (path,) = archive.files("tables")
        assert (path.is_relative_to(staged), archive.missing()) == (True, [])
        (staged / "tables").rename(folder / "tables")
        assert [archive.final(path)] == archive.files("tables")
        assert archive.final(archive.final(path)) == archive.final(path)


def test_what_lands_while_an_archive_is_opened_is_no_loss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two landings come between two looks of a reader."""
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
        refresh = Archive.refresh

        def then_land(reader: Archive) -> None:
            refresh(reader)
            monkeypatch.undo()
            land(archive, 10, 15)
            land(archive, 15, 20)

        monkeypatch.setattr(Archive, "refresh", then_land)
        assert len(Archive(folder).landings) == 1
        assert len(Archive(folder).landings) == 3


def test_a_description_that_is_gone_hides_nothing_behind_it(folder: Path) -> None:
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
        land(archive, 10, 15)
    (folder / "landings" / "000000000000.json").unlink()
    with pytest.raises(DamagedArchive, match=r"000000000000\.json is missing, and there is 000000000001\.json"):
        Archive(folder)


def test_what_a_lost_description_had_does_not_land_twice(folder: Path) -> None:
    """Of the newest one: no number is missing, but its files are there."""
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
        land(archive, 10, 15)
    (folder / "landings" / "000000000001.json").unlink()
    with pytest.raises(DamagedArchive, match=r"No landing of .* names"), opened(folder, "shop"):
        pytest.fail("it was opened for writing")


def test_a_folder_that_holds_something_else_is_left_alone(folder: Path) -> None:
    """`staging` is what an archive would clear away."""
    mine = folder / "staging" / "mine"
    mine.mkdir(parents=True)
    with pytest.raises(BadInput, match="holds no archive, but staging"), opened(folder, "shop"):
        raise AssertionError("it is no archive")
    assert mine.exists()
    (folder / "file").write_text("")
    with pytest.raises(BadInput, match="is no folder"), opened(folder / "file", "shop"):
        raise AssertionError("it is a file")


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
        archive.identify(b"")
    with opened(folder, "shop") as archive, pytest.raises(BadInput, match="made anew"):
        archive.identify(b"b" * 16)


def test_a_topic_that_was_made_anew_is_refused(folder: Path) -> None:
    """Kafka gives it another id, though the log that was copied back into it is the same."""
    with opened(folder, "shop") as archive:
        archive.identify(b"a" * 16, {"decisions": "1"})
        archive.identify(b"a" * 16, {"decisions": "1", "requests": "2"})
    with opened(folder, "shop") as archive, pytest.raises(BadInput, match="requests was made anew"):
        archive.identify(b"a" * 16, {"decisions": "1", "requests": "3"})


def test_a_folder_without_an_archive_is_said_to_be_none(folder: Path) -> None:
    with pytest.raises(BadInput, match="is no archive"):
        Archive(folder)


def test_a_description_that_is_damaged_is_named(folder: Path) -> None:
    with opened(folder, "shop") as archive:
        land(archive, 0, 10)
    next((folder / "landings").iterdir()).write_text("{")
    with pytest.raises(DamagedArchive, match=r"000000000000\.json"):
        Archive(folder)


def test_an_archive_of_another_format_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(folder, "shop"):
        pass
    monkeypatch.setattr(landings, "FORMAT", 2)
    with pytest.raises(BadInput, match="format 1"):
        Archive(folder)


def test_a_landing_whose_files_another_writer_has_removed_does_not_stand(tmp_path: Path) -> None:
    """Only where locks do not work: it would say that it has records, and have none."""
    with opened(tmp_path, "shop") as archive:
        path = archive.staged() / "records" / "a.parquet"
        path.parent.mkdir()
        path.touch()
        ArchiveWriter(tmp_path).staged()
        with pytest.raises(LandedElsewhere, match="removed"):
            archive.land("stream", [Span("decisions", 0, 0, 10)], {"records": 10}, 5)
    assert Archive(tmp_path).landings == []
