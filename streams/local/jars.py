"""Jars of Kafka and of Spark's connectors: pinned lists, fetched once per user, verified at every use.

Each jar is asked for alone. Resolving the dependencies of several of them together once chose a kafka-clients of
another release, so the list is complete and nothing is resolved. A jar enters its folder by rename, after its hash
was checked: a crash in the middle leaves nothing behind that looks finished, and a file that was damaged later is
found by its hash and fetched again.

The only file that imports jgo.
"""

import errno
import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import msgspec
import platformdirs

from topolog.events.errors import LocalBrokerError, MissingExtra

KAFKA_VERSION, SPARK_VERSION = "4.3.1", "4.0.0"
THREADS = 8  # 45 MB in 46 files: round trips, not bandwidth, are what a fetch waits for
TIMEOUT_S = 30

Say = Callable[[str], None]
Download = Callable[["Jar", Path], Path]


class Jar(msgspec.Struct, frozen=True, rename={"group": "g", "artifact": "a", "version": "v"}):
    """One artifact of the pinned list; `sha256` in lower-case hex."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


class JarList(msgspec.Struct, frozen=True):
    """A pinned list: what it is called, and the name of its file and of its folder in a user's cache."""

    title: str
    name: str


KAFKA = JarList(f"Kafka {KAFKA_VERSION}", f"kafka-{KAFKA_VERSION}")
"""The closure of Kafka's server and its log4j binding."""

CONNECTORS = JarList(f"Spark's connectors {SPARK_VERSION}", f"spark-connectors-{SPARK_VERSION}")
"""What PySpark needs for Kafka and Avro, and does not bring."""


def pinned_jars(of: JarList = KAFKA) -> tuple[Jar, ...]:
    """The jars of a list, in the order that the class path has."""
    text = (files("topolog.streams.local") / f"{of.name}-jars.json").read_bytes()
    return tuple(sorted(msgspec.json.decode(text, type=list[Jar]), key=lambda jar: jar.file_name))


def default_cache(of: JarList = KAFKA) -> Path:
    """One folder per user and release, so that every clone and environment shares it."""
    return platformdirs.user_cache_path("topolog") / of.name


def is_intact(path: Path, sha256: str) -> bool:
    """False for a file that is missing as well as for one with other content."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except FileNotFoundError:
        return False


def missing_jars(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    """The jars of the list that are not in the folder, or not with the pinned content."""
    with ThreadPoolExecutor(THREADS) as pool:
        intact = pool.map(lambda jar: is_intact(folder / jar.file_name, jar.sha256), jars)
    return [jar for jar, is_good in zip(jars, intact, strict=True) if not is_good]


def fetch_jars(
    folder: Path, say: Say, of: JarList = KAFKA, *, jars: Sequence[Jar] = (), download: Download | None = None
) -> list[Path]:
    """Paths of all jars, in the order of the class path; what is missing or broken is fetched first.

    Several processes may call this at once: one fetches, the others wait for it.

    Raises LocalBrokerError when a jar cannot be had or has another content than the pinned one, MissingExtra when
    jgo is not installed and something must be fetched.
    """
    wanted = jars or pinned_jars(of)
    if missing_jars(wanted, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(folder):
            missing = missing_jars(wanted, folder)
            _fetch(missing, folder, of, say, download or _maven_download)
    return [folder / jar.file_name for jar in wanted]


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(jars: Sequence[Jar], folder: Path, of: JarList, say: Say, download: Download) -> None:
    for left_over in folder.glob(".fetch-*"):
        shutil.rmtree(left_over)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch, ThreadPoolExecutor(THREADS) as pool:
        work = [pool.submit(_fetch_one, jar, folder, Path(scratch), download) for jar in jars]
        try:
            for done, future in enumerate(as_completed(work), start=1):
                say(f"fetching {of.title}: {done} of {len(jars)} jars ({future.result()})")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch_one(jar: Jar, folder: Path, scratch: Path, download: Download) -> str:
    try:
        path = download(jar, scratch)
    except (OSError, RuntimeError) as error:  # requests' errors are OSErrors, jgo's are RuntimeErrors
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise LocalBrokerError(
            f"The jar {jar.file_name} cannot be fetched from Maven Central ({type(error).__name__}).",
            hint="Check the network and HTTPS_PROXY, then try again; jars that are here already are kept.",
        ) from error
    if not is_intact(path, jar.sha256):
        raise LocalBrokerError(
            f"The jar {jar.file_name} was fetched, but its SHA-256 is not the pinned one.",
            hint="Something between here and Maven Central changes files: a proxy is the usual suspect.",
        )
    path.replace(folder / jar.file_name)
    return jar.file_name


def _maven_download(jar: Jar, scratch: Path) -> Path:
    try:
        from jgo.maven import MavenContext
    except ImportError as error:
        raise MissingExtra(
            "Jars are fetched with the extra 'local', which is not installed.",
            hint="Install it with: pip install 'topolog[local]'",
        ) from error
    project = MavenContext(repo_cache=scratch, timeout=TIMEOUT_S).project(jar.group, jar.artifact)
    return project.at_version(jar.version).artifact().resolve()
