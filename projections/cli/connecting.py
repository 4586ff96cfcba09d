"""From the options of a command to a client of the API that they mean."""

import sys
from dataclasses import replace

import typer

from topolog.events.errors import BadInput
from topolog.projections.cli.client import Api
from topolog.projections.cli.contexts import DEFAULTS, Context, Defaults, Standing, stand, state_folder
from topolog.projections.cli.credentials import of_settings
from topolog.projections.cli.options import Target
from topolog.projections.cli.resources import CLUSTER, Resource
from topolog.projections.cli.session_tokens import FileTokens, NoTokens
from topolog.projections.cli.terminal import Screen


def connect(target: Target) -> Api:
    """The API that is meant, with its bearer token and what earlier commands saw; a context manager.

    In a protected context nothing is changed without a reason and a yes.
    """
    standing = standing_of(target)
    url = standing.api.value
    tokens = NoTokens() if target.no_session else FileTokens(state_folder() / "sessions.json", url)
    ca_file = of_settings().ca_file
    api = Api(url, standing.cluster.value or None, token_file=standing.token_path, ca_file=ca_file, tokens=tokens)
    if standing.is_protected and standing.context is not None:
        context = standing.context

        def guard(reason: str) -> None:
            _protect(context, reason, is_agreed=target.is_agreed)

        api.guard = guard
    return api


def connect_about(target: Target, kind: Resource, name: str | None) -> Api:
    """As `connect`; whoever names a cluster asks that one, whatever the settings or the context say."""
    is_named = kind is CLUSTER and name
    return connect(replace(target, cluster=name, standing=None) if is_named else target)


def standing_of(target: Target) -> Standing:
    return target.standing or stand(target.api, target.cluster, target.context, DEFAULTS.get(Defaults()))


def _protect(context: Context, reason: str, *, is_agreed: bool) -> None:
    if not reason.strip():
        raise BadInput(f"Context {context.name} is protected: nothing is changed without a reason.", hint="--reason")
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise BadInput(
            f"Context {context.name} is protected, and nobody is here to be asked.", hint="--yes asks no question."
        )
    from rich.text import Text

    named = Text(context.name, style=f"bold {context.colour}".strip())
    Screen().aside(Text.assemble("Context ", named, " is protected."))
    if not typer.confirm("Go on?", err=True):
        Screen().note("Nothing was changed.", style="")
        raise typer.Exit(1)
