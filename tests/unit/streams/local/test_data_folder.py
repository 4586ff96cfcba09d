"""A data folder belongs to one broker, and a folder of anything else is left alone."""

from pathlib import Path

import pytest

from topolog.events.errors import LocalBrokerError
from topolog.streams.local.data_folder import check_room, claim, is_formatted, new_uuid


def format_as(folder: Path, cluster_id: str) -> None:
    (folder / "kafka").mkdir()
    (folder / "kafka" / "meta.properties").write_text(f"#\nversion=1\ncluster.id={cluster_id}\nnode.id=1\n")


def test_an_empty_folder_is_claimed_once(tmp_path: Path) -> None:
    """The same owner is found again, formatted or not: a start that was cut short is simply done again."""
    owner = claim(tmp_path)
    assert claim(tmp_path) == owner
    assert not is_formatted(tmp_path)
    format_as(tmp_path, owner.kafka_cluster_id)
    assert claim(tmp_path) == owner
    assert is_formatted(tmp_path)


def test_a_claim_that_was_cut_short_can_be_made_again(tmp_path: Path) -> None:
    """Only the file before its rename is there: nobody owns the folder yet."""
    (tmp_path / "topolog-broker.json.new").write_text("{")
    assert claim(tmp_path) == claim(tmp_path)


def test_a_folder_of_something_else_is_refused_untouched(tmp_path: Path) -> None:
    """A home folder given by mistake must not fill with Kafka's files."""
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(LocalBrokerError, match="not empty and not a data folder of topolog"):
        claim(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_of_another_kafka_cluster_is_refused(tmp_path: Path) -> None:
    """Data of two clusters under one id would be read as one log."""
    claim(tmp_path)
    format_as(tmp_path, "bm90IHRoaXMgY2x1c3Rlcg")
    with pytest.raises(LocalBrokerError, match="belongs to another Kafka cluster"):
        claim(tmp_path)


def test_topics_without_kafkas_description_of_them_are_refused(tmp_path: Path) -> None:
    """To format there would start an empty log over a lost one."""
    claim(tmp_path)
    segment = tmp_path / "kafka" / "topolog.main.decisions-0" / "00000000000000000000.log"
    segment.parent.mkdir(parents=True)
    segment.touch()
    with pytest.raises(LocalBrokerError, match=r"no meta\.properties"):
        claim(tmp_path)


def test_a_damaged_owner_file_is_named(tmp_path: Path) -> None:
    """The sentence names the file, not a decoder."""
    (tmp_path / "topolog-broker.json").write_text("{")
    with pytest.raises(LocalBrokerError, match=r"topolog-broker\.json is damaged"):
        claim(tmp_path)


def test_a_comma_in_the_path_is_refused(tmp_path: Path) -> None:
    """Kafka would take it for two folders."""
    with pytest.raises(LocalBrokerError, match="comma"):
        claim(tmp_path / "a,b")


def test_a_full_disk_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """Kafka itself would start, and end at the first segment."""
    check_room(100 << 20, tmp_path)
    with pytest.raises(LocalBrokerError, match="is full: 3 MB free, 100 MB needed"):
        check_room(3 << 20, tmp_path)


def test_a_cluster_id_is_never_read_as_an_option() -> None:
    """22 characters as Kafka wants them, and no leading dash."""
    ids = [new_uuid() for _ in range(500)]
    assert all(len(text) == 22 and not text.startswith("-") for text in ids)
