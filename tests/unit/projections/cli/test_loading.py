"""What a command loads, which is what it takes until it answers; and what is said where a part is not installed."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from topolog.commands.tree import root
from topolog.events.errors import MissingExtra
from topolog.projections.cli.app import run
from topolog.projections.cli.loading import loaded as target
from topolog.projections.cli.loading import needs_extra
from topolog.projections.cli.resources import RESOURCES

ROLES = ("pydantic", "structlog", "numpy", "fastavro", "confluent_kafka", "starlette", "pyarrow", "faust")
SHOWS = ("rich", "yaml", "pygments", "markdown_it")
ASKS = ("typer", "httpx", "msgspec")
BEYOND_CLI = ("rocksdict", "fastapi", "starlette", "jinja2", "jwt", "uvicorn", "prometheus_client", "pyarrow", "faust")
NOWHERE = ("--api", "http://127.0.0.1:1", "--cluster", "demo")


def loaded(names: tuple[str, ...], args: tuple[str, ...], **environ: str) -> tuple[int, list[str]]:
    """The exit code of a command, and which of these libraries it has loaded."""
    program = f"""
import os, sys
sys.argv = ["topolog", *{args!r}]
os.environ.update({environ!r})
from topolog.__main__ import main
try:
    main()
except SystemExit as end:
    sys.stdout.flush()
    print("\\n=", end.code, *(name for name in {names!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    code, *found = done.stdout.rpartition("\n= ")[2].split()
    return int(code), found


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("status", *NOWHERE), 4),
        (("get", "nodes", *NOWHERE), 4),
        (("get", "node", "n1", *NOWHERE), 4),
        (("describe", "node", "n1", *NOWHERE), 4),
        (("explain", "cluster", *NOWHERE), 4),
        (("history", "type", "Customer", *NOWHERE), 4),
    ],
)
def test_a_question_loads_nothing_that_it_does_not_use(args: tuple[str, ...], code: int) -> None:
    """Until the API has answered; then what it takes to show the answer. The rest is waited for by whoever asks."""
    assert loaded((*ROLES, *SHOWS, "click"), args) == (code, [])


@pytest.mark.parametrize(
    "args",
    [
        ("create", "group", "orders", *NOWHERE),
        ("diff", "nodes", "--from", "15m", *NOWHERE),
        ("wait", "exchange", *NOWHERE),
        ("watch", "nodes", "--limit", "1", *NOWHERE),
        ("cluster", "activate", "--reason", "x", *NOWHERE),
        ("repair", "schedule", "list", *NOWHERE),
        ("auth", "whoami", *NOWHERE),
        ("context", "list"),
    ],
)
def test_no_command_loads_what_only_a_role_needs(args: tuple[str, ...]) -> None:
    assert loaded(ROLES, args)[1] == []


@pytest.mark.parametrize(
    "args",
    [
        "--help",
        "get -h",
        "baseline --help",
        "version",
        "--version",
        "help",
        "help get",
        "help repair run",
        "help exit-codes",
    ],
)
def test_help_and_version_load_no_command(args: str) -> None:
    assert loaded((*ROLES, *SHOWS, *ASKS), tuple(args.split())) == (0, [])


@pytest.mark.parametrize("typed", ["topolog ba", "topolog get no", "topolog get nodes -o ", "topolog get nodes --al"])
def test_the_tab_key_loads_no_command(typed: str) -> None:
    words = typed.split(" ")
    asked = {"_TOPOLOG_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    assert loaded((*ROLES, *SHOWS, *ASKS), (), **asked) == (0, [])


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        ("from topolog import Client; Client", "Command"),
        ("from topolog.__main__ import run; run(['get', 'nodes', '--api', 'http://127.0.0.1:1'])", "function"),
    ],
    ids=["a service", "a command"],
)
def test_only_a_command_does_without_the_command_line_of_httpx(run: str, kind: str) -> None:
    """A service that uses the client has all of httpx; and a command leaves nothing hidden behind."""
    program = f"{run}; import httpx; print(type(httpx.main).__name__); import httpx._main"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == kind


@pytest.mark.parametrize("typed", ["get nodes --api http://127.0.0.1:1 --cluster demo", "get --help", "version"])
def test_nothing_looks_for_garbage_in_what_is_loaded(typed: str) -> None:
    """It stays to the end. The interpreter looks through all that is not frozen when it ends, a tenth of a question."""
    program = f"""
import atexit, gc, sys
atexit.register(lambda: print("\\n=", len(gc.get_objects()) < gc.get_freeze_count(), gc.get_stats()[2]["collections"]))
sys.argv = ["topolog", *{typed.split()!r}]
from topolog.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.rpartition("\n= ")[2] == "True 0\n"


def test_a_process_that_is_not_the_commands_keeps_its_garbage_collector() -> None:
    """Who calls `run`, as tests do, has garbage of his own, which would stay for ever if it were frozen."""
    before = gc.get_freeze_count()
    assert run(root, ["get", "nodes", "--api", "http://127.0.0.1:1", "--cluster", "demo"]) == 4
    assert gc.isenabled()
    assert gc.get_freeze_count() <= before


@pytest.mark.parametrize("args", ["--help", "get --help", "help get", "help exit-codes"])
def test_help_ends_in_peace_when_nobody_reads_on(args: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "topolog", *args.split()]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def without(*modules: str) -> str:
    """As if these libraries were not installed."""
    return f"""
import importlib.machinery
class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Missing)
"""


def test_without_the_command_line_one_sentence_says_how_to_install_it(tmp_path: Path) -> None:
    """The node client and the query client come without it."""
    program = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == "typer" else found(name, *rest)
from topolog.__main__ import main
sys.argv = ["topolog", *sys.argv[1:]]
main()
"""
    for args in ((), ("--help",), ("get", "nodes")):
        ended = subprocess.run(
            [sys.executable, "-c", program, *args], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert (ended.returncode, ended.stdout) == (12, "")
        assert "pip install 'topolog[cli]'" in ended.stderr
        assert "Traceback" not in ended.stderr
    for args in (("version",), ("version", "--help"), ("--version",)):
        ended = subprocess.run(
            [sys.executable, "-c", program, *args], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert (ended.returncode, ended.stderr, "ersion" in ended.stdout or "topolog" in ended.stdout) == (0, "", True)


@pytest.mark.parametrize("typed", ["run validator", "spark archive", "spark report", "run validator --bogus"])
def test_an_extra_that_is_missing_is_named_before_options_that_are(typed: str, tmp_path: Path) -> None:
    """Whoever has not installed a role is not to find its options first."""
    program = """
import sys
from importlib import metadata
found = metadata.version
def version(name):
    if name == "pyspark":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
from topolog.__main__ import main
sys.argv = ["topolog", *sys.argv[1:]]
main()
"""
    command = [sys.executable, "-c", program, *typed.split()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (12, "")
    assert "needs pyspark" in ended.stderr
    assert "pip install 'topolog[spark]'" in ended.stderr


@pytest.mark.parametrize(
    ("args", "library", "extra"),
    [
        (("config", "show"), "pydantic", "cli"),
        (("run", "coordinator"), "structlog", "cli"),
        (("broker", "status"), "pydantic", "local"),
    ],
)
def test_a_command_whose_extra_is_missing_names_it(args: tuple[str, ...], library: str, extra: str) -> None:
    program = f"{without(library)}sys.argv = ['topolog', *{args!r}]\nfrom topolog.__main__ import main\nmain()"
    ended = subprocess.run([sys.executable, "-c", f"import sys{program}"], capture_output=True, text=True, check=False)
    assert ended.returncode == 12
    assert f"needs {library}" in ended.stderr
    assert f"pip install 'topolog[{extra}]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_every_schema_is_shown_with_the_command_line_alone() -> None:
    """What is described is of the API, whose libraries whoever asks it need not have."""
    described = [f"get {each.plural}" for each in RESOURCES]
    described += [f"describe {each}" for each in ("cluster", "map/orders/n1", "exchange", "dead-letter/3")]
    described += ["explain node/n1", "explain node/n1 --if dies", "explain join/n1", "watch nodes", "history cluster"]
    described += ["projection status", "auth whoami", "context list", "doctor", "repair schedule list"]
    described += ["propose --file x", "remove node/n1 --dry-run", "drop table shop.orders"]
    program = f"""
import sys, contextlib, io
{without(*BEYOND_CLI)}
from topolog.__main__ import run
for args in {described!r}:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = run([*args.split(), "-o", "schema"])
    print(args, code, "$schema" in out.getvalue(), sep="|")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if not line.endswith("|0|True")] == []
    assert len(done.stdout.splitlines()) == len(described)


def test_a_module_of_our_own_that_is_missing_is_no_extra() -> None:
    """It is a bug, whose trace says more than advice to install what is installed."""
    with pytest.raises(ModuleNotFoundError, match=r"topolog\.nowhere"):
        needs_extra("server")(target)("topolog.nowhere:run")
    with pytest.raises(MissingExtra, match="needs no_library_of_this_name"):
        needs_extra("server")(target)("no_library_of_this_name:run")
