"""The settings that a command needs to find its API, read without the model of all settings: a command that only asks
is not to wait until everything is checked that servers are set by.

Keys, places and their order are those of every setting, and a key that nobody reads is refused all the same; values of
other keys are left to the commands that use them.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from topolog.events.errors import BadInput
from topolog.settings.sources import Given, from_file_and_environment, known_keys
from topolog.settings.values import HIGHEST_PORT, api_url, cluster_name, home_path, port_number, utf8_text

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8642


@dataclass(frozen=True)
class OwnApi:
    """Whom the command line asks, by what it is known and believed; `cluster` is None unless somebody has named one."""

    url: str
    cluster: str | None
    token_file: Path | None
    ca_file: Path | None


def load_own_api(environ: Mapping[str, str] = os.environ) -> OwnApi:
    """What the file and the environment say. Raises BadInput that names the place, and the key or what is wrong."""
    given = from_file_and_environment(known_keys(), environ)
    scheme = "https" if _text(given, "api.tls_cert") else "http"
    listens_at = f"{scheme}://{_checked(given, 'api.host', utf8_text) or DEFAULT_HOST}:{_port(given)}"
    return OwnApi(
        _checked(given, "api.url", api_url) or listens_at,
        _checked(given, "cluster.name", cluster_name) if "cluster.name" in given else None,
        _path(given, "api.token_file"),
        _path(given, "api.ca_file"),
    )


def _text(given: Mapping[str, Given], key: str) -> str:
    value, origin = given.get(key, Given("", ""))
    if not isinstance(value, str):
        raise BadInput(f"{key} ({origin}): {value!r} is no text.", hint="Put it between quotes.")
    return value


def _checked(given: Mapping[str, Given], key: str, check: Callable[[str], str]) -> str:
    try:
        return check(_text(given, key))
    except ValueError as error:
        raise BadInput(f"{key} ({given[key].origin}): {error}.") from None


def _path(given: Mapping[str, Given], key: str) -> Path | None:
    text = _text(given, key)
    return home_path(Path(text), f"{key} ({given[key].origin})").absolute() if text else None


def _port(given: Mapping[str, Given]) -> int:
    value, origin = given.get("api.port", Given(DEFAULT_PORT, ""))
    try:
        number = port_number(value)
    except ValueError:
        number = 0
    if not 1 <= number <= HIGHEST_PORT:
        raise BadInput(f"api.port ({origin}): this is no port.", hint=f"A port is from 1 to {HIGHEST_PORT}.")
    return number
