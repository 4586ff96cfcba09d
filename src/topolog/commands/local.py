"""`topolog up`: everything on this machine."""

import os
from pathlib import Path
from typing import Annotated

import typer

from topolog.commands.command_line import Config, Set, say, settings_of
from topolog.commands.demo import settings_of_demo
from topolog.commands.open_files import raise_open_files_max
from topolog.events.errors import BadInput
from topolog.settings.model import cluster_folder
from topolog.streams.local.stopping import stopping_when_told


def up(
    demo: Annotated[
        bool, typer.Option("--demo", help="Add five nodes that load real rows and agree on types.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Rows for the demo: a file or folder of CSV, JSON lines, Parquet.")
    ] = None,
    config: Config = None,
    pairs: Set = None,
) -> None:
    """Run everything on this machine: Kafka, a coordinator and its stand-by, the projector with API and page."""
    from topolog.streams.local import up as local

    if data and not demo:
        raise BadInput("--data names the rows of the demo.", hint="Add --demo.")
    raise_open_files_max()
    settings = settings_of_demo(config, pairs) if demo else settings_of(config, pairs)
    with stopping_when_told(os.environ) as stopping:
        folder = cluster_folder(settings.cluster.name)
        plan = local.plan(settings, folder, os.environ, demo=demo, rows=data)
        local.run_up(plan, local.own_broker(settings, say), say, stopping)
