"""Contexts: which API is meant, under a name of the user's own, kept in his config folder.

    current = "prod"

    [contexts.prod]
    api = "https://topolog.example:8642"
    cluster = "main"
    token_file = "~/.config/topolog/prod.token"
    protected = true
    colour = "red"

What is said nearer counts: a flag, then the context that `--context` names, then the environment, then the context of
TOPOLOG_CONTEXT or the current one, then topolog.toml, then the default. A secret never stands in the file: it names the
file that holds the token.
"""

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from topolog.events.errors import BadInput
from topolog.projections.cli.credentials import of_settings
from topolog.projections.cli.problems import DEFAULT_API, bad_api
from topolog.settings.values import cluster_name, home_path

VARIABLE = "TOPOLOG_CONTEXT"
COLOURS = ("red", "green", "yellow", "blue", "magenta", "cyan", "white")
_URL = re.compile(r"https?://[^/]")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_CREDENTIALS = re.compile(r"(?<=//)[^/@]+(?=@)")


def config_file() -> Path:
    """The user's own config file."""
    import platformdirs

    return platformdirs.user_config_path("topolog") / "config.toml"


def state_folder() -> Path:
    """Where commands remember things: what was seen, names for completion."""
    import platformdirs

    return platformdirs.user_state_path("topolog")


@dataclass(frozen=True)
class Context:
    """What is meant by a name; empty: not said. `protected`: whatever changes something needs a reason and a yes."""

    name: str
    api: str = ""
    cluster: str = ""
    token_file: str = ""
    protected: bool = False
    colour: str = ""

    @property
    def token_path(self) -> Path | None:
        return home_path(Path(self.token_file), f"context {self.name}") if self.token_file else None


_KEYS = tuple(each.name for each in fields(Context) if each.name != "name")


@dataclass(frozen=True)
class Contexts:
    """The file's content."""

    path: Path
    current: str = ""
    by_name: Mapping[str, Context] = field(default_factory=dict)

    def named(self, name: str, *, said_by: str = "") -> Context:
        """The context of this name; BadInput with the nearest name for another."""
        if name in self.by_name:
            return self.by_name[name]
        near = _nearest(name, self.by_name)
        guess = f"Did you mean {near}? " if near else ""
        by = f" ({said_by})" if said_by else ""
        raise BadInput(f"There is no context {name!r}{by}.", hint=f"{guess}`topolog context list` has them all.")

    def added(self, context: Context) -> "Contexts":
        _check(context)
        return replace(self, by_name={**self.by_name, context.name: context})

    def without(self, name: str) -> "Contexts":
        gone = self.named(name).name
        kept = {each: context for each, context in self.by_name.items() if each != gone}
        return replace(self, by_name=kept, current="" if self.current == gone else self.current)

    def used(self, name: str) -> "Contexts":
        return replace(self, current=self.named(name).name)

    def save(self) -> None:
        """Write the file in one step, for its owner alone."""
        lines = [f"current = {_toml(self.current)}"] if self.current else []
        for context in self.by_name.values():
            lines += ["", f"[contexts.{_toml(context.name)}]"]
            held = {key: getattr(context, key) for key in _KEYS}
            lines += [f"{key} = {_toml(value)}" for key, value in held.items() if value not in ("", False)]
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix="config.", dir=self.path.parent)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write("\n".join(lines).lstrip("\n") + "\n")
            Path(name).replace(self.path)
        except OSError as error:
            raise BadInput(f"{self.path} cannot be written: {error.strerror or error}.") from error


def read_contexts(path: Path | None = None) -> Contexts:
    """All contexts there are, none if there is no file; BadInput for a file that is wrong."""
    path = path or config_file()
    try:
        held = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or nested without end
        raise BadInput(f"{path} is not TOML: {error}.", hint="Correct or remove it.") from error
    _check_keys(held, ("current", "contexts"), str(path))
    tables = held.get("contexts", {})
    if not isinstance(tables, dict) or not isinstance(held.get("current", ""), str):
        raise BadInput(f"{path}: `current` is a name, `contexts` are tables.")
    found = {str(name): _context(path, str(name), table) for name, table in tables.items()}
    return Contexts(path, held.get("current", ""), found)


def _context(path: Path, name: str, table: object) -> Context:
    if not isinstance(table, dict):
        raise BadInput(f"{path}: context {name} is no table.")
    _check_keys(table, _KEYS, f"{path}, context {name}")
    for key, value in table.items():
        if not isinstance(value, bool if key == "protected" else str):
            raise BadInput(f"{path}, context {name}: {key} is no {'boolean' if key == 'protected' else 'text'}.")
    context = Context(name, **table)
    try:
        _check(context)
    except BadInput as error:
        raise BadInput(f"{path}, context {name}: {error.message}", hint=error.hint) from error
    return context


def _check(context: Context) -> None:
    if not _NAME.fullmatch(context.name):
        raise BadInput(f"{context.name!r} is no name of a context.", hint="Letters, digits, '.', '_' and '-'.")
    if context.colour and context.colour not in COLOURS:
        raise BadInput(f"{context.colour!r} is no colour.", hint=f"There are {', '.join(COLOURS)}.")
    if not context.api:
        raise BadInput("It does not say where its API answers.", hint=f'api = "{DEFAULT_API}"')
    if not _URL.match(context.api):
        raise bad_api(context.api)
    if context.cluster:
        _check_cluster(context.cluster)
    if _CREDENTIALS.search(context.api):
        raise BadInput(
            f"The address of context {context.name} holds a secret.", hint="Put the token into a file: --token-file."
        )


def _check_cluster(name: str) -> None:
    try:
        cluster_name(name)
    except ValueError as error:
        raise BadInput(f"{name!r} is no name of a cluster: {error}.") from error


def _toml(value: str | bool) -> str:
    """A text or a switch as TOML has it, which takes no halves of a character, and DEL by its number alone."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _nearest(text: str, among: Iterable[str]) -> str:
    """The one of these that is most like the text, '' if none is."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(text, among, n=1)), "")


def _check_keys(table: Mapping[str, object], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            near = _nearest(key, known)
            raise BadInput(f"{where}: there is no {key!r}.", hint=f"Did you mean {near}?" if near else "")


@dataclass(frozen=True)
class Said:
    """A value and who said it."""

    value: str
    origin: str


@dataclass(frozen=True)
class Standing:
    """Whom the command line asks, after all is heard."""

    api: Said
    cluster: Said
    token_file: Said
    context: Context | None = None
    origin: str = ""

    @property
    def token_path(self) -> Path | None:
        text = self.token_file.value
        return home_path(Path(text), f"The token's file ({self.token_file.origin})") if text else None

    @property
    def is_protected(self) -> bool:
        return self.context is not None and self.context.protected


class Defaults:
    """What topolog.toml says, asked for when it is needed: whoever wants help is not to be told that it is wrong."""

    def __init__(
        self,
        api: Callable[[], object] = lambda: of_settings().url,
        cluster: Callable[[], object] = lambda: of_settings().cluster,
        token_file: Callable[[], object] = lambda: of_settings().token_file,
    ) -> None:
        self.api = api
        self.cluster = cluster
        self.token_file = token_file


DEFAULTS: ContextVar[Defaults] = ContextVar("defaults")
"""What holds for the command that runs, those of the settings unless whoever runs it sets others."""


def stand(
    api: str | None,
    cluster: str | None,
    context: str | None,
    defaults: Defaults,
    environ: Mapping[str, str] | None = None,
) -> Standing:
    """Whom these options mean; what is not given is None. BadInput for a context that is not there."""
    environ = os.environ if environ is None else environ
    chosen, origin = _chosen(context, environ)

    def said(option: str, given: str | None, variable: str, by_context: str, default: Callable[[], object]) -> Said:
        from_environment = environ.get(variable) or None
        if given and not (given == from_environment and context and by_context):
            return Said(given, f"environment {variable}" if given == from_environment else f"flag --{option}")
        if by_context:
            return Said(by_context, origin)
        if given or from_environment:
            return Said(given or str(from_environment), f"environment {variable}")
        fallback = default()
        return Said("" if fallback is None else str(fallback), "settings" if fallback is not None else "default")

    held = chosen or Context("")
    is_of_context = bool(held.api) and not api  # whose token is no other API's
    token_default = (lambda: None) if is_of_context else defaults.token_file
    return Standing(
        said("api", api, "TOPOLOG_API__URL", held.api, defaults.api),
        said("cluster", cluster, "TOPOLOG_CLUSTER__NAME", held.cluster, defaults.cluster),
        said("token-file", None, "TOPOLOG_API__TOKEN_FILE", held.token_file, token_default),
        chosen,
        origin,
    )


def _chosen(context: str | None, environ: Mapping[str, str]) -> tuple[Context | None, str]:
    """The context in force, and who says so; '' is none, whatever is current."""
    name = environ.get(VARIABLE) if context is None else context
    if name == "":
        return None, ""
    by = f"environment {VARIABLE}" if context is None else "--context"
    contexts = read_contexts()
    if name is None:
        name, by = contexts.current, f"current in {contexts.path}"
    if not name:
        return None, ""
    return contexts.named(name, said_by=by), f"context {name} ({contexts.path})"


def without_credentials(url: str) -> str:
    """The address as it may be shown."""
    from topolog.events.masking import MASK

    return _CREDENTIALS.sub(MASK, url)
