"""`topolog config show`: the settings in force."""

from rich.table import Table

from topolog.commands.command_line import Config, Set, load_settings
from topolog.projections.cli.context_commands import standing_rows
from topolog.projections.cli.contexts import Defaults, stand
from topolog.projections.cli.terminal import Screen
from topolog.settings.model import Loaded


def config_show(config: Config = None, pairs: Set = None) -> None:
    """Every setting, its value and where the value comes from; and whom the command line asks, which a context says."""
    found = load_settings(config, pairs)
    table = Table("KEY", "VALUE", "ORIGIN", box=None)
    for shown in found.shown():
        table.add_row(shown.key, shown.value, shown.origin)
    screen = Screen()
    screen.view(table)
    defaults = Defaults(lambda: found.settings.api.url, lambda: _named_cluster(found))
    table = Table("THE COMMAND LINE ASKS", "VALUE", "ORIGIN", box=None)
    for row in standing_rows(stand(None, None, None, defaults)):
        table.add_row(*row)
    screen.aside("")
    screen.view(table)


def _named_cluster(loaded: Loaded) -> str | None:
    """The cluster that somebody has named; without a name the API is asked for its only one."""
    return loaded.settings.cluster.name if "cluster.name" in loaded.origins else None
