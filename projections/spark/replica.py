"""A replica whose rows Spark reads, for the validator role; and what a source of such rows has to be able to do.

The hashing, comparing and carrying of rows is the same for all of them and stands here. A source fixes read points,
makes frames of them, and takes changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 (its customary name)

from topolog.events.errors import ReplicaFailed
from topolog.events.key_order import order_of
from topolog.events.merkle import Leaf
from topolog.events.replica import Cut, ReplicaDefinition, RowDigest, SentRow, Written
from topolog.events.replica_access import Fence, Progress
from topolog.events.token_range import FULL, RING, Ranges
from topolog.events.tree_spec import BOUNDARIES_MAX, Column, TreeSpec, fingerprint
from topolog.projections.spark import canonical, row_index
from topolog.projections.spark.digests import BATCH_ROWS, contents, digest_table, digests_in, rows_of
from topolog.projections.spark.jobs import Result
from topolog.projections.spark.replica_jobs import run
from topolog.projections.spark.row_index import RowIndex
from topolog.projections.spark.trees import leaves

Hashes = tuple[int, int]
Contents = Mapping[str, list[tuple[Hashes, str]]]
"""The rows under a key: the two hashes of each, and its JSON."""

_SAMPLED_PER_BOUNDARY = 32
_INDEXED_CELLS_MIN = RING >> 8
"""Of the tokens that are asked for: who looks again at a few rows does not ask for the others."""


class Described(msgspec.Struct, frozen=True):
    """What a source says of itself now. `schema` as stored; `rows` and `row_bytes` are estimates."""

    schema: T.StructType
    rows: int
    row_bytes: int
    gives_cuts: bool = True
    is_writable: bool = True


class Change(msgspec.Struct, frozen=True):
    """One row to write: `values` is the JSON of the spec's columns (canonical.py), empty to delete the row.

    A column that the spec has not keeps its value in a row that is there, and is NULL in a new one.
    """

    key: str
    values: str


class Source(Protocol):
    """Where rows are kept. One thread at a time calls it; what it cannot do it says by ReplicaFailed.

    `looks_again`: `write` compares each row with that at the cut as it writes, so any cut will do; else a new one.
    """

    looks_again: bool

    def describe(self, session: SparkSession) -> Described: ...

    def cut(self, progress: Progress, shared: str | None = None) -> str | None:
        """Fix a read point and name it, None if there are none. Equal names mean equal rows.

        `shared` is given again if it is kept.
        """

    def cuts(self) -> set[str]:
        """The names of those that are kept."""

    def frame(self, session: SparkSession, cut: str | None) -> DataFrame:
        """The rows at this cut (now, without one), the same each time; CUT_LOST if it is not kept any more."""

    def places(self, spec: TreeSpec, cut: str | None) -> Sequence[str]:
        """Columns by which a row with its key can be in another place. Such a row may stand in both where a `write` has
        died, as it was and as it is to be; the same change once more finishes that."""

    def write(
        self, session: SparkSession, spec: TreeSpec, changes: Sequence[Change], cut: str | None, fence: Fence
    ) -> int:
        """Make these changes, by key, in rows that are still as at `cut`, as far as the source can tell; how many.
        A row that is already what it is to be counts. One that it cannot hold is left, and the log says so.

        `fence` before each effect. No reader sees a row half written; all at once is not promised.
        """

    def release(self, cut: str) -> None:
        """The read point is no longer needed; one that is not there is none of an error."""


class SparkReplica:
    """One replica of one table, as events/replica_access.py wants it.

    `boundaries`: of how many keys a sample is declared, for ordered tokens; 0 for none. `key` names the key columns.
    `index_rows`: up to how many rows are read once for all that a session asks (`row_index.py`).
    """

    def __init__(
        self,
        session: SparkSession,
        source: Source,
        table: str,
        name: str,
        key: Sequence[str],
        *,
        datacenter: str = "",
        ranges: Ranges = (FULL,),
        boundaries: int = 0,
    ) -> None:
        self._session = session
        self._source = source
        self._table = table
        self._name = name
        self._key = tuple(key)
        self._datacenter = datacenter
        self._ranges = ranges
        self._boundaries = min(boundaries, BOUNDARIES_MAX)
        self.index_rows = row_index.ROWS_MAX
        self._index: tuple[str, bytes, RowIndex] | None = None
        self._described: Described | None = None
        self._sample: tuple[str, tuple[str, ...]] | None = None

    def describe(self) -> ReplicaDefinition:
        told = self._described = self._told_now()
        columns = canonical.columns_of(told.schema)
        if missing := [name for name in self._key if name not in told.schema.names]:
            raise ReplicaFailed("SCHEMA", f"{self._table}@{self._name} has no column {', '.join(missing)} for a key.")
        return ReplicaDefinition(
            self._table,
            self._name,
            columns,
            self._key,
            datacenter=self._datacenter,
            ranges=self._ranges,
            rows=told.rows,
            row_bytes=told.row_bytes,
            boundaries=self._sampled(told, columns) if self._boundaries and self._key else (),
            gives_cuts=told.gives_cuts,
            is_writable=told.is_writable and bool(self._key),
        )

    def _told_now(self) -> Described:
        try:
            return run(self._session, lambda: self._source.describe(self._session))
        except ReplicaFailed as error:
            code, said = error.code, error.message
            if code == "CUT_LOST":
                code, said = "IO", f"What is there has changed while it was looked at: {said}"
            raise ReplicaFailed(code, f"{self._table}@{self._name}: {said}", hint=error.hint) from error

    def cut(self, progress: Progress, shared: Cut | None = None) -> Cut | None:
        name = self._source.cut(progress, None if shared is None else shared.name)
        if name is None:
            return None
        frame = run(self._session, lambda: self._source.frame(self._session, name))
        return Cut(name, fingerprint(canonical.columns_of(frame.schema), self._key))

    def leaves(self, spec: TreeSpec, ranges: Ranges, bits: int, cut: Cut | None, progress: Progress) -> Iterable[Leaf]:
        index = self._indexed(spec, cut) or self._made(spec, ranges, cut, progress)
        if index is not None:
            return index.leaves(ranges, bits)
        return self._read(lambda frame: list(leaves(frame, spec, ranges, bits)), cut, progress)

    def digests(self, spec: TreeSpec, ranges: Ranges, cut: Cut | None, progress: Progress) -> Iterable[RowDigest]:
        """The table is read at once; what is then held of a row is 60 bytes, and the digest that is asked for next."""
        index = self._indexed(spec, cut)
        if index is not None and index.has_keys and row_index.answers_digests(spec):
            return _heard(index.digests(ranges), progress)
        table = self._read(lambda frame: digest_table(frame, spec, ranges), cut, progress)
        return self._digests(table, progress)

    def _digests(self, table: pa.Table, progress: Progress) -> Iterator[RowDigest]:
        for batch in table.to_batches(BATCH_ROWS):
            yield from digests_in(batch)
            progress(0, 0)

    def rows(self, spec: TreeSpec, keys: Sequence[str], cut: Cut | None) -> Iterator[tuple[str, str]]:
        if not keys:
            return iter(())
        found = self._read(lambda frame: list(rows_of(frame, spec, keys)), cut, None)
        return ((digest.key, content) for digest, content in found)

    def write(
        self, spec: TreeSpec, rows: Sequence[SentRow], cut: Cut | None, fence: Fence, progress: Progress
    ) -> Written:
        """Those that still are what they were when compared, as the protocol says; a key that is here twice is skipped.

        A source of files is asked at a read point of its own, which are links: what is compared with is what is written
        over. One that is copied is asked at that of the session, and looks again under its own lock as it writes.
        """
        if not spec.key:
            raise ReplicaFailed("NOT_WRITABLE", f"{self._table} has no key: none of its rows can be written.")
        asked = {row.key: (row, dict(row.targets)[self._name]) for row in rows if self._name in dict(row.targets)}
        if not asked:
            return Written(0, 0)
        kept = self._source.cuts()
        base = self._source.cut(progress, cut.name if cut is not None and self._source.looks_again else None)
        try:
            here = self._contents(spec, list(asked), base)
            is_old = {key: _is(here[key], compared) for key, (_, compared) in asked.items()}
            chosen = [row for row, _ in asked.values() if is_old[row.key]]
            done, begun = self._done(spec, [each for each in asked.values() if not is_old[each[0].key]], here, base)
            changes = [Change(row.key, row.values) for row in (*chosen, *begun)]
            progress(0, 0)
            if changes:
                done += run(self._session, lambda: self._source.write(self._session, spec, changes, base, fence))
            size = sum(len(change.values) for change in changes)
            progress(len(changes), size)
            return Written(done, size, len(asked) - done)
        finally:
            if base is not None and base not in kept:
                self._source.release(base)

    def release(self, cut: Cut) -> None:
        if self._index is not None and self._index[0] == cut.name:
            self._index = None
        self._source.release(cut.name)

    def _indexed(self, spec: TreeSpec, cut: Cut | None) -> RowIndex | None:
        """The index of this read point and spec, if there is one."""
        if self._index is None or cut is None or self._index[:2] != (cut.name, spec.id):
            return None
        return self._index[2]

    def _made(self, spec: TreeSpec, ranges: Ranges, cut: Cut | None, progress: Progress) -> RowIndex | None:
        """An index, where more is likely to be asked for, and all rows are few enough."""
        if cut is None or not row_index.is_fit(spec) or sum(each.cells for each in ranges) < _INDEXED_CELLS_MIN:
            return None
        told = self._described.rows if self._described else 0
        if (told or self._read(lambda frame: frame.count(), cut, None)) > self.index_rows:
            return None
        self._index = None
        made = self._read(lambda frame: row_index.made(frame, spec), cut, progress)
        self._index = cut.name, spec.id, made
        return made

    def _read(self, action: Callable[[DataFrame], Result], cut: Cut | None, progress: Progress | None) -> Result:
        """With the part of the tasks that are done told as rows and bytes, as many as the table is said to have."""
        told = self._described or Described(T.StructType(), 0, 0)

        def tell(part: float) -> None:
            if progress is not None:
                progress(int(part * told.rows), int(part * told.rows * told.row_bytes))

        name = None if cut is None else cut.name
        return run(self._session, lambda: action(self._source.frame(self._session, name)), tell)

    def _contents(self, spec: TreeSpec, keys: Sequence[str], cut: str | None) -> Contents:
        def read() -> list[tuple[RowDigest, str]]:
            return list(rows_of(self._source.frame(self._session, cut), spec, keys))

        found: dict[str, list[tuple[Hashes, str]]] = {key: [] for key in keys}
        for digest, values in run(self._session, read):
            found[digest.key].append((digest.content, values))
        return found

    def _done(
        self, spec: TreeSpec, asked: Sequence[tuple[SentRow, Hashes | None]], here: Contents, cut: str | None
    ) -> tuple[int, list[SentRow]]:
        """Of what is not as compared: how many rows a life that died before it could say so has written already, and
        those that it has written in one of two places."""
        sent = [each for each in asked if each[0].values]
        deleted = sum(not row.values and not here[row.key] for row, _ in asked)
        if not sent:
            return deleted, []
        wanted = run(self._session, lambda: contents(self._session, spec, [row.values for row, _ in sent]))
        done = sum(_is(here[row.key], content) for (row, _), content in zip(sent, wanted, strict=True))
        pairs = [
            (row, dict(here[row.key]).get(compared, ""))
            for (row, compared), content in zip(sent, wanted, strict=True)
            if compared is not None and sorted(each for each, _ in here[row.key]) == sorted([compared, content])
        ]
        names = self._source.places(spec, cut) if pairs else ()
        return deleted + done, [row for row, before in pairs if _differ(before, row.values, names)]

    def _sampled(self, told: Described, columns: Sequence[Column]) -> tuple[str, ...]:
        """Canonical texts of the first key column that cut the rows into about equal parts.

        They are declared once: those of a session stand in its spec, and to sample a database is to copy it.
        """
        column = next(each for each in columns if each.name == self._key[0])
        if self._sample is None or self._sample[0] != column.type:
            texts = sorted(self._texts(column, told.rows), key=lambda text: order_of(column.type, text))
            places = (len(texts) * place // (self._boundaries + 1) for place in range(1, self._boundaries + 1))
            self._sample = column.type, tuple(dict.fromkeys(texts[place] for place in places if texts))
        return self._sample[1]

    def _texts(self, column: Column, rows: int) -> list[str]:
        """The column in some of the rows."""
        part = min(1.0, self._boundaries * _SAMPLED_PER_BOUNDARY / max(rows, 1))
        kept = self._source.cuts()
        cut = self._source.cut(lambda *_: None)

        def sample() -> list[str]:
            found = canonical.canonical(self._source.frame(self._session, cut), (column,))
            text = canonical.text(canonical.column(column.name), found.schema[0].dataType)
            return [row[0] for row in found.sample(part, seed=0).select(text).na.drop().collect()]

        try:
            return run(self._session, sample)
        finally:
            if cut is not None and cut not in kept:
                self._source.release(cut)


def _is(rows: Sequence[tuple[Hashes, str]], content: Hashes | None) -> bool:
    """Whether a key has this row and no other, or none if it is to have none."""
    return [each for each, _ in rows] == ([] if content is None else [content])


def _differ(one: str, other: str, names: Sequence[str]) -> bool:
    """Whether two rows have different values in any of these columns."""
    first, second = (msgspec.json.decode(each, type=dict[str, msgspec.Raw]) for each in (one, other))
    return any(first.get(name) != second.get(name) for name in names)


def _heard(digests: Iterator[RowDigest], progress: Progress) -> Iterator[RowDigest]:
    """The same, with a word now and then, by which who no longer wants them can end it."""
    for count, digest in enumerate(digests):
        if count % BATCH_ROWS == 0:
            progress(0, 0)
        yield digest
