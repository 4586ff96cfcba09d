"""Secrets that stand in files: a setting names the file, and nobody else may read it.

A secret on a command line is seen by every process of the machine, and one in a settings file by whoever is shown the
settings; a file can be mounted, kept and changed apart from both.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

from topolog.events.errors import BadInput

SECRET: Final = re.compile(r"password|secret|ssl\.key\.pem|sasl\.oauthbearer\.config")
_BYTES_MAX: Final = 65_536


def read_secret(path: Path, key: str) -> str:
    """The text of the file that `key` names, without the line's end; raises BadInput if others may read the file too.

    A file of another user, as a mounted secret is, may be read by the group that lets us in.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            open_to = stat.S_IRWXO | (stat.S_IRWXG if found.st_uid == os.geteuid() else stat.S_IWGRP)
            if found.st_mode & open_to:
                raise BadInput(
                    f"{key}: others may read {path}, so it is no secret (mode {stat.S_IMODE(found.st_mode):o}).",
                    hint=f"chmod 600 {path}",
                )
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise BadInput(f"{key}: {path} cannot be read: {error.strerror}.") from error
    if len(content) > _BYTES_MAX:
        raise BadInput(f"{key}: {path} is too large for a secret.")
    try:
        return content.decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise BadInput(f"{key}: {path} is no text.") from None
