"""A support bundle: one zip with all that helps somebody else to understand a cluster, and no secret.

    manifest.json       what is in it, of which cluster, by which versions; what is missing, and why
    doctor.json         what `topolog doctor` found
    settings.json       every setting with its origin, secrets masked
    resources/*.json    every list of the API as -o json prints it, at one position if it has a past
    metrics.txt         what /metrics said
    log/*.msgpack       the records of a cluster's log as they are, if the broker could be asked: `topolog open` replays
                        them; of several clusters if none was named and the API did not say which
    processes/*         what the processes of this machine have said, the newest end of each of their files

Threat: a secret on its way to a stranger. Settings are masked; the tokens and passwords that are known here are then
looked for in every entry, whatever its format: in text they are masked, an entry of bytes that holds one is left out.
"""

import json
import platform
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from os import SEEK_END
from pathlib import Path

from topolog.events.errors import BadInput, TopologError
from topolog.events.log import Entry, LogReader
from topolog.events.masking import CHARS_MIN, masked, masked_values
from topolog.events.topics import Topic
from topolog.projections.cli.client import Api
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import CLUSTER, LEASES, PAST_MISSING, PROJECTIONS, RESOURCES
from topolog.projections.recorded_log import encode

FORMAT = 1
MANIFEST = "manifest.json"
_ENTRIES_MAX = 10_000
_UNPACKED_BYTES_MAX = 1 << 30
_UNPACKED_BYTES_FREE = 64 << 20
_TIMES_MAX = 100
"""A log, and JSON, are a tenth or a fiftieth of themselves when they are packed."""
_LOG, _LOG_END = "log/", ".msgpack"
_SAID_BYTES_MAX = 4 << 20
"""Of one file of a process: its newest end."""
ROWS_MAX = 100_000
"""Of one resource; what is beyond is counted in the manifest as left out."""

_OF_NOW = (*PAST_MISSING, LEASES)
"""What is gathered as it is at that moment: it has no past, or, as renewals of leases, none that is kept."""
_PACKAGES = ("topolog", "confluent-kafka", "fastapi", "httpx", "msgspec", "rocksdict", "typer", "uvicorn")


@dataclass
class Bundle:
    """Entries on their way into the zip, and what could not be had."""

    secrets: Sequence[str]
    entries: dict[str, bytes] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add_json(self, name: str, content: object) -> None:
        found = masked_values(content, self._spellings())
        self.entries[name] = (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode()

    def add_text(self, name: str, text: str) -> None:
        self.entries[name] = self.masked(text).encode()

    def add_bytes(self, name: str, data: bytes) -> None:
        if any(secret.encode() in data for secret in self.secrets):
            self.missing[name] = "it holds a secret of the settings"
        else:
            self.entries[name] = data

    def attempt(self, name: str, gather: Callable[[], object]) -> None:
        """Gather what may fail; then why is said in the manifest."""
        try:
            gather()
        except TopologError as error:
            self.missing[name] = self.masked(error.message)

    def write(self, path: Path, about: Json) -> None:
        """Write the zip, for its owner alone; BadInput if that cannot be done, or the file is there."""
        self.add_json(MANIFEST, {"format": FORMAT, **about, "entries": sorted(self.entries), "missing": self.missing})
        try:
            with path.open("xb") as file:
                path.chmod(0o600)
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                    for name, data in sorted(self.entries.items()):
                        archive.writestr(name, data)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror or error}.", hint="--file names it.") from error

    def masked(self, text: str) -> str:
        return masked(text, self._spellings())

    def _spellings(self) -> Sequence[str]:
        """The secrets, also as JSON within a text has them."""
        return [form for each in self.secrets for form in (each, json.dumps(each)[1:-1])]


def known_secrets(values: Mapping[str, str], files: Sequence[Path]) -> list[str]:
    """The secrets in settings, which `values` has by key, and in files that hold one; the longest first."""
    found = set(values.values())
    for path in files:
        with suppress(OSError, UnicodeDecodeError):
            found.add(path.read_text(encoding="utf-8").strip())
    return sorted((each for each in found if len(each) >= CHARS_MIN), key=len, reverse=True)


def gather_api(bundle: Bundle, api: Api) -> None:
    """Every list, at one position if it has a past; how ready the API is, its figures. Raises if it never answers."""
    api.clusters()
    bundle.attempt("readyz.json", lambda: bundle.add_json("readyz.json", api.document("/readyz")[1]))
    bundle.attempt("metrics.txt", lambda: bundle.add_text("metrics.txt", api.metrics()))
    moment: Json = {}
    for kind in RESOURCES:
        name = f"resources/{kind.plural}.json"
        try:
            params = {} if kind in _OF_NOW else moment
            is_whole = kind in (CLUSTER, PROJECTIONS)
            answer = api.get(kind.path(), params) if is_whole else api.get_rows(kind.path(), params, ROWS_MAX)
        except TopologError as error:
            bundle.missing[name] = bundle.masked(error.message)
            continue
        if not moment and "position" in answer.as_of:
            moment = {"as_of": str(answer.as_of["position"])}
        if answer.next:
            bundle.missing[name] = f"rows beyond the first {len(answer.items)}"
        bundle.add_json(name, answer.body)


def log_entry(cluster: str) -> str:
    """Where a cluster's log stands in a bundle."""
    return f"{_LOG}{cluster}{_LOG_END}"


def gather_log(bundle: Bundle, cluster: str, reader: LogReader, bytes_max: int, timeout_s: float = 60.0) -> None:
    """The records of a cluster's log, if they are not more than that."""
    entries, size = list[Entry](), 0
    for entry in _recorded(reader, timeout_s):
        entries.append(entry)
        size += len(entry.value)
        if size > bytes_max:
            bundle.missing[log_entry(cluster)] = f"it has more than {bytes_max} bytes: --log-mib raises that"
            return
    bundle.add_bytes(log_entry(cluster), encode(entries))


def gather_processes(bundle: Bundle, folders: Iterable[Path]) -> None:
    """The newest end of each file that processes have written into these folders; a folder that is not there has
    none."""
    for folder in folders:
        for path in sorted(folder.glob("*.log*")):
            name = f"processes/{folder.parent.name}/{path.name}"
            try:
                with path.open("rb") as file:
                    if file.seek(0, SEEK_END) > _SAID_BYTES_MAX:
                        file.seek(-_SAID_BYTES_MAX, SEEK_END)
                        file.readline()  # half a line may begin with half a secret, which nothing masks
                    else:
                        file.seek(0)
                    bundle.add_text(name, file.read().decode(errors="replace"))
            except OSError as error:
                bundle.missing[name] = error.strerror or str(error)


def _recorded(reader: LogReader, timeout_s: float) -> Iterator[Entry]:
    reader.assign({(Topic.DECISIONS, 0): None})
    until_s = time.monotonic() + timeout_s
    while not reader.at_end(Topic.DECISIONS):
        yield from reader.poll(0.5)
        if time.monotonic() > until_s:
            raise BadInput(f"The log was not read within {timeout_s:g} s.")


def about(clusters: Sequence[str], api: str) -> Json:
    """What the manifest says of where a bundle comes from."""
    return {
        "clusters": list(clusters),
        "api": api,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def read_bundle(path: Path) -> tuple[Json, dict[str, bytes]]:
    """The manifest, and the recorded logs by cluster; BadInput for what is no bundle."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_size(path, archive.infolist())
            manifest = json.loads(archive.read(MANIFEST))
            logs = {
                name.removeprefix(_LOG).removesuffix(_LOG_END): archive.read(name)
                for name in archive.namelist()
                if name.startswith(_LOG) and name.endswith(_LOG_END)
            }
    except FileNotFoundError as error:
        raise BadInput(f"There is no file {path}.", hint="`topolog bundle` makes one.") from error
    except (OSError, EOFError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"{path} is no bundle: {error}.", hint="`topolog bundle` makes one.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BadInput(f"{path} is no bundle of this release.", hint="Open it with the release that made it.")
    return manifest, logs


def _check_size(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse what is made to fill the memory: somebody else wrote it, and a zip can hold a thousand times its own size.

    No more of an entry is read than it says.
    """
    size, packed = sum(each.file_size for each in entries), sum(each.compress_size for each in entries)
    most = min(_UNPACKED_BYTES_MAX, max(_UNPACKED_BYTES_FREE, _TIMES_MAX * packed))
    if len(entries) > _ENTRIES_MAX or size > most:
        raise BadInput(
            f"{path} would unpack to {len(entries)} entries of {size} bytes, and is not opened.",
            hint=f"One of its size may have {_ENTRIES_MAX} entries, of {most} bytes.",
        )
