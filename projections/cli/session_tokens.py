"""The newest token that was given of each cluster, so that a read after a write sees it, also in the next command.

A token is `<log id>.<position>`. Of one log the highest position counts; one of another log takes its place, for the
cluster was made anew.

Threat. Commands run at once, and each reads the file, adds what it was told, and writes: what another has written in
between would be gone, and a read after that write would not see it. So all of that happens under a lock, on a file
beside, for the file itself is another one after each write.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

_FILE_MODE = 0o600
_KEPT_MAX = 200


class Tokens(Protocol):
    """Where an `Api` keeps what it has seen."""

    def newest(self, cluster: str) -> str | None: ...

    def keep(self, cluster: str, token: str) -> None: ...

    def forget(self, cluster: str, token: str) -> None:
        """Unless another is held by now."""


class MemoryTokens:
    """For one process."""

    def __init__(self) -> None:
        self._held: dict[str, str] = {}

    def newest(self, cluster: str) -> str | None:
        return self._held.get(cluster)

    def keep(self, cluster: str, token: str) -> None:
        self._held[cluster] = newer(self._held.get(cluster), token)

    def forget(self, cluster: str, token: str) -> None:
        if self._held.get(cluster) == token:
            del self._held[cluster]


class NoTokens:
    """Nothing is remembered: each read stands alone."""

    def newest(self, cluster: str) -> None:
        return None

    def keep(self, cluster: str, token: str) -> None:
        pass

    def forget(self, cluster: str, token: str) -> None:
        pass


class FileTokens:
    """For all commands of a person, by API and cluster. A file that cannot be read or written is as good as none: to
    see a little less is no reason for a command to fail."""

    def __init__(self, path: Path, api: str) -> None:
        self._path = path
        self._api = api.rstrip("/")

    def newest(self, cluster: str) -> str | None:
        return self._read().get(self._key(cluster))

    def keep(self, cluster: str, token: str) -> None:
        with self._locked():
            held = self._read()
            newest = newer(held.get(self._key(cluster)), token)
            if newest != held.pop(self._key(cluster), None):
                self._write({**held, self._key(cluster): newest})

    def forget(self, cluster: str, token: str) -> None:
        with self._locked():
            held = self._read()
            if held.get(self._key(cluster)) == token:
                del held[self._key(cluster)]
                self._write(held)

    def clusters(self) -> list[str]:
        """Those of this API that a token is held of, the one last seen first."""
        start = self._key("")
        return [key.removeprefix(start) for key in reversed(self._read()) if key.startswith(start)]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """While nobody else reads and writes; where there can be no lock, without one. Who ends lets go of it."""
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = self._path.with_name(f"{self._path.name}.lock")
                descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
                held.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield

    def _key(self, cluster: str) -> str:
        return f"{self._api} {cluster}"

    def _read(self) -> dict[str, str]:
        try:
            held = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {key: token for key, token in held.items() if isinstance(token, str)} if isinstance(held, dict) else {}

    def _write(self, held: dict[str, str]) -> None:
        """In one step, so that two commands at a time leave a whole file; the oldest entries make room."""
        kept = dict([*held.items()][-_KEPT_MAX:])
        with contextlib.suppress(OSError):
            descriptor, name = tempfile.mkstemp(prefix=f"{self._path.name}.", dir=self._path.parent)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump(kept, file)
                Path(name).chmod(_FILE_MODE)
                Path(name).replace(self._path)
            except OSError:
                Path(name).unlink(missing_ok=True)


def newer(held: str | None, token: str) -> str:
    """The one of two tokens that knows more."""
    if held is None:
        return token
    held_log, _, held_position = held.rpartition(".")
    log, _, position = token.rpartition(".")
    if log != held_log or not (held_position.isdecimal() and position.isdecimal()):
        return token
    return token if int(position) > int(held_position) else held
