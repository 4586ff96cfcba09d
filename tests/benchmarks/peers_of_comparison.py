"""Comparisons by packages of their own, in a child of another Python: DuckDB's EXCEPT, and reladiff on DuckDB."""

import subprocess
from pathlib import Path

_EXCEPT = """
import sys, duckdb
one, other = (f"read_parquet('{place}/*.parquet')" for place in sys.argv[1:])
db = duckdb.connect()
db.execute("set threads = 2")
print(db.execute(f'''
    select count(distinct id) from (
        (select * from {one} except select * from {other}) union all
        (select * from {other} except select * from {one}))''').fetchone()[0])
"""
_RELADIFF = """
import sys, tempfile, duckdb, reladiff
with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/tables.duckdb"
    db = duckdb.connect(path)
    for name, place in zip(("one", "other"), sys.argv[1:]):
        db.execute(f"create table {name} as from read_parquet('{place}/*.parquet')")
    columns = [row[0] for row in db.execute("describe one").fetchall() if row[0] != "id"]
    db.close()
    tables = [reladiff.connect_to_table(f"duckdb://{path}", name, "id") for name in ("one", "other")]
    print(len({row[1][0] for row in reladiff.diff_tables(*tables, extra_columns=tuple(columns))}))
"""
PEERS = {"DuckDB's EXCEPT, both ways": _EXCEPT, "reladiff on DuckDB, loading included": _RELADIFF}


def asked(python: Path, peer: str, first: Path, second: Path) -> int:
    """How many keys it says differ."""
    command = [str(python), "-c", PEERS[peer], str(first), str(second)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(told.stdout.split()[-1])
