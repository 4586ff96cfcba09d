"""What the shell proposes at the Tab key: contexts, and names of things as the API has them now.

A person waits: names come from a cache of 5 seconds, else from the API within 300 ms, else there are none. Nothing here
raises or prints, for the shell would show it in the middle of the line.
"""

import json
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from topolog.events.errors import TopologError
from topolog.projections.cli import command_table, resources
from topolog.projections.cli.contexts import DEFAULTS, Defaults, read_contexts, stand, state_folder
from topolog.projections.cli.help_page import EXIT_CODES
from topolog.projections.cli.loading import without_command_line_of_httpx

FRESH_S = 5.0
PATIENCE_S = 0.3
_NAMES_MAX = 1000
_PLAIN = re.compile(r"[\w.:/@+,=%-]+")
"""What a shell takes as it stands: a node that calls itself `$(reboot)` is not put into anybody's line."""


def contexts(incomplete: str) -> list[str]:
    """Names of contexts."""
    try:
        return [name for name in read_contexts().by_name if name.startswith(incomplete)]
    except TopologError:
        return []


def commands(ctx: Any, incomplete: str) -> list[str]:
    """Names of commands behind those that stand there, and of what else `topolog help` explains."""
    topic = ctx.params.get("topic") or ()
    inner = command_table.find(command_table.table(), topic).entry.get("commands", {})
    return [name for name in (*inner, *(() if topic else (EXIT_CODES,))) if name.startswith(incomplete)]


def one_of(among: Iterable[resources.Resource]) -> Callable[[str], list[str]]:
    """Names of these resources; behind a slash, as in `node/n1`, of one of them."""
    known = tuple(among)

    def complete(ctx: Any, incomplete: str) -> list[str]:
        text, slash, begun = incomplete.partition("/")
        if not slash:
            return [each.usual for each in known if each.usual.startswith(incomplete)]
        return [f"{text}/{name}" for name in _names(ctx, text, begun)]

    complete.words = tuple(each.usual for each in known)  # type: ignore[attr-defined]  # for the table of commands
    return complete  # type: ignore[return-value]  # Typer takes what is called `ctx` for its context


def names(ctx: Any, incomplete: str) -> list[str]:
    """Names of what the argument before says."""
    return _names(ctx, str(ctx.params.get("resource") or ""), incomplete)


def _names(ctx: Any, resource: str, incomplete: str) -> list[str]:
    try:
        kind = resources.find(resource)
        given = ctx.params
        standing = stand(given.get("api"), given.get("cluster"), given.get("context"), DEFAULTS.get(Defaults()))
        found = _cached(state_folder() / "names.json", kind, standing)
    except (TopologError, OSError, ValueError):
        return []
    return [name for name in found if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _cached(path: Path, kind: resources.Resource, standing: Any) -> list[str]:
    """The names, from the cache if it is new enough."""
    key, now_s = f"{standing.api.value} {standing.cluster.value} {kind.plural}", time.time()
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        held = {each: (at_s, known) for each, (at_s, known) in held.items() if 0 <= now_s - at_s < FRESH_S}
    except (OSError, ValueError, AttributeError, TypeError):
        held = {}
    if key not in held:
        with without_command_line_of_httpx():
            from topolog.projections.cli.client import Api
        from topolog.projections.cli.credentials import of_settings
        from topolog.projections.cli.session_tokens import NoTokens

        with Api(
            standing.api.value,
            standing.cluster.value or None,
            token_file=standing.token_path,
            ca_file=of_settings().ca_file,
            tokens=NoTokens(),
            patience_s=PATIENCE_S,
        ) as api:
            held[key] = (now_s, [kind.name_of(item) for item in api.get(kind.path(), {"limit": _NAMES_MAX}).items])
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(json.dumps(held), encoding="utf-8")
    return [str(name) for name in held[key][1]]
