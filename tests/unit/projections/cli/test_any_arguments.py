"""Any arguments to the command line: no trace, an exit code of the table, and an error is a sentence on stderr."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.projections.cli.conftest import Cli, FakeApi

from topolog.projections.cli.exit_codes import ExitCode

COMMANDS = (
    "get",
    "describe",
    "history",
    "explain",
    "propose",
    "remove",
    "create",
    "alter",
    "drop",
    "apply",
    "rename",
    "cancel",
    "reset",
    "help",
    "cluster",
    "baseline",
)
RESOURCES = (
    "cluster",
    "nodes",
    "node",
    "types",
    "type",
    "group",
    "partitions",
    "exchange",
    "map",
    "leases",
    "decisions",
    "requests",
    "exit-codes",
    "baselines",
    "views",
    "join",
    "set",
    "drain",
    "hold",
    "graph",
    "n1",
    "Customer",
    "table",
    "table-views",
    "grant",
    "change",
    "shop.orders",
    "47",
)
OPTIONS = (
    "-o",
    "--as-of",
    "--cluster",
    "--limit",
    "--timeout",
    "--no-color",
    "--help",
    "--version",
    "-f",
    "--reason",
    "--partitions",
    "--node-filter",
    "--state",
    "--if",
    "--past",
    "--dry-run",
    "--soft",
    "--yes",
    "--prune",
    "--if-exists",
    "--deadline",
)
VALUES = (
    "json",
    "table",
    "csv",
    "yaml",
    "0",
    "-1",
    "now",
    "1ms",
    "orders/1",
    "demo",
    "",
    "--",
    "/",
    "é",
    "%2F",
    "\x1b[31m",
    "[red]",
    "\udcff",
    "name=\udcff",
)

words = st.sampled_from(RESOURCES) | st.sampled_from(OPTIONS) | st.sampled_from(VALUES) | st.text(max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples // 2)
@given(command=st.sampled_from(COMMANDS) | st.text(max_size=8), rest=st.lists(words, max_size=6))
@example(command="get", rest=["types", "--as-of", "99999999999999999999"])
@example(command="explain", rest=["type", "../../x"])
@example(command="get", rest=["node", "\udcff"])
@example(command="get", rest=["nodes", "--filter", "name=\udcff"])
def test_any_arguments_end_with_a_code_of_the_table(cli: Cli, command: str, rest: list[str]) -> None:
    """OP6: scripts branch on the code, people read the sentence, nobody reads a trace."""
    ended = cli(command, *rest)
    assert ended.code in set(map(int, ExitCode))
    assert "Traceback" not in ended.err
    if ended.code not in (ExitCode.OK, ExitCode.FOUND):
        assert ended.err.strip()


@pytest.mark.parametrize(
    "args",
    [
        "get node \udcff",
        "get nodes --filter name=\udcff",
        "get nodes --api=\udcff",
        "\udcff",
        "propose -f \udcff --reason x",
    ],
)
def test_an_argument_that_is_no_utf_8_is_refused(args: str, cli: Cli, api: FakeApi) -> None:
    """No record, address or file of ours can hold it, so nothing is asked."""
    ended = cli(*args.split())
    assert (ended.code, ended.out, api.asked) == (ExitCode.USAGE, "", [])
    assert "cannot be read: it is not UTF-8." in ended.err
