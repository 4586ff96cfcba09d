"""Where settings are written: the file, the environment, and the names of keys in each.

What checks all of them is `model.py`, what only asks for the API of the command line is `own_api.py`; both read here,
so that a key means the same to both and a misspelt one is refused by both.
"""

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from topolog.events.errors import BadInput

FILE_NAME: Final = "topolog.toml"
PREFIX: Final = "TOPOLOG_"
NOT_SETTINGS: Final = frozenset(
    {"TOPOLOG_CONFIG", "TOPOLOG_CONTEXT", "TOPOLOG_DEBUG", "TOPOLOG_FAILPOINT", "TOPOLOG_SUPERVISOR_PIPE"}
)
KEYS_FILE: Final = Path(__file__).with_name("keys.json")


class Given(NamedTuple):
    """A value as somebody wrote it, and where."""

    value: object
    origin: str


def known_keys() -> Collection[str]:
    """Every key but those of [kafka], from the list that `make command-table` derives from the settings."""
    return frozenset(json.loads(KEYS_FILE.read_text(encoding="utf-8")))


def from_file_and_environment(
    keys: Collection[str], environ: Mapping[str, str], config: Path | None = None
) -> dict[str, Given]:
    """By key what the settings file and, before it, the environment say.

    Raises BadInput that names the place and the key, and the nearest of `keys` if that one is not known.
    """
    file = config or (Path(environ["TOPOLOG_CONFIG"]) if environ.get("TOPOLOG_CONFIG") else None)
    return {
        **_from_file(file or Path(FILE_NAME), keys, must_exist=file is not None),
        **_from_environment(environ, keys),
    }


def checked(key: str, given: Given, keys: Collection[str], *, written: str = "") -> Given:
    """What is given, if somebody reads such a key; `written` is the key as its place spells it."""
    if key in keys or (key.startswith("kafka.") and key != "kafka."):
        return given
    import difflib

    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    hint = f"Did you mean {_variable_of(near[0]) if written else near[0]}?" if near else ""
    place = "" if written else f" ({given.origin})"
    raise BadInput(
        f"{written or key} is not a setting{place}.", hint=hint or "Without it `topolog config show` lists them all."
    )


def _from_file(path: Path, keys: Collection[str], *, must_exist: bool) -> dict[str, Given]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if must_exist:
            raise BadInput(f"The settings file {path} does not exist.", hint="Correct --config.") from None
        if path.is_symlink():
            raise BadInput(f"The settings file {path} is a link to nothing.", hint="Correct or remove it.") from None
        return {}
    except OSError as error:
        raise BadInput(f"The settings file {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or nested without end
        raise BadInput(f"The settings file {path} is not TOML: {error}.") from error
    return {key: checked(key, Given(value, str(path)), keys) for key, value in _flat(tables)}


def _from_environment(environ: Mapping[str, str], keys: Collection[str]) -> dict[str, Given]:
    names = sorted(name for name in environ if name.startswith(PREFIX) and name not in NOT_SETTINGS)
    return {
        key: checked(key, Given(environ[name], f"environment {name}"), keys, written=name)
        for name, key in ((name, _key_of(name)) for name in names)
    }


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted keys: TOML reads an unquoted bootstrap.servers as a table of its own."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _key_of(variable: str) -> str:
    """TOPOLOG_KAFKA__BOOTSTRAP_SERVERS -> kafka.bootstrap.servers"""
    section, _, name = variable.removeprefix(PREFIX).lower().partition("__")
    return f"{section}.{name.replace('_', '.') if section == 'kafka' else name}"


def _variable_of(key: str) -> str:
    section, _, name = key.upper().partition(".")
    return f"{PREFIX}{section}__{name.replace('.', '_')}"
