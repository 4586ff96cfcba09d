"""What a session of Spark may use: the machine that it has, or what its settings and its command say."""

import contextlib
import os
from pathlib import Path
from typing import NoReturn

import pytest

from topolog.commands import spark_archive, validator
from topolog.commands.tree import root
from topolog.projections.cli import app as cli
from topolog.projections.spark import session
from topolog.projections.spark.session import SessionSettings
from topolog.settings.model import Settings, load


class _Started(BaseException):
    """A session was asked for, with these settings."""

    def __init__(self, settings: SessionSettings) -> None:
        super().__init__(settings)
        self.settings = settings


def options(folder: Path, settings: SessionSettings) -> dict[str, str]:
    return session._options(settings, folder)


def test_a_session_takes_all_cores_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them were a constant. With them grow memory, of which a task holds a row group, and what is shuffled."""
    monkeypatch.setattr(session, "machine_cores", lambda: 16)
    monkeypatch.setattr(session, "machine_mib", lambda: 64 * 1024)
    found = options(tmp_path, SessionSettings())
    assert (found["spark.master"], found["spark.driver.memory"]) == ("local[*]", "8192m")
    assert found["spark.sql.shuffle.partitions"] == "32"
    fewer = options(tmp_path, SessionSettings(cores=3, memory="3g"))
    assert (fewer["spark.master"], fewer["spark.driver.memory"]) == ("local[3]", "3g")
    assert fewer["spark.sql.shuffle.partitions"] == "8"


@pytest.mark.parametrize(
    ("cores", "machine_mib", "expected"),
    [(1, 64 * 1024, 2048), (4, 64 * 1024, 2048), (16, 64 * 1024, 8192), (64, 16 * 1024, 8192), (64, 1024, 2048)],
)
def test_memory_grows_with_cores_up_to_half_of_the_machine(cores: int, machine_mib: int, expected: int) -> None:
    assert session.fitting_mib(cores, machine_mib) == expected


def test_the_memory_of_a_container_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is not one (`max`) and a file that is not there say nothing."""
    unlimited, limit = tmp_path / "max", tmp_path / "limit"
    unlimited.write_text("max\n")
    monkeypatch.setattr(session, "_CONTAINER_LIMITS", (unlimited, tmp_path / "none"))
    whole = session.machine_mib()
    limit.write_text(f"{7 << 20}\n")
    monkeypatch.setattr(session, "_CONTAINER_LIMITS", (limit,))
    assert session.machine_mib() == 7 < whole


def test_a_master_gets_what_it_is_asked_for(tmp_path: Path) -> None:
    """Its executors find the session at its address, and read damaged bytes as safely as this machine does."""
    master = "spark://10.0.0.1:7077"
    found = options(tmp_path, SessionSettings(master=master, cores=6, executor_memory="3g", driver_host="10.0.0.7"))
    assert found["spark.master"] == master
    assert (found["spark.cores.max"], found["spark.executor.memory"]) == ("6", "3g")
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "10.0.0.7"
    assert "avro.limits.bytes.maxLength" in found["spark.executor.extraJavaOptions"]
    assert "spark.cores.max" not in options(tmp_path, SessionSettings(master=master)), "all that it gives"


@pytest.fixture
def roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The command of each role that has a session, up to where it starts one."""

    def started(folder: Path, settings: SessionSettings) -> NoReturn:
        raise _Started(settings)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "spark_session", started)
    monkeypatch.setattr(session, "check_installed", lambda _: None)
    monkeypatch.setattr("topolog.streams.local.jars.fetch_jars", lambda *_: [])
    monkeypatch.setattr("topolog.streams.validator.program.wait_for_topics", lambda *_: None)
    monkeypatch.setattr(spark_archive, "begun", lambda *_, **__: contextlib.nullcontext((None, None)))
    monkeypatch.setattr(spark_archive, "_told_of_missing", lambda _: 0)
    monkeypatch.setattr("topolog.projections.archive.landings.Archive", lambda _: None)
    monkeypatch.setattr("topolog.projections.archive.rebuilding.archives", lambda _: ({}, []))
    return {
        "validator": ["run", "validator", "--replica", f"orders@r1=parquet:{tmp_path}#id"],
        "archive": ["spark", "archive", "--to", str(tmp_path / "archive")],
        "report": ["spark", "report", "--from", str(tmp_path / "archive")],
        "rebuild": ["spark", "rebuild", "--from", str(tmp_path), "--all", "--archive-only"],
    }


@pytest.mark.parametrize("role", ["validator", "archive", "report", "rebuild"])
def test_the_session_of_each_role_is_as_settings_and_options_say(
    roles: dict[str, list[str]], role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option goes before the setting of its name."""
    monkeypatch.setenv("TOPOLOG_SPARK__CORES", "5")
    monkeypatch.setenv("TOPOLOG_SPARK__MEMORY", "5g")
    monkeypatch.setenv("TOPOLOG_SPARK__EXECUTOR_MEMORY", "3g")
    with pytest.raises(_Started) as asked:
        cli.run(root, [*roles[role], "--master", "spark://127.0.0.1:7077", "--memory", "700m"])
    found = asked.value.settings
    assert (found.master, found.cores, found.memory) == ("spark://127.0.0.1:7077", 5, "700m")
    assert found.executor_memory == "3g"


def test_one_cluster_is_rebuilt_without_spark(roles: dict[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """So what is said of a session is not passed over in silence."""
    alone = [each for each in roles["rebuild"] if each != "--all"]
    assert cli.run(root, [*alone, "--cores", "4"]) == 2
    assert "One cluster is rebuilt without Spark." in capsys.readouterr().err


def test_the_copies_of_a_validator_lie_where_the_settings_say(tmp_path: Path) -> None:
    """On a cluster that is a folder that executors see, too."""
    from topolog.streams.validator.program import parse_replica

    settings: Settings = load({"spark.data": str(tmp_path)}, environ={}, config=Path(os.devnull)).settings
    assert validator._folder(settings, [parse_replica("a/b@r1=parquet:/x")]) == tmp_path / "a_b@r1"
