"""What the commands of the composition root share: the options that name the settings, and a voice on stderr."""

from pathlib import Path
from typing import Annotated

import typer

from topolog.events.errors import BadInput
from topolog.projections.cli.terminal import clean, write_aside
from topolog.settings.model import Loaded, Settings, load
from topolog.settings.secret_files import SECRET

Config = Annotated[Path | None, typer.Option("--config", help="Settings file instead of ./topolog.toml.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="One setting as KEY=VALUE, such as lease.fence=5s.")]


def load_settings(config: Path | None, pairs: list[str] | None) -> Loaded:
    flags = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise BadInput(f"--set takes KEY=VALUE, not {pair!r}.", hint="Such as --set lease.fence=5s.")
        if SECRET.search(key) and not key.strip().endswith(("_file", ".file")):
            raise BadInput(
                f"--set {key.strip()} would show a secret to whoever lists processes.",
                hint=f"Name a file that holds it: --set {key.strip()}_file=PATH.",
            )
        flags[key.strip()] = value.strip()
    return load(flags, config=config)


def settings_of(config: Path | None, pairs: list[str] | None) -> Settings:
    return load_settings(config, pairs).settings


def say(text: str) -> None:
    """Never raises: an end in order is said on its way, and must go on without a reader (`topolog up 2>&1 | tee`)."""
    write_aside(f"{clean(text)}\n")
