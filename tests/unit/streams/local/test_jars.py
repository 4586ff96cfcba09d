"""The jars of the pinned list: what is fetched, what is kept, and what is never believed."""

import errno
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from topolog.events.errors import LocalBrokerError, MissingExtra
from topolog.streams.local.jars import Download, Jar, fetch_jars, missing_jars, pinned_jars

CONTENT = {name: f"content of {name}".encode() for name in ("a", "b", "c")}
JARS = tuple(Jar("org.example", name, "1", hashlib.sha256(text).hexdigest()) for name, text in CONTENT.items())


def maven(broken: Callable[[Jar], bytes | Exception | None] = lambda _: None) -> tuple[list[str], Download]:
    """A Maven that notes what it is asked for; `broken` says what it gives in place of the right content."""
    asked: list[str] = []

    def download(jar: Jar, scratch: Path) -> Path:
        asked.append(jar.artifact)
        instead = broken(jar)
        if isinstance(instead, Exception):
            raise instead
        path = scratch / jar.file_name
        path.write_bytes(instead or CONTENT[jar.artifact])
        return path

    return asked, download


def test_the_pinned_list_is_complete_and_in_the_order_of_the_class_path() -> None:
    """Class data archives need one fixed order; a file name must stand for one jar."""
    names = [jar.file_name for jar in pinned_jars()]
    assert len(names) == len(set(names)) == 46
    assert names == sorted(names)
    assert "kafka-server-4.3.1.jar" in names


def test_a_first_fetch_brings_every_jar_and_says_so(tmp_path: Path) -> None:
    """Progress counts to the number of jars; paths come back in the order of the list."""
    said: list[str] = []
    asked, download = maven()
    paths = fetch_jars(tmp_path / "cache", said.append, jars=JARS, download=download)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert sorted(asked) == ["a", "b", "c"]
    assert len(said) == 3
    assert "3 of 3" in said[-1]


def test_a_second_fetch_asks_for_nothing(tmp_path: Path) -> None:
    """What is there and intact is used as it is."""
    fetch_jars(tmp_path, print, jars=JARS, download=maven()[1])
    asked, download = maven()
    fetch_jars(tmp_path, print, jars=JARS, download=download)
    assert asked == []


def test_a_damaged_jar_is_fetched_again(tmp_path: Path) -> None:
    """A hash is checked at every use, so a file that was cut short later is found and mended."""
    paths = fetch_jars(tmp_path, print, jars=JARS, download=maven()[1])
    paths[1].write_bytes(b"cut sh")
    asked, download = maven()
    fetch_jars(tmp_path, print, jars=JARS, download=download)
    assert asked == ["b"]
    assert missing_jars(JARS, tmp_path) == []


def test_a_jar_with_another_hash_is_refused_and_not_kept(tmp_path: Path) -> None:
    """A changed file never reaches the class path; the good ones stay."""
    _, download = maven(lambda jar: b"something else" if jar.artifact == "b" else None)
    with pytest.raises(LocalBrokerError, match=r"b-1\.jar was fetched, but its SHA-256"):
        fetch_jars(tmp_path, print, jars=JARS, download=download)
    assert not (tmp_path / "b-1.jar").exists()


@pytest.mark.parametrize("error", [OSError("no route"), RuntimeError("not found in remote repositories")])
def test_a_fetch_without_a_network_is_one_sentence(tmp_path: Path, error: Exception) -> None:
    """The libraries' errors are translated, and nothing half-made is left behind."""
    with pytest.raises(LocalBrokerError, match="cannot be fetched from Maven Central"):
        fetch_jars(tmp_path, print, jars=JARS, download=maven(lambda _: error)[1])
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_full_disk_is_not_taken_for_a_missing_network(tmp_path: Path) -> None:
    """The broker's start turns this one into its own sentence."""
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left"):
        fetch_jars(tmp_path, print, jars=JARS, download=maven(lambda _: full)[1])


def test_what_a_killed_fetch_left_behind_is_removed(tmp_path: Path) -> None:
    """Scratch folders do not pile up in the cache."""
    (tmp_path / ".fetch-killed").mkdir()
    (tmp_path / ".fetch-killed" / "a-1.jar").write_bytes(b"half")
    fetch_jars(tmp_path, print, jars=JARS, download=maven()[1])
    assert not (tmp_path / ".fetch-killed").exists()


def test_without_jgo_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base install says what to install, not what failed to import."""
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    with pytest.raises(MissingExtra, match=r"pip install 'topolog\[local\]'"):
        fetch_jars(tmp_path, print, jars=JARS)
