"""Making reports: tables, page and terminal; and what bad input gets (RD32)."""

import json
import re
import shutil
from collections.abc import Callable
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.frames import came, lander_of
from tests.spark.reports.history import History, day
from tests.unit.projections.chronicle import Chronicle

from topolog.events.errors import BadInput
from topolog.events.log import Entry
from topolog.events.topics import Topic
from topolog.projections.archive.holes import ArchiveIncomplete
from topolog.projections.archive.landings import Archive, DamagedArchive, opened
from topolog.projections.spark.jobs import run
from topolog.projections.spark.reports import making
from topolog.projections.spark.reports.keeping import keep
from topolog.projections.spark.reports.landed import Days, Landed, landed_in
from topolog.projections.spark.reports.making import NOTHING, REPORTS, Whole
from topolog.projections.spark.reports.page import page

LandIt = Callable[[list[Entry]], Archive]


@pytest.fixture
def land_it(spark: SparkSession, tmp_path: Path) -> LandIt:
    def land(entries: list[Entry]) -> Archive:
        with opened(tmp_path / "archive", "main") as archive:
            lander_of(spark, archive).land(came(spark, "main", entries), "test")
        return Archive(tmp_path / "archive")

    return land


@pytest.fixture(scope="session")
def whole(spark: SparkSession, archive: Archive, tmp_path_factory: pytest.TempPathFactory) -> tuple[Whole, Path]:
    folder = tmp_path_factory.mktemp("made") / "reports"
    return keep(folder, lambda tables: making.make(landed_in(spark, archive), tables)), folder


def test_each_report_is_two_tables_and_a_sentence(spark: SparkSession, whole: tuple[Whole, Path]) -> None:
    made, folder = whole
    assert [each.name for each in made.made] == [report.name for report in REPORTS]
    for each in made.made:
        summary = spark.read.parquet(str(folder / each.name / "summary"))
        assert (tuple(summary.columns), summary.count()) == (each.columns, len(each.rows))
        assert spark.read.parquet(str(folder / each.name / "facts")).count() > 0
        assert each.sentence.endswith(".")
        assert each.pictures


def test_it_says_of_which_records_it_is_made(whole: tuple[Whole, Path], history: History) -> None:
    """Of a log with a deposed coordinator's sends: what counts, what was left out, the chain up to the end."""
    found = making.document(whole[0])
    log = history.chronicle
    assert found["verified"] == {"position": log.position, "chain": log.fold.header.chain.hex()}
    assert found["decisions"] == log.position + 1
    assert found["left_out"]["OLD_TERM"] > 10
    assert found["warnings"] == []
    assert json.loads(json.dumps(found)) == found, "nothing but what JSON has"


class Reader(HTMLParser):
    """Where a page would fetch something from, and what it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.labels: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and value and not value.startswith("#"):
                self.fetched.append(value)
            if name == "aria-label" and value:
                self.labels.append(value)


def test_the_page_is_whole_by_itself(whole: tuple[Whole, Path]) -> None:
    """No network, no script: pictures are part of it, each with a title that a screen reader says."""
    made, _ = whole
    text = page(made)
    reader = Reader()
    reader.feed(text)
    assert reader.fetched == []
    assert "script" not in reader.tags
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    pictures = [picture for each in made.made for picture in each.pictures]
    assert reader.tags.count("svg") == len(pictures) >= len(REPORTS)
    assert reader.labels == [picture.title for picture in pictures]
    for each in made.made:
        assert each.sentence.replace("'", "&#x27;") in text
        assert f'id="{each.name}"' in text


def test_what_strangers_wrote_is_shown_and_not_obeyed(spark: SparkSession, land_it: LandIt, tmp_path: Path) -> None:
    chronicle = Chronicle().start()
    chronicle.propose("A", {"id": "long"}, actor="<script>alert(1)</script>", reason="$x_1$ <b>")
    made = making.make(landed_in(spark, land_it(chronicle.entries)), tmp_path / "tables", making.chosen(["changes"]))
    text = page(made)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_report_without_facts_says_so_and_has_no_picture(
    spark: SparkSession, land_it: LandIt, tmp_path: Path
) -> None:
    """A cluster in which nothing has happened yet."""
    made = making.make(landed_in(spark, land_it(Chronicle().start().entries)), tmp_path / "tables")
    assert {each.sentence for each in made.made} == {NOTHING}
    assert [each.pictures for each in made.made] == [()] * len(REPORTS)
    assert "<svg" not in page(made)


def test_an_archive_without_decisions_is_refused(spark: SparkSession, land_it: LandIt, tmp_path: Path) -> None:
    value = Chronicle().start().entries[0].value
    archive = land_it([Entry(Topic.REQUESTS, 0, type(Chronicle().start().entries[0].offset)(0), "k", value, (), 5)])
    with pytest.raises(BadInput, match="has no decisions"):
        making.make(landed_in(spark, archive), tmp_path / "tables")


def test_a_missing_day_is_an_error_that_names_it(spark: SparkSession, land_it: LandIt, tmp_path: Path) -> None:
    chronicle = Chronicle().start()
    for name in ("n1", "n2", "n3"):
        chronicle.join(name)
    land_it(chronicle.entries[:3])
    with pytest.raises(ArchiveIncomplete, match="lacks offsets 3 to 4"):
        making.make(landed_in(spark, land_it(chronicle.entries[5:])), tmp_path / "tables")


def test_files_that_are_moved_while_a_report_is_made_are_read_where_they_are_then(
    spark: SparkSession, archive: Archive, whole: tuple[Whole, Path], tmp_path: Path
) -> None:
    """A stream lands, and a writer that starts behind a crash moves what stands, whenever they like."""
    copy = shutil.copytree(archive.folder, tmp_path / "archive")
    staged = copy / "staging" / "000000000000"
    staged.mkdir(parents=True)
    (copy / "tables").rename(staged / "tables")
    (changes,), tries = making.chosen(["changes"]), list[Landed]()

    def facts(landed: Landed) -> DataFrame:
        found = changes.facts(landed)
        if not tries:
            (staged / "tables").rename(copy / "tables")
        tries.append(landed)
        return found

    landed = landed_in(spark, Archive(copy))
    made = making.make(landed, tmp_path / "made", [msgspec.structs.replace(changes, facts=facts)])
    assert made.made[0].rows == next(each.rows for each in whole[0].made if each.name == "changes")
    assert len(tries) == 2


def test_files_that_are_gone_end_it(spark: SparkSession, archive: Archive, tmp_path: Path) -> None:
    copy = shutil.copytree(archive.folder, tmp_path / "archive")
    shutil.rmtree(copy / "tables" / "NodeJoined")
    with pytest.raises(DamagedArchive, match="NodeJoined"):
        run(spark, lambda: making.make(landed_in(spark, Archive(copy)), tmp_path / "made", making.chosen(["changes"])))


def test_poison_is_told_of(spark: SparkSession, land_it: LandIt, tmp_path: Path) -> None:
    """K8: a record that counts and is in no table; reports that need no fold tell of the others."""
    chronicle = Chronicle().start()
    chronicle.propose("A", {"id": "long"}, actor="ann")
    position, _ = chronicle.poison(b"\xc3\x01 not one of ours")
    made = making.make(landed_in(spark, land_it(chronicle.entries)), tmp_path / "tables", making.chosen(["changes"]))
    (warning,) = made.warnings
    assert warning.startswith(f"The decision at position {position} counts and is in no table (UNKNOWN_SCHEMA)")
    assert warning in page(made)


def test_days_behind_the_end_of_the_archive_are_told_of(spark: SparkSession, archive: Archive, folder: Path) -> None:
    days = Days(None, date.fromisoformat(day(9)))
    made = making.make(landed_in(spark, archive, days), folder, making.chosen(["changes"]))
    assert "The archive ends at" in made.warnings[0]


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="no report 'exchange'") as raised:
        making.chosen(["leases", "exchange"])
    assert "exchanges" in raised.value.hint
    assert [report.name for report in making.chosen(["leases", "leases"])] == ["leases"]
