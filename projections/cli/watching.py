"""`topolog watch`, and -w of `get`: what there is, then every change as it comes.

On a terminal `get -w` draws its table again and again in place; whoever reads otherwise gets one event a line. A
connection that breaks is made again without gap or repeat, and stderr says so.
"""

import contextlib
import csv
import io
import json
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from topolog.events.errors import BadInput, TopologError
from topolog.projections.cli import columns
from topolog.projections.cli.client import Api
from topolog.projections.cli.column import Column
from topolog.projections.cli.connecting import connect_about
from topolog.projections.cli.documents import as_json, as_yaml
from topolog.projections.cli.following import WatchEvent
from topolog.projections.cli.narrowing import Filters
from topolog.projections.cli.options import Format, NameArgument, ResourceArgument, Shape, Target
from topolog.projections.cli.output import csv_cell
from topolog.projections.cli.pausing import Pause
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import CLUSTER, DECISIONS, NODES, PRESENT, UNWATCHED, Resource, find_item
from topolog.projections.cli.rows import Rows
from topolog.projections.cli.terminal import Redrawn, Screen, in_one_line, plain
from topolog.projections.cli.transport import Param

_LOOK_S = 30.0

SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TOKEN", help="Only what came behind this token of an event or an answer."),
]


def watch(  # noqa: PLR0913 (its options)
    resource: ResourceArgument,
    name: NameArgument = None,
    since: SinceOption = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--exec",
            metavar="CMD",
            help="Run this for each event, which it gets as JSON on stdin and as TOPOLOG_EVENT, TOPOLOG_NAME and "
            "TOPOLOG_TOKEN.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="End after N events.")] = None,
    changes_only: Annotated[
        bool, typer.Option("--changes-only", help="Leave out what is there at the beginning.")
    ] = False,
    *,
    filters: Filters,
    target: Target,
    shape: Shape,
) -> None:
    """Print the rows that are there, then every change of them as it comes, until Ctrl-C: `topolog watch nodes`."""
    kind, name = find_item(resource, name)
    screen = Screen(no_color=shape.no_color)
    arguments = _words(command)
    printer = Printer(screen, shape, kind, begins=since is None)
    seen = 0
    with connect_about(target, kind, name) as api, contextlib.closing(printer):
        for event in events(api, screen, kind, name, filters.of(kind), since, changes_only=changes_only):
            printer.show(event)
            if event.is_change and arguments:
                _run(screen, arguments, event)
            seen += event.is_change
            if limit is not None and seen >= limit:
                return


def events(
    api: Api,
    screen: Screen,
    kind: Resource,
    name: str | None,
    params: dict[str, Param],
    since: str | None,
    *,
    changes_only: bool = False,
) -> Iterator[WatchEvent]:
    """The events of one resource, or of one thing of it. Who stops is told how to go on."""
    if since is not None and kind in (*PRESENT, CLUSTER):
        raise BadInput(
            f"What becomes of {kind.usual} is not kept.", hint="Without --since it begins with what there is."
        )
    if kind in UNWATCHED:
        raise BadInput(
            f"What becomes of {kind.plural} is not told.", hint=f"`topolog get {kind.plural}` lists what there is."
        )
    newest, is_synced = since, since is not None

    def on_break(error: TopologError, pause_s: float) -> None:
        from_here = f"from {newest}" if newest else "from the beginning"
        screen.note(f"{error.message} Going on {from_here} in {pause_s:g} s.", style="yellow")

    try:
        watched = (
            _of_cluster(api)
            if kind is CLUSTER
            else api.watch(
                kind.path(), params, since=since, on_break=on_break, with_present=kind is NODES and since is None
            )
        )
        for event in watched:
            newest = event.token or newest
            is_ours = not event.is_change or name in (None, event.name, kind.name_of(event.item)) or kind is CLUSTER
            if is_ours and (is_synced or not changes_only or not event.is_change):
                yield event
            is_synced = is_synced or event.type == "SYNCED"
    except KeyboardInterrupt:
        if newest:
            screen.note(f"`topolog watch {kind.usual} --since {newest}` goes on from here.", style="")
        raise


def _of_cluster(api: Api) -> Iterator[WatchEvent]:
    """The cluster as a whole is no list: it is looked at whenever something was decided."""
    answer, pause = api.get(CLUSTER.path()), Pause(api, DECISIONS.path())
    yield WatchEvent("ADDED", answer.token or "", api.cluster, answer.item)
    yield WatchEvent("SYNCED", answer.token or "")
    while True:
        pause.until_change(answer, _LOOK_S)
        before, answer = answer, api.get(CLUSTER.path())
        if answer.token != before.token and answer.item != before.item:
            yield WatchEvent("MODIFIED", answer.token or "", api.cluster, answer.item)


class Printer:
    """Prints one event after the other in one format. `begins`: what is there comes first."""

    def __init__(self, screen: Screen, shape: Shape, kind: Resource, *, begins: bool) -> None:
        self._screen = screen
        self._output = shape.output
        self._kind = kind
        self._columns = columns.BY_RESOURCE[kind]
        self._waiting: list[WatchEvent] | None = [] if begins else None
        self._rows = EventRows(self._columns, wide=self._output is Format.WIDE)
        self._has_header = False

    def show(self, event: WatchEvent) -> None:
        """Print the event; a table is printed whole when all of what is there has come."""
        match self._output:
            case Format.JSONL:
                self._screen.data(as_json(event.document, is_seen=self._screen.is_seen))
            case Format.JSON:
                self._screen.data(as_json(event.document, indent=2, is_seen=self._screen.is_seen))
            case Format.YAML:
                self._screen.data("---\n" + as_yaml(event.document, is_seen=self._screen.is_seen))
            case Format.NAME:
                if event.is_change:
                    self._screen.data(in_one_line(f"{self._kind.singular}/{event.name}") + "\n")
            case Format.CSV:
                self._csv(event)
            case _:
                self._table(event)

    def close(self) -> None:
        """Print what still waits for the rest of what is there."""
        if self._waiting:
            self._screen.data(self._rows.text(self._waiting, with_header=True))
            self._waiting = None

    def _csv(self, event: WatchEvent) -> None:
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        if not self._has_header:
            titles = (column.title.lower().replace(" ", "_") for column in self._columns)
            writer.writerow(["type", "token", *titles])
            self._has_header = True
        if event.is_change:
            writer.writerow([event.type, event.token, *(csv_cell(column.of(event.item)) for column in self._columns)])
        self._screen.data(written.getvalue())

    def _table(self, event: WatchEvent) -> None:
        if self._waiting is not None and event.type == "ADDED":
            self._waiting.append(event)
        elif event.type == "SYNCED":
            self._screen.data(self._rows.text(self._waiting or (), with_header=True))
            self._waiting, self._has_header = None, True
        elif event.is_change:
            held, self._waiting = [*(self._waiting or ()), event], None
            self._screen.data(self._rows.text(held, with_header=not self._has_header))
            self._has_header = True


class EventRows:
    """Rows of a table that is never complete: a column is as wide as what it has shown so far."""

    def __init__(self, of: Sequence[Column], *, wide: bool) -> None:
        self._columns = [each for each in of if wide or not each.wide]
        self._titles = ["EVENT", *(column.title for column in self._columns)]
        self._widths = [len(title) for title in self._titles]

    def text(self, events: Sequence[WatchEvent], *, with_header: bool) -> str:
        cells = [
            [each.type, *(plain(column.brief(column.of(each.item))) for column in self._columns)] for each in events
        ]
        lines = [self._titles, *cells] if with_header else cells
        for line in cells:
            self._widths = [max(width, len(shown)) for width, shown in zip(self._widths, line, strict=True)]
        padded = ("  ".join(map(str.ljust, line, self._widths)).rstrip() for line in lines)
        return "".join(f"{line}\n" for line in padded)


def draw(api: Api, kind: Resource, name: str | None, params: dict[str, Param], shape: Shape) -> None:
    """`get -w` on a terminal: the table, drawn again in place whenever something has changed."""
    screen, rows = Screen(no_color=shape.no_color), dict[str, Json]()
    is_synced = False
    with Redrawn(screen) as drawn:
        for event in events(api, screen, kind, name, params, None):
            if event.type == "DELETED":
                rows.pop(event.name, None)
            elif event.is_change:
                rows[event.name] = event.item
            is_synced = is_synced or event.type == "SYNCED"
            if is_synced and (event.is_change or event.type == "SYNCED"):
                wide = shape.output is Format.WIDE
                drawn.show(Rows(list(rows.values()), columns.BY_RESOURCE[kind], wide=wide), f"as of {event.token}")


def _words(command: str | None) -> list[str]:
    try:
        words = [] if command is None else shlex.split(command)
    except ValueError as error:
        raise BadInput(f"--exec {command!r} is no command: {error}.") from error
    if command is not None and not words:
        raise BadInput("--exec names no command.", hint="Such as --exec ./on-change.sh")
    return words


def _run(screen: Screen, arguments: Sequence[str], event: WatchEvent) -> None:
    """The user's command about one event; that it fails is said, and the watch goes on."""
    import os

    about = {"TOPOLOG_EVENT": event.type, "TOPOLOG_NAME": event.name, "TOPOLOG_TOKEN": event.token}
    try:
        ended = subprocess.run(
            arguments,
            input=json.dumps(event.document, ensure_ascii=False).encode(),
            env={**os.environ, **about},
            check=False,
        )
    except OSError as error:
        raise BadInput(f"--exec {arguments[0]} cannot be run: {error.strerror or error}.") from error
    if ended.returncode:
        screen.note(f"{arguments[0]} ended with {ended.returncode} ({event.type} {event.name}).", style="yellow")
