"""The rows that are loaded if nobody names others: six tables of the TPC-H benchmark, made once and kept.

Every table is there as Parquet and as CSV. The two disagree: Parquet says that a balance is a decimal and a size an
int, of CSV one can only infer double and long.
"""

import fcntl
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from topolog.events.errors import BadInput, MissingExtra
from topolog.streams.local.jars import default_cache

Say = Callable[[str], None]

TABLES = ("region", "nation", "supplier", "customer", "part", "orders")
SCALE = "0.01"  # 18,630 rows, 3 MB, made in a second: five nodes load them in a minute and a half


def tpch_rows(say: Say, cache: Path | None = None) -> Path:
    """The folder with the rows, made if it is not there; several processes may ask at once.

    Raises MissingExtra without the generator, BadInput if it fails.
    """
    parent = cache or default_cache().parent
    folder = parent / f"tpch-{SCALE}"
    if not folder.exists():
        parent.mkdir(parents=True, exist_ok=True)
        with (parent / ".tpch-lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                say(f"making the rows of TPC-H, kept in {folder}")
                _make(folder)
    return folder


def _make(folder: Path) -> None:
    """By rename, so that a crash leaves nothing that looks finished."""
    with tempfile.TemporaryDirectory(prefix=".tpch-", dir=folder.parent) as scratch:
        rows = Path(scratch, "rows")
        for form in ("parquet", "csv"):
            command = [_generator(), form, "-s", SCALE, "-T", ",".join(TABLES), "-o", str(rows)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
                raise BadInput(f"tpchgen-cli made no rows: {said[-1]}.", hint="--data loads rows of your own.")
        rows.rename(folder)


def _generator() -> str:
    """Beside the running Python first: a virtual environment need not be on the PATH."""
    found = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    if found is None:
        raise MissingExtra(
            "The default rows need the extra 'local', which is not installed.",
            hint="Install it with: pip install 'topolog[local]', or name rows of your own with --data.",
        )
    return found
