"""`topolog doctor`: what is wrong between this machine, the API, the broker and the cluster, and how to mend it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from topolog.events.errors import TopologError
from topolog.projections.cli import diagnosis
from topolog.projections.cli.client import Answer
from topolog.projections.cli.clusters_meant import Meant
from topolog.projections.cli.column import field
from topolog.projections.cli.connecting import connect, standing_of
from topolog.projections.cli.contexts import state_folder
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Shape, Target
from topolog.projections.cli.output import View, print_answer
from topolog.projections.cli.output_schema import Finding
from topolog.projections.cli.session_tokens import FileTokens
from topolog.projections.cli.terminal import Screen, clean

_COLUMNS = (
    field("STATE", "state"),
    field("CHECK", "check"),
    field("ABOUT", "about", folds=True),
    field("FIX", "fix", folds=True),
)
_STYLES = {diagnosis.OK: "green", diagnosis.WARNING: "yellow", diagnosis.PROBLEM: "bold red", diagnosis.UNKNOWN: "dim"}


@dataclass(frozen=True)
class Surroundings:
    """What settings say beside the API: the broker to look at, and the cluster, which `is_named` if somebody has said
    so, and is the default otherwise."""

    kafka: Mapping[str, str]
    cluster: str
    is_named: bool = True


def meant(target: Target, around: Surroundings) -> Meant:
    """Which clusters are meant as far as this machine knows."""
    standing = standing_of(target)
    if standing.cluster.value:
        return Meant(standing.cluster.value, standing.cluster.origin)
    if around.is_named:
        return Meant(around.cluster, "settings")
    heard = FileTokens(state_folder() / "sessions.json", standing.api.value).clusters()
    return Meant(heard=heard, default=around.cluster)


def examine(target: Target, around: Surroundings | None, broken: str = "") -> list[Finding]:
    """All findings, those that need something done first. `around` None: the settings are `broken`."""
    found = list(diagnosis.of_standing(standing_of(target)))
    if around is None:
        found.append(Finding("settings", diagnosis.PROBLEM, broken, "`topolog config show` lists every setting."))
    else:
        found.append(Finding("settings", diagnosis.OK, "are consistent", ""))
    answering = None
    try:
        with connect(target) as api:
            found += diagnosis.of_api(api)
            answering = Meant(api.cluster, "the API")
    except TopologError as error:
        if not any(each.check == "API" for each in found):
            found.append(Finding("API", diagnosis.PROBLEM, error.message, error.hint or "Its log says why."))
    if around is not None:
        found += _of_broker(around, answering or meant(target, around))
    return worst_first(found)


def worst_first(found: Sequence[Finding]) -> list[Finding]:
    """Those that need something done before those that do not."""
    order = (diagnosis.PROBLEM, diagnosis.WARNING, diagnosis.UNKNOWN, diagnosis.OK)
    return sorted(found, key=lambda each: order.index(each.state))


def _of_broker(around: Surroundings, meant: Meant) -> Iterator[Finding]:
    from topolog.events.kafka_admin import KafkaAdmin

    try:
        broker = KafkaAdmin(around.kafka)
    except TopologError as error:
        yield Finding("broker", diagnosis.PROBLEM, error.message, error.hint or "Correct the settings of [kafka].")
        return
    yield from diagnosis.of_broker(broker, meant, around.kafka)


def show(screen: Screen, shape: Shape, found: Sequence[Finding]) -> None:
    """The findings; exits with 8 if something is to be done."""
    items = [msgspec.to_builtins(each) for each in found]
    body = {"kind": "Doctor", "apiVersion": "topolog/v1", "items": items, "next": None}
    print_answer(screen, shape, Answer(200, body), View(_COLUMNS, lambda item: str(item["check"]), _page))
    if any(each.state in (diagnosis.PROBLEM, diagnosis.WARNING) for each in found):
        raise typer.Exit(ExitCode.FOUND)


def _page(answer: Answer, _: bool) -> RenderableType:
    lines: list[RenderableType] = []
    for item in answer.items:
        state = str(item["state"])
        lines.append(Text.assemble((f"{state:<8}", _STYLES[state]), clean(f" {item['check']}: {item['about']}")))
        if item["fix"]:
            lines.append(Text(clean(f"         → {item['fix']}")))
    return Group(*lines)
